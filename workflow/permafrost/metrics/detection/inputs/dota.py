"""DOTA's text files, as the content of COCO JSON.

Truth is a folder of labels (``labelTxt``) with a file per image: the lines ``imagesource:``, ``gsd:`` and
``acquisition dates:``, which are passed over, and ``x1 y1 x2 y2 x3 y3 x4 y4 class difficult`` per object. A *difficult*
object is ignored: finding it is neither right nor wrong. An image without objects is an empty file.

Detections are a folder with a file per class, ``Task1_CLASS.txt`` with ``image score x1 y1 … x4 y4``, or
``Task2_CLASS.txt`` with ``image score x_min y_min x_max y_max`` for upright boxes, of tiles or merged to whole images
as the truth is.

Truth may also be lines of NWPU VHR-10, ``(x_min,y_min),(x_max,y_max),class``, or a folder of XML files, see `voc_xml`;
detections VOC's ``comp4_det_SET_CLASS.txt``, whose lines are those of Task2.

Images are identified by their file's name without its ending, classes by their name, entries by file and line.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.inputs import read_text
from permafrost.metrics.detection.inputs import voc_xml
from permafrost.metrics.detection.inputs.crown_tables import TableEntries
from permafrost.metrics.detection.inputs.parsing import is_path

# DOTA's classes in versions 1.0, 1.5 and 2.0: a part of a version may lack one, whose detections are known all the same
_FIRST = (
    *(
        "plane",
        "baseball-diamond",
        "bridge",
        "ground-track-field",
        "small-vehicle",
        "large-vehicle",
    ),
    *("ship", "tennis-court", "basketball-court", "storage-tank", "soccer-ball-field"),
    *("roundabout", "harbor", "swimming-pool", "helicopter"),
)
CLASSES = (_FIRST, (*_FIRST, "container-crane"), (*_FIRST, "container-crane", "airport", "helipad"))
_HEADS = ("imagesource:", "gsd:", "acquisition dates:")
_TASK = re.compile(r"Task[12]_|comp\d+_det_[^_]+_")
_NWPU = re.compile(r"\(([^,()]+),([^,()]+)\),\(([^,()]+),([^,()]+)\),(\w+)")
_MERGE = (
    "write one file per class, Task1_CLASS.txt with lines of: image score x1 y1 x2 y2 x3 y3 x4 y4"
)


def is_dota(given) -> bool:
    """Whether it is the path of a folder."""
    return is_path(given) and Path(given).is_dir()


def truth_entries(given, *, drop: bool = False) -> TableEntries:
    """Read a folder of labels.

    Raises
    ------
    PermafrostError : no text file, a line that is not an object (with `drop`: left out and counted).
    """
    if voc_xml.xml_files(Path(given)):
        return voc_xml.truth_entries(given, drop=drop)
    dropped: Counter[str] = Counter()
    annotations, images = [], []
    for file in _files(Path(given)):
        images.append({"id": file.stem})
        for where, line in _lines(file):
            words = _four_corners(line)
            box = _numbers(words[:8])
            if len(words) not in (9, 10) or box is None or not _is_flag(words[9:]):
                _refuse(where, "x1 y1 x2 y2 x3 y3 x4 y4 class difficult", drop, dropped)
                continue
            hard = int(words[9:] not in ([], ["0"]))
            annotations.append(
                {
                    "id": where.name,
                    "image_id": file.stem,
                    "category_id": words[8],
                    "poly": box,
                    "bbox": _upright(box),
                    "ignore": hard,
                }
            )
    names = {str(entry["category_id"]) for entry in annotations}
    names.update(next((known for known in CLASSES if names <= {*known}), ()))
    data = {
        "images": images,
        "categories": [{"id": name, "name": name} for name in sorted(names)],
        "annotations": annotations,
    }
    return TableEntries(data, str(given), dict(dropped))


def prediction_entries(given, *, drop: bool = False) -> TableEntries:
    """Read a folder of detections; raises `PermafrostError` as `truth_entries`."""
    dropped: Counter[str] = Counter()
    found = []
    for file in _files(Path(given)):
        category = file.stem
        if task := _TASK.match(category):
            category = category[task.end() :]
        for where, words in _lines(file):
            numbers = _numbers(words[1:])
            if numbers is None or len(numbers) not in (5, 9):
                _refuse(where, "image score x1 y1 x2 y2 x3 y3 x4 y4", drop, dropped)
                continue
            score, *box = numbers
            entry = {
                "id": where.name,
                "image_id": words[0],
                "category_id": category,
                "score": score,
                "bbox": _upright(box),
            }
            found.append({**entry, "poly": box} if len(box) == 8 else entry)
    return TableEntries(found, str(given), dict(dropped))


def _files(folder: Path) -> list[Path]:
    files = sorted(path for path in folder.iterdir() if path.suffix.lower() == ".txt")
    if not files:
        raise PermafrostError(
            "the folder has no text file",
            where=folder,
            remedy=f"truth: a labelTxt folder of DOTA, or VOC's XML, a file per image; predictions: {_MERGE}",
        )
    return files


def _lines(file: Path) -> Iterator[tuple[Path, list[str]]]:
    """Name and words of every line that is neither empty nor a head."""
    for number, line in enumerate(read_text(file).split("\n"), 1):
        words = line.split()
        if words and not line.lower().startswith(_HEADS):
            yield file.parent / f"{file.name}:{number}", words


def _four_corners(words: list[str]) -> list[str]:
    """Words of an object in DOTA's form, from those of NWPU VHR-10's."""
    if (match := _NWPU.fullmatch("".join(words))) is None:
        return words
    left, top, right, bottom, name = match.groups()
    return [left, top, right, top, right, bottom, left, bottom, name]


def _numbers(words: list[str]) -> list[float] | None:
    try:
        return [float(word) for word in words]
    except ValueError:
        return None


def _is_flag(words: list[str]) -> bool:
    return all(word.isdecimal() for word in words)


def _refuse(where: Path, wanted: str, drop: bool, dropped: Counter) -> None:
    if not drop:
        raise PermafrostError(f"the line is not: {wanted}", where=where, remedy="correct the line")
    dropped["a line of another form"] += 1


def _upright(numbers: list[float]) -> list[float]:
    """x, y, width, height around corners, or of x_min, y_min, x_max, y_max."""
    xs, ys = numbers[0::2], numbers[1::2]
    return [min(xs), min(ys), max(xs) - min(xs), max(ys) - min(ys)]
