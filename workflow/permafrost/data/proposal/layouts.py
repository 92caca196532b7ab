"""Recognise layouts of files: class folders, images with masks or target rasters, large scenes."""

from __future__ import annotations

from collections.abc import Sequence

from permafrost.core.errors import PermafrostError
from permafrost.data.files.members import Members
from permafrost.data.files.vectors import check_beginning
from permafrost.data.proposal.draft import (
    IMAGE_ENDINGS,
    Draft,
    class_codes,
    given_splits,
    is_image,
    is_split,
    stem_of,
)
from permafrost.data.proposal.looks import look_at, pixel_values

_MASKS = ("masks", "mask", "labels", "label", "annotations", "gt", "ground_truth", "segmentation")
_TARGETS = ("targets", "target", "heights", "height", "dsm", "ndsm", "depth", "biomass")
_SUFFIXES = ("", "_mask", "-mask", "_label", "_labels", "_gt", "_target")


def pairs(members: Members, where: object) -> Draft | None:
    """Images and masks (or target rasters) with the same names."""
    endings = (*IMAGE_ENDINGS, "npy")
    files = [name for name in members.names if name.lower().endswith(endings)]
    for suffix in _SUFFIXES:
        found = _companions(files, suffix)
        if found:
            return _pairs(members, found, suffix, where)
    return None


def _companions(files: list[str], suffix: str) -> dict[str, str]:
    """Image -> the file of the same name in a folder of masks, or with a suffix in the same folder."""
    companions = {}
    for name in files:
        folders, stem = name.split("/")[:-1], stem_of(name)
        apart = any(folder.lower() in (*_MASKS, *_TARGETS) for folder in folders)
        if stem.endswith(suffix) and (apart or suffix):
            companions[name] = (_neutral(folders), stem.removesuffix(suffix))
    keys = {key: name for name, key in companions.items()}
    return {
        image: keys[_neutral(image.split("/")[:-1]), stem_of(image)]
        for image in files
        if image not in companions
        and is_image(image)
        and (_neutral(image.split("/")[:-1]), stem_of(image)) in keys
    }


def _neutral(folders: Sequence[str]) -> tuple[str, ...]:
    """Folders without those that only name a type of file."""
    kinds = (*_MASKS, *_TARGETS, "images", "image", "img", "imgs", "rgb", "data")
    return tuple(folder for folder in folders if folder.lower() not in kinds)


def _pairs(members: Members, found: dict[str, str], suffix: str, where: object) -> Draft:
    images, companions = sorted(found), sorted(found.values())
    splits = split_folders(images)
    values = pixel_values(members, companions, where=where)
    task, key = ("pixel_regression", "targets") if values is None else ("segmentation", "masks")
    source = {
        "kind": "folder",
        "images": _pattern(images),
        key: _pattern(companions),
    }
    if suffix:
        # otherwise only the ending would distinguish an image from its mask
        source["images"] = f"{source['images']}/<stem>.{images[0].rpartition('.')[2]}".lstrip("./")
        name = f"<stem>{suffix}.{companions[0].rpartition('.')[2]}"
        source[key] = f"{source[key]}/{name}".lstrip("./")
    draft = Draft(task, source, images)
    if splits:
        draft.splits = given_splits(splits, draft)
    if values is None:
        draft.fields["target"] = {"name": stem_of(f"{companions[0].split('/')[0]}.x")}
        draft.note("target", "say what the numbers are, and their unit")
    else:
        class_codes(values, draft)
    known = {*found, *companions}
    if any(name not in known for name in members.names):
        source["other_files"] = "ignore"
        draft.note("source", "files that belong to no pair are ignored")
    return draft


def _pattern(names: list[str]) -> str:
    """The folder of the files, with ``<split>`` if folders name splits."""
    return "/".join(neutral_folders(names[0])) or "."


def neutral_folders(name: str) -> tuple[str, ...]:
    """The folders of a file, with ``<split>`` for the name of a split."""
    return tuple("<split>" if is_split(part) else part for part in name.split("/")[:-1])


def split_folders(names: Sequence[str]) -> set[str]:
    """Names of splits among the folders of files."""
    return {part for name in names for part in name.split("/")[:-1] if is_split(part)}


def class_folders(members: Members, where: object) -> Draft | None:
    """Images in class folders, possibly inside split folders."""
    images = [name for name in members.names if is_image(name)]
    root: list[str] = []
    parts = [name.split("/") for name in images]
    while parts and all(len(one) > 2 for one in parts) and len({one[0] for one in parts}) == 1:
        root.append(parts[0][0])
        parts = [one[1:] for one in parts]
    if not parts or any(len(one) < 2 for one in parts):
        return None
    first = {one[0] for one in parts}
    by_split = all(map(is_split, first)) and all(len(one) > 2 for one in parts)
    classes = sorted({one[1] if by_split else one[0] for one in parts})
    if len(classes) < 2:
        return None
    source: dict = {"kind": "folder"}
    if root:
        source["root"] = "/".join(root)
    draft = Draft("classification", source, images, {"classes": classes})
    if by_split:
        source["split_folders"] = True
        draft.splits = given_splits(first, draft)
    if len(images) < len(members.names):
        source["other_files"] = "ignore"
        draft.note("source", "files that are no images are ignored")
    return draft


_SHAPES = (".gpkg", ".geojson", ".shp", ".fgb")
_LARGE, _FEW, _TILE = 1500, 50, 256


def scenes(members: Members, where: object) -> Draft | None:
    """Georeferenced rasters much larger than a tile, with rasters or polygons of labels."""
    rasters = [name for name in members.names if name.lower().endswith((".tif", ".tiff"))]
    if not rasters or len(rasters) > _FEW or len(rasters) < sum(map(is_image, members.names)):
        return None
    looks = look_at(members, rasters, where=where)
    if any(look.crs is None or max(look.height, look.width) < _LARGE for look in looks):
        return None
    shapes = [name for name in members.names if name.lower().endswith(_SHAPES)]
    source: dict = {"kind": "grid", "size": _TILE, "blocks": {"tiles": 4}}
    draft = Draft("segmentation", source, rasters, splits={"method": "group"})
    paired = pairs(members, where)
    if paired is not None:
        draft.images = paired.images
        masks = [name for name in rasters if name not in paired.images]
        draft.task = paired.task
        key = "masks" if "masks" in paired.source else "targets"
        source |= {"images": draft.images, key: masks}
        if paired.task == "segmentation":
            class_codes(pixel_values(members, masks, where=where), draft)
        else:
            draft.fields["target"] = paired.fields["target"]
    elif shapes:
        source |= {"images": rasters, "masks": shapes[0]}
        draft.note(
            "task", "polygons of single objects, such as crowns, are read by the kind vectors"
        )
        _polygons(members, shapes[0], draft)
    else:
        return None
    draft.note("source", "size: side of a tile in pixels; blocks: tiles of one block share a split")
    return draft


def _polygons(members: Members, name: str, draft: Draft) -> None:
    """Classes from the attribute with the fewest values; pixels outside all polygons have no label."""
    import pyogrio

    try:
        check_beginning(members, name)
    except ValueError as error:
        raise PermafrostError(
            f"the shapes {name} cannot be read ({error})",
            where=members.place,
            remedy="remove the file, or get it again",
        ) from error
    table = pyogrio.read_dataframe(members.location(name), read_geometry=False, use_arrow=False)
    texts = {column: sorted(map(str, table[column].dropna().unique())) for column in table.columns}
    several = {column: values for column, values in texts.items() if 2 <= len(values) <= 100}
    if not several:
        draft.fields["classes"] = ["background", "object"]
        draft.source["background"] = "background"
        draft.note("classes", "name the class of the polygons, and of what lies in none")
        return
    column = min(several, key=lambda one: len(several[one]))
    draft.source["attribute"] = column
    draft.fields |= {"classes": several[column], "ignore_index": 255}
    draft.note("classes", f"values of the attribute {column}; others are {', '.join(texts)}")
    draft.note(
        "ignore_index", "pixels in no polygon have no label; or name their class: background"
    )
