"""`prepare` writes stores and card in the agreed form, and the reader gives back what was put in."""

import errno
import json
import os

import numpy as np
import pytest
from helpers.datasets.images import (
    RANDOM,
    Prepared,
    class_files,
    dataset_entry,
    encode,
    folder_entry,
    geotiff,
    photo,
    write_folder,
    write_zip,
)
from permafrost.core.errors import PermafrostError
from permafrost.core.outputs import PARTIAL
from permafrost.data.store.card import read_card
from permafrost.data.store.image_store import SAMPLES_SCHEMA, ImageStore
from permafrost.data.store.job import plan_dataset


@pytest.fixture
def out(tmp_path):
    return Prepared(tmp_path / "out")


@pytest.fixture
def images(tmp_path):
    return write_zip(tmp_path / "images.zip", class_files(count=20))


def test_stores_and_card_have_the_agreed_form(out, images):
    card = out.run(folder_entry(images, title="Fields", gsd_m=10))
    text = json.loads(out.card_path.read_text())
    assert len(text.pop("sha256")) == 64
    assert card == text == out.card
    assert "target" not in card
    assert card["title"] == "Fields" and card["task"] == "classification"
    assert card["classes"] == ["field", "town"] and card["selected"] == ["red", "green", "blue"]
    assert [card["splits"][s]["count"] for s in ("train", "val", "test")] == [20, 10, 10]
    assert card["splits"]["train"]["class_counts"] == [10, 10]
    assert card["image_size"] == {"min": [24, 32], "max": [24, 32]}
    store = out.store("train")
    assert store.shape("images") == (20, 3, 24, 32) and store.shape("labels") == (20,)
    assert store.samples().schema.equals(SAMPLES_SCHEMA)
    assert store.attributes["dataset"] == "set" and store.attributes["split"] == "train"
    assert out.leftovers() == ["card.json", "test.zarr", "train.zarr", "val.zarr"]


def test_pixels_and_labels_stand_beside_their_sample(out, images):
    out.run(folder_entry(images))
    files = class_files(count=20)
    from permafrost.data.files.decode import Decoding, decode_image

    for split in ("train", "val", "test"):
        store = ImageStore(out.outputs[split], expect="f" * 32)
        chunk = store.read()
        for i, name in enumerate(store.samples["sample_id"].to_pylist()):
            np.testing.assert_array_equal(
                chunk.images[i], decode_image(files[name], Decoding(3)).image
            )
            assert chunk.labels[i] == (name.split("/")[0] == "town")
    assert store.labels().dtype == np.int64


def test_band_statistics_are_those_of_train_only(out, images):
    card = out.run(folder_entry(images))
    train = ImageStore(out.outputs["train"]).read().images.astype(float)
    for number, band in enumerate(card["bands"]):
        assert band["mean"] == pytest.approx(train[:, number].mean())
        assert band["std"] == pytest.approx(train[:, number].std())
        assert (band["min"], band["max"]) == (train[:, number].min(), train[:, number].max())
        assert band["unit"] == "uint8" and band["scale"] == pytest.approx(1 / 255)
    assert [b["wavelength_nm"] for b in card["bands"]] == [665, 560, 490]


def test_the_same_data_give_the_same_bytes_with_any_number_of_workers(tmp_path, images):
    one, other = Prepared(tmp_path / "one"), Prepared(tmp_path / "other")
    one.run(folder_entry(images), workers=1)
    other.run(folder_entry(images), workers=4)
    files = sorted(p.relative_to(one.folder) for p in one.folder.rglob("*") if p.is_file())
    assert len(files) > 10
    for file in files:
        assert (one.folder / file).read_bytes() == (other.folder / file).read_bytes(), file


def test_sizes_that_differ_are_padded_and_kept_apart(out, tmp_path):
    files = {}
    for c, name in enumerate(("field", "town")):
        for i in range(12):
            size = [(20, 30), (26, 28), (24, 31)][i % 3]
            files[f"{name}/{i:02d}.png"] = encode(photo(100 * c + i, size, low=1))
    card = out.run(folder_entry(write_folder(tmp_path / "set", files)))
    assert card["image_size"] == {"min": [20, 28], "max": [26, 31]}
    store = ImageStore(out.outputs["train"])
    assert store.image_shape == (3, 26, 31) and not store.uniform
    chunk = store.read()
    for image, height, width in zip(chunk.images, chunk.heights, chunk.widths, strict=True):
        assert (image[:, :height, :width] > 0).all()
        assert not image[:, height:].any() and not image[:, :, width:].any()
    assert min(band["min"] for band in card["bands"]) >= 1  # padding is no pixel
    seen = 0
    for positions, same in chunk.same_sizes():
        assert same.shape[2:] == (chunk.heights[positions[0]], chunk.widths[positions[0]])
        np.testing.assert_array_equal(
            same[0], chunk.images[positions[0]][:, : same.shape[2], : same.shape[3]]
        )
        seen += len(positions)
    assert seen == len(store)


def test_reading_in_chunks_gives_everything_once_in_order(out, images):
    out.run(folder_entry(images))
    store = ImageStore(out.outputs["train"])
    whole = store.read()
    for size in (1, 7, 1000):
        starts = range(0, len(store), size)
        chunks = [store.read(start, start + size) for start in starts]
        np.testing.assert_array_equal(np.concatenate([c.images for c in chunks]), whole.images)
        np.testing.assert_array_equal(np.concatenate([c.labels for c in chunks]), whole.labels)
        assert [c.start for c in chunks] == list(
            np.cumsum([0, *[len(c.images) for c in chunks]])[:-1]
        )


def test_a_store_or_card_of_another_plan_is_refused(out, images):
    out.run(folder_entry(images))
    with pytest.raises(PermafrostError, match="another plan"):
        ImageStore(out.outputs["train"], expect="0" * 32)
    with pytest.raises(PermafrostError, match="another plan"):
        read_card(out.card_path, expect="0" * 32)
    out.card_path.write_text(out.card_path.read_text()[:50])
    with pytest.raises(PermafrostError, match="not a readable card"):
        read_card(out.card_path)


@pytest.mark.parametrize("key", ["classes", "sha256", "unknown", "not a number"])
def test_a_card_without_a_key_or_with_another_is_refused(out, images, key):
    content = out.run(folder_entry(images)) | {"sha256": "0" * 64}
    more = {"unknown": {"unknown": 1}, "not a number": {"size_bytes": float("nan")}}
    content.update(more[key]) if key in more else content.pop(key, None)
    out.card_path.write_text(json.dumps(content))
    with pytest.raises(PermafrostError, match="not a complete card"):
        read_card(out.card_path)


@pytest.mark.parametrize("edit", [('"field"', '"meadow"'), ('"mean": ', '"mean": 1')])
def test_a_card_that_was_edited_is_refused(out, images, edit):
    out.run(folder_entry(images))
    text = out.card_path.read_text()
    assert edit[0] in text
    out.card_path.write_text(text.replace(*edit))
    with pytest.raises(PermafrostError, match="not what was written") as caught:
        read_card(out.card_path)
    assert caught.value.where == str(out.card_path)


def test_the_selection_of_the_entry_is_recorded_and_all_bands_are_stored(out, images):
    card = out.run(folder_entry(images, select=["blue", "red"]))
    assert card["selected"] == ["blue", "red"]
    assert out.store("val").shape("images")[1] == 3


def test_declared_nodata_is_filled_and_left_out_of_the_statistics(out, tmp_path):
    from helpers.datasets.images import geotiff

    rng = np.random.default_rng(0)
    files, raw = {}, []
    for i in range(24):
        array = rng.uniform(0.1, 0.5, (2, 9, 9)).astype(np.float32)
        array[0, :2] = np.nan
        files[f"{'ab'[i % 2]}/{i}.tif"] = geotiff(array, lon=i)
        raw.append(array)
    entry = {
        "task": "classification",
        "sensor": "sentinel2",
        "bands": ["B04", "B08"],
        "units": {"unit": "reflectance"},
        "nodata": {"value": "nan", "fill": 0},
        "source": {"kind": "folder", "path": str(write_folder(tmp_path / "set", files))},
        "splits": {"method": "block", "block_km": 50, "fractions": [0.5, 0.25, 0.25]},
    }
    card = out.run(entry)
    images = ImageStore(out.outputs["train"]).read().images
    assert not images[:, 0, :2].any()
    assert card["bands"][0]["mean"] == pytest.approx(images[:, 0, 2:].mean(), rel=1e-6)
    assert card["bands"][0]["min"] > 0.09
    assert [band["nodata"] for band in card["bands"]] == [{"value": "nan", "fill": 0}] * 2
    assert card["split_method"] == "block" and not card["spatially_random"]
    assert card["audit"]["min_distance_km"] > 50
    assert ImageStore(out.outputs["test"]).samples["lon"].null_count == 0
    # a random split of the same places is marked in the card, though no table gave coordinates
    assert out.run({**entry, "splits": RANDOM})["spatially_random"]


def test_a_plan_can_be_made_without_reading_pixels(tmp_path):
    files = {f"{c}/{i}.png": b"no image" for c in "ab" for i in range(8)}
    job = plan_dataset("set", dataset_entry(folder_entry(write_folder(tmp_path / "set", files))))
    assert [len(job.of(s)) for s in ("train", "val", "test")] == [8, 4, 4]


def test_a_failure_while_pixels_are_written_leaves_nothing(out, images, monkeypatch):
    from permafrost.data.store import writing

    calls = []

    def fail(*arguments):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return original(*arguments)

    original = writing.padded
    monkeypatch.setattr(writing, "padded", fail)
    with pytest.raises(KeyboardInterrupt):
        out.run(folder_entry(images))
    assert out.leftovers() == []
    monkeypatch.undo()
    out.run(folder_entry(images))
    assert not [name for name in out.leftovers() if PARTIAL in name]


def test_a_failure_after_an_earlier_success_keeps_what_was_there(out, images, tmp_path):
    out.run(folder_entry(images))
    before = out.card_path.read_bytes()
    broken = write_zip(
        tmp_path / "broken.zip", {**class_files(count=20), "town/x.png": b"\x89PNG\r\n"}
    )
    with pytest.raises(PermafrostError):
        out.run(folder_entry(broken))
    assert out.card_path.read_bytes() == before
    assert len(out.store("train")) == 20


def test_a_failure_at_any_step_of_taking_their_places_keeps_all_three_stores_and_the_card(
    out, images, tmp_path, monkeypatch
):
    """Of two preparations, the second fails at one renaming after the other: the first must stay whole."""
    from permafrost.core import outputs

    def content() -> dict[str, bytes]:
        return {str(p): p.read_bytes() for p in out.card_path.parent.rglob("*") if p.is_file()}

    out.run(folder_entry(images))
    before = content()
    more = folder_entry(write_zip(tmp_path / "more.zip", class_files(count=24)))
    rename, steps = os.rename, 0
    while True:
        taken = iter(range(100))

        def fail_once(source, place, steps=steps, taken=taken):
            if next(taken) == steps:
                raise OSError(errno.EIO, "Input/output error")
            rename(source, place)

        monkeypatch.setattr(outputs.os, "rename", fail_once)
        try:
            out.run(more)
            break
        except OSError:
            assert content() == before
        steps += 1
    monkeypatch.undo()
    assert steps == 8, "four leave their places, four take them"
    assert len(out.store("train")) == 24
    assert read_card(out.card_path).splits["train"]["count"] == 24


@pytest.mark.parametrize(
    ("fill", "dtype"), [(-9999, "int16"), (-32768, "int16"), (-9999, "float32")]
)
def test_usual_fill_values_in_images_are_an_error_unless_the_entry_says_so(tmp_path, fill, dtype):
    files = {
        f"{kind}/{number}.tif": geotiff(photo(number).transpose(2, 0, 1).astype(dtype))
        for number in range(8)
        for kind in ("field", "town")
    }
    array = photo(3).transpose(2, 0, 1).astype(dtype)
    array[:, :2] = fill
    files["town/3.tif"] = geotiff(array)
    entry = folder_entry(write_folder(tmp_path / "set", files))
    entry["units"] = {"unit": "digital_number", "scale": 1}
    with pytest.raises(PermafrostError, match=f"town/3.tif: holds {fill} in 192 pixels"):
        Prepared(tmp_path / "no").run(entry)
    Prepared(tmp_path / "kept").run({**entry, "nodata": "keep"})
    Prepared(tmp_path / "out").run({**entry, "nodata": {"value": fill, "fill": 0}})
