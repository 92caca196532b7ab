"""What makes a backbone what it is: its entry without places, its files, its own modules, its package.

Used when the plan is made, so it imports nothing heavy and runs no code of the entry.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from permafrost.backbones.imported import installed_package, local_modules
from permafrost.data.embeddings.files import read_of_options
from permafrost.data.files.folders import Read


@dataclass(frozen=True)
class Identified:
    """An entry taken apart into what identifies the backbone and where it lies.

    Attributes
    ----------
    entry : the entry without places.
    places : the places, in the layout of the entry.
    files : role (``weights``, ``entrypoint``, ``model_file``, ``module NAME``, ``file NAME``, ``embeddings``) to path
        as the entry writes it; the last one may be a folder.
    package : name and version of the installed package that an entry point lies in.
    read : of roles whose path may be a folder, which of its files count.
    """

    entry: dict
    places: dict
    files: dict[str, str]
    package: dict[str, str]
    read: dict[str, Read] = field(default_factory=dict)


def identify(entry: dict, root: Path, located: Callable[[str], Path]) -> Identified:
    """Take an entry apart.

    Weights, the file of an entry point and the authors' file of a model count by their content alone. What stands
    under ``files`` counts by its path too, in one spelling, since the code that reads it names it; and modules by the
    names they are imported by.

    Parameters
    ----------
    root : the folder that relative paths refer to.
    located : from a path as the entry writes it to where the file lies.

    Raises
    ------
    PermafrostError : a Python file that cannot be parsed.
    """
    known, places, files = dict(entry), {}, {}
    package: dict[str, str] = {}
    weights = entry.get("weights")
    if isinstance(weights, dict) and weights.get("path"):
        known["weights"] = {key: value for key, value in weights.items() if key != "path"}
        places["weights"] = {"path": weights["path"]}
        files["weights"] = str(weights["path"])
    if entry.get("files"):
        del known["files"]
        places["files"] = entry["files"]
        files |= {f"file {_spelled(path, root)}": str(path) for path in entry["files"]}
    read = embeddings_read(entry)
    if read is not None:
        places["path"] = known.pop("path")
        files["embeddings"] = str(entry["path"])
    if isinstance(entry.get("entrypoint"), str):
        place, _, function = entry["entrypoint"].rpartition(":")
        if place.endswith(".py"):
            known["entrypoint"] = f":{function}"
            places["entrypoint"] = entry["entrypoint"]
            files["entrypoint"] = place
        else:
            package = installed_package(place, root)
        files |= _modules(place, root, located)
    if entry.get("model_file"):
        del known["model_file"]
        places["model_file"] = files["model_file"] = str(entry["model_file"])
        files |= _modules(files["model_file"], root, located)
    return Identified(known, places, files, package, {} if read is None else {"embeddings": read})


def embeddings_read(entry: dict) -> Read | None:
    """Which files of the folder ``path`` an entry of kind embeddings reads; None of other kinds."""
    if entry.get("kind") != "embeddings":
        return None
    return read_of_options(entry)


def _modules(place: str, root: Path, located: Callable[[str], Path]) -> dict[str, str]:
    """Role and path of the modules of the user's own that loading `place` imports."""
    modules = local_modules(place, root, located)
    return {f"module {name}": _relative(path, root) for name, path in modules.items()}


def entrypoint_file(entrypoint: str, root: Path) -> str | None:
    """The local Python file of ``path/to/file.py:build`` or ``package.module:build``; None in an installed package."""
    place = entrypoint.rpartition(":")[0]
    if place.endswith(".py"):
        return place
    found = local_modules(place, root, lambda path: root / path).get(place)
    return None if found is None else _relative(found, root)


def _spelled(path, root: Path) -> str:
    """One spelling of a path: relative to `root` where it lies below, no ``./``, ``//`` or ``a/..``."""
    return _relative(Path(os.path.normpath(path)), root)


def _relative(path: Path, root: Path) -> str:
    base = Path(os.path.abspath(root))
    return (path.relative_to(base) if path.is_relative_to(base) else path).as_posix()
