"""Recognise annotations of objects in files of their own: one file per image, CVAT's XML, files of shapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import shapely

from permafrost.data.files.decode import UnreadableImage
from permafrost.data.files.markup import parse_xml
from permafrost.data.files.members import Members
from permafrost.data.files.vectors import Vectors, read_vectors
from permafrost.data.proposal.draft import (
    Draft,
    given_splits,
    is_image,
    is_split,
    split_of,
    stem_of,
)
from permafrost.data.proposal.layouts import neutral_folders, split_folders
from permafrost.data.proposal.listed import LABELS, set_root
from permafrost.data.proposal.looks import look_at
from permafrost.data.sources.dota import parse_dota

_VECTORS = (".geojson", ".gpkg", ".shp", ".fgb")
_HEAD, _SOME = 4096, 50
# words in the folders of annotations that hold the boxes around oriented ones, too
_UPRIGHT = ("horizontal", "hbb", "reclabel")
# most values of an attribute that is taken for the class
_CLASSES = 100


def voc(members: Members, where: object) -> Draft | None:
    """An XML file of objects per image: Pascal VOC, or oriented boxes of one of its relatives."""
    heads = (b"<annotation", b"<HRSC_Image")
    images, files = _matched(members, ".xml", lambda data: any(h in data[:_HEAD] for h in heads))
    if not files:
        return None
    draft = _draft("voc", members, images, files, "annotations")
    source = draft.source
    lists = [n for n in members.names if n.endswith(".txt") and is_split(stem_of(n))]
    folder = {name.rpartition("/")[0] for name in lists}
    if len(folder) == 1:
        source["image_sets"] = f"{folder.pop()}/<split>.txt".lstrip("/")
        draft.splits = given_splits((stem_of(name) for name in lists), draft)
    used = {*images, *files, *lists}
    if any(name not in used for name in members.names):
        source["other_files"] = "ignore"
    text = members.read(files[0])
    if b"<HRSC_Image" in text[:_HEAD]:
        source["label_values"] = {"*": "ship"}
        draft.note(
            "source", "label_values: one class for all; name the numbers in Class_ID for several"
        )
    elif b"<bndbox" in text:
        draft.note("source", "corners: boxes of VOC count pixels from 1; say so if yours do not")
    return draft


def dota(members: Members, where: object) -> Draft | None:
    """DOTA: a text file of oriented boxes per image."""
    images, files = _matched(members, ".txt", _is_dota)
    if not files:
        return None
    draft = _draft("dota", members, images, files, "labels")
    if any(name not in {*images, *files} for name in members.names):
        draft.source["other_files"] = "ignore"
    return draft


def _is_dota(data: bytes) -> bool:
    try:
        found = parse_dota(data)
    except UnreadableImage:
        return False
    # YOLO's oriented boxes have as many values, which are shares
    return any(one.corners.max() > 2 for one in found)


def yolo(members: Members, where: object) -> Draft | None:
    """YOLO: a text file of objects per image."""
    images, files = _matched(members, ".txt", None)
    if not files:
        return None
    lines = [line for name in files[:_SOME] for line in members.read(name).decode().splitlines()]
    numbers = [line.split() for line in lines if line.strip()]
    if any(len(one) < 5 or not one[0].isdigit() for one in numbers):
        return None
    draft = _draft("yolo", members, images, files, "labels")
    source = draft.source
    named = [name for name in members.names if name.endswith((".yaml", ".yml"))]
    if named:
        source["names"] = named[0]
    else:
        count = max((int(one[0]) for one in numbers), default=0) + 1
        draft.fields["classes"] = [f"class {number}" for number in range(count)]
        draft.note("classes", "name the classes in the order of their numbers; there may be more")
    if any(members.size(name) == 0 for name in files):
        source["missing"] = "empty"
    if any(name.lower().endswith(".txt") and name not in files for name in members.names):
        source["other_files"] = "ignore"
    if any(len(one) == 9 for one in numbers):
        source["clip_boxes"] = True
        draft.note("source", "clip_boxes: oriented boxes may reach beyond their image")
    return draft


def _draft(kind: str, members: Members, images: list[str], files: list[str], key: str) -> Draft:
    """A draft of images with a file each."""
    source: dict = {"kind": kind, **_places(images, files, key)}
    draft = Draft("detection", source, images)
    known = {stem_of(name) for name in files}
    if "<split>" in source["images"]:
        images = _divide(draft, images, files, key)
    if {stem_of(name) for name in images} - known:
        source["missing"] = "empty"
        draft.note("source", f"images without a file of {key} count as empty")
    return draft


def _divide(draft: Draft, images: list[str], files: list[str], key: str) -> list[str]:
    """Set the splits that folders name; returns the images of those with annotations."""
    named, kept = split_folders(images), split_folders(files)
    bare = sorted(named - kept) if "<split>" in draft.source[key] else []
    if not bare:
        draft.splits = given_splits(named, draft)
        return images
    # as in challenges, whose test labels are secret
    draft.source["missing"] = "empty"
    draft.note("splits", f"{' and '.join(bare)} has no {key}, and is left out")
    ours = {split_of(name): name for name in sorted(kept)}
    if {"train", "val"} <= set(ours) and "test" not in ours:
        maps = {"train": [ours["train"]], "test": [ours["val"]]}
        draft.splits = {"method": "given", "map": maps, "val_from_train": 0.2}
        draft.note("splits", f"{ours['val']} is the test split, and a fifth of train validates")
    else:
        draft.splits = given_splits(kept, draft)
    if draft.splits["method"] == "given":
        draft.splits["leave_out"] = [*draft.splits.get("leave_out", []), *bare]
    return [name for name in images if not {*bare} & {*name.split("/")[:-1]}]


def _matched(
    members: Members, ending: str, belongs: Callable[[bytes], bool] | None
) -> tuple[list[str], list[str]]:
    """The images, and the files with the name of an image from the folder that holds most of them."""
    images = [name for name in members.names if is_image(name)]
    stems = {stem_of(name) for name in images}
    files = [n for n in members.names if n.lower().endswith(ending) and stem_of(n) in stems]
    homes = Counter(neutral_folders(name)[-1:] for name in files)
    for home in sorted(homes, key=lambda one: (_is_upright(one), -homes[one])):
        own = [name for name in files if neutral_folders(name)[-1:] == home]
        # files without objects say nothing
        if belongs is None or any(belongs(members.read(name)) for name in own[:_SOME]):
            return images, own
    return images, []


def _is_upright(folders: Sequence[str]) -> bool:
    return any(word in folder.lower() for folder in folders for word in _UPRIGHT)


def _places(images: list[str], files: list[str], key: str) -> dict[str, str]:
    """Folders of images and of their files; ``<part>`` where both are in several folders of one name."""
    one, two = (
        _common([neutral_folders(n) for n in images]),
        _common([neutral_folders(n) for n in files]),
    )
    parts = [{value for value in place if isinstance(value, tuple)} for place in (one, two)]
    named = "<part>" if parts[0] and parts[0] == parts[1] else None
    return {"images": _written(one, named), key: _written(two, named)}


def _common(
    folders: Iterable[tuple[str, ...]], prefer: Sequence[str | tuple[str, ...]] = ()
) -> tuple[str | tuple[str, ...], ...]:
    """Folders of files; a level that differs has all of its names.

    If several levels differ, or one is the split of some files, it is the first folder; one with a name of
    `prefer` goes before others.
    """
    several = sorted(set(folders), key=lambda one: (not {*one} & {*prefer}, one))
    levels = [sorted(set(names)) for names in zip(*several, strict=False)]
    differing = [names for names in levels if len(names) > 1]
    if (
        len({len(one) for one in several}) > 1
        or len(differing) > 1
        or any("<split>" in n for n in differing)
    ):
        return several[0]
    return tuple(names[0] if len(names) == 1 else tuple(names) for names in levels)


def _written(place: Sequence[str | tuple[str, ...]], named: str | None) -> str:
    return (
        "/".join(
            level if isinstance(level, str) else named or f"{{{','.join(level)}}}"
            for level in place
        )
        or "."
    )


def cvat(members: Members, where: object) -> Draft | None:
    """CVAT's XML: one file for all images, or one per split."""
    found = {}
    for name in [n for n in members.names if n.lower().endswith(".xml")]:
        data = members.read(name)
        if b"<annotations" in data[:_HEAD]:
            try:
                found[name] = parse_xml(data)
            except UnreadableImage:
                continue
    listed = [image for root in found.values() for image in root.findall("image")]
    if not listed:
        return None
    images = [name for name in members.names if is_image(name)]
    shapes = {shape.tag for image in listed for shape in image} - {"tag"}
    points = shapes == {"points"}
    source: dict = {"kind": "cvat"}
    draft = Draft("point_detection" if points else "detection", source, images)
    splits = {name: split_of(stem_of(name)) for name in found}
    if len(found) > 1 and None not in splits.values() and len({*splits.values()}) == len(found):
        source["annotations"] = {split: f"<path>/{name}" for name, split in splits.items()}
        draft.splits = given_splits(splits.values(), draft)
    else:
        place, *others = found
        source["annotations"] = f"<path>/{place}"
        if others:
            draft.note("source", f"further files of annotations are left out: {', '.join(others)}")
        subsets = {image.get("subset") for image in found[place].findall("image")}
        if None not in subsets and any(map(is_split, subsets)):
            draft.splits = given_splits(subsets, draft)
    if not points and shapes - {"box", "polygon", "mask"}:
        source["other_shapes"] = "ignore"
        draft.note(
            "source", f"only boxes, polygons and masks are used, of {', '.join(sorted(shapes))}"
        )
    set_root(source, images, [image.get("name") or "" for image in listed], draft)
    return draft


def own_vectors(members: Members, where: object) -> Draft | None:
    """A file of shapes per image."""
    found = [
        _matched(members, ending, None) for ending in _VECTORS if _matched(members, ending, None)[1]
    ]
    if not found:
        return None
    images, files = max(found, key=lambda one: len(one[1]))
    vectors = _first_shapes(members, files)
    return None if vectors is None else _vectors(members, images, files, vectors, where)


def shared_vectors(members: Members, where: object) -> Draft | None:
    """One file of shapes for all images."""
    images = [name for name in members.names if is_image(name)]
    files = [name for name in members.names if name.lower().endswith(_VECTORS)]
    if len(files) != 1 or not images:
        return None
    vectors = _first_shapes(members, files)
    return None if vectors is None else _vectors(members, images, files, vectors, where)


def _first_shapes(members: Members, files: Sequence[str]) -> Vectors | None:
    """The first file that holds shapes."""
    for name in files[:_SOME]:
        try:
            vectors = read_vectors(members, name)
        except ValueError:
            continue
        if (~shapely.is_missing(vectors.shapes)).any():
            return vectors
    return None


def _vectors(
    members: Members, images: list[str], files: list[str], vectors: Vectors, where: object
) -> Draft:
    points = bool(np.isin(shapely.get_type_id(vectors.shapes), (0, 4)).any())
    source: dict
    if len(files) == 1 and len(images) > 1:
        source = {
            "kind": "vectors",
            "images": _places(images, files, "shapes")["images"],
            "shapes": files[0],
        }
        draft = Draft("detection", source, images)
    else:
        draft = _draft("vectors", members, images, files, "shapes")
        source = draft.source
    if points:
        draft.task = "point_detection"
    else:
        source["clip_boxes"] = True
        draft.note("source", "clip_boxes: shapes at the edge of an image are cut there")
    _set_classes(draft, vectors)
    if any(look.crs is None for look in look_at(members, images, where=where)):
        source["coordinates"] = "pixels"
        draft.note("source", "coordinates: the images are not georeferenced, so pixels are assumed")
    if any(not is_image(name) and name not in files for name in members.names):
        source["other_files"] = "ignore"
    return draft


def _set_classes(draft: Draft, vectors: Vectors) -> None:
    """The attribute that is called a class, or has the fewest values; else one class."""
    values = {
        name: {str(value) for value in column if value is not None and value == value}
        for name, column in vectors.fields.items()
    }
    known = [name for name in values if name.lower() in LABELS and values[name]]
    several = [name for name in values if 2 <= len(values[name]) <= _CLASSES]
    chosen = next(iter([*known, *sorted(several, key=lambda name: len(values[name]))]), None)
    if chosen is None:
        draft.fields["classes"] = ["object"]
        draft.note("classes", "name the one class of all shapes")
        return
    draft.source["attribute"] = chosen
    others = [name for name in values if name != chosen]
    if others:
        draft.note("source", f"attribute: the class; others are {', '.join(others)}")
