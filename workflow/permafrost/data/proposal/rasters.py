"""Few large rasters of places on the ground: to be cut into tiles."""

from __future__ import annotations

from permafrost.data.files.members import Members
from permafrost.data.proposal.draft import Draft, class_codes, is_image
from permafrost.data.proposal.layouts import pairs
from permafrost.data.proposal.looks import look_at, pixel_values

_SHAPES = (".gpkg", ".geojson", ".shp", ".fgb")
_LARGE, _FEW, _TILE = 1500, 50, 256


def scenes(members: Members, where: object) -> Draft | None:
    """Georeferenced rasters that are much larger than a tile, with rasters or polygons of labels."""
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
        _polygons(members, shapes[0], draft)
    else:
        return None
    draft.note("source", "size: side of a tile in pixels; blocks: tiles of one block share a split")
    return draft


def _polygons(members: Members, name: str, draft: Draft) -> None:
    """Classes by the attribute with the fewest values; pixels in no polygon have no label."""
    import pyogrio

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
