"""Images and masks in folders and archives are paired by their names, and prepared together."""

import numpy as np
import pytest
from helpers.datasets.images import (
    Prepared,
    encode,
    mask,
    open_source,
    pair_entry,
    pair_files,
    photo,
    write_folder,
    write_tar,
    write_zip,
)
from permafrost.core.errors import PermafrostError
from permafrost.data.store.image_store import ImageStore


def opened(path, **source):
    return open_source(pair_entry(path, source), where="dataset set")


@pytest.mark.parametrize("kind", ["folder", "zip", "tar"])
def test_masks_stand_beside_their_images_at_native_size(tmp_path, kind):
    files = pair_files(count=12)
    write = {"folder": write_folder, "zip": write_zip, "tar": write_tar}[kind]
    out = Prepared(tmp_path / "out")
    card = out.run(pair_entry(write(tmp_path / "set", files)))
    assert [card["splits"][s]["count"] for s in ("train", "val", "test")] == [6, 3, 3]
    for split in ("train", "val", "test"):
        store = ImageStore(out.outputs[split])
        chunk = store.read()
        assert chunk.masks.shape == (len(store), 24, 32) and chunk.masks.dtype == np.uint8
        for name, image, truth in zip(
            store.samples["sample_id"].to_pylist(), chunk.images, chunk.masks, strict=True
        ):
            number = int(name[len("images/") : -len(".png")])
            np.testing.assert_array_equal(image, photo(number).transpose(2, 0, 1))
            np.testing.assert_array_equal(truth, mask(number))


def test_class_balance_is_counted_in_pixels_and_so_are_ignored_ones(tmp_path):
    out = Prepared(tmp_path / "out")
    card = out.run(pair_entry(write_zip(tmp_path / "a.zip", pair_files())))
    for split in ("train", "val", "test"):
        masks = ImageStore(out.outputs[split]).read().masks
        counted = card["splits"][split]
        assert counted["class_counts"] == [(masks == c).sum() for c in range(3)]
        assert counted["ignored_pixels"] == (masks == 255).sum() > 0
    assert card["ignore_index"] == 255 and card["dead_classes"] == []


def test_leakage_is_audited_as_for_other_tasks(tmp_path):
    files = pair_files(count=12, images="{}/images/x.png", masks="{}/masks/x.png")
    files |= {"03/images/x.png": files["04/images/x.png"]}
    renamed = {}
    for name, data in files.items():
        part = ["train", "val", "test"][int(name[:2]) % 3]
        renamed[f"{part}/{name[3:-5]}{name[:2]}.png"] = data
    source = {"images": "<split>/images", "masks": "<split>/masks", "group": r"(\d)\.png$"}
    out = Prepared(tmp_path / "out")
    card = out.run(
        pair_entry(write_folder(tmp_path / "set", renamed), source, splits={"method": "given"})
    )
    assert card["audit"]["exact_duplicates"] == 1
    assert card["audit"]["shared_groups"] == 2 and card["spatially_random"]  # 00 and 10, 01 and 11


@pytest.mark.parametrize(
    ("images", "masks", "options", "split"),
    [
        ("images/{}.jpg", "masks/{}.png", {}, None),
        ("images/east/{}.png", "masks/east/{}.tif", {}, None),
        ("a/{}_sat.png", "a/{}_mask.png", {"images": "a/<stem>_sat.png", "masks": "a/<stem>_mask.png"}, None),
        ("{}.png", "{}_m.png", {"images": "<stem>.png", "masks": "<stem>_m.png"}, None),
        ("val/i/{}.PNG", "val/m/{}.tiff", {"images": "<split>/i", "masks": "<split>/m/"}, "val"),
        ("i/val/{}.png", "m/val/{}.png", {"images": "i/<split>/<stem>.png", "masks": "m/<split>"}, "val"),
        ("r/val/x/i/{}.png", "r/val/x/m/{}.png",
         {"root": "r", "images": "<split>/<place>/i", "masks": "<split>/<place>/m"}, "val"),
    ],
)  # fmt: skip
def test_layouts_of_folders_and_names(tmp_path, images, masks, options, split):
    kinds = {"jpg": "jpeg", "tif": "tiff", "tiff": "tiff"}
    files = {}
    for number in range(3):
        for pattern, array in ((images, photo(number)), (masks, mask(number))):
            kind = kinds.get(pattern.rsplit(".")[-1], "png")
            files[pattern.format(number)] = encode(array, kind)
    source = opened(write_folder(tmp_path / "set", files), **options)
    records = source.records()
    assert [record.sample_id for record in records] == [
        images.format(number).removeprefix("r/") for number in range(3)
    ]
    assert {record.split for record in records} == {split}
    for number in range(3):
        np.testing.assert_array_equal(source.decode(number).mask, mask(number))


def test_groups_come_from_the_names(tmp_path):
    place = write_folder(
        tmp_path / "set", pair_files(3, images="images/t{}_1.png", masks="masks/t{}_1.png")
    )
    records = opened(place, group=r"/(t\d+)_").records()
    assert [record.group_id for record in records] == ["t00", "t01", "t02"]
    with pytest.raises(PermafrostError, match="does not fit 3 of 3 names, e.g. images/t00_1.png"):
        opened(place, group="(scene)")
    with pytest.raises(PermafrostError, match="has 0 groups in parentheses"):
        opened(place, group="t")
    with pytest.raises(PermafrostError, match="not a regular expression"):
        opened(place, group="(t")


def test_mask_values_and_dead_classes_reach_store_and_card(tmp_path):
    files = pair_files(values=(10, 20, 30, 0))
    entry = pair_entry(
        write_zip(tmp_path / "a.zip", files),
        mask_values={10: "sea", 20: "land", 30: "sea", 0: None},
        dead_classes=["town"],
    )
    out = Prepared(tmp_path / "out")
    card = out.run(entry)
    assert card["dead_classes"] == [2]  # declared, and so no class that train ought to hold
    store = ImageStore(out.outputs["test"])
    expected = np.full(256, 99)
    expected[[10, 20, 30, 0]] = [1, 0, 1, 255]
    name = store.samples["sample_id"][0].as_py()
    number = int(name[len("images/") : -len(".png")])
    np.testing.assert_array_equal(
        store.read().masks[0], expected[mask(number, values=(10, 20, 30, 0))]
    )


def test_a_declared_dead_class_is_dead_though_it_occurs_and_an_absent_one_though_undeclared(
    tmp_path,
):
    path = write_zip(tmp_path / "a.zip", pair_files(values=(0, 1, 255)))
    out = Prepared(tmp_path / "out")
    with pytest.raises(PermafrostError, match="train has no sample of 1 class: town"):
        out.run(pair_entry(path))
    card = out.run(pair_entry(path, dead_classes=["land"], allow_missing_classes=True))
    assert card["dead_classes"] == [0, 2]
    assert card["splits"]["train"]["class_counts"][0] > 0


def test_classes_beyond_255_are_stored_with_16_bits(tmp_path):
    classes = [f"c{i}" for i in range(300)]
    files = {}
    for number in range(12):
        labels = np.resize(np.arange(300, dtype=np.uint16), (24, 32))
        files |= {
            f"images/{number}.png": encode(photo(number)),
            f"masks/{number}.png": encode(labels),
        }
    out = Prepared(tmp_path / "out")
    out.run(pair_entry(write_folder(tmp_path / "set", files), classes=classes, ignore_index=65535))
    masks = ImageStore(out.outputs["train"]).read().masks
    assert masks.dtype == np.uint16 and masks.max() == 299


def test_as_many_classes_as_eight_bits_can_tell_apart_are_counted(tmp_path):
    folder = write_folder(tmp_path / "pairs", pair_files(values=(0, 7, 255)))
    classes = [f"class {number}" for number in range(256)]
    entry = pair_entry(folder, classes=classes, ignore_index=None, allow_missing_classes=True)
    card = Prepared(tmp_path / "out").run(entry)
    counts = card["splits"]["train"]["class_counts"]
    assert sum(counts) == sum(counts[i] for i in (0, 7, 255)) == 6 * 24 * 32
    assert card["splits"]["train"]["ignored_pixels"] == 0
