"""What must hold for any bytes: each target reads some and fails where a promise is broken.

A target raises AssertionError, or whatever escaped from the library; `PermafrostError` is the promised
answer to what is wrong. The same functions serve `tests/fuzz` and the recorded findings in
`reliability/test_detection_findings.py`.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
from permafrost.core.errors import PermafrostError
from permafrost.data.deepforest.columns import csv_columns
from permafrost.data.deepforest.reading import read_annotations
from permafrost.evaluators.detection import evaluate
from permafrost.metrics.detection.inputs import plain
from permafrost.metrics.detection.masks.codec import decode, encode
from permafrost.metrics.detection.masks.polygons import rasterise

from helpers.fuzzing.bounds import written
from helpers.predictions.detections import coco_case, compress

IOU_TYPES = ("bbox", "segm", "keypoints", "boundary")
_CASES: dict[str, tuple[dict, list]] = {}


class Choices:
    """Decisions read off bytes; zeros when they run out."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def below(self, count: int) -> int:
        """A number from 0 to count - 1."""
        width = 1 if count <= 256 else 4
        taken = self.data[self.at : self.at + width]
        self.at += width
        return int.from_bytes(taken, "little") % count

    def one_of(self, values):
        """One of them."""
        return values[self.below(len(values))]

    def number(self):
        """An integer or a float, of any size or strangeness."""
        kind = self.below(5)
        if kind == 0:
            return self.below(256) - 128
        if kind == 1:
            return self.below(1 << 32) / 997 - 2000
        if kind == 2:
            taken = self.data[self.at : self.at + 8].ljust(8, b"\0")
            self.at += 8
            return float(np.frombuffer(taken, np.float64)[0])
        if kind == 3:
            return (-1) ** self.below(2) * (1 << self.below(70)) + self.below(3) - 1
        return self.one_of([0.0, -0.0, 1e15, 1e16, 1e308, math.inf, -math.inf, math.nan, 10**400])

    def rest(self) -> bytes:
        """All bytes that are left."""
        return self.data[self.at :]


def case(iou_type: str) -> tuple[dict, list]:
    """A small ground truth and detections, the caller's own."""
    geometry = "segm" if iou_type == "boundary" else iou_type
    if geometry not in _CASES:
        _CASES[geometry] = coco_case(1, images=3, truths=3, detections=4, geometry=geometry)
    return copy.deepcopy(_CASES[geometry])


def plain_runs(text: bytes) -> list[int] | None:
    """Runs of a compressed mask, read as slowly and plainly as can be; None where it is wrong."""
    values, at = [], 0
    while at < len(text):
        value, place, more = 0, 0, True
        while more:
            if at == len(text) or not 48 <= text[at] < 112 or place == 7:
                return None
            digit = text[at] - 48
            value |= (digit & 31) << 5 * place
            more, at, place = bool(digit & 32), at + 1, place + 1
            if not more and digit & 16:
                value -= 1 << 5 * place
        values.append(value + values[-2] if len(values) > 2 else value)
    return values if all(value >= 0 for value in values) else None


def codec(data: bytes) -> None:
    """Strings are read as by the plain reader, whatever stands beside them, and written the same."""
    choices = Choices(data)
    height, width = choices.below(64) + 1, choices.below(64) + 1
    strings = choices.rest().split(b"\xff")[:8]
    runs = [plain_runs(string) for string in strings]
    totals = [None if r is None else sum(r) for r in runs]
    # the sizes given, or those that fit, one pixel wide
    fitting = [1 if t is None or not 0 < t < 1 << 31 else t for t in totals]
    for heights, widths in (
        ([height] * len(runs), [width] * len(runs)),
        (fitting, [1] * len(runs)),
    ):
        masks, measures, problems = decode(strings, heights, widths)
        for i, total in enumerate(totals):
            fine = total == heights[i] * widths[i]
            assert (i in problems) != fine, (strings[i], problems.get(i))
            area = sum(runs[i][1::2]) if fine else 0
            assert measures[i, 0] == area
            if fine and total < 1 << 16:
                flat = np.repeat(np.arange(len(runs[i])) % 2, runs[i])
                assert np.array_equal(masks.dense(i).T.ravel(), flat)
        again, _, wrong = decode(encode(masks), heights, widths)
        good = [i for i in range(len(runs)) if i not in problems]
        assert not set(wrong) & set(good)
        for name in ("starts", "stops"):
            theirs = getattr(again.take(good), name)
            assert np.array_equal(theirs, getattr(masks.take(good), name))


def polygons(data: bytes) -> None:
    """Polygons are drawn as pycocotools draws them."""
    from pycocotools import mask as tools

    choices = Choices(data)
    height, width = choices.below(60) + 1, choices.below(60) + 1
    rings = []
    for _ in range(choices.below(3) + 1):
        corners = choices.below(6) + 3
        ring = [(choices.below(1 << 16) - (1 << 14)) / 256 for _ in range(2 * corners)]
        if choices.below(2):
            ring = [math.floor(value * 2) / 2 for value in ring]
        rings.append(ring)
    masks = rasterise(
        np.array([value for ring in rings for value in ring]),
        [len(ring) // 2 for ring in rings],
        np.zeros(len(rings), np.int64),
        np.array([height]),
        np.array([width]),
    )
    expected = tools.merge(tools.frPyObjects(rings, height, width))
    assert encode(masks) == [expected["counts"]]


def check(truth, results, **options) -> None:
    """An evaluation of anything is an error for the user, or counts everything and stays in range."""
    try:
        found = evaluate(truth, results, **options)
    except PermafrostError:
        return
    assert ((found.stats >= -1) & (found.stats <= 1)).all()
    if isinstance(truth, dict) and isinstance(results, list):
        there = len(truth["annotations"]) + len(results)
        left = sum(count for what, count in found.dropped.items() if what[:3] in ("ann", "det"))
        assert len(found.truths) + len(found.detections) + left == there


def _options(choices: Choices) -> dict:
    return {
        "iou_type": choices.one_of(IOU_TYPES),
        "mode": choices.one_of(("corrected", "strict")),
        "invalid": choices.one_of(("error", "drop")),
        "use_categories": bool(choices.below(4)),
        "detection_area": choices.one_of(("auto", "auto", "bbox", "mask")),
    }


def _written(content: bytes) -> Path:
    return written(content, "given.json")


def truth_file(data: bytes) -> None:
    """Any bytes as a file of ground truth."""
    options = _options(Choices(data[:5]))
    path = _written(data[5:])
    try:
        check(path, case(options["iou_type"])[1], **options)
    finally:
        path.unlink()


def predictions_file(data: bytes) -> None:
    """Any bytes as a file of detections; read piece by piece or as a whole, it says the same."""
    options = _options(Choices(data[:5]))
    content, truth = data[5:], case(options["iou_type"])[0]
    path = _written(content)
    usual = plain._PIECE
    plain._PIECE = 64
    try:
        check(truth, path, **options)
        pieces, parsed = _outcome(truth, path, options), _parsed(content)
        if isinstance(parsed, list):
            assert pieces == _outcome(truth, parsed, options)
        else:
            assert pieces[0] == "error"
    finally:
        plain._PIECE = usual
        path.unlink()


def _parsed(content: bytes):
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def _outcome(truth, results, options: dict) -> tuple:
    """The scores, or what is wrong, without the name of the file."""
    try:
        found = evaluate(truth, results, **options)
    except PermafrostError as error:
        return "error", error.problem, (error.where or "").split(": ")[1:]
    return "scores", found.stats.tobytes(), found.dropped


def edits(data: bytes) -> None:
    """A good ground truth and good detections of which some values are replaced by others."""
    choices = Choices(data)
    options = _options(choices)
    truth, results = case(options["iou_type"])
    for _ in range(choices.below(4) + 1):
        section = choices.one_of(["images", "categories", "annotations", "results", "results"])
        entries = results if section == "results" else truth[section]
        entry = choices.one_of(entries)
        key = choices.one_of(sorted(entry)) if entry else "id"
        entry[key] = _edited(choices, entry.get(key))
        if not choices.below(8):
            del entry[key]
    check(truth, results, **options)


def _edited(choices: Choices, value):
    """Another value, or the same with something inside changed."""
    kind = choices.below(8)
    if kind < 3 and isinstance(value, list) and value:
        place = choices.below(len(value))
        return [*value[:place], _edited(choices, value[place]), *value[place + 1 :]]
    if kind < 3 and isinstance(value, dict) and value:
        key = choices.one_of(sorted(value))
        return {**value, key: _edited(choices, value[key])}
    if kind < 4 and isinstance(value, list):
        return value[: choices.below(len(value) + 1)]
    if kind < 5 and isinstance(value, str):
        place = choices.below(len(value) + 1)
        return value[:place] + chr(choices.below(160)) + value[place + choices.below(2) :]
    if kind < 6:
        return choices.number()
    others = [None, True, False, "", "a", [], {}, [[]], [[1.0, 2.0]], {"size": [1, 1]}, b"04", "04"]
    return choices.one_of(others)


def crowns(data: bytes) -> None:
    """Any bytes as a CSV table of crowns."""
    for what in ("truth", "predictions"):
        for geometry in ("auto", "box", "point"):
            try:
                found = read_annotations(csv_columns(data, "t.csv"), what, geometry=geometry)
            except PermafrostError:
                continue
            assert len(found.image) == len(found.label) == len(found.shape) == len(found.row)
            assert not len(found.image) or found.image.max() < len(found.images)
            if found.kind in ("box", "point"):
                assert np.isfinite(found.shape).all()
            # a predicted box may have no area: it counts as a false alarm
            if found.kind == "box" and what == "truth":
                assert (found.shape[:, 2:] > found.shape[:, :2]).all()


TARGETS: dict[str, Callable[[bytes], None]] = {
    "codec": codec,
    "polygons": polygons,
    "truth": truth_file,
    "predictions": predictions_file,
    "edits": edits,
    "crowns": crowns,
}


def seeds(name: str) -> list[bytes]:
    """Good inputs to begin with."""
    if name == "codec":
        some = [[0, 4], [5, 3, 1, 7], [6, 1, 40, 2, 900, 3], [100000, 2, 100000, 1 << 30]]
        return [b"\x02\x03" + b"\xff".join(compress(runs).encode() for runs in some)]
    if name in ("truth", "predictions"):
        made = []
        for place, iou_type in enumerate(IOU_TYPES):
            truth, results = coco_case(
                place,
                images=1,
                truths=2,
                detections=2,
                geometry="segm" if iou_type == "boundary" else iou_type,
            )
            text = json.dumps(truth if name == "truth" else results, separators=(",", ":")).encode()
            made += [bytes([place, mode, 0, 1, 0]) + text for mode in (0, 1)]
        return made
    if name == "crowns":
        return [
            b"image_path,xmin,ymin,xmax,ymax,label,score\na.png,1,2,3,4.5,Tree,0.5\nb,0,0,0,0,,\n",
            b"image_path,x,y,label\na.png,1,2,Tree\nb.png,0,0,Tree\n",
            b'image_path,label,geometry\na,Tree,"POLYGON ((0 0, 4 0, 4 4, 0 0))"\nb,Tree,POINT (1 2)\n',
        ]
    return [bytes(range(64)), bytes(range(255, 191, -1))]
