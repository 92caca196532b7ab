"""Draft a whole entry: labels from the layout of the files, then bands, units, locations and splits from the images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.data.bands.selection import RGB, normal_name
from permafrost.data.bands.sensors import SENSORS
from permafrost.data.files.members import Members, open_members
from permafrost.data.proposal.beside import ARCHIVES, Beside
from permafrost.data.proposal.dates import keep_dates_together, pairs_of_dates
from permafrost.data.proposal.draft import Draft, is_image
from permafrost.data.proposal.layouts import class_folders, pairs, scenes
from permafrost.data.proposal.listed import coco, tables
from permafrost.data.proposal.looks import Look, look_at, places_of
from permafrost.data.proposal.objects import cvat, dota, own_vectors, shared_vectors, voc, yolo
from permafrost.data.proposal.places import blocks_of, keep_places_together

# the first match counts: annotation files are more specific than folder names
_LAYOUTS = (
    *(coco, cvat, voc, dota, yolo, own_vectors, tables, pairs_of_dates),
    *(scenes, shared_vectors, pairs, class_folders),
)
_OTHERS = {
    ".tortilla": "docs/datasets.md shows entries of kind tortilla",
    ".hdf5": "docs/datasets.md shows entries of kind geobench",
}
# kinds of sources that read files by their endings, among which bmp must be named
_WITH_ENDINGS = ("dota", "folder", "points", "voc", "yolo")
_CONVERTED = {"P": "palette", "PA": "palette", "RGBA": "alpha", "LA": "alpha", "CMYK": "cmyk"}


def draft_of(path: Path, *, where: object) -> Draft:
    """A draft of the entry for a directory or archive.

    Raises
    ------
    PermafrostError : the path does not exist, or its files have no recognisable labels.
    """
    members = open_members(path, where=where)
    if not any(map(is_image, members.names)):
        archives = [name for name in members.names if name.lower().endswith(ARCHIVES)]
        if len(archives) == 1 and path.is_dir():
            return _of_archive(path, members, path / archives[0])
        if archives:
            raise PermafrostError(
                f"holds no images, but the archives {', '.join(archives[:5])}",
                where=path,
                remedy="unpack them into this folder, or give the path of one of them",
            )
    draft = _labelled(members, path)
    if draft.source["kind"] in _WITH_ENDINGS and draft.images[0].lower().endswith(".bmp"):
        draft.source["extensions"] = ["bmp"]
    _describe(draft, members, path)
    return draft


def _of_archive(folder: Path, beside: Members, archive: Path) -> Draft:
    """A draft for a folder with one archive of images, and possibly annotations next to it."""
    members = Beside(open_members(archive, where=archive), beside)
    draft = next(
        (found for layout in (coco, cvat, tables) if (found := layout(members, folder))), None
    )
    if draft is None:
        return draft_of(archive, where=archive)
    for key in ("annotations", "table"):
        place = draft.source.get(key)
        if isinstance(place, dict):
            draft.source[key] = {split: members.place_of(one) for split, one in place.items()}
        elif place is not None:
            draft.source[key] = members.place_of(place)
    _describe(draft, members, archive)
    return draft


def _labelled(members: Members, path: Path) -> Draft:
    """A draft with labels, by the first layout that matches."""
    for ending, page in _OTHERS.items():
        if any(name.endswith(ending) for name in members.names):
            raise PermafrostError(f"holds {ending} files", where=path, remedy=page)
    draft = next((found for layout in _LAYOUTS if (found := layout(members, path))), None)
    if draft is None:
        count = sum(map(is_image, members.names))
        raise PermafrostError(
            f"holds {count} images among {len(members.names)} files, but no labels",
            where=path,
            remedy="use a folder for each class, images/ and masks/ with equal names, or a CSV of file and label",
        )
    if draft.source["kind"] not in ("table", "grid") and "dates" not in draft.fields:
        keep_dates_together(draft, path)
    return draft


def _describe(draft: Draft, members: Members, path: Path) -> None:
    """Complete the draft from a sample of the images at `path`."""
    if draft.source["kind"] == "table":
        draft.source["images"] = str(path)
    else:
        draft.source["path"] = str(path)
    looks = look_at(members, draft.images, where=path)
    _describe_bands(draft, looks)
    _describe_place(draft, looks, members, path)
    sizes = sorted({(look.height, look.width) for look in looks})
    if len(sizes) > 1 and draft.source["kind"] != "grid":
        (low, _), (high, _) = sizes[0], sizes[-1]
        draft.note("", f"images differ in size, by height from {low} to {high} pixels")


def _describe_bands(draft: Draft, looks: Sequence[Look]) -> None:
    modes = {look.mode for look in looks if look.mode}
    converted = sorted({_CONVERTED[mode] for mode in modes if mode in _CONVERTED})
    counts = {look.bands for look in looks}
    if counts == {1, 3}:
        converted, counts = [*converted, "gray"], {3}
    # for grids, transparent pixels mean no data
    if converted and draft.source["kind"] != "grid":
        draft.fields["convert"] = converted
        draft.note("convert", "remove what must not happen; then such an image is an error")
    count = max(counts)
    if len(counts) > 1:
        draft.note("bands", f"images differ in their number of bands: {sorted(counts)}")
    dtypes = sorted({look.dtype for look in looks})
    sensor, bands = _named(looks[0], count, dtypes)
    if sensor:
        draft.fields["sensor"] = sensor
        if sensor != "rgb":
            draft.note("sensor", "guessed from the names of the bands, or their number: check it")
    else:
        draft.note(
            "bands",
            f"{count} bands of unknown sensor: name the sensor (see the schema), or give each band"
            " common_name and wavelength_nm",
        )
    draft.fields["bands"] = bands
    _describe_units(draft, dtypes)
    marked = {look.nodata for look in looks} - {None}
    if marked:
        value = min(marked, key=str)
        draft.fields["nodata"] = {"value": "nan" if value != value else value, "fill": 0}
        draft.note("nodata", "the files mark this value; fill is what the store holds instead")


def _named(look: Look, count: int, dtypes: list[str]) -> tuple[str | None, list]:
    """Sensor and band names, by the names in the file, else by the number of bands."""
    by_name = _by_names([name for name in look.names if name], count, dtypes)
    if by_name is not None:
        return by_name
    if count == 3 and dtypes == ["uint8"]:
        return "rgb", list(RGB)
    if count == 4 and dtypes == ["uint8"]:
        return "aerial", ["red", "green", "blue", "nir"]
    for sensor in ("sentinel2-l1c", "sentinel2-l2a"):
        if count == len(SENSORS[sensor]) and dtypes == ["uint16"]:
            return sensor, list(SENSORS[sensor])
    return None, [{"name": f"band{number}"} for number in range(1, count + 1)]


def _by_names(names: list[str], count: int, dtypes: list[str]) -> tuple[str, list[str]] | None:
    """The sensor that knows all band names of the file, preferably as true names rather than common ones."""
    if len(names) != count or len({*names}) < count:
        return None
    pictures = ("rgb", "aerial") if dtypes == ["uint8"] else ()
    sensors = [*pictures, *(name for name in SENSORS if name not in pictures)]
    for common in (False, True):
        for sensor in sensors:
            bands = SENSORS[sensor]
            known = {normal_name(name): name for name in bands}
            if common:
                known |= {one.common_name: name for name, one in bands.items() if one.common_name}
            found = [known.get(name.lower()) or known.get(normal_name(name)) for name in names]
            if None not in found and len({*found}) == count:
                return sensor, found
    return None


def _describe_units(draft: Draft, dtypes: list[str]) -> None:
    if dtypes == ["uint8"]:
        draft.fields["units"] = {"unit": "uint8"}
    elif all(dtype.startswith("float") for dtype in dtypes):
        draft.fields["units"] = {"unit": "reflectance"}
        draft.note("units", "floats: reflectance from 0 to 1? else db, linear_power, kelvin, metre")
    else:
        draft.fields["units"] = {"unit": "digital_number", "scale": 0.0001}
        draft.note("units", f"{', '.join(dtypes)}: check scale and offset (value * scale + offset)")


def _describe_place(draft: Draft, looks: Sequence[Look], members: Members, path: Path) -> None:
    pixels = {round(look.pixel_m, 6) for look in looks if look.pixel_m}
    if len(pixels) == 1:
        draft.fields["gsd_m"] = pixels.pop()
    systems = sorted({look.crs for look in looks if look.lon is not None})
    if systems:
        shown = ", ".join(system[:40] for system in systems[:3])
        draft.note("", f"the images are georeferenced ({shown})")
    if draft.splits is not None:
        return
    placed = places_of(members, draft.images, where=path) if systems else []
    places = draft.places or [(look.lon, look.lat) for look in placed]
    if places and len(set(places)) > 1:
        reach = max((look.reach_km for look in placed), default=None)
        draft.splits, words = blocks_of(np.array(places), reach)
        draft.note("splits", words)
        return
    keep_places_together(draft)
    if draft.splits is None:
        draft.splits = {"method": "random"}
        draft.note(
            "splits",
            "names and files show no place. If several images are of one place, keep them in one split by group:"
            " see docs/datasets.md",
        )
