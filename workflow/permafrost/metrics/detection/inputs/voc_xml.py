"""Folders of Pascal VOC's XML files and their relatives, as the content of COCO JSON.

A file per image, as in the ``Annotations`` of VOC and DIOR (boxes), or of DIOR-R, FAIR1M, HRSC2016 and roLabelImg
(oriented boxes). Sides are xmax - xmin in the numbers of the file, which detections must have, too. A *difficult*
object is ignored. Images are identified by their file's name without its ending, entries by file and object.
"""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.inputs import read_bytes
from permafrost.metrics.detection.inputs.crown_tables import TableEntries

# Jobs that score boxes import this module but read no XML. The names are not constants, because `plan.sources` would
# count a module that a constant names among the code of these jobs.
_LIBRARY = __name__.partition(".")[0]
_FILES, _CORNERS = f"{_LIBRARY}.data.sources.voc_files", f"{_LIBRARY}.data.sources.corners"
_OPENING = f"{_LIBRARY}.data.files.opening"


def xml_files(folder: Path) -> list[Path]:
    """The XML files of a folder."""
    return sorted(path for path in folder.iterdir() if path.suffix.lower() == ".xml")


def truth_entries(given, *, drop: bool = False) -> TableEntries:
    """Read a folder of XML files.

    Raises
    ------
    PermafrostError : a file that is not VOC's or a relative's (with `drop`: left out with its image, and counted).
    """
    unreadable = import_module(_OPENING).UnreadableImage
    parse_voc = import_module(_FILES).parse_voc
    dropped: Counter[str] = Counter()
    annotations, images, names = [], [], set()
    for file in xml_files(Path(given)):
        try:
            objects = parse_voc(read_bytes(file)).objects
        except unreadable as failure:
            if not drop:
                raise PermafrostError(
                    str(failure), where=file, remedy="correct the file, or leave it out"
                ) from failure
            dropped["a file that is not VOC's XML"] += 1
            continue
        images.append({"id": file.stem})
        for number, one in enumerate(objects, 1):
            names.add(one.name)
            entry = {"id": f"{file.name}:{number}", "image_id": file.stem, "category_id": one.name}
            annotations.append({**entry, **_shape(one), "ignore": int(one.difficult)})
    data = {
        "images": images,
        "categories": [{"id": name, "name": name} for name in sorted(names)],
        "annotations": annotations,
    }
    return TableEntries(data, str(given), dict(dropped))


def _shape(one) -> dict:
    shape, box = {}, one.corners
    if one.outline is None:
        shape["area"] = (box[2] - box[0]) * (box[3] - box[1])
    else:
        outline = import_module(_CORNERS).outline_of(one.outline)
        box = box or outline["box"]
        if len(outline["polygon"][0]) == 8:
            shape["poly"] = outline["polygon"][0]
    left, top, right, bottom = box
    return {**shape, "bbox": [left, top, right - left, bottom - top]}
