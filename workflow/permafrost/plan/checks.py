"""Checks before the run: entries by themselves, and backbones on datasets."""

from __future__ import annotations

import ast
import functools
import importlib.util
import sys
from collections.abc import Callable, Mapping
from importlib.machinery import PathFinder
from pathlib import Path
from typing import cast

from permafrost.backbones.digest import entrypoint_file
from permafrost.backbones.kinds import kind_of
from permafrost.core.errors import PermafrostError, look_up
from permafrost.core.extras import missing
from permafrost.data.derived import origins_of
from permafrost.data.entry_checks import entry_mistakes, selected_bands
from permafrost.data.sources import checked_entry
from permafrost.features.dates import check_heads
from permafrost.plan.compatibility import check_feeding, check_without_pixels
from permafrost.plan.derived import misfits_of_derived
from permafrost.plan.derived_datasets import misfits_of_derived_datasets
from permafrost.plan.installed import installed
from permafrost.plan.misfits import Cells
from permafrost.plan.mistakes import Mistakes
from permafrost.plan.options import feeding_options
from permafrost.probes.dense.choice import check_schedule, check_warmup, rates_of


def check_entries(
    backbones: dict[str, dict],
    datasets: dict[str, dict],
    places: Mapping[str, Callable[[str], str]],
    config: dict,
    root: Path,
    mistakes: Mistakes,
    cells: Cells | None = None,
) -> dict[tuple[str, ...], PermafrostError]:
    """Add errors of single entries to `mistakes`; return the misfits, see `plan.misfits`.

    Parameters
    ----------
    backbones, datasets : validated entries by name.
    places : for ``backbone`` and ``dataset``, name -> file and name of the entry.
    config : the validated configuration.
    root : the directory that relative paths refer to.
    cells : if given, filled with the input of each pair that fits.
    """
    offered = functools.cache(lambda: installed(root / ".snakemake" / "permafrost"))
    known, bands = {}, {}
    for name, entry in backbones.items():
        where = places["backbone"](name)
        with mistakes.gathered():
            weights = kind_of(entry).known(entry, where, offered)
            if weights is not None:
                known[name] = (entry, where, weights)
        if entry["kind"] == "entrypoint":
            with mistakes.gathered():
                check_entrypoint(entry, root, where)
    for name, entry in datasets.items():
        if origins_of(entry):
            continue
        where = places["dataset"](name)
        dataset = checked_entry(entry, where=where)
        wrong = entry_mistakes(dataset, where=where)
        mistakes.add(*wrong)
        if entry["source"]["kind"] == "torchgeo" and offered() is not None:
            with mistakes.gathered():
                offered().check_dataset(entry, where)
        if not wrong:
            bands[name] = selected_bands(dataset, where=where)
    roots = {name: entry for name, entry in datasets.items() if not origins_of(entry)}
    cells = {} if cells is None else cells
    found = {
        **check_without_pixels(backbones, roots, config["probes"], places),
        **check_feeding(known, bands, feeding_options(config), mistakes, cells),
    }
    wants = {name: one.wants for name, (_, _, one) in known.items()}
    found |= misfits_of_derived_datasets(
        backbones, datasets, found, cells, wants, bands, "the configuration"
    )
    return found | misfits_of_derived(backbones, datasets, found, places["backbone"])


def check_options(config: dict, where: str, mistakes: Mistakes) -> None:
    """Add options that contradict each other to `mistakes`.

    Parameters
    ----------
    config : the validated configuration.
    where : the files of the configuration, for error messages.
    """
    on_cpu = config["runtime"]["device"] == "cpu"
    for name, options in [("extraction", config["extraction"]), *config["probes"].items()]:
        place = f"{where}: {name}" if options is config["extraction"] else f"{where}: probes.{name}"
        if not options:
            continue
        if on_cpu and options.get("precision") == "fp16":
            mistakes.add(
                PermafrostError(
                    "precision: fp16 needs a GPU, and runtime.device is cpu",
                    where=place,
                    remedy="use bf16 or fp32 on a CPU",
                )
            )
        if options.get("schedule") is not None and "min_learning_rate" in options:
            with mistakes.gathered():
                check_schedule(
                    rates_of(options["learning_rate"]),
                    options["schedule"],
                    options["min_learning_rate"],
                    place,
                )
        if "warmup_epochs" in options:
            with mistakes.gathered():
                check_warmup(options["warmup_epochs"], options["epochs"], place)
        for key in ("encoder", "ltae"):
            if key in options:
                with mistakes.gathered():
                    check_heads(options[key]["heads"], options[key]["hidden"], f"{place}.{key}")
        if options.get("c_min") is not None and options["c_count"] > 1:
            with mistakes.gathered():
                _check_grid(options["c_min"], options["c_max"], place)


def _check_grid(low: float, high: float, where: str) -> None:
    """Refuse a grid of several values of C whose two ends are equal."""
    if low == high:
        raise PermafrostError(
            f"c_min and c_max are both {low:g}, but c_count asks for several values",
            where=where,
            remedy="give c_count: 1, or two different ends",
        )


def check_entrypoint(entry: dict, root: Path, where: str) -> None:
    """Refuse an entry point without this function, or whose function lacks an option of the entry.

    The file is parsed, not run.
    """
    file = entrypoint_file(entry["entrypoint"], root)
    if file is None or not (root / file).is_file():
        # a package; or a missing file, which its digest reports
        return
    name, where = entry["entrypoint"].rpartition(":")[2], f"{where}: entrypoint"
    try:
        body = ast.parse((root / file).read_bytes()).body
    except (SyntaxError, ValueError):
        # reported when the imports of the file are followed
        return
    if "environment" not in entry:
        _check_imports(body, file, root, where)
    functions = {node.name: node for node in body if isinstance(node, ast.FunctionDef)}
    for node in body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            _check_class(node, file, where)
    if name not in functions:
        if name not in _names(body):
            look_up(functions, name, f"{file} has no function", where=where)
        return
    arguments = functions[name].args
    if arguments.kwarg is not None or functions[name].decorator_list:
        return
    placed = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
    if not placed and arguments.vararg is None:
        raise PermafrostError(
            f"{name} of {file} takes no argument, but is called with the inputs of the model",
            where=where,
            remedy=f"write def {name}(inputs): and return the model, as config/backbones/template.py shows",
        )
    taken = [*placed, *(one.arg for one in arguments.kwonlyargs)]
    for key in [*entry["options"], *(["weights"] if entry.get("weights") else [])]:
        look_up(
            taken[1:],
            key,
            "the function takes no option",
            where=where,
            remedy="correct options, or add it to the function",
        )


def _is_search_path(node: ast.AST) -> bool:
    """Whether a node is ``sys.path``."""
    return isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.path"


def _check_imports(body: list[ast.stmt], file: str, root: Path, where: str) -> None:
    """Refuse a file whose top-level imports include a module that is not installed."""
    if any(_is_search_path(node) for one in body for node in ast.walk(one)):
        # the file says itself where its modules are
        return
    search = [str((root / file).parent), str(root), *sys.path]
    for node in body:
        if isinstance(node, ast.Import):
            names = [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module]
        else:
            continue
        for top in {one.partition(".")[0] for one in names} - {*sys.stdlib_module_names}:
            if PathFinder.find_spec(top, search) is None and importlib.util.find_spec(top) is None:
                known = missing(top)
                install = "install it into this environment" if known is None else known.remedy
                raise PermafrostError(
                    f"{file} imports {top}, which is not installed (line {node.lineno})",
                    where=where,
                    remedy=f"{install}, or name an environment that has it with `environment` (docs/install.md)",
                )


def _check_class(node: ast.ClassDef, file: str, where: str) -> None:
    """Refuse a class whose constructor does not accept the inputs."""
    own = [one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"]
    bases = {ast.unparse(one).rpartition(".")[2] for one in node.bases}
    if own:
        arguments = own[0].args
        fits = arguments.vararg is not None or len(arguments.posonlyargs + arguments.args) > 1
    else:
        fits = bases != {"Module"}
    if not fits:
        raise PermafrostError(
            f"{node.name} of {file} is a class that takes no inputs",
            where=where,
            remedy=f"write a function: def build(inputs): return {node.name}(), and name it",
        )


class _Everything(frozenset):
    """Contains every name; for files that define names dynamically."""

    def __contains__(self, name: object) -> bool:
        return True


def _names(body: list[ast.stmt]) -> frozenset[str]:
    """Names that a module defines; every name, if some are only known at run time."""
    names: set[str] = set()
    for node in body:
        match node:
            case ast.FunctionDef() | ast.ClassDef() | ast.AsyncFunctionDef():
                names.add(node.name)
            case ast.Import() | ast.ImportFrom() if all(one.name != "*" for one in node.names):
                names |= {alias.asname or alias.name for alias in node.names}
            case ast.Assign() if all(isinstance(target, ast.Name) for target in node.targets):
                names |= {cast("ast.Name", target).id for target in node.targets}
            case ast.Expr(value=ast.Constant()):
                pass
            case _:
                return _Everything()
    return frozenset(names)
