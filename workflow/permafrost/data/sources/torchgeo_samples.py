"""torchgeo's dataset classes by name; file, name and location of their samples."""

from __future__ import annotations

import functools
import inspect
import json
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from permafrost.core.errors import look_up
from permafrost.data.files.decode import UnreadableImage, readable, tiff_place
from permafrost.data.files.georeference import NOWHERE, Georeference
from permafrost.data.files.opening import open_picture

#: classes that list only file names, and the folders of these files below the root
_FOLDERS: dict[str, Callable[[Any], list[str]]] = {
    "USAVars": lambda part: ["uar"],
    "TreeSatAI": lambda part: [f"{sensor}/60m" for sensor in part.sensors],
}

_DATE = re.compile(r"(\d{4})[-_]?(\d{2})(?:[-_]?(\d{2}))?(T[\d:]+)?")
#: keys of the first image among the files of a sample
_IMAGES = ("image", "image1", "image_pre")
#: classes that list their samples in file system order
_UNORDERED = frozenset({"CaFFe", "FLAIRHUB", "FLAIRHUBToy", "OSCD", "OSCD100"})
#: classes whose sample names are not file names
_NAMES: dict[str, Callable[[Any, int], str]] = {
    "BigEarthNetV2": lambda part, i: part.metadata_df.iloc[i]["patch_id"],
    "BioMassters": lambda part, i: _biomassters_name(part, i),
    "CaFFe": lambda part, i: os.path.basename(part.fpaths[i]),
    "CaBuAr": lambda part, i: part.uuids[i],
    "ChaBuD": lambda part, i: part.uuids[i],
    "DigitalTyphoon": lambda part, i: "{id}/{seq_id[0]:04d}".format(**part.sample_sequences[i]),
    "OSCD": lambda part, i: part.files[i]["region"],
    "OSCD100": lambda part, i: part.files[i]["region"],
    "PASTIS": lambda part, i: part.idxs[i],
    "PASTIS100": lambda part, i: part.idxs[i],
}


def sample_path(part, number: int) -> str | None:
    """The image file of a sample; None if the class does not list files, or lists them in an unknown way."""
    listed = _listed(part, number)
    root = getattr(part, "root", ".")
    folders = _FOLDERS.get(type(part).__name__, lambda part: [])(part)
    places = (
        [listed, *(os.path.join(root, folder, listed) for folder in ["", *folders])]
        if listed
        else []
    )
    return next(filter(os.path.isfile, places), None)


def _listed(part, number: int) -> str | None:
    """The image file of a sample, for all ways in which torchgeo's classes list files."""
    if hasattr(part, "imgs"):
        return str(part.imgs[number][0])
    table = getattr(part, "sample_df", None)
    if table is not None and "image_path" in table and len(table) == len(part):
        return os.path.join(part.root, table["image_path"].iloc[number])
    if type(part).__name__ == "SeasoNet":
        # one file per group of bands, listed by the common part of their names
        return f"{part.files.iloc[number][0]}_{next(iter(part.bands))}.tif"
    for name in ("image_fns", "image_paths", "files", "file_list", "sample_paths", "source"):
        listed = getattr(part, name, None)
        if not isinstance(listed, list) or len(listed) != len(part):
            continue
        file = listed[number]
        file = _image_of(file, part) if isinstance(file, dict) else file
        if isinstance(file, str | os.PathLike):
            return str(file)
    return None


def _image_of(files: dict, part) -> str | os.PathLike | None:
    """The image file of a sample; for a pair, the one before."""
    if "images1" in files:
        # one file per band
        return files["images1"][0]
    own = (getattr(part, "image_key", None), *_sequence(getattr(part, "bands", None)))
    return next((files[key] for key in (*_IMAGES, *own) if key in files), None)


def sample_name(part, split: str, number: int) -> str:
    """A name that is unique in the dataset and independent of its location.

    For image folders, class and file; for other files, the path below the root; otherwise the split
    and the dataset's own id, or the split and a number.
    """
    named = _NAMES.get(type(part).__name__)
    if named is not None:
        return f"{split}/{named(part, number)}"
    listed, root = _listed(part, number), Path(getattr(part, "root", "."))
    if hasattr(part, "imgs"):
        return "/".join(listed.split(os.sep)[-2:])
    if listed is not None:
        path = Path(listed)
        # the path of a file includes the root, a bare name does not
        outside = not path.is_absolute() and not path.is_relative_to(root)
        return (path if outside else Path(os.path.relpath(path, root))).as_posix()
    ids = getattr(part, "ids", None)
    if isinstance(ids, list) and len(ids) == len(part):
        return f"{split}/{str(ids[number]).strip()}"
    return f"{split}/{number:07d}"


def sample_order(part, split: str) -> list[int]:
    """Positions of a class's samples in an order that does not depend on the machine."""
    numbers = list(range(len(part)))
    if type(part).__name__ in _UNORDERED:
        numbers.sort(key=lambda number: sample_name(part, split, number))
    return numbers


def _biomassters_name(part, number: int) -> str:
    """The chip, with its month if each month is a sample."""
    row = part.df[part.df["num_index"] == number].iloc[0]
    return row["chip_id"] if part.as_time_series else f"{row['chip_id']}/{row['month']}"


def listed_dates(part, number: int, count: int) -> tuple[str | None, ...] | None:
    """The dates of a sample's `count` images (ISO 8601) if its class stores them separately; else None."""
    files = getattr(part, "files", None)
    if isinstance(files, list) and isinstance(files[number], dict) and "dates" in files[number]:
        listed = files[number]["dates"]
    elif type(part).__name__ == "DigitalTyphoon":
        listed = _typhoon_hours(part, number)
    elif type(part).__name__ in ("PASTIS", "PASTIS100"):
        listed = _pastis_dates(part, number)
    else:
        # for classes whose samples all have the same dates
        listed = getattr(part, "dates", None)
    if not isinstance(listed, tuple | list) or len(listed) != count:
        return None
    return tuple(map(_iso, listed))


def _typhoon_hours(part, number: int) -> list[str]:
    sequence, table = part.sample_sequences[number], part.aux_df
    rows = table[(table["id"] == sequence["id"]) & table["seq_id"].isin(sequence["seq_id"])]
    return [moment.strftime("%Y-%m-%dT%H:%M") for moment in rows["datetime"]]


def _pastis_dates(part, number: int) -> list | None:
    """Dates from the table of patches, JSON in JSON (position -> day), which the class itself reads
    only for its folds."""
    key = f"dates-{part.image_key.upper()}"
    table = _properties(os.path.join(part.root, part.directory, "metadata.geojson"))
    listed = table[part.idxs[number]].get(key)
    listed = json.loads(listed) if isinstance(listed, str) else listed
    return None if listed is None else [listed[i] for i in sorted(listed, key=int)]


@functools.lru_cache(maxsize=4)
def _properties(path: str) -> dict[int, dict]:
    """Properties of each patch in the GeoJSON of PASTIS."""
    features = json.loads(Path(path).read_bytes())["features"]
    return {int(one["properties"]["ID_PATCH"]): one["properties"] for one in features}


def _iso(date: object) -> str | None:
    """ISO 8601 of a day or month written as 20200131, 2020_01 or ISO 8601; None for other texts."""
    found = _DATE.fullmatch(str(date).strip())
    return None if found is None else "-".join(filter(None, found.groups()[:3])) + (found[4] or "")


def _sequence(value: object) -> Iterable:
    """The items of a tuple or list; no items for other types."""
    return value if isinstance(value, tuple | list) else ()


def sample_place(part, number: int) -> Georeference:
    """The georeference of a sample if its image file is a TIFF."""
    path = sample_path(part, number)
    if path is None or not path.lower().endswith((".tif", ".tiff")):
        return NOWHERE
    with readable():
        return tiff_place(Path(path).read_bytes())


def sample_size(part, number: int) -> tuple[int, int]:
    """Height and width from the header of a sample's image file, for classes that read it with Pillow.

    Raises
    ------
    UnreadableImage : the file does not exist or is damaged.
    """
    path = sample_path(part, number)
    if path is None:
        raise UnreadableImage(f"its image file does not exist ({_listed(part, number)})")
    with readable(), open_picture(path, "JPEG", "PNG", "TIFF", "BMP") as image:
        return image.height, image.width


def dataset_class(name: str, where: object, base: str = "NonGeoDataset"):
    """A dataset class of torchgeo by name: of single images, or of rasters (``GeoDataset``)."""
    import torchgeo.datasets as library

    parent = getattr(library, base)
    offered = {
        key: value
        for key, value in vars(library).items()
        if inspect.isclass(value) and issubclass(value, parent)
    }
    remedy = "datasets of single images are of kind torchgeo, rasters of kind grid"
    return look_up(offered, name, f"torchgeo has no {base} named", where=where, remedy=remedy)


def check_arguments(
    name: str, arguments: Iterable[str], known: list[str] | None, *, where: object
) -> None:
    """Refuse arguments that a torchgeo class does not take; `known` is None if it takes any."""
    for argument in arguments if known is not None else ():
        look_up(known, argument, f"torchgeo's {name} takes no argument", where=where)


def arguments_of(cls: type[Any]) -> list[str] | None:
    """Names of the arguments that an entry may set for a class; None if the class forwards all."""
    known = inspect.signature(cls.__init__).parameters
    if any(one.kind is one.VAR_KEYWORD for one in known.values()):
        return None
    return [name for name in known if name not in ("self", "transforms")]
