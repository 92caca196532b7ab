"""Suites: named, versioned parts of a configuration, and how a run differs from one."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path

from permafrost.core.errors import PermafrostError, look_up
from permafrost.core.identity import fingerprint
from permafrost.plan.catalogue import catalogue_folders, read_yaml
from permafrost.plan.validation import problems, validate

# keys that a run may set without changing the suite's scores and ranks
_FREE = frozenset(
    {
        "suite",
        "results",
        "data",
        "versions",
        "catalogues",
        "backbones",
        "derive",
        "derived_datasets",
        "extra_backbones",
        "extra_datasets",
        "extra_metrics",
        "extra_probes",
        "extra_sources",
        "measures",
        "profile",
        "published",
        "groups",
        "report",
        "archive",
        "runtime",
    }
)


def suite_files(root: Path) -> dict[str, Path]:
    """Name -> file of the suites in a project's catalogues; two files of one name are refused."""
    own = root / "config/config.yaml"
    folders = catalogue_folders(read_yaml(own) if own.exists() else {}, root)
    known: dict[str, Path] = {}
    for path in (path for folder in folders for path in (folder / "suites").glob("*.yaml")):
        other = known.setdefault(path.stem, path)
        if other.resolve() != path.resolve():
            raise PermafrostError(
                f"there is a suite {path.stem!r} in {other} already",
                where=path,
                remedy="give one of the two files another name",
            )
    return dict(sorted(known.items()))


def find_suite(name: str, root: Path) -> Path:
    """The file of a suite, from its name or path; an unknown name is refused."""
    if name.endswith((".yaml", ".yml")):
        return Path(name).resolve()
    known = suite_files(root)
    look_up(
        known,
        name,
        "there is no suite",
        remedy="correct the name, or give the file of your own suite",
    )
    return known[name].resolve()


def read_suite(path: Path) -> dict:
    """The content of a suite's file, without defaults.

    Raises
    ------
    PermafrostError : the file is not valid YAML, or a key or value is invalid.
    """
    suite = read_yaml(path)
    validate(suite, "suite", where=str(path))
    validate({**copy.deepcopy(suite), "backbones": ["-"]}, "config", where=str(path))
    return suite


def digest(suite: dict) -> str:
    """The fingerprint of a suite's file without the title."""
    named = {key: value for key, value in suite["suite"].items() if key != "title"}
    return fingerprint({**suite, "suite": named})


def note_suite(config: dict, layers: list[dict]) -> None:
    """Add the digest of the suite, and the run's differences from it, to a configuration.

    Parameters
    ----------
    config : the merged layers; its ``suite`` gets ``digest`` and ``changed``, a list of texts.
    layers : files and options that were merged; the last one with ``suite`` is the suite.

    Raises
    ------
    PermafrostError : that layer is not a valid suite.
    """
    found = [layer for layer in layers if "suite" in layer]
    if not found:
        return
    suite = copy.deepcopy(found[-1])
    validate(suite, "suite", where="the configuration with `suite`")
    config["suite"] = {**suite["suite"], "digest": digest(suite)}
    free = _FREE - suite.keys()
    asked, meant = copy.deepcopy(config), {**suite, "backbones": ["-"]}
    for filled in (asked, meant):
        problems(filled, "config")  # fills in defaults; the plan reports the problems
        # entries of datasets outside the suite do not affect its scores
        if isinstance(extra := filled["extra_datasets"], dict):
            own = {name: extra[name] for name in suite["datasets"] if name in extra}
            filled["extra_datasets"] = own
    keys = [key for key in {**meant, **asked} if key not in free | {"suite", "backbones"}]
    changed = [text for key in keys for text in _differences(asked.get(key), meant.get(key), key)]
    config["suite"]["changed"] = changed


def _differences(asked, meant, key: str) -> Iterator[str]:
    if asked == meant:
        return
    if isinstance(asked, dict) and isinstance(meant, dict):
        for part in {**meant, **asked}:
            yield from _differences(asked.get(part), meant.get(part), f"{key}.{part}")
    elif key == "datasets" and isinstance(asked, list):
        for word, more, less in (("without", meant, asked), ("also", asked, meant)):
            names = [str(name) for name in more if name not in less]
            if names:
                yield f"datasets: {word} {', '.join(names)}"
    else:
        yield f"{key}: {_words(asked)} instead of {_words(meant)}"


def _words(value) -> str:
    return "nothing" if value is None else str(value)


def about_suite(suite: dict) -> list[str]:
    """The lines that describe a suite."""
    named, datasets = suite["suite"], suite["datasets"]
    size = suite["extraction"].get("size", "default")
    images = {None: "native size", "default": "default size"}.get(size, f"{size} px")
    return [
        f"{named['name']}, version {named['version']}: {named.get('title', 'no title')}",
        f"  datasets  {len(datasets)}: {', '.join(datasets)}",
        f"  probes    {', '.join(suite['probes'])}; seeds {', '.join(map(str, suite['seeds']))}",
        f"  images    {images}",
        f"  misfits   fit: {suite.get('fit', 'strict')}",
        f"  digest    {digest(suite)}",
    ]
