"""Which bytes a dataset entry stands on, for its identity. Light: used before any job runs.

Entries are the validated JSON here, of which identities are made.
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

#: how the name of a file begins that lies inside the directory or archive of ``path``
INSIDE = "<path>/"
#: arguments of torchgeo that say where the data lie and how they come there
TORCHGEO_PLACES = ("root", "download", "checksum")
#: files of a GEO-Bench partition, by its name
PARTITION_FILES = ("{}_partition.json", "{}_train_partition.json")


def read_of(entry: dict) -> Read:
    """Which files the source of an entry reads of its folders."""
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
    # other files are an error of the entry, and so they count, unless it says that they don't
    classes = entry["task"] == "classification" and source.get("images") is None
    ignored = source["other_files"] == "ignore" and classes
    endings = source["extensions"] if ignored else ()
    return Read(
        hidden=False,
        root=folder_prefix(source["root"]),
        endings=tuple(f".{ending.lower()}" for ending in endings),
    )


def _grid_patterns(source: dict) -> tuple[str, ...]:
    """The files that a grid names; of a Shapefile, all that share its name; of a class of torchgeo, its folders."""
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
    """Files and folders outside the project that the entry's images and labels come from."""
    source = entry["source"]
    if places := kind_of(source["kind"]).places:
        return [Path(place) for key in places for place in _places(source, key)]
    if source["kind"] == "torchgeo":
        arguments = source["arguments"]
        # what torchgeo downloads it checks itself, and downloading must not change the identity
        if "root" in arguments and not arguments.get("download"):
            return [Path(arguments["root"])]
    return []


def source_files(entry: dict) -> list[Path]:
    """The single files among them: their content is hashed whole, so a caller may cache by file."""
    return [path for path in source_paths(entry) if path.is_file()]


def source_digest(entry: dict, digest_of: Callable[[Path, Read], str] = content_digest) -> str:
    """SHA-256 of what the entry's source holds.

    A file counts by its content, a folder by the names and contents of the files that are read,
    generated and downloaded data by the arguments. Where the files lie does not count: the same data
    elsewhere is the same data.

    Parameters
    ----------
    digest_of : digest of a file's or a folder's content; pass one that remembers.

    Raises
    ------
    PermafrostError : a path does not exist (the root of a torchgeo download may).
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
    """What `state_of` says of each place of the entry's source."""
    return [state_of(path, read_of(entry)) for path in source_paths(entry)]


def without_places(entry: dict) -> tuple[dict, dict]:
    """An entry without where its source lies, and the places that were taken out, in the entry's layout."""
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
    """The places that an option names, those by split in the order of the splits' names.

    Without those inside ``path``, whose content counts with it.
    """
    if key not in source:
        return []
    value = source[key]
    places = [value[split] for split in sorted(value)] if isinstance(value, dict) else [value]
    return [place for place in places if _inside(place) is None]


def _inside(place: str) -> str | None:
    """A place that is a name inside ``path``; None for any other."""
    return place if place.startswith(INSIDE) else None
