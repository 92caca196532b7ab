"""Identity of a backbone: its entry without paths, its files, its local modules, its package.

Planning uses this module, so it imports no slow library and does not run code of the entry.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from permafrost.backbones.imported import installed_package, local_modules
from permafrost.data.embeddings.files import read_of_options
from permafrost.data.files.folders import Read


@dataclass(frozen=True)
class Identified:
    """An entry split into identity and paths.

    Attributes
    ----------
    entry : the entry without paths.
    places : the paths, in the layout of the entry.
    files : role (``weights``, ``entrypoint``, ``model_file``, ``module NAME``, ``file NAME``,
        ``embeddings``) to the path as written in the entry; that of embeddings may be a folder.
    package : name to version of the installed package that contains an entry point.
    read : role to the files of its folder that count.
    """

    entry: dict
    places: dict
    files: dict[str, str]
    package: dict[str, str]
    read: dict[str, Read] = field(default_factory=dict)


def identify(entry: dict, root: Path, located: Callable[[str], Path]) -> Identified:
    """Split an entry into identity and paths.

    Weights, the file of an entry point and the authors' model file count only by content. Files
    under ``files`` also count by their normalized path, since the code that reads them contains it.
    Modules count by their import names.

    Parameters
    ----------
    root : folder for relative paths.
    located : path as written in the entry -> actual path.

    Raises
    ------
    PermafrostError : a Python file cannot be parsed.
    """
    places: dict[str, Any]
    files: dict[str, str]
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
    read = embeddings_read(entry, located)
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


def embeddings_read(entry: dict, located: Callable[[str], Path] = Path) -> Read | None:
    """The files in the folder ``path`` that an entry of kind embeddings reads; None for other kinds."""
    if entry.get("kind") != "embeddings":
        return None
    return read_of_options(entry, located)


def _modules(place: str, root: Path, located: Callable[[str], Path]) -> dict[str, str]:
    """Role to path of the user's modules that `place` imports."""
    modules = local_modules(place, root, located)
    return {f"module {name}": _relative(path, root) for name, path in modules.items()}


def entrypoint_file(entrypoint: str, root: Path) -> str | None:
    """The Python file of ``path/to/file.py:build`` or of a local ``package.module:build``; else None."""
    place = entrypoint.rpartition(":")[0]
    if place.endswith(".py"):
        return place
    found = local_modules(place, root, lambda path: root / path).get(place)
    return None if found is None else _relative(found, root)


def _spelled(path, root: Path) -> str:
    """A normalized path: relative if it is below `root`, without ``./``, ``//`` or ``a/..``."""
    return _relative(Path(os.path.normpath(path)), root)


def _relative(path: Path, root: Path) -> str:
    base = Path(os.path.abspath(root))
    return (path.relative_to(base) if path.is_relative_to(base) else path).as_posix()
