"""Parts that several processes wrote merge to exactly the whole, or not at all."""

from __future__ import annotations

import copy
import io
import json
import struct
import zlib

import numpy as np
import pytest
from helpers.predictions.detections import coco_case, federate
from permafrost.core.errors import PermafrostError
from permafrost.evaluators.detection import evaluate, partial
from permafrost.evaluators.detection.partial import merge, save_partial
from permafrost.metrics.detection.analysis import (
    category_table,
    confusion_matrix,
    detection_table,
    error_kinds,
    image_table,
    pair_table,
)

# LVIS has no keypoints
KERNELS = [
    (kernel, options)
    for kernel in ("bbox", "segm", "boundary", "keypoints")
    for options in ({}, {"use_categories": False}, {"lvis": True})
    if not (kernel == "keypoints" and options.get("lvis"))
]
TABLES = (image_table, category_table, pair_table, detection_table)


def write_parts(folder, truth, results, count=3, seed=0, **options):
    """Parts of a random division of the images, in a mixed order."""
    ids = sorted(image["id"] for image in truth["images"])
    owner = np.random.default_rng(seed).permutation(np.arange(len(ids)) % count)
    paths = []
    for part in reversed(range(count)):
        own = [identity for identity, o in zip(ids, owner, strict=True) if o == part]
        paths.append(folder / f"part{part}")
        save_partial(evaluate(truth, results, images=own, **options), paths[-1])
    return paths


def check_same(one, two, tables=TABLES):
    for name in ("precision", "recall", "scores"):
        assert np.array_equal(getattr(one, name), getattr(two, name))
    assert np.array_equal(one.stats, two.stats, equal_nan=True)
    assert one.names == two.names
    for table in tables:
        first, second = table(one), table(two)
        for name, column in first.items():
            assert np.array_equal(column, second[name], equal_nan=column.dtype.kind == "f"), name


@pytest.mark.parametrize("mode", ["strict", "corrected"])
@pytest.mark.parametrize(("kernel", "options"), KERNELS)
def test_parts_merge_to_the_whole(tmp_path, kernel, options, mode):
    geometry = "segm" if kernel == "boundary" else kernel
    truth, results = coco_case(4, geometry=geometry, first_id=0, images=8, detections=12)
    truth = federate(truth, 1) if options.get("lvis") else truth
    options = {"iou_type": kernel, "mode": mode, **options}
    merged = merge(write_parts(tmp_path, truth, results, **options))
    check_same(merged, evaluate(truth, results, **options))
    assert not any("images are evaluated" in text for text in merged.warnings)


@pytest.mark.parametrize("kernel", ["bbox", "segm"])
def test_errors_and_confusions_can_be_sorted_after_merging(tmp_path, kernel):
    truth, results = coco_case(5, geometry=kernel, images=8, detections=12)
    merged = merge(write_parts(tmp_path, truth, results, iou_type=kernel))
    whole = evaluate(truth, results, iou_type=kernel)
    assert error_kinds(merged) == error_kinds(whole)
    assert np.array_equal(confusion_matrix(merged), confusion_matrix(whole))


def test_every_process_may_have_a_file_of_its_own(tmp_path):
    truth, results = coco_case(6)
    ids = [image["id"] for image in truth["images"]]
    paths = []
    for part in range(2):
        own = ids[part::2]
        found = [entry for entry in results if entry["image_id"] in own]
        paths.append(tmp_path / str(part))
        save_partial(evaluate(truth, found, iou_type="bbox", images=own), paths[-1])
    merged = merge(paths)
    check_same(merged, evaluate(truth, results, iou_type="bbox"), (image_table, category_table))
    assert np.array_equal(merged.detections.ids, np.arange(1, len(results) + 1))


def test_words_as_identities_and_parts_without_anything(tmp_path):
    truth, results = coco_case(7)
    for entry in [*truth["annotations"], *results]:
        entry["image_id"] = f"image {entry['image_id']}"
    for image in truth["images"]:
        image["id"] = f"image {image['id']}"
    results = [entry for entry in results if entry["image_id"] != truth["images"][0]["id"]]
    truth["annotations"] = [
        entry for entry in truth["annotations"] if entry["image_id"] != truth["images"][0]["id"]
    ]
    merged = merge(write_parts(tmp_path, truth, results, count=12, iou_type="bbox"))
    check_same(merged, evaluate(truth, results, iou_type="bbox"))


def test_a_part_says_what_it_leaves_to_others_and_a_missing_part_is_noticed(tmp_path):
    truth, results = coco_case(8)
    ids = [image["id"] for image in truth["images"]]
    part = evaluate(truth, results, iou_type="bbox", images=ids[:5])
    elsewhere = sum(entry["image_id"] not in ids[:5] for entry in results)
    assert f"only 5 of 12 images are evaluated; {elsewhere} detections" in part.warnings[-1]
    save_partial(part, tmp_path / "a")
    with pytest.raises(PermafrostError, match="7 of 12 images are in no part"):
        merge([tmp_path / "a"])
    merged = merge([tmp_path / "a"], incomplete=True)
    assert "only 5 of 12 images are evaluated" in merged.warnings[-1]
    check_same(merged, part)
    with pytest.raises(PermafrostError, match="the image nowhere is not in the truth"):
        evaluate(truth, results, iou_type="bbox", images=["nowhere"])
    with pytest.raises(PermafrostError, match="no parts are given"):
        merge([])


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"iou_type": "segm"}, "kernel"),
        ({"mode": "strict"}, "mode"),
        ({"use_categories": False}, "use_categories"),
        ({"iou_thresholds": [0.5]}, "iou_thresholds"),
        ({"area_ranges": {"all": (0, 1e9)}}, "area_ranges"),
        ({"max_dets": [100]}, "max_dets"),
        ({"boundary_ratio": 0.008}, "boundary_ratio"),
        ({"detection_area": "bbox"}, "detection_area"),
    ],
)
def test_parts_with_other_options_are_refused_by_name(tmp_path, options, field):
    truth, results = coco_case(9, geometry="segm", images=4)
    ids = [image["id"] for image in truth["images"]]
    save_partial(evaluate(truth, results, iou_type="bbox", images=ids[:2]), tmp_path / "a")
    other = evaluate(truth, results, **{"iou_type": "bbox", **options}, images=ids[2:])
    save_partial(other, tmp_path / "b")
    with pytest.raises(PermafrostError, match=f"b: was written with another {field} "):
        merge([tmp_path / "a", tmp_path / "b"])


def test_parts_of_another_truth_and_images_twice_are_refused(tmp_path):
    truth, results = coco_case(10, images=4)
    ids = [image["id"] for image in truth["images"]]
    save_partial(evaluate(truth, results, iou_type="bbox", images=ids[:2]), tmp_path / "a")
    save_partial(evaluate(truth, results, iou_type="bbox", images=ids[1:]), tmp_path / "b")
    with pytest.raises(PermafrostError, match=rf"b: the image {ids[1]} is in .*a too \(images\)"):
        merge([tmp_path / "a", tmp_path / "b"])
    changed = copy.deepcopy(truth)
    changed["annotations"][0]["area"] += 1
    save_partial(evaluate(changed, results, iou_type="bbox", images=ids[2:]), tmp_path / "c")
    with pytest.raises(PermafrostError, match="another dataset"):
        merge([tmp_path / "a", tmp_path / "c"])


def test_damaged_files_are_refused(tmp_path):
    truth, results = coco_case(11, images=4)
    path = tmp_path / "a"
    save_partial(evaluate(truth, results, iou_type="bbox"), path)
    content = path.read_bytes()
    merge([path])
    rng = np.random.default_rng(0)
    for place in [*range(20), *rng.integers(0, len(content), 60).tolist(), len(content) - 1]:
        changed = bytearray(content)
        changed[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        with pytest.raises(PermafrostError, match="magic|CRC|truncated"):
            merge([path])
    for length in (0, 5, 10, 20, 400, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(PermafrostError, match="magic|truncated"):
            merge([path])
    with pytest.raises(PermafrostError, match="cannot be read"):
        merge([tmp_path / "absent"])


def test_another_version_is_refused(tmp_path):
    truth, results = coco_case(12, images=4)
    path = tmp_path / "a"
    save_partial(evaluate(truth, results, iou_type="bbox"), path)
    content = path.read_bytes()
    start = len(partial.MAGIC)
    (length, _) = struct.unpack_from("<II", content, start)
    head = json.loads(content[start + 8 : start + 8 + length])
    text = json.dumps({**head, "version": 99}).encode()
    prefix = partial.MAGIC + struct.pack("<II", len(text), zlib.crc32(text))
    path.write_bytes(prefix + text + content[start + 8 + length :])
    with pytest.raises(PermafrostError, match=r"version 99 of the format.*\(version\)"):
        merge([path])


@pytest.mark.parametrize("kernel", ["bbox", "segm"])
def test_parts_that_something_else_wrote_are_refused_by_name(kernel, tmp_path):
    truth, results = coco_case(3, images=4, geometry=kernel)
    ids = [image["id"] for image in truth["images"]]
    paths = [tmp_path / "a", tmp_path / "b"]
    for path, some in zip(paths, (ids[:2], ids[2:]), strict=True):
        save_partial(evaluate(truth, results, iou_type=kernel, images=some), path)
    content = paths[0].read_bytes()
    begin = len(partial.MAGIC) + partial._HEAD.size
    length = partial._HEAD.unpack_from(content, len(partial.MAGIC))[0]
    head = json.loads(content[begin : begin + length])
    body = content[begin + length :]
    with np.load(io.BytesIO(body)) as arrays:
        arrays = {name: arrays[name] for name in arrays.files}

    def refused(new_head, new_arrays):
        stream = io.BytesIO()
        np.savez(stream, **new_arrays)
        changed = {**new_head, "size": stream.tell(), "crc": zlib.crc32(stream.getvalue())}
        text = json.dumps({k: v for k, v in changed.items() if v is not ...}).encode()
        sums = partial._HEAD.pack(len(text), zlib.crc32(text))
        paths[0].write_bytes(partial.MAGIC + sums + text + stream.getvalue())
        try:
            merge(paths)
        except PermafrostError as error:
            assert "/a" in str(error) or error.where == "merge"
            return True
        return False

    assert not refused(head, arrays)
    for name in set(head) - {"size", "crc"}:
        for value in (..., None, "x", -1, {}, [[]]):
            refused({**head, name: value}, arrays)
        assert refused({**head, name: ...}, arrays)
    for name, values in arrays.items():
        less = {other: array for other, array in arrays.items() if other != name}
        # masks are there for some kernels only
        assert refused(head, less) or "mask" in name or "segmentations" in name
        for wrong in (values[:-1], np.array("x"), np.full(3, 1 << 40), values[..., None]):
            refused(head, {**less, name: wrong})
