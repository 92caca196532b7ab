"""Datasets of objects from their entry to the stores: columns, card, splits and audit."""

import json
from dataclasses import replace

import numpy as np
import pytest
from helpers.datasets.images import Prepared, dataset_entry, encode, photo
from helpers.datasets.objects import by_file, coco, coco_entry, write_json
from permafrost.core.errors import PermafrostError
from permafrost.core.specification import SPLITS
from permafrost.data.entry import Splits
from permafrost.data.labels.objects import OBJECTS, WINDOW, Objects, objects_of
from permafrost.data.labels.splits import make_splits
from permafrost.data.records import Record
from permafrost.data.store.image_store import SAMPLES_SCHEMA, ImageStore
from permafrost.data.store.job import plan_dataset


def test_objects_stand_beside_their_images_in_the_store(tmp_path):
    content = coco()
    out = Prepared(tmp_path / "out")
    card = out.run(coco_entry(tmp_path, content))
    assert card["classes"] == ["pine", "oak"]  # in the order of the categories' ids, 10 and 20
    classes = {10: 0, 20: 1}
    seen = set()
    for split in SPLITS:
        store = ImageStore(out.outputs[split])
        assert store.samples.schema.names == [
            *SAMPLES_SCHEMA.names,
            OBJECTS.name,
            *(field.name for field in WINDOW),
        ]
        assert "labels" not in store.store and "masks" not in store.store
        rows = store.samples.to_pylist()
        for row, objects in zip(rows, objects_of(store.samples["objects"]), strict=True):
            truth = by_file(content)[row["sample_id"]]
            boxes = np.array([t["bbox"] for t in truth]).reshape(-1, 4)
            boxes[:, 2:] += boxes[:, :2]
            np.testing.assert_allclose(objects.boxes, boxes, rtol=0, atol=1e-12)
            assert objects.classes.tolist() == [classes[t["category_id"]] for t in truth]
            assert objects.areas.tolist() == [t["area"] for t in truth]
            assert objects.numbers.tolist() == list(range(len(truth)))
            assert row["image_id"] == row["group_id"] == row["sample_id"]
            assert (row["x_offset"], row["y_offset"]) == (0, 0)
            assert (row["image_height"], row["image_width"]) == (60, 80)
        seen |= {row["sample_id"] for row in rows}
        assert card["splits"][split]["groups"] == card["splits"][split]["count"] == len(rows)
    assert seen == set(by_file(content))


def test_the_card_counts_images_and_objects_and_crowds_for_themselves(tmp_path):
    content = coco(classes=("oak",))
    for annotation in content["annotations"][::5]:
        annotation["iscrowd"] = 1
    out = Prepared(tmp_path / "out")
    card = out.run(coco_entry(tmp_path, content, max_detections=300))
    detection = card["detection"]
    assert {key: detection[key] for key in detection if key != "splits"} == {
        "geometry": "box",
        "max_detections": 300,
        "match_distance": None,
        "min_visible": 0.5,
        "tiles": None,
    }
    files = by_file(content)
    for split in SPLITS:
        names = ImageStore(out.outputs[split]).samples["sample_id"].to_pylist()
        flags = [a["iscrowd"] for name in names for a in files[name]]
        assert detection["splits"][split] == {
            "images": len(names),
            "objects": flags.count(0),
            "empty": sum(not files[name] for name in names),
            "crowd": flags.count(1),
            "clipped": 0,
            "without_area": 0,
        }
        assert card["splits"][split]["class_counts"] == [flags.count(0)]
    assert sum(part["crowd"] for part in detection["splits"].values()) > 0
    assert sum(part["empty"] for part in detection["splits"].values()) > 0
    json.dumps(card)


def test_tasks_without_objects_have_no_such_card(tmp_path):
    from helpers.datasets.images import class_files, folder_entry, write_folder

    card = Prepared(tmp_path / "out").run(folder_entry(write_folder(tmp_path / "a", class_files())))
    assert card["detection"] is None


def test_all_windows_of_an_image_follow_each_other_in_one_split(tmp_path):
    content = coco()
    out = Prepared(tmp_path / "out")
    card = out.run(coco_entry(tmp_path, content, tiles={"size": 40, "overlap": 0.1}))
    assert card["detection"]["tiles"] == {"size": 40, "overlap": 0.1}
    assert card["image_size"] == {"min": [40, 40], "max": [40, 40]}
    files, homes = by_file(content), {}
    for split in SPLITS:
        store = ImageStore(out.outputs[split])
        rows = store.samples.to_pylist()
        ids = [row["image_id"] for row in rows]
        runs = [name for i, name in enumerate(ids) if i == 0 or ids[i - 1] != name]
        assert len(runs) == len(set(runs)) == card["detection"]["splits"][split]["images"]
        homes |= {name: split for name in runs}
        images = store.read().images
        for row, image in zip(rows, images, strict=True):
            number = int(row["image_id"][:2])
            x, y = row["x_offset"], row["y_offset"]
            assert row["sample_id"] == f"{row['image_id']}#{x},{y}"
            assert row["group_id"] == row["image_id"]
            whole = photo(number, (60, 80)).transpose(2, 0, 1)
            np.testing.assert_array_equal(image, whole[:, y : y + 40, x : x + 40])
            expected = [
                i
                for i, a in enumerate(files[row["image_id"]])
                if a["bbox"][0] < x + 40
                and a["bbox"][0] + a["bbox"][2] > x
                and a["bbox"][1] < y + 40
                and a["bbox"][1] + a["bbox"][3] > y
            ]
            assert [one["object"] for one in row["objects"]] == expected
        # steps of 36: 0, 36, 40 across and 0, 20 down
        assert sorted({(r["x_offset"], r["y_offset"]) for r in rows}) == [
            (x, y) for x in (0, 36, 40) for y in (0, 20)
        ]
        # an object counts once, however many windows show it
        assert card["splits"][split]["class_counts"] == [
            sum(a["category_id"] == c for name in runs for a in files[name]) for c in (10, 20)
        ]
        assert card["splits"][split]["groups"] == len(runs)
    assert len(homes) == 12


def test_an_image_is_in_the_same_split_with_tiles_as_without(tmp_path):
    def homes(**more):
        job = plan_dataset("set", dataset_entry(coco_entry(tmp_path, **more)))
        return {split: {r.image_id or r.sample_id for r in job.of(split)} for split in SPLITS}

    assert homes() == homes(tiles={"size": 32, "overlap": 0})


def test_duplicates_within_an_image_are_no_leak_between_images_they_are(tmp_path):
    content = coco(12, size=(64, 64), classes=("oak",))
    folder = tmp_path / "a"
    entry = coco_entry(folder, content, tiles={"size": 32, "overlap": 0.0})
    # every image is one pattern, repeated in all of its windows
    for number, image in enumerate(content["images"]):
        part = photo(number, (32, 32))
        (folder / "images" / image["file_name"]).write_bytes(encode(np.tile(part, (2, 2, 1))))
    card = Prepared(tmp_path / "one").run(entry)
    assert card["audit"]["exact_duplicates"] == card["audit"]["near_duplicates"] == 0
    assert card["audit"]["shared_groups"] == 0
    for image in content["images"]:
        path = folder / "images" / image["file_name"]
        path.write_bytes(encode(np.tile(photo(99, (32, 32)), (2, 2, 1))))
    card = Prepared(tmp_path / "two").run(entry)
    later = sum(card["splits"][split]["count"] for split in ("val", "test"))
    assert card["audit"]["exact_duplicates"] == later


def test_groups_keep_together_and_are_audited(tmp_path):
    content = coco()
    for number, image in enumerate(content["images"]):
        image["file_name"] = f"site{number // 3}_{number:02d}.png"
    entry = coco_entry(
        tmp_path,
        content,
        source={"group": r"^(site\d+)_"},
        splits={"method": "group", "fractions": [0.5, 0.25, 0.25]},
        tiles={"size": 40, "overlap": 0.05},
    )
    out = Prepared(tmp_path / "out")
    card = out.run(entry)
    homes = {}
    for split in SPLITS:
        samples = ImageStore(out.outputs[split]).samples
        for group, image in zip(
            samples["group_id"].to_pylist(), samples["image_id"].to_pylist(), strict=True
        ):
            assert image.startswith(f"{group}_")
            homes.setdefault(group, set()).add(split)
    assert all(len(splits) == 1 for splits in homes.values()) and len(homes) == 4
    assert card["audit"]["shared_groups"] == 0


def test_splits_of_the_annotations_are_the_splits(tmp_path):
    parts = {"train": coco(4), "valid": coco(4, first=4), "test": coco(4, first=8)}
    entry = coco_entry(tmp_path, coco(12))
    entry["source"]["annotations"] = {
        split: write_json(tmp_path / f"{split}.json", part) for split, part in parts.items()
    }
    entry["splits"] = {
        "method": "given",
        "map": {"train": ["train"], "val": ["valid"], "test": ["test"]},
    }
    job = plan_dataset("set", dataset_entry(entry))
    assert [r.sample_id for r in job.of("val")] == [f"{i:02d}.png" for i in range(4, 8)]


def test_splits_balance_images_and_the_objects_of_every_class():
    generator = np.random.default_rng(5)
    records = []
    for number in range(240):
        many = number % 4 == 0
        classes = generator.choice(3, 40 if many else 2, p=[0.9, 0.08, 0.02])
        objects = Objects.of(np.tile([0.0, 0, 1, 1], (len(classes), 1)), classes)
        records.append(Record(f"i{number}", objects=objects))
    options = Splits(method="random", fractions=[0.6, 0.2, 0.2], seed=0, spatially_random=False)
    plan = make_splits(records, options, name="set", where="x")
    total = np.bincount(np.concatenate([r.objects.classes for r in records]))
    for split, share in zip(SPLITS, (0.6, 0.2, 0.2), strict=True):
        chosen = plan.indices[split]
        assert abs(len(chosen) - share * 240) <= 6
        held = np.bincount(
            np.concatenate([records[i].objects.classes for i in chosen]), minlength=3
        )
        np.testing.assert_allclose(held / total, share, atol=0.03)
    again = make_splits(records, options, name="set", where="x")
    other = make_splits(records, replace(options, seed=1), name="set", where="x")
    assert all((plan.indices[s] == again.indices[s]).all() for s in SPLITS)
    assert any(plan.indices[s].tolist() != other.indices[s].tolist() for s in SPLITS)
    # large images go anywhere, not always to train
    large = {i for i in range(0, 240, 4)}
    assert 0.4 < len(large & set(plan.indices["train"].tolist())) / len(large) < 0.8


def test_chance_decides_where_an_image_goes_also_where_no_two_hold_as_many_objects():
    records = [
        Record(f"i{n}", objects=Objects.of(np.tile([0.0, 0, 1, 1], (n, 1)), np.zeros(n)))
        for n in range(1, 31)
    ]
    homes = set()
    for seed in range(20):
        options = Splits(
            method="random", fractions=[0.4, 0.3, 0.3], seed=seed, spatially_random=False
        )
        plan = make_splits(records, options, name="set", where="x")
        homes |= {split for split in SPLITS if 29 in plan.indices[split]}
    assert homes == set(SPLITS)


def test_val_is_set_aside_from_train_by_objects_too(tmp_path):
    parts = {"train": coco(40), "test": coco(6, first=40)}
    entry = coco_entry(tmp_path, coco(46))
    entry["source"]["annotations"] = {
        split: write_json(tmp_path / f"{split}.json", part) for split, part in parts.items()
    }
    entry["splits"] = {"val_from_train": 0.25}
    job = plan_dataset("set", dataset_entry(entry))
    count = {s: sum(len(r.objects) for r in job.images[s]) for s in SPLITS}
    share = count["val"] / (count["train"] + count["val"])
    assert len(job.of("val")) == 10 and 0.2 < share < 0.3 and len(job.of("test")) == 6


@pytest.mark.parametrize(
    ("task", "key", "value"),
    [
        ("classification", "tiles", {"size": 32}),
        ("segmentation", "max_detections", 50),
        ("detection", "match_distance", 5),
        ("detection", "min_visible", 0.4),
        ("point_detection", "min_visible", 0.4),
        ("point_detection", "max_detections", 50),
    ],
)
def test_options_without_a_meaning_are_refused(tmp_path, task, key, value):
    entry = {**coco_entry(tmp_path), "task": task, key: value}
    if task == "point_detection":
        entry["tiles"] = {"size": 32, "overlap": 0}
    with pytest.raises(PermafrostError, match=f"{key} has no meaning here"):
        plan_dataset("set", dataset_entry(entry))


def test_a_split_without_an_object_is_refused(tmp_path):
    parts = {"train": coco(6), "val": coco(3, first=6), "test": coco(3, first=9)}
    parts["val"]["annotations"] = []
    entry = coco_entry(tmp_path, coco(12), splits={"method": "given"})
    entry["source"]["annotations"] = {
        split: write_json(tmp_path / f"{split}.json", part) for split, part in parts.items()
    }
    with pytest.raises(PermafrostError, match="val has no object"):
        plan_dataset("set", dataset_entry(entry))


def test_a_class_that_train_lacks_is_refused_as_for_other_tasks(tmp_path):
    content = coco()
    content["categories"].append({"id": 1, "name": "elm"})
    with pytest.raises(PermafrostError, match="train has no sample of 1 class: elm"):
        plan_dataset("set", dataset_entry(coco_entry(tmp_path, content)))
    entry = coco_entry(tmp_path, content, allow_missing_classes=True)
    card = Prepared(tmp_path / "out").run(entry)
    assert card["classes"] == ["elm", "pine", "oak"] and card["dead_classes"] == [0]


def test_an_image_of_another_size_than_its_annotations_is_refused(tmp_path):
    content = coco()
    entry = coco_entry(tmp_path, content)
    (tmp_path / "images" / "03.png").write_bytes(encode(photo(3, (80, 60))))
    for more in ({}, {"tiles": {"size": 32, "overlap": 0.05}}):
        with pytest.raises(PermafrostError) as error:
            Prepared(tmp_path / "out").run({**entry, **more})
        assert error.value.problem == (
            "1 of 12 images cannot be used: 03.png: is 60 x 80 pixels (width x height), its"
            " annotations are for 80 x 60"
        )


def test_images_of_several_sizes_are_cut_each_by_its_own_size(tmp_path):
    small, large = coco(6, size=(60, 80)), coco(6, size=(100, 90), first=6)
    content = {**small, **{k: small[k] + large[k] for k in ("images", "annotations")}}
    entry = coco_entry(tmp_path, content, tiles={"size": 70, "overlap": 0.0})
    out = Prepared(tmp_path / "out")
    card = out.run(entry)
    assert card["image_size"] == {"min": [60, 70], "max": [70, 70]}
    found = [row for s in SPLITS for row in ImageStore(out.outputs[s]).samples.to_pylist()]
    windows = {number: set() for number in range(12)}
    for row in found:
        windows[int(row["image_id"][:2])].add((row["x_offset"], row["y_offset"]))
        assert row["height"] == (60 if row["image_height"] == 60 else 70) and row["width"] == 70
    for number, places in windows.items():
        # smaller than a tile one way: the window is as small
        down = [0] if number < 6 else [0, 30]
        across = [0, 10] if number < 6 else [0, 20]
        assert places == {(x, y) for x in across for y in down}
