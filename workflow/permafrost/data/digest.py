"""Which bytes a dataset entry stands on, for its identity. Light: used before any job runs."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.identity import canonical_json, file_digest

from .sources import kind_of

#: how the name of a file begins that lies inside the directory or archive of ``path``
INSIDE = "<path>/"


def source_paths(entry: dict) -> list[Path]:
    """Files and folders outside the project that the entry's images and labels come from."""
    source = entry["source"]
    if places := kind_of(entry).places:
        return [Path(place) for key in places for place in _places(source, key)]
    if source["kind"] == "torchgeo":
        arguments = source.get("arguments", {})
        # what torchgeo downloads it checks itself, and downloading must not change the identity
        if "root" in arguments and not arguments.get("download"):
            return [Path(arguments["root"])]
    return []


def source_files(entry: dict) -> list[Path]:
    """The single files among them: their content is hashed whole, so a caller may cache by file."""
    return [path for path in source_paths(entry) if path.is_file()]


def content_digest(path: Path) -> str:
    """Digest of a file's content, or of the names and contents of all files below a folder."""
    return folder_digest(path) if Path(path).is_dir() else file_digest(path)


def source_digest(entry: dict, digest_of: Callable[[Path], str] = content_digest) -> str:
    """SHA-256 of what the entry's source holds.

    A file counts by its content, a folder by the names and contents of its files, generated and
    downloaded data by the arguments. Where the files lie does not count: the same data elsewhere is
    the same data.

    Parameters
    ----------
    digest_of : digest of a file's or a folder's content; pass one that remembers.

    Raises
    ------
    PermafrostError : a path does not exist (the root of a torchgeo download may).
    """
    parts = []
    for path in source_paths(entry):
        if path.is_file():
            parts.append(["file", digest_of(path)])
        elif path.is_dir():
            parts.append(["folder", digest_of(path)])
        else:
            raise PermafrostError(
                f"{path} does not exist", remedy="correct the path, or get the data first"
            )
    return hashlib.sha256(canonical_json([_without_places(entry), parts]).encode()).hexdigest()


def _without_places(entry: dict) -> dict:
    """The options of an entry's source that say what is read, without those that say where it lies."""
    source, places = entry["source"], kind_of(entry).places
    options = {key: value for key, value in source.items() if key not in places}
    for key in places:
        if isinstance(source[key], dict):
            options[key] = {split: _inside(place) for split, place in source[key].items()}
        elif _inside(source[key]):
            options[key] = source[key]
    if source["kind"] == "torchgeo":
        arguments = source.get("arguments", {})
        options["arguments"] = {
            key: value
            for key, value in arguments.items()
            if key not in ("root", "download", "checksum")
        }
    return options


def _places(source: dict, key: str) -> list[str]:
    """The places that an option names, those by split in the order of the splits' names.

    Without those inside ``path``, whose content counts with it.
    """
    value = source[key]
    places = [value[split] for split in sorted(value)] if isinstance(value, dict) else [value]
    return [place for place in places if _inside(place) is None]


def _inside(place: str) -> str | None:
    """A place that is a name inside ``path``; None for any other."""
    return place if place.startswith(INSIDE) else None


def folder_files(folder: Path) -> list[tuple[str, str]]:
    """(relative name, path) of all files below a folder, sorted."""
    found = []
    for place, _, files in os.walk(folder):
        for name in files:
            full = os.path.join(place, name)
            found.append((Path(full).relative_to(folder).as_posix(), full))
    return sorted(found)


def folder_digest(folder: Path) -> str:
    """SHA-256 of the sorted relative names and the contents of the files below a folder."""
    digest = hashlib.sha256()
    for name, path in folder_files(folder):
        line = f"{len(name)}:{name}:{file_digest(path)}\n"
        digest.update(line.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()
