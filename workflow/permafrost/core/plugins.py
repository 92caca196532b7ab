"""Plug-ins: probes, sources, metrics and kinds of backbones that are not part of the package.

A configuration adds objects under ``extra_probes``, ``extra_sources`` or ``extra_metrics`` as
``path/to/file.py:NAME`` or ``package.module:NAME``. An installed package offers them as entry
points of the groups ``permafrost.probes``, ``permafrost.sources`` and ``permafrost.backbones``.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from permafrost.core.errors import PermafrostError, look_up
from permafrost.core.opened import Recording, recording_apart

#: group -> module of its registry, without the package's name, so that it does not count as a job's code
MODULES = {
    "probes": "probes.kinds",
    "sources": "data.sources",
    "backbones": "backbones.kinds",
    "metrics": "metrics.tasks",
}


class Registry(dict):
    """Name to object; unknown names are looked up among the entry points of installed packages.

    Parameters
    ----------
    group : ``probes``, ``sources``, ``backbones`` or ``metrics``.
    entries : objects of the package.
    added : called with name and object before a plug-in is added; may raise to refuse it.

    Attributes
    ----------
    places : name to place (``module:NAME``) of the plug-ins.
    read : name to what was read while the plug-in was loaded.
    """

    def __init__(self, group: str, entries: dict, added: Callable = lambda name, one: None) -> None:
        super().__init__(entries)
        self.places: dict[str, str] = {}
        self.read: dict[str, Recording] = {}
        self.group, self.added = group, added

    def __contains__(self, name) -> bool:
        if not super().__contains__(name):
            # imported here, since it is slow and `permafrost --help` does not need it
            from importlib.metadata import entry_points

            # the place that it gives is in the specification of the jobs that use the plug-in
            with recording_apart():
                points = entry_points(group=f"permafrost.{self.group}", name=str(name))
            for point in points:
                self.add(name, point.value)
        return super().__contains__(name)

    def __missing__(self, name):
        if name in self:
            return self[name]
        raise KeyError(name)

    def add(self, name: str, place: str) -> None:
        """Add the object at `place`, once.

        Raises
        ------
        PermafrostError : the name is taken, or the object cannot be loaded.
        """
        where = f"extra_{self.group}.{name}"
        if self.places.get(name) == place:
            return
        if super().__contains__(name):
            raise PermafrostError("the name is taken", where=where, remedy="use another name")
        # every job loads all plug-ins; what was read counts for the jobs that use this one
        with recording_apart() as read:
            one = load_object(place, where)
        self.added(name, one)
        self[name], self.places[name], self.read[name] = one, place, read


def registry(group: str) -> Registry:
    """The registry of ``probes``, ``sources``, ``backbones`` or ``metrics``."""
    return importlib.import_module(f"permafrost.{MODULES[group]}").PLUGINS


def places_of(config: dict) -> dict[str, dict[str, str]]:
    """The plug-ins of a configuration: group to {name: place}."""
    return {
        group: named
        for group in MODULES
        if (named := config.get(f"extra_{group}")) and group != "backbones"
    }


def add_plugins(places: dict[str, dict[str, str]]) -> None:
    """Add plug-ins (`places_of`) to the registries."""
    for group, named in places.items():
        for name, place in named.items():
            registry(group).add(name, place)


def read_by(plugins: Mapping[str, Mapping[str, str]]) -> list[Recording]:
    """What was read while plug-ins were loaded, also by another that loaded a module of theirs first.

    Parameters
    ----------
    plugins : ``GROUP.NAME`` -> paths of its file and of the user's modules that it imports.
    """
    named = [(registry(group), name) for group, _, name in (one.partition(".") for one in plugins)]
    read = [known.read[name] for known, name in named if name in known]
    paths = [path for files in plugins.values() for path in files.values()]
    own = {*map(os.path.abspath, paths), *map(os.path.realpath, paths)}
    others = [one for group in MODULES for one in registry(group).read.values()]
    return read + [one for one in others if not own.isdisjoint(one.files)]


def load_object(place: str, where: str):
    """The object at ``path/to/file.py:NAME`` or ``package.module:NAME``.

    Raises
    ------
    PermafrostError : the place is malformed, cannot be imported, or lacks the name; names `where`.
    """
    file, _, name = place.rpartition(":")
    if not file or not name.isidentifier():
        raise PermafrostError(
            f"{place!r} is not an entry point",
            where=where,
            remedy="write path/to/file.py:name or package.module:name",
        )
    return look_up(vars(load_module(file, where)), name, f"{file} has no", where=where)


def named_object(place):
    """Import ``module:name`` of this library; the object itself if a plug-in gives one."""
    if not isinstance(place, str):
        return place
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def load_module(place: str, where: str):
    """Import ``path/to/file.py`` or ``package.module``; raises `PermafrostError` if that fails."""
    try:
        with importable(*folders_of(place)):
            if place.endswith(".py"):
                return _load_file(Path(place))
            return importlib.import_module(place)
    except FileNotFoundError as error:
        raise PermafrostError(
            f"the file {place} does not exist",
            where=where,
            remedy="give the path relative to the project folder",
        ) from error
    except Exception as error:
        raise PermafrostError(
            f"{place} cannot be imported: {type(error).__name__}: {error}", where=where
        ) from error


def _load_file(path: Path):
    path = path.resolve()
    if not path.is_file():
        raise FileNotFoundError(path)
    # a unique name, so that two files called model.py do not replace each other
    name = f"_plugin_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def folders_of(place: str) -> list[Path]:
    """Folders to search for an entry point's own modules: that of its file, then the project."""
    beside = [Path(place).resolve().parent] if place.endswith(".py") else []
    return list(dict.fromkeys([*beside, Path.cwd()]))


class importable:
    """Context manager that puts folders first in the module search path, in this order."""

    def __init__(self, *folders: Path) -> None:
        self._folders = [str(folder) for folder in folders]

    def __enter__(self) -> None:
        sys.path[:0] = self._folders

    def __exit__(self, *error) -> None:
        for folder in self._folders:
            sys.path.remove(folder)
