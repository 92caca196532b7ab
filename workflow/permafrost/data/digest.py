"""Digest of the files that a dataset entry uses, for its identity. Light: used before any job runs.

Entries here are the validated JSON that identities are computed from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.identity import canonical_json
from permafrost.data.files.folders import Read, content_digest
from permafrost.data.files.members import folder_prefix
from permafrost.data.sources import kind_of

#: prefix of a file name inside the directory or archive of ``path``
INSIDE = "<path>/"
#: arguments of torchgeo that affect only the location and download of the data
TORCHGEO_PLACES = ("root", "download", "checksum")
#: files of a GEO-Bench partition, by its name
PARTITION_FILES = ("{}_partition.json", "{}_train_partition.json")


def read_of(entry: dict) -> Read:
    """Which files of its folders the source of an entry reads."""
    source = entry["source"]
    if not kind_of(source["kind"]).places:
        return Read()
    if source["kind"] == "geobench":
        # statistics, task specifications and the other partitions are not read
        root = folder_prefix(source["root"])
        files = (f"{root}{file.format(source['partition'])}".lower() for file in PARTITION_FILES)
        return Read(hidden=False, root=root, endings=(".hdf5", *files))
    if source["kind"] == "grid":
        return Read(hidden=False, patterns=_grid_patterns(source))
    if source["kind"] == "table":
        return Read(hidden=False)
    if source["kind"] != "folder":
        return Read(hidden=False, names=frozenset(source.get("files", ())))
    # other files are an error unless the entry ignores them, so they are part of the identity
    classes = entry["task"] == "classification" and source.get("images") is None
    ignored = source["other_files"] == "ignore" and classes
    endings = source["extensions"] if ignored else ()
    return Read(
        hidden=False,
        root=folder_prefix(source["root"]),
        endings=tuple(f".{ending.lower()}" for ending in endings),
    )


def _grid_patterns(source: dict) -> tuple[str, ...]:
    """The files that a grid names: all parts of a Shapefile, all folders of a torchgeo class."""
    found: list[str] = []
    for key in ("images", "masks", "targets", "extent"):
        value = source.get(key, [])
        for one in value.values() if isinstance(value, dict) else [value]:
            found += (
                [one] if isinstance(one, str) else [name for name in one if isinstance(name, str)]
            )
    found = [f"{name[:-3]}*" if name.lower().endswith(".shp") else name for name in found]
    classes = [source.get("torchgeo", {}).get(key) for key in ("image", "mask")]
    for folder in (folder for one in classes if one for folder in one["paths"]):
        found += ["*"] if folder == "." else [folder, f"{folder_prefix(folder)}*"]
    return tuple(found)


def source_paths(entry: dict) -> list[Path]:
    """Files and folders outside the project that provide the entry's images and labels."""
    source = entry["source"]
    if places := kind_of(source["kind"]).places:
        return [Path(place) for key in places for place in _places(source, key)]
    if source["kind"] == "torchgeo" and downloaded(entry) is None:
        arguments = source["arguments"]
        return [Path(arguments["root"])] if "root" in arguments else []
    return []


def downloaded(entry: dict) -> tuple[Path, Read] | None:
    """The folder that the entry's source downloads to, with its files that count; None: no download.

    They are not known before the job has run, so the job keeps their digest.
    """
    source = entry["source"]
    arguments = source.get("arguments", {}) if source["kind"] == "torchgeo" else {}
    if not arguments.get("download") or "root" not in arguments:
        return None
    return Path(arguments["root"]), Read(hidden=False)


def folder_content(folder: tuple[Path, Read], digest_of: Callable[[Path, Read], str]) -> str | None:
    """The digest of the files of `downloaded`; None: the folder is gone."""
    return digest_of(*folder) if folder[0].is_dir() else None


def source_files(entry: dict) -> list[Path]:
    """The single files among them; they are hashed as a whole, so a caller may cache by file."""
    return [path for path in source_paths(entry) if path.is_file()]


def source_digest(entry: dict, digest_of: Callable[[Path, Read], str] = content_digest) -> str:
    """SHA-256 of the data that the entry's source reads.

    Files count by content, folders by the names and contents of the files that are read, generated
    and downloaded data by their arguments. Locations do not count: moved data keep their digest.

    Parameters
    ----------
    digest_of : digest of a file's or a folder's content; pass a caching one.

    Raises
    ------
    PermafrostError : a path does not exist (the root of a torchgeo download may be missing).
    """
    source, read = without_places(entry)[0]["source"], read_of(entry)
    parts = []
    for path in source_paths(entry):
        if path.is_file():
            parts.append(["file", digest_of(path, read)])
        elif path.is_dir():
            parts.append(["folder", digest_of(path, read)])
        elif path.exists():
            raise PermafrostError(
                f"{path} is neither a file nor a folder", remedy="correct the path"
            )
        else:
            raise PermafrostError(
                f"{path} does not exist", remedy="correct the path, or get the data first"
            )
    return hashlib.sha256(canonical_json([source, parts]).encode()).hexdigest()


def source_state(entry: dict, state_of: Callable[[Path, Read], list]) -> list:
    """The result of `state_of` for each path of the entry's source."""
    return [state_of(path, read_of(entry)) for path in source_paths(entry)]


def without_places(entry: dict) -> tuple[dict, dict]:
    """An entry without the paths of its source, and these paths in the entry's layout."""
    source = entry["source"]
    options, places = dict(source), {}
    for key in kind_of(source["kind"]).places:
        if key not in source:
            continue
        if isinstance(source[key], dict):
            options[key] = {split: _inside(place) for split, place in source[key].items()}
            places[key] = source[key]
        elif not _inside(source[key]):
            places[key] = options.pop(key)
    if source["kind"] == "torchgeo":
        arguments = source["arguments"]
        kept = {key: value for key, value in arguments.items() if key not in TORCHGEO_PLACES}
        options["arguments"] = kept
        places["arguments"] = {key: arguments[key] for key in arguments if key not in kept}
    return {**entry, "source": options}, {"source": places}


def _places(source: dict, key: str) -> list[str]:
    """The paths that an option names; if there is one per split, sorted by split.

    Paths inside ``path`` are omitted because they are part of its content.
    """
    if key not in source:
        return []
    value = source[key]
    places = [value[split] for split in sorted(value)] if isinstance(value, dict) else [value]
    return [place for place in places if _inside(place) is None]


def _inside(place: str) -> str | None:
    """The name inside ``path`` that a path stands for; None for any other path."""
    return place if place.startswith(INSIDE) else None
