"""Find the local Python modules of an entry point by parsing, before it runs.

A module is local (the user's) unless it is in ``site-packages``, Python's library or this library.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import packages_distributions, version
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.opened import is_library


def local_modules(place: str, root: Path, located: Callable[[str], Path]) -> dict[str, Path]:
    """Name to file of all local modules that an entry point can import, found without running them.

    Follows import statements anywhere in a file, and calls of ``import_module`` and ``__import__``
    with a constant name.

    Parameters
    ----------
    place : ``path/to/file.py`` (not included in the result) or ``package.module`` (included).
    root : folder that the entry point is loaded from.
    located : path as written in the entry -> actual path.

    Raises
    ------
    PermafrostError : a file cannot be parsed.
    """
    if place.endswith(".py"):
        entry = located(place)
        pending = modules_named(entry, "")
        search = [os.path.abspath(entry.parent), os.path.abspath(root)]
    else:
        pending, search = [place], [os.path.abspath(root)]
    found: dict[str, Path] = {}
    seen: set[str] = set()
    search += [folder for folder in sys.path if folder and folder not in search]
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        for module, spec in _chain(name, search):
            if not spec.has_location or module in found:
                continue
            path = Path(os.path.abspath(spec.origin))
            if not is_local(path):
                break
            found[module] = path
            if path.suffix == ".py":
                inside = module if path.name == "__init__.py" else module.rpartition(".")[0]
                pending += modules_named(path, inside)
    return dict(sorted(found.items()))


def installed_package(module: str, root: Path) -> dict[str, str]:
    """Name to version of the distribution of `module`; empty for a module below `root`."""
    top = module.partition(".")[0]
    if not top or PathFinder.find_spec(top, [os.path.abspath(root)]) is not None:
        return {}

    names = sorted(set(packages_distributions().get(top, ())))
    return {name: version(name) for name in names}


def is_local(path: Path) -> bool:
    """Whether a module's file is outside of installed packages, Python's library and this library."""
    return not (is_library(str(path)) or is_library(str(path.resolve())))


def _chain(name: str, search: list[str]) -> Iterator[tuple[str, ModuleSpec]]:
    """The modules that ``import a.b.c`` runs: a, a.b and a.b.c, as far as they exist."""
    places: list[str] | None = search
    parts = name.split(".")
    for depth in range(1, len(parts) + 1):
        module = ".".join(parts[:depth])
        spec = _spec(parts[depth - 1], places, top=depth == 1)
        if spec is None:
            return
        yield module, spec
        if spec.submodule_search_locations is None:
            return
        places = list(spec.submodule_search_locations)


def _spec(name: str, places: list[str] | None, *, top: bool) -> ModuleSpec | None:
    """Find a module in `places`. `name` is the last part only, else Python would import its packages."""
    try:
        spec = PathFinder.find_spec(name, places)
        # packages in editable mode can have their own finder
        if spec is None and top and name not in sys.builtin_module_names:
            spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None
    return spec


def modules_named(path: Path, package: str) -> list[str]:
    """Names of all modules that a Python file may import; `package` is the file's package.

    Raises
    ------
    PermafrostError : the file cannot be parsed.
    """
    try:
        tree = ast.parse(path.read_bytes(), filename=str(path))
    except OSError:
        # a missing file is reported when its digest is computed
        return []
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise PermafrostError(
            f"the Python file cannot be parsed ({error})", where=path, remedy="correct the file"
        ) from error
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node.module or "", node.level, package)
            if base:
                names += [base, *(f"{base}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Call):
            names += _imported_by_call(node, package)
    return names


def _imported_by_call(node: ast.Call, package: str) -> list[str]:
    """The constant name in a call of ``import_module("…")`` or ``__import__("…")``; else empty."""
    called = (
        node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    )
    if called not in ("import_module", "__import__") or not node.args:
        return []
    name = getattr(node.args[0], "value", None)
    if not isinstance(name, str):
        return []
    level = len(name) - len(name.lstrip("."))
    return [full] if (full := _absolute(name[level:], level, package)) else []


def _absolute(name: str, level: int, package: str) -> str:
    if not level:
        return name
    base = package.split(".")[: len(package.split(".")) - level + 1]
    return ".".join([*filter(None, base), *([name] if name else [])])
