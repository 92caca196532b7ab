"""A stream of batches gives what an evaluation of the images so far gives, bit for bit."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from helpers.predictions.detections import coco_case, federate
from permafrost.core.errors import PermafrostError
from permafrost.evaluators.detection import DetectionStream, PreparedTruth, evaluate, prepare
from permafrost.evaluators.detection.partial import merge, save_partial
from permafrost.evaluators.detection.streaming import WAITING
from permafrost.metrics.detection.analysis import (
    category_table,
    confusion_matrix,
    detection_table,
    error_kinds,
    image_table,
)

CASES = [
    ("bbox", {}),
    ("bbox", {"use_categories": False}),
    ("bbox", {"lvis": True}),
    ("segm", {}),
    ("segm", {"lvis": True, "detection_area": "mask"}),
    ("boundary", {}),
    ("keypoints", {}),
    ("bbox", {"categories": ["kind 1", "kind 3"], "recall_grid": [0.1, 0.5]}),
    ("segm", {"categories": ["kind 2"], "lvis": True, "max_dets": 8}),
]


def batches(truth, results, seed):
    """All images in a mixed order, a few at a time, with the detections on them."""
    rng = np.random.default_rng(seed)
    ids = rng.permutation([image["id"] for image in truth["images"]]).tolist()
    while ids:
        own, ids = ids[:3], ids[3:]
        yield own, [entry for entry in results if entry["image_id"] in own]


def check_same(one, two):
    for name in ("precision", "recall", "scores"):
        assert np.array_equal(getattr(one, name), getattr(two, name)), name
    assert np.array_equal(one.stats, two.stats, equal_nan=True)
    # how many detections are of other categories is only known of a file
    others = "detections are of categories that are not evaluated"
    first, second = ([text for text in each.warnings if others not in text] for each in (one, two))
    assert first == second and one.dropped == two.dropped
    for table in (image_table, category_table):
        first, second = table(one), table(two)
        for name, column in first.items():
            assert np.array_equal(column, second[name], equal_nan=column.dtype.kind == "f"), name


def case(kernel, options, seed=4, **more):
    geometry = "segm" if kernel == "boundary" else kernel
    truth, results = coco_case(seed, geometry=geometry, images=11, detections=12, **more)
    return (federate(truth, 1) if options.get("lvis") else truth), results


@pytest.mark.parametrize("mode", ["strict", "corrected"])
@pytest.mark.parametrize(("kernel", "options"), CASES)
def test_every_snapshot_is_the_evaluation_of_the_images_so_far(kernel, options, mode):
    truth, results = case(kernel, options, first_id=0)
    options = {"iou_type": kernel, "mode": mode, **options}
    prepared = prepare(truth, **options)
    empty = {image["id"] for image in truth["images"]} - {entry["image_id"] for entry in results}
    assert empty, "an image without detections must be among them"
    for seed in range(2):
        seen, given = [], []
        with DetectionStream(prepared) as stream:
            check_same(stream.snapshot(), evaluate(truth, [], images=[], **options))
            for own, found in batches(truth, results, seed):
                stream.update(own, found)
                seen, given = seen + own, given + found
                # not after every batch, so that several are joined at once
                if len(seen) % 2:
                    found = stream.snapshot()
                    check_same(found, evaluate(truth, given, images=seen, **options))
            check_same(stream.finalize(), evaluate(truth, given, **options))
            assert stream.seen == 11
    check_same(prepared.evaluate(results), evaluate(truth, results, **options))


@pytest.mark.parametrize("kernel", ["bbox", "segm"])
def test_all_analyses_of_a_stream_are_those_of_the_file_of_its_batches(kernel):
    truth, results = case(kernel, {})
    stream, given = DetectionStream(prepare(truth, iou_type=kernel)), []
    for own, found in batches(truth, results, 1):
        stream.update(own, found)
        given += found
    last, whole = stream.finalize(), evaluate(truth, given, iou_type=kernel)
    assert np.array_equal(last.detections.entries, whole.detections.entries)
    assert error_kinds(last) == error_kinds(whole)
    assert np.array_equal(confusion_matrix(last), confusion_matrix(whole))
    one, two = detection_table(last), detection_table(whole)
    for name, column in one.items():
        assert np.array_equal(column, two[name], equal_nan=column.dtype.kind == "f"), name


def test_streams_of_several_processes_merge(tmp_path):
    truth, results = case("segm", {})
    prepared, paths = prepare(truth, iou_type="segm"), [tmp_path / "a", tmp_path / "b"]
    streams = [DetectionStream(prepared) for _ in paths]
    for number, (own, found) in enumerate(batches(truth, results, 2)):
        streams[number % 2].update(own, found)
    for stream, path in zip(streams, paths, strict=True):
        with pytest.raises(PermafrostError, match=r"of 11 images were not given \(the first is"):
            stream.finalize()
        part = stream.finalize(incomplete=True)
        assert any(f"only {stream.seen} of 11 images" in text for text in part.warnings)
        save_partial(part, path)
    whole = evaluate(truth, results, iou_type="segm")
    assert np.array_equal(merge(paths).precision, whole.precision)


def test_wrong_entries_may_be_dropped_and_are_counted_once():
    truth, results = case("bbox", {})
    truth["annotations"][0]["area"] = -1
    results[0]["score"] = float("nan")
    results[5]["bbox"] = [0, 0, -1, 2]
    options = {"iou_type": "bbox", "invalid": "drop"}
    stream = DetectionStream(prepare(truth, **options))
    for own, found in batches(truth, results, 3):
        stream.update(own, found)
    stream.snapshot()
    last = stream.finalize()
    check_same(last, evaluate(truth, results, **options))
    assert sum(last.dropped.values()) == 3


def test_nothing_is_matched_twice(monkeypatch):
    truth, results = case("bbox", {})
    calls, matched = [], PreparedTruth.matched

    def counted(self, predictions, chosen, **more):
        calls.append(int(chosen.sum()))
        return matched(self, predictions, chosen, **more)

    monkeypatch.setattr(PreparedTruth, "matched", counted)
    stream = DetectionStream(prepare(truth, iou_type="bbox"))
    for own, found in batches(truth, results, 0):
        stream.update(own, found)
        stream.snapshot()
    stream.finalize()
    # the stream begins with no image
    assert calls == [0, 3, 3, 3, 2]


def test_the_caller_goes_on_while_a_bounded_number_of_batches_waits(monkeypatch):
    truth, results = case("bbox", {})
    go, begun, matched, names = threading.Event(), threading.Event(), PreparedTruth.matched, []

    def slow(self, predictions, chosen, **more):
        if chosen.any():
            begun.set()
            assert go.wait(60)
            names.append(threading.current_thread())
        return matched(self, predictions, chosen, **more)

    monkeypatch.setattr(PreparedTruth, "matched", slow)
    stream = DetectionStream(prepare(truth, iou_type="bbox"))
    ids = [image["id"] for image in truth["images"]]
    try:
        stream.update(ids[:1], [])
        assert begun.wait(60)
        for identity in ids[1 : 1 + WAITING]:
            stream.update([identity], [])
        assert stream._queue.full() and WAITING == 8
    finally:
        go.set()
    stream.update(ids[1 + WAITING :], [])
    stream.finalize()
    assert len(set(names)) == 1 and threading.main_thread() not in names
    assert not names[0].is_alive()


def test_a_batch_that_cannot_be_taken_is_refused_at_once_and_the_stream_goes_on():
    truth, results = case("bbox", {})
    ids = [image["id"] for image in truth["images"]]
    stream = DetectionStream(prepare(truth, iou_type="bbox"))
    stream.update(ids[:2], [entry for entry in results if entry["image_id"] in ids[:2]])
    with pytest.raises(PermafrostError, match=f"update 2: the image {ids[1]} was given before"):
        stream.update([ids[2], ids[1]], [])
    with pytest.raises(PermafrostError, match="was given before"):
        stream.update([ids[3], ids[3]], [])
    with pytest.raises(PermafrostError, match="image 9999 is not in the truth"):
        stream.update([ids[4], 9999], [])
    assert stream.seen == 2
    stream.update(ids[2:], [entry for entry in results if entry["image_id"] in ids[2:]])
    check_same(stream.finalize(), evaluate(truth, results, iou_type="bbox"))
    for call in (stream.snapshot, stream.finalize, lambda: stream.update([], [])):
        with pytest.raises(PermafrostError, match="the stream has ended"):
            call()


def test_errors_of_the_worker_are_raised_by_the_next_calls():
    truth, results = case("bbox", {})
    ids = [image["id"] for image in truth["images"]]
    prepared = prepare(truth, iou_type="bbox")
    entry = next(entry for entry in results if entry["image_id"] == ids[0])
    cases = [
        ([{**entry, "score": "high"}], r"update 2: predictions: \[0\].*score"),
        (
            [{**entry, "image_id": ids[1]}],
            f"update 2: .*image {ids[1]}, which is not in the given images",
        ),
    ]
    for found, words in cases:
        with DetectionStream(prepared) as stream:
            stream.update(ids[2:3], [])
            stream.update(ids[:1], found)
            for _ in range(2):
                with pytest.raises(PermafrostError, match=words):
                    stream.snapshot()
            with pytest.raises(PermafrostError, match=words):
                stream.update(ids[4:5], [])
            with pytest.raises(PermafrostError, match=words):
                stream.finalize(incomplete=True)


def test_the_memory_budget_is_named():
    truth, results = case("bbox", {})
    ids = [image["id"] for image in truth["images"]]
    prepared = prepare(truth, iou_type="bbox")
    stream = DetectionStream(prepared, memory_budget=1 << 14)
    stream.update(ids, results)
    with pytest.raises(PermafrostError, match=r"memory_budget: .*memory budget of 0\.0 MiB"):
        stream.snapshot()
    stream.close()
    with pytest.raises(PermafrostError, match="must be positive, not 0"):
        DetectionStream(prepared, memory_budget=0)


def test_strict_mode_needs_batches_that_are_read_alike():
    truth, results = case("segm", {})
    ids = [image["id"] for image in truth["images"]]
    first, second = (next(e for e in results if e["image_id"] != i) for i in (ids[0], ids[1]))
    prepared = prepare(truth, iou_type="bbox", mode="strict")
    bare = {key: value for key, value in first.items() if key != "bbox"}
    others = [i for i in ids if i != first["image_id"]]
    with DetectionStream(prepared) as stream:
        stream.update([first["image_id"]], [bare])
        stream.update(others, [{**second, "image_id": others[0]}])
        with pytest.raises(PermafrostError, match="update 2: the first detection has a bbox, that"):
            stream.snapshot()
