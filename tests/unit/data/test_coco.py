"""Kind ``coco``: what a JSON says, in every form that such files have."""

import json

import numpy as np
import pytest
from helpers.datasets.images import (
    RGB_ENTRY,
    Prepared,
    encode,
    open_source,
    photo,
    write_folder,
    write_tar,
    write_zip,
)
from helpers.datasets.objects import coco, coco_entry, image_files, write_json
from permafrost.core.errors import PermafrostError
from permafrost.data.digest import source_digest
from permafrost.data.labels.objects import objects_column, objects_of
from permafrost.data.labels.rle import runs_box, runs_of
from permafrost.metrics.objects.masks import masks_of_objects
from pycocotools import mask as tools

MASK = np.zeros((60, 80), np.uint8)
MASK[10:25, 30:42] = 1
MASK[50:, 41] = 1


def opened(folder, content=None, **more):
    return open_source(coco_entry(folder, content, **more), where="dataset set")


def one_object(**fields) -> dict:
    """Annotations of two images, the first with one object."""
    content = coco(2, classes=("oak",))
    annotation = {"id": 1, "image_id": 0, "category_id": 10, "bbox": [4, 5, 6, 7], **fields}
    content["annotations"] = [{k: v for k, v in annotation.items() if v is not None}]
    return content


def the_object(folder, **fields):
    return opened(folder, one_object(**fields)).records()[0].objects


def runs(mask: np.ndarray) -> list[int]:
    """Uncompressed run lengths of a mask, counted pixel by pixel."""
    flat, found, last = mask.T.ravel(), [0], 0
    for value in flat.tolist():
        if value != last:
            found.append(0)
            last = value
        found[-1] += 1
    return found


def test_every_image_is_kept_with_its_objects_or_none(tmp_path):
    content = coco()
    records = opened(tmp_path, content).records()
    assert [r.sample_id for r in records] == [i["file_name"] for i in content["images"]]
    counts = [sum(a["image_id"] == n for a in content["annotations"]) for n in range(12)]
    assert [len(r.objects) for r in records] == counts and 0 in counts
    assert all(r.image_size == (60, 80) and r.split is None for r in records)


def test_a_box_is_given_by_its_corner_and_sides(tmp_path):
    found = the_object(tmp_path)
    assert found.boxes.tolist() == [[4, 5, 10, 12]]
    assert found.areas.tolist() == [42] and found.polygons == (None,) and not found.crowd[0]


def test_the_area_is_that_of_the_annotation(tmp_path):
    assert the_object(tmp_path, area=17.5).areas.tolist() == [17.5]


@pytest.mark.parametrize("fields", [{"iscrowd": 1}, {"ignore": 1}, {"iscrowd": 1, "ignore": 0}])
def test_crowds_and_ignored_objects_are_regions(tmp_path, fields):
    content = one_object(**fields)
    content["annotations"].append({"id": 2, "image_id": 0, "category_id": 10, "bbox": [1, 1, 5, 5]})
    assert opened(tmp_path, content).records()[0].objects.crowd.tolist() == [True, False]


def test_polygons_are_kept_and_give_the_box_where_there_is_none(tmp_path):
    rings = [[1, 2, 9, 2, 9, 12.5], [20, 20, 30, 20, 30, 28]]
    with_box = the_object(tmp_path / "a", segmentation=rings)
    assert with_box.boxes.tolist() == [[4, 5, 10, 12]] and with_box.polygons == (rings,)
    without = the_object(tmp_path / "b", segmentation=rings, bbox=None, area=80)
    assert without.boxes.tolist() == [[1, 2, 30, 28]] and without.areas.tolist() == [80]


@pytest.mark.parametrize("compressed", [False, True])
def test_masks_in_run_lengths_give_the_box_and_area_where_there_are_none(tmp_path, compressed):
    from pycocotools import mask as oracle

    rle = oracle.encode(np.asfortranarray(MASK))
    counts = rle["counts"].decode() if compressed else runs(MASK)
    segmentation = {"size": [60, 80], "counts": counts}
    found = the_object(tmp_path / "a", segmentation=segmentation, bbox=None, iscrowd=1)
    x, y, width, height = oracle.toBbox(rle)
    assert found.boxes.tolist() == [[x, y, x + width, y + height]]
    assert found.areas.tolist() == [MASK.sum()] and found.crowd.tolist() == [True]
    boxed = the_object(tmp_path / "b", segmentation=segmentation, iscrowd=1)
    assert boxed.boxes.tolist() == [[4, 5, 10, 12]] and boxed.areas.tolist() == [MASK.sum()]


def test_run_lengths_have_the_boxes_and_areas_of_pycocotools():
    from pycocotools import mask as oracle

    generator = np.random.default_rng(0)
    for number in range(300):
        height, width = generator.integers(1, 40, 2)
        mask = (generator.random((height, width)) < generator.choice([0.0, 0.02, 0.5, 1.0])).astype(
            np.uint8
        )
        if number % 3 == 0:
            mask[:, generator.integers(0, width) :] = 0
        rle = oracle.encode(np.asfortranarray(mask))
        found = runs_of(rle["counts"].decode())
        assert found == runs(mask)
        if not mask.any():
            assert runs_box(found, height, width) is None
            continue
        box, area = runs_box(found, height, width)
        x, y, w, h = oracle.toBbox(rle)
        assert box == [x, y, x + w, y + h] and area == oracle.area(rle)


@pytest.mark.parametrize("text", ["~", "a", "0" * 3 + "o", "oooooooooo0", "é"])
def test_damaged_run_lengths_are_no_run_lengths(text):
    with pytest.raises(ValueError):
        runs_box(runs_of(text), 3, 3)


def test_classes_are_the_categories_by_id_or_as_the_entry_orders_them(tmp_path):
    assert opened(tmp_path / "a").classes == ["pine", "oak"]
    source = opened(tmp_path / "b", classes=["oak", "elm", "pine"])
    assert source.classes == ["oak", "elm", "pine"]
    content = coco()
    ids = {10: "pine", 20: "oak"}
    first = [ids[a["category_id"]] for a in content["annotations"] if a["image_id"] == 1]
    assert [source.classes[i] for i in source.records()[1].objects.classes] == first
    with pytest.raises(PermafrostError, match="does not list: pine"):
        opened(tmp_path / "c", classes=["oak"])


def test_boxes_beyond_their_image_are_cut_only_where_the_entry_says_so(tmp_path):
    beyond = {"bbox": [70, -3, 15, 10], "area": 150}
    with pytest.raises(PermafrostError) as error:
        the_object(tmp_path / "a", **beyond)
    assert "objects.json: annotation 1: a box that reaches beyond" in error.value.problem
    assert "clip_boxes: true" in error.value.remedy
    record = opened(tmp_path / "b", one_object(**beyond), source={"clip_boxes": True}).records()[0]
    assert record.objects.boxes.tolist() == [[70, 0, 80, 7]] and record.clipped == 1
    assert record.objects.areas.tolist() == [70]


@pytest.mark.parametrize("box", [[80, 3, 4, 4], [-9, 3, 9, 4], [3, 3, 0, 4], [3, 70, 4, 4]])
def test_boxes_without_area_in_their_image_are_left_out_only_where_the_entry_says_so(tmp_path, box):
    content = one_object(bbox=box)
    with pytest.raises(PermafrostError) as error:
        opened(tmp_path / "a", content)
    assert "clip_boxes: true" in error.value.remedy
    record = opened(tmp_path / "b", content, source={"clip_boxes": True}).records()[0]
    assert (len(record.objects), record.clipped, record.without_area) == (0, 0, 1)
    bad = one_object(bbox=[float("nan"), 3, 4, 4])
    with pytest.raises(PermafrostError):
        opened(tmp_path / "c", bad, source={"clip_boxes": True})


def test_rounding_is_no_reason_to_call_a_box_beyond(tmp_path):
    found = the_object(tmp_path, bbox=[79.9, 59.7, 0.1, 0.30000000000000426])
    assert found.boxes[0, 3] > 60 and len(found) == 1


def test_clipped_boxes_are_counted_in_the_card(tmp_path):
    from helpers.datasets.images import Prepared

    content = coco()
    for annotation in content["annotations"][::4]:
        annotation["bbox"][0] = -1.0
    count = len(content["annotations"][::4])
    out = Prepared(tmp_path / "out")
    card = out.run(coco_entry(tmp_path, content, source={"clip_boxes": True}))
    assert sum(part["clipped"] for part in card["detection"]["splits"].values()) == count
    tiles = {"size": 32, "overlap": 0.0}
    entry = coco_entry(tmp_path, content, source={"clip_boxes": True}, tiles=tiles)
    again = Prepared(tmp_path / "tiles").run(entry)
    assert again["detection"]["splits"] == card["detection"]["splits"]


def test_sizes_come_from_the_files_where_the_annotations_state_none(tmp_path):
    content = coco(2)
    for image in content["images"]:
        del image["height"], image["width"]
    folder = tmp_path / "images"
    files = {"00.png": encode(photo(0, (60, 80))), "01.png": encode(photo(1, (70, 90)), "jpeg")}
    write_folder(folder, files)
    source = {
        "kind": "coco",
        "path": str(folder),
        "annotations": write_json(tmp_path / "o.json", content),
    }
    records = open_source({**RGB_ENTRY, "task": "detection", "source": source}, where="x").records()
    assert [r.image_size for r in records] == [(60, 80), (70, 90)]


@pytest.mark.parametrize("write", [write_folder, write_zip, write_tar])
def test_annotations_may_lie_beside_the_images_and_name_folders_by_split(tmp_path, write):
    files, annotations = {}, {}
    for number, split in enumerate(("train", "val", "test")):
        content = coco(3, first=3 * number)
        files |= image_files(content, f"set/{split}2017/")
        files[f"set/annotations/{split}.json"] = json.dumps(content).encode()
        annotations[split] = f"<path>/set/annotations/{split}.json"
    place = write(tmp_path / "set.data", files)
    source = {
        "kind": "coco",
        "path": str(place),
        "root": "set/<split>2017",
        "annotations": annotations,
    }
    found = open_source({**RGB_ENTRY, "task": "detection", "source": source}, where="x")
    records = found.records()
    assert [(r.split, r.sample_id) for r in records[:4]] == [
        ("test", f"set/test2017/{n:02d}.png") for n in (6, 7, 8)
    ] + [("train", "set/train2017/00.png")]
    np.testing.assert_array_equal(found.decode(3).image, photo(0, (60, 80)).transpose(2, 0, 1))


@pytest.mark.parametrize("prefix", ["", "train2017/", "data/images/"])
def test_a_json_beside_a_zip_of_images_through_prepare(tmp_path, prefix):
    content = coco()
    images = write_zip(tmp_path / "images.zip", image_files(content, prefix))
    given = coco_entry(tmp_path, content, source={"path": str(images)})
    if prefix:
        with pytest.raises(PermafrostError, match="12 entries.*00.png is not in") as error:
            Prepared(tmp_path / "no").run(given)
        assert f"set root: {prefix[:-1]} in source" in error.value.remedy
        given["source"]["root"] = prefix[:-1]
    card = Prepared(tmp_path / "out").run(given)
    assert sum(split["images"] for split in card["detection"]["splits"].values()) == 12


def test_groups_come_from_the_names(tmp_path):
    records = opened(tmp_path, source={"group": r"^(\d)"}).records()
    assert [r.group_id for r in records] == ["0"] * 10 + ["1"] * 2


def test_the_identity_follows_the_annotations_and_not_their_place(tmp_path):
    digests = set()
    for name in ("a", "b"):
        digests.add(source_digest(coco_entry(tmp_path / name)))
    assert len(digests) == 1
    content = coco()
    content["annotations"][0]["bbox"][0] += 1
    digests.add(source_digest(coco_entry(tmp_path / "c", content)))
    entry = coco_entry(tmp_path / "d")
    place = entry["source"]["annotations"]
    for split in ("train", "test"):
        entry["source"]["annotations"] = {split: place}
        digests.add(source_digest(entry))
    entry["source"]["annotations"] = "<path>/objects.json"
    digests.add(source_digest(entry))
    assert len(digests) == 5


def test_boxes_are_no_points(tmp_path):
    with pytest.raises(
        PermafrostError, match="annotation 1: a box, where the task is to find points"
    ):
        opened(tmp_path, one_object(), task="point_detection")


@pytest.mark.parametrize(
    "form", ["compressed", "counts", "polygons", "crowd"], ids=lambda form: form
)
def test_masks_of_instances_are_the_pixels_of_the_annotation(tmp_path, form):
    rings = [[4.0, 5.0, 20.0, 5.0, 20.0, 30.0], [40.0, 10.0, 50.0, 10.0, 50.0, 22.0, 40.0, 22.0]]
    size = list(MASK.shape)
    code = tools.encode(np.asfortranarray(MASK))["counts"].decode()
    segmentation = {
        "compressed": {"size": size, "counts": code},
        "counts": {"size": size, "counts": runs(MASK)},
        "polygons": rings,
        "crowd": {"size": size, "counts": runs(MASK)},
    }[form]
    fields = {"segmentation": segmentation, "bbox": None, "iscrowd": int(form == "crowd")}
    content = one_object(**fields)
    source = opened(tmp_path, content, task="instance_segmentation")
    found = source.records()[0].objects
    drawn = masks_of_objects([found], [MASK.shape])
    if form == "polygons":
        wanted = tools.decode(tools.merge(tools.frPyObjects(rings, *size)))
        # without an area in the file, that of the polygons
        assert found.areas.tolist() == [16 * 25 / 2 + 10 * 12]
    else:
        wanted = MASK
        assert found.masks == (code,) and found.areas.tolist() == [MASK.sum()]
    np.testing.assert_array_equal(drawn.dense(0), wanted)
    assert found.crowd.tolist() == [form == "crowd"]
    assert objects_of(objects_column([found]))[0].masks == found.masks


def test_objects_without_an_outline_are_not_instances(tmp_path):
    with pytest.raises(PermafrostError, match="annotation 1: neither a polygon nor a mask"):
        opened(tmp_path, one_object(), task="instance_segmentation")
