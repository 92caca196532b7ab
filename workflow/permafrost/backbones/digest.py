"""Which files make a backbone what it is. Used when the plan is made, so it imports nothing heavy."""

from __future__ import annotations

import sys
from pathlib import Path


def files_of(entry: dict) -> list[str]:
    """Paths, as the entry writes them, of the files whose content identifies a backbone.

    These are the weights file, the Python file of an entry point and everything under ``files``.
    An entry point that is given as a module name counts by its file where that lies under the working
    directory (the repository root); an installed package is identified by its name only.
    """
    files = [str(path) for path in entry.get("files") or ()]
    weights = entry.get("weights")
    if isinstance(weights, dict) and weights.get("path"):
        files.append(str(weights["path"]))
    if entry.get("kind") == "entrypoint" and isinstance(entry.get("entrypoint"), str):
        source = entrypoint_file(entry["entrypoint"])
        if source is not None:
            files.append(source)
    return list(dict.fromkeys(files))


def entrypoint_file(entrypoint: str) -> str | None:
    """The Python file of ``path/to/file.py:build`` or, below the working directory, of ``a.b:build``."""
    place = entrypoint.rpartition(":")[0]
    if place.endswith(".py"):
        return place
    base = Path(*place.split(".")) if place else Path()
    for candidate in (base.with_suffix(".py"), base / "__init__.py") if place else ():
        for folder in [Path(), *_inside_working_directory(sys.path)]:
            if (folder / candidate).is_file():
                return (folder / candidate).as_posix()
    return None


def _inside_working_directory(folders) -> list[Path]:
    here = Path.cwd()
    inside = [Path(folder) for folder in folders if folder]
    found = [
        path.relative_to(here)
        for path in inside
        if path.is_absolute() and path.is_relative_to(here)
    ]
    return [path for path in found if "site-packages" not in path.parts]
