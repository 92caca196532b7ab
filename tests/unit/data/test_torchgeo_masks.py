"""Segmentation datasets of torchgeo, in the authors' layout, by the entries of the catalogue."""

import numpy as np
import pytest
from helpers.datasets.images import (
    Prepared,
    catalogue_entry,
    encode,
    geotiff,
    mask,
    open_source,
    photo,
    write_folder,
)
from permafrost.core.errors import PermafrostError
from permafrost.data.store.image_store import ImageStore


def entry_of(name: str, data) -> dict:
    """The catalogue's entry, with what lies in `data` and nothing fetched."""
    entry = catalogue_entry(name, data)
    entry["source"]["arguments"].pop("download", None)
    return entry


def prepared(name: str, tmp_path) -> tuple[dict, Prepared]:
    out = Prepared(tmp_path / "out")
    return out.run(entry_of(name, tmp_path)), out


def landcoverai(root) -> None:
    files = {}
    for s, (split, count) in enumerate({"train": 8, "val": 3, "test": 4}.items()):
        names = [f"N-33-{s}-{i % 2}_{i}" for i in range(count)]
        files[f"{split}.txt"] = "\n".join(names).encode()
        for i, name in enumerate(names):
            truth = mask(10 * s + i, values=range(5))
            files[f"output/{name}.jpg"] = encode(photo(10 * s + i), "jpeg", quality=95)
            files[f"output/{name}_m.png"] = encode(truth)
    write_folder(root, files)


@pytest.mark.parametrize("name", ["landcoverai", "landcoverai-100"])
def test_landcoverai(tmp_path, name):
    landcoverai(tmp_path / "torchgeo" / name.replace("-", ""))
    card, out = prepared(name, tmp_path)
    assert card["classes"] == ["Background", "Building", "Woodland", "Water", "Road"]
    assert [card["splits"][s]["count"] for s in ("train", "val", "test")] == [8, 3, 4]
    assert card["splits"]["train"]["groups"] == 2 and card["spatially_random"]
    store = ImageStore(out.outputs["test"])
    row = store.samples.to_pylist()[3]
    assert (row["sample_id"], row["group_id"]) == ("test/N-33-2-1_3", "N-33-2-1")
    chunk = store.read()
    np.testing.assert_array_equal(chunk.masks[3], mask(23, values=range(5)))
    assert np.abs(chunk.images[3].astype(int) - photo(23).transpose(2, 0, 1)).mean() < 6


def loveda(root) -> None:
    files = {}
    for s, (split, count) in enumerate({"Train": 6, "Val": 2, "Test": 2}.items()):
        for p, place in enumerate(("Urban", "Rural")):
            for i in range(count):
                number = 100 * s + 10 * p + i
                files[f"{split}/{place}/images_png/{i}.png"] = encode(photo(number))
                if split != "Test":
                    stored = encode(mask(number, values=range(8)))
                    files[f"{split}/{place}/masks_png/{i}.png"] = stored
    write_folder(root, files)


def test_loveda_has_no_data_as_0_and_masks_in_train_and_val_only(tmp_path):
    loveda(tmp_path / "torchgeo" / "loveda")
    card, out = prepared("loveda", tmp_path)
    counts = [card["splits"][s]["count"] for s in ("train", "val", "test")]
    assert sum(counts[:2]) == 12 and counts[1] > 0 and counts[2] == 4
    assert card["classes"][0] == "background" and len(card["classes"]) == 7
    assert card["ignore_index"] == 255 and card["splits"]["test"]["ignored_pixels"] > 0
    store = ImageStore(out.outputs["test"])
    names = store.samples["sample_id"].to_pylist()
    assert sorted(names)[0] == "Val/Rural/images_png/0.png"
    stored = mask(110, values=range(8)).astype(int)
    expected = np.where(stored == 0, 255, stored - 1)
    np.testing.assert_array_equal(store.read().masks[names.index(sorted(names)[0])], expected)


def test_a_split_without_masks_is_refused_before_it_is_decoded(tmp_path):
    loveda(tmp_path / "torchgeo" / "loveda")
    entry = entry_of("loveda", tmp_path)
    del entry["source"]["split_arguments"]
    with pytest.raises(PermafrostError, match="LoveDA returns no 'mask' for test, only image"):
        open_source(entry, where="dataset set")


def test_a_class_that_misnumbers_its_masks_needs_their_meaning(tmp_path):
    loveda(tmp_path / "torchgeo" / "loveda")
    entry = entry_of("loveda", tmp_path)
    del entry["mask_values"], entry["classes"]
    with pytest.raises(PermafrostError, match="do not number the classes.*Remedy: .*mask_values"):
        open_source(entry, where="dataset set")


def test_deepglobe_leaves_out_what_is_unknown(tmp_path):
    colours = [(0, 255, 255), (255, 255, 0), (255, 0, 255), (0, 255, 0), (0, 0, 255)]
    colours = np.array([*colours, (255, 255, 255), (0, 0, 0)], np.uint8)
    files = {}
    for part, count in (("training_data", 10), ("test_data", 3)):
        for i in range(count):
            truth = mask(i, values=range(7))
            files[f"data/{part}/images/{i}_sat.jpg"] = encode(photo(i), "jpeg")
            files[f"data/{part}/masks/{i}_mask.png"] = encode(colours[truth])
    write_folder(tmp_path / "torchgeo" / "deepglobe", files)
    card, out = prepared("deepglobe-landcover", tmp_path)
    assert card["classes"][-1] == "barren" and card["splits"]["test"]["count"] == 3
    expected = mask(0, values=range(7)).astype(int)
    expected[expected == 6] = 255
    np.testing.assert_array_equal(ImageStore(out.outputs["test"]).read().masks[0], expected)


def test_dlrsd_is_one_part_that_is_divided_here(tmp_path):
    from torchgeo.datasets import DLRSD

    files = {}
    for c, name in enumerate(("airplane", "beach")):
        for i in range(10):
            stored = mask(10 * c + i, values=np.arange(1, 18), size=(64, 64))
            stored[:17, 0] = np.arange(1, 18)
            files[f"DLRSD/Images/{name}/{name}{i:02d}.tif"] = encode(
                photo(10 * c + i, (64, 64)), "tiff"
            )
            files[f"DLRSD/Labels/{name}/{name}{i:02d}.png"] = encode(stored)
    write_folder(tmp_path / "torchgeo" / "dlrsd", files)
    card, out = prepared("dlrsd", tmp_path)
    assert card["classes"] == list(DLRSD.classes)
    assert sum(card["splits"][s]["count"] for s in ("train", "val", "test")) == 20
    store = ImageStore(out.outputs["train"])
    assert store.samples["sample_id"][0].as_py().startswith("DLRSD/Images/airplane/airplane")
    assert store.read().masks[0][:17, 0].tolist() == list(range(17))


def test_a_value_below_zero_is_no_class(tmp_path):
    files = {}
    for i in range(10):
        files[f"DLRSD/Images/a/{i}.tif"] = encode(photo(i), "tiff")
        files[f"DLRSD/Labels/a/{i}.png"] = encode(np.full((24, 32), i % 3, np.uint8))
    write_folder(tmp_path / "torchgeo" / "dlrsd", files)
    with pytest.raises(PermafrostError, match="DLRSD/Images/a/0.tif: its mask holds the values -1"):
        Prepared(tmp_path / "out").run(entry_of("dlrsd", tmp_path))


def test_cloud_cover_has_four_bands_and_masks_of_its_own(tmp_path):
    files = {}
    for folder, split, count in (("public", "train", 8), ("private", "test", 3)):
        names = [f"chip{i}" for i in range(count)]
        files[f"{folder}/{split}_metadata.csv"] = "\n".join(
            ["chip_id,place", *(f"{n},x" for n in names)]
        ).encode()
        for i, name in enumerate(names):
            for b, band in enumerate(("B02", "B03", "B04", "B08")):
                array = np.full((1, 24, 32), 1000 * b + i, np.uint16)
                array[0, :12] += 500
                files[f"{folder}/{split}_features/{name}/{band}.tif"] = geotiff(array)
            files[f"{folder}/{split}_labels/{name}.tif"] = geotiff(mask(i, values=(0, 1))[None])
    write_folder(tmp_path / "torchgeo" / "cloud-cover", files)
    card, out = prepared("cloud-cover", tmp_path)
    assert card["classes"] == ["clear", "cloud"]
    chunk = ImageStore(out.outputs["test"]).read()
    assert chunk.images.dtype == np.uint16
    assert chunk.images[2, :, 23, 0].tolist() == [2, 1002, 2002, 3002]
    np.testing.assert_array_equal(chunk.masks[2], mask(2, values=(0, 1)))


def test_masks_with_one_channel_are_squeezed_and_others_refused(tmp_path):
    landcoverai(tmp_path / "torchgeo" / "landcoverai")
    source = open_source(entry_of("landcoverai", tmp_path), where="dataset set")
    truth = source.decode(0).mask
    sample = {"mask": truth[None]}
    np.testing.assert_array_equal(source._mask(sample), truth)
    with pytest.raises(Exception, match=r"its mask has shape \(2, 24, 32\)"):
        source._mask({"mask": np.stack([truth, truth])})


def test_colours_are_for_files_not_for_torchgeo(tmp_path):
    landcoverai(tmp_path / "torchgeo" / "landcoverai")
    entry = entry_of("landcoverai", tmp_path)
    entry |= {"classes": ["a", "b"], "mask_values": {"#000000": "a", "#FFFFFF": "b"}}
    with pytest.raises(PermafrostError, match="turns the colours of masks into numbers"):
        open_source(entry, where="dataset set")
