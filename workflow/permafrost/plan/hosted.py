"""Checks of the workflow's rules that were read from a host, or by a module statement."""

from __future__ import annotations

from permafrost import __version__
from permafrost.core.errors import PermafrostError
from permafrost.core.home import HOME
from permafrost.core.snakemake_internals import moved_path, renamed_rule

_RULES = "workflow/rules"
_ROOT = "../.."  # from the rules


def check_hosted(workflow, rules) -> None:
    """Refuse rules of another version than this package: they would plan what its commands do not do.

    Parameters
    ----------
    rules : Snakemake's source of the hosted folder ``workflow/rules``.
    """
    if not workflow.is_main_process:
        return
    here = [HOME / "Snakefile", *sorted((HOME / _RULES).glob("*.smk"))]
    for file in here:
        name = file.relative_to(HOME).as_posix()
        if _lines(_hosted(workflow, rules, name)) != _lines(file.read_text(encoding="utf-8")):
            raise PermafrostError(
                f"the hosted workflow is of another version than the package installed here ({__version__}):"
                f" {name} differs",
                where=rules,
                remedy="install the package of the tag that the Snakefile names, or name the tag of the package",
            )


def check_module(workflow, results: str) -> None:
    """Refuse a module statement that moves results or renames rules, since commands and profiles find both by name.

    Raises
    ------
    PermafrostError : it has a ``prefix`` or ``replace_prefix`` that changes `results`, or ``as`` with another name.
    """
    folder, rule = moved_path(workflow, f"{results}/"), renamed_rule(workflow, "all")
    if folder != f"{results}/":
        raise PermafrostError(
            f"prefix or replace_prefix moves results to {folder}, where no command looks for them",
            where="module statement",
            remedy=f"leave it out, and set `results: {folder.rstrip('/')}` in the configuration",
        )
    if rule != "all":
        raise PermafrostError(
            f"rules are renamed (all is {rule}), but profiles and tables of failures know them by their names",
            where="use rule",
            remedy="leave `as` out: `use rule * from permafrost`",
        )


def _hosted(workflow, rules, name: str) -> str:
    """Text of a file of the hosted workflow; empty if it has no such file."""
    try:
        with workflow.sourcecache.open(rules.join(f"{_ROOT}/{name}")) as stream:
            return stream.read()
    except Exception:  # each kind of host raises its own errors
        return ""


def _lines(text: str) -> list[str]:
    return text.strip().splitlines()
