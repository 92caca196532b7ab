"""Rasters of numbers: what files hold, what the store and the card make of it."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.datasets.images import Prepared, encode, geotiff, write_folder, write_table, write_zip
from helpers.datasets.rasters import heights, npy, raster_entry, raster_files
from permafrost.core.errors import PermafrostError
from permafrost.data.entry import Target
from permafrost.data.labels.masks import decode_mask
from permafrost.data.labels.rasters import TargetCoding, decode_raster
from permafrost.data.labels.targets import BINS, TargetStatistics
from permafrost.plan.validation import validate

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")


@pytest.fixture
def out(tmp_path):
    return Prepared(tmp_path / "out")


def stored(out: Prepared) -> dict[str, np.ndarray]:
    """Sample id -> its stored targets, without padding."""
    found = {}
    for split in ("train", "val", "test"):
        store = out.store(split)
        samples = store.samples()
        for target, name, height, width in zip(
            store.read("targets"),
            *(samples[c].to_pylist() for c in ("sample_id", "height", "width")),
            strict=True,
        ):
            assert target.dtype == np.float32
            assert np.isnan(target[height:]).all() and np.isnan(target[:, width:]).all()
            found[name] = target[:height, :width]
    return found


def check(out: Prepared, *, rtol=0.0, atol=0.0, sizes=((24, 32),)) -> None:
    found = stored(out)
    assert len(found) == 12
    for name, target in found.items():
        number = int(name[-6:-4])
        expected = heights(number, sizes[number % len(sizes)])
        np.testing.assert_allclose(target, expected, rtol=rtol, atol=atol)


def whole(target: np.ndarray) -> np.ndarray:
    """Hundredths above -50, with 65535 for no data."""
    return np.where(np.isnan(target), 65535, np.rint((target + 50) * 100)).astype(np.uint16)


@pytest.mark.parametrize("archive", [False, True])
def test_floats_of_a_folder_or_archive_are_stored_as_they_are(out, tmp_path, archive):
    files = raster_files()
    place = write_zip(tmp_path / "x.zip", files) if archive else write_folder(tmp_path / "x", files)
    entry = raster_entry(place, target={"name": "height", "unit": "m"})
    validate(entry, "dataset", where="test")
    card = out.run(entry)
    check(out)
    assert (card["target"]["name"], card["target"]["unit"]) == ("height", "m")
    assert out.card == card and card["classes"] == []
    assert "labels" not in out.store("train") and "masks" not in out.store("train")


def test_the_card_has_the_statistics_of_all_pixels_with_data(out, tmp_path):
    card = out.run(raster_entry(write_folder(tmp_path / "x", raster_files())))
    edges = np.array(card["target"]["edges"])
    assert len(edges) == BINS + 1
    for split, about in card["target"]["splits"].items():
        targets = out.store(split).read("targets").astype(float)
        known = targets[~np.isnan(targets)]
        assert about["pixels"] == known.size and about["empty_images"] == 0
        assert about["without_data"] == pytest.approx(np.isnan(targets).mean())
        for name, value in (
            ("mean", known.mean()),
            ("std", known.std()),
            ("min", known.min()),
            ("max", known.max()),
        ):
            assert about[name] == pytest.approx(value, rel=1e-9), name
        assert about["histogram"] == np.histogram(known, edges)[0].tolist()


def test_images_of_several_sizes_are_padded_with_no_data(out, tmp_path):
    sizes = ((24, 32), (28, 20), (40, 24))
    card = out.run(raster_entry(write_folder(tmp_path / "x", raster_files(sizes=sizes))))
    check(out, sizes=sizes)
    assert card["image_size"] == {"min": [24, 20], "max": [40, 32]}
    total = sum(heights(i, sizes[i % 3]).size for i in range(12))
    gone = sum(int(np.isnan(heights(i, sizes[i % 3])).sum()) for i in range(12))
    assert sum(s["pixels"] for s in card["target"]["splits"].values()) == total - gone


def test_sixteen_bit_counts_get_scale_offset_and_no_data(out, tmp_path):
    files = raster_files(ending="png", store=lambda target: encode(whole(target)))
    entry = raster_entry(
        write_folder(tmp_path / "x", files), target={"nodata": 65535, "scale": 0.01, "offset": -50}
    )
    validate(entry, "dataset", where="test")
    out.run(entry)
    check(out, atol=0.00501)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_numpy_files_are_named_by_a_pattern(out, tmp_path, kind):
    files = raster_files(ending="npy", store=lambda target: npy(target.astype(kind)))
    out.run(raster_entry(write_folder(tmp_path / "x", files), {"targets": "targets/<stem>.npy"}))
    check(out)


def test_no_data_that_files_mark_and_the_entry_names(out, tmp_path):
    def store(target):
        return geotiff(np.nan_to_num(target, nan=-9999)[None], nodata=-9999)

    place = write_folder(tmp_path / "x", raster_files(store=store))
    out.run(raster_entry(place, target={"nodata": [-9999, -8888]}))
    check(out)


def test_marked_numbers_can_be_kept(tmp_path):
    values = np.array([[0, 1], [2, 0]], np.float32)
    data = geotiff(values[None], nodata=0)
    np.testing.assert_array_equal(TargetCoding(keep=True).read(data), values)
    expected = np.array([[np.nan, 1], [2, np.nan]])
    np.testing.assert_array_equal(TargetCoding((0.0,)).read(data), expected)


def test_what_a_mask_of_the_file_hides_has_no_data(tmp_path):
    import rasterio

    path = tmp_path / "x.tif"
    layout = {"driver": "GTiff", "count": 1, "height": 2, "width": 2, "dtype": "int16"}
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), rasterio.open(path, "w", **layout) as file:
        file.write(np.array([[[1, 2], [3, 4]]], np.int16))
        file.write_mask(np.array([[True, False], [True, True]]))
    found = TargetCoding().read(path.read_bytes())
    np.testing.assert_array_equal(found, [[1, np.nan], [3, 4]])


def test_the_scale_of_a_file_must_be_that_of_the_entry():
    import rasterio

    with rasterio.MemoryFile() as memory:
        with memory.open(driver="GTiff", count=1, height=2, width=2, dtype="int16") as file:
            file.write(np.full((1, 2, 2), 30, np.int16))
            file.scales, file.offsets = (0.5,), (1.0,)
        data = memory.read()
    assert (decode_raster(data).scale, decode_raster(data).offset) == (0.5, 1.0)
    np.testing.assert_array_equal(TargetCoding(scale=0.5, offset=1).read(data), np.full((2, 2), 16))
    with pytest.raises(Exception, match="scale 0.5 and the offset 1, the entry 1 and 0"):
        TargetCoding().read(data)


def test_a_table_names_image_and_raster(out, tmp_path):
    place = write_folder(tmp_path / "x", raster_files())
    rows = [
        {"name": f"{i:02d}", "part": ("train", "val", "test")[i % 3], "tile": f"t{i // 6}"}
        for i in range(12)
    ]
    table = write_table(tmp_path / "t.csv", rows)
    entry = raster_entry(place)
    entry["source"] = {
        "kind": "table",
        "table": str(table),
        "images": str(place),
        "path": "images/<name>.png",
        "targets": "targets/<name>.tif",
        "split": "part",
        "group": "tile",
    }
    entry["splits"] = {"method": "given"}
    validate(entry, "dataset", where="test")
    card = out.run(entry)
    check(out)
    assert card["splits"]["train"]["count"] == 4 and card["splits"]["train"]["groups"] == 2


def test_an_image_without_any_data_is_kept_and_counted(out, tmp_path):
    files = raster_files()
    files["targets/03.tif"] = geotiff(np.full((1, 24, 32), np.nan, np.float32))
    card = out.run(raster_entry(write_folder(tmp_path / "x", files)))
    assert np.isnan(stored(out)["images/03.png"]).all()
    assert sum(split["empty_images"] for split in card["target"]["splits"].values()) == 1


def test_workers_and_batches_change_nothing(tmp_path):
    place = write_folder(tmp_path / "x", raster_files())
    cards = [Prepared(tmp_path / f"out{n}").run(raster_entry(place), workers=n) for n in (1, 3)]
    assert cards[0] == cards[1]


def test_statistics_of_parts_are_those_of_the_whole():
    parts = [heights(i) + 1e6 for i in range(5)] + [np.full((3, 3), np.nan)]
    found = sum(map(TargetStatistics.of, parts), TargetStatistics())
    values = np.concatenate([p[~np.isnan(p)] for p in parts]).astype(float)
    assert (found.count, found.empty) == (values.size, 1)
    assert found.mean == pytest.approx(values.mean(), rel=1e-12)
    assert found.squares == pytest.approx(np.sum((values - values.mean()) ** 2), rel=1e-9)


def demo(**source) -> dict:
    chips = {"train": 4, "val": 2, "test": 2}
    small = {"chips": chips, "scenes": {"train": 2, "val": 1, "test": 1}}
    return {
        "task": "pixel_regression",
        "target": {"name": "height", "unit": "m"},
        "source": {"kind": "demo", "chip_size": 64, "scene_size": 128, **small, **source},
    }


def test_the_demo_world_knows_heights_and_loses_open_water(out, tmp_path):
    entry = demo(seed=4)
    validate(entry, "dataset", where="test")
    card = out.run(entry)
    again = Prepared(tmp_path / "again")
    assert again.run(entry) == card
    targets = out.store("train").read("targets")
    np.testing.assert_array_equal(targets, again.store("train").read("targets"))
    assert np.nanmin(targets) == 0 and 2 < np.nanmax(targets) < 60
    assert 0 < card["target"]["splits"]["train"]["without_data"] < 1


def test_what_stands_in_the_demo_world_can_be_seen(out):
    out.run(demo())
    images, targets = (out.store("train").read(name) for name in ("images", "targets"))
    known = ~np.isnan(targets)
    # crowns are darker than what is around them
    assert np.corrcoef(images[:, 0][known], targets[known] > 3)[0, 1] < -0.3


def test_photographs_of_heights_are_those_of_crowns(out, tmp_path):
    out.run(demo())
    crowns = Prepared(tmp_path / "crowns")
    entry = demo()
    del entry["target"]
    crowns.run({**entry, "task": "detection"})
    for split in ("train", "test"):
        np.testing.assert_array_equal(
            out.store(split).read("images"), crowns.store(split).read("images")
        )


@pytest.mark.parametrize("fill", [-9999, -32768, float(np.finfo(np.float32).max)])
def test_usual_fill_values_are_no_numbers_unless_the_entry_says_so(tmp_path, fill):
    values = heights(3)
    values[0] = fill
    files = raster_files() | {"targets/03.tif": geotiff(values[None])}
    place = write_folder(tmp_path / "set", files)
    with pytest.raises(
        PermafrostError, match=f"holds {fill:g} in 32 pixels".replace("+", r"\+")
    ) as error:
        Prepared(tmp_path / "no").run(raster_entry(place))
    # the number that the remedy says is the one in the file
    said = float(error.value.remedy.partition("nodata: ")[2].partition("}")[0])
    assert said == fill
    kept = TargetCoding.of(Target(scale=1, offset=0, nodata="keep")).read(geotiff(values[None]))
    assert (kept[0] == np.float32(fill)).all()
    gone = TargetCoding.of(Target(scale=1, offset=0, nodata=fill)).read(geotiff(values[None]))
    assert np.isnan(gone[0]).all()
    np.testing.assert_array_equal(gone[1:], values[1:])


def test_an_array_with_its_one_channel_last_is_a_raster_and_a_mask():
    values = heights(3)
    np.testing.assert_array_equal(decode_raster(npy(values[..., None])).values, values)
    labels = (values > 1).astype(np.uint8)
    np.testing.assert_array_equal(decode_mask(npy(labels[..., None])), labels)
