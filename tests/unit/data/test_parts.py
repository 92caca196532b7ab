"""Preparation in parts: the bytes of an undivided run, whatever the number of parts."""

from __future__ import annotations

import itertools
import json
import shutil

import numpy as np
import pytest
from helpers.datasets.images import (
    Prepared,
    catalogue_entry,
    class_files,
    encode,
    folder_entry,
    geotiff,
    pair_entry,
    pair_files,
    photo,
    validated,
    write_folder,
)
from helpers.datasets.objects import coco, coco_entry, image_files
from helpers.datasets.rasters import raster_entry, raster_files
from helpers.datasets.sensors_with_objects import Scenes
from permafrost.core.errors import PermafrostError
from permafrost.core.specification import SPLITS
from permafrost.data.bands.in_order import GROUP, Moments, Pieces, Total
from permafrost.data.bands.statistics import BandStatistics, PixelSample
from permafrost.data.store import writing
from permafrost.data.store.prepare import PrepareSpec

SMALL = {
    "scenes": {"train": 3, "val": 2, "test": 2},
    "chips": {"train": 27, "val": 4, "test": 9},
    "scene_size": 128,
    "chip_size": 32,
}


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Many chunks in little data, of a length that no group of samples divides."""
    monkeypatch.setattr(writing, "CHUNK_BYTES", 15_000)


# --- datasets: folder -> entry -----------------------------------------------------------------------


def flat(folder):
    return folder_entry(write_folder(folder, class_files(count=60)))


def copies(folder):
    """Pairs of equal photographs, within the splits and between them."""
    files = class_files(count=60)
    pairs = itertools.batched(sorted(files), 2)
    return folder_entry(write_folder(folder, files | {one: files[other] for one, other in pairs}))


def of_sizes(folder):
    """Photographs of sizes that grow, so that neither first images nor all parts fit in the first layout."""
    files = {
        f"{name}/{number:03d}.png": encode(photo(100 * place + number, (16 + number, 40 - number)))
        for place, name in enumerate(("field", "town"))
        for number in range(22)
    }
    return folder_entry(write_folder(folder, files))


def one_is_larger(folder):
    """A single photograph of the test split is larger than the others."""
    files = class_files(count=40)
    larger = sorted(files)[-1]
    files[larger] = encode(photo(7, (40, 50)))
    return folder_entry(write_folder(folder, files))


def with_masks(folder):
    return pair_entry(write_folder(folder, pair_files(40)))


def masks_of_sizes(folder):
    files = pair_files(20)
    files |= {name.replace("/", "/9"): data for name, data in pair_files(9, size=(48, 60)).items()}
    for number in range(9):
        files[f"images/9{number:02d}.png"] = encode(photo(number, (48, 60)))
    return pair_entry(write_folder(folder, files))


def numbers_of_pixels(folder):
    sizes = ((24, 32), (28, 40), (20, 20))
    return raster_entry(write_folder(folder, raster_files(30, sizes=sizes)))


def with_places(folder):
    """Files of which some say where they lie, with pixels without data, divided by blocks."""
    generator = np.random.default_rng(0)
    files = {}
    for number in range(50):
        image = generator.normal(5, 2, (3, 24, 32)).astype(np.float32)
        image[:, : number % 5] = -1
        files[f"{('field', 'town')[number % 2]}/{number:02d}.tif"] = geotiff(image, lon=number / 9)
    return folder_entry(
        write_folder(folder, files),
        splits={"method": "block", "block_km": 30, "fractions": [0.5, 0.25, 0.25]},
        nodata={"value": -1, "fill": 0},
        units={"unit": "reflectance"},
        allow_missing_classes=True,
    )


def some_places(folder):
    files = class_files(("field",), count=30)
    files |= {
        f"town/{number:02d}.tif": geotiff(photo(number).transpose(2, 0, 1), lon=number)
        for number in range(30)
    }
    extensions = ["png", "tif"]
    source = {"kind": "folder", "path": str(write_folder(folder, files)), "extensions": extensions}
    return folder_entry(folder, source=source)


def objects(folder):
    write_folder(folder, image_files(content := coco(20)))
    return coco_entry(folder, content)


def tiles(folder):
    return {**objects(folder), "tiles": {"size": 32, "overlap": 0.25}}


def sensors_and_dates(folder):
    scenes = Scenes((11, 4, 4), dates=3)
    return scenes.entry(scenes.write(folder), tiles={"size": 32, "overlap": 0.5})


def demo(name):
    def entry(folder):
        found = catalogue_entry(name, folder)
        found["source"] |= SMALL
        return {
            **found,
            **({} if "regression" in found["task"] else {"allow_missing_classes": True}),
        }

    return entry


DATASETS = {
    "flat": flat,
    "copies": copies,
    "sizes": of_sizes,
    "one larger": one_is_larger,
    "masks": with_masks,
    "masks of sizes": masks_of_sizes,
    "numbers of pixels": numbers_of_pixels,
    "places": with_places,
    "some places": some_places,
    "objects": objects,
    "tiles": tiles,
    "sensors and dates": sensors_and_dates,
    "labels of a world": demo("demo-multilabel"),
    "a number": demo("demo-regression"),
    "heights of a world": demo("demo-height"),
    "crowns": demo("demo-detection"),
    "pairs": demo("demo-change"),
    "series": demo("demo-series"),
}


@pytest.mark.parametrize("name", DATASETS)
def test_the_bytes_of_an_undivided_run(tmp_path, name):
    entry = DATASETS[name](tmp_path / "data")
    whole = Prepared(tmp_path / "whole")
    whole.run(entry)
    expected = whole.contents()
    assert sum("train.zarr/images/c/" in path for path in expected) > 2
    # the numbers of parts only once: what they do is the same for all
    for parts in (1, 2, 3, 7, 40) if name == "flat" else (3,):
        out = Prepared(tmp_path / f"in-{parts}" / "out")
        out.run(entry, parts=parts)
        found = out.contents()
        assert found.keys() == expected.keys()
        assert [path for path in expected if found[path] != expected[path]] == []


@pytest.mark.slow
@pytest.mark.shared
def test_real_images_in_parts(tmp_path, shared_data, monkeypatch):
    """EuroSAT: thousands of images in a zip archive, in chunks of their true size."""
    monkeypatch.undo()
    entry = catalogue_entry("eurosat-rgb", shared_data)
    whole, out = Prepared(tmp_path / "whole"), Prepared(tmp_path / "out")
    whole.run(entry)
    out.run(entry, parts=3)
    assert len(whole.store("train")) > 2_000
    assert out.contents() == whole.contents()


# --- what is refused -----------------------------------------------------------------------------------


class Three:
    """A dataset of 60 photographs, of which no part is made yet, and where the three are to be."""

    def __init__(self, folder) -> None:
        self.data = write_folder(folder / "data", class_files(count=60))
        self.spec = PrepareSpec(dataset="set", entry=validated(folder_entry(self.data)))
        self.out = Prepared(folder / "out")
        self.folders = [folder / "parts" / f"{number}-of-3" for number in range(3)]

    def make(self) -> None:
        for folder in self.folders:
            self.out.run_part(self.spec, folder)

    def refused(self, match, folders=None, remedy="run snakemake again") -> None:
        with pytest.raises(PermafrostError, match=match) as error:
            self.out.join(self.spec, self.folders if folders is None else folders)
        assert remedy in str(error.value)
        assert not self.out.leftovers()


@pytest.fixture
def three(tmp_path):
    return Three(tmp_path)


@pytest.fixture
def made(three):
    three.make()
    return three


def test_missing_and_doubled_parts(made, tmp_path):
    first, second, third = made.folders
    made.refused("of 3 parts, 0, 2 are here", [first, third])
    made.refused("of 3 parts, 0, 1, 1, 2 are here", [*made.folders, second])
    made.out.run_part(made.spec, tmp_path / "others" / "1-of-2")
    made.refused(
        "parts with count 2 and 3 cannot be joined",
        [first, tmp_path / "others" / "1-of-2", third],
    )
    shutil.rmtree(second)
    made.refused("the part is missing")
    # in any order
    made.out.run_part(made.spec, second)
    made.out.join(made.spec, [third, first, second])
    whole = Prepared(tmp_path / "whole")
    whole.run(folder_entry(made.data))
    assert whole.contents() == made.out.contents()


@pytest.mark.parametrize(
    ("pattern", "match"),
    [
        ("train.zarr/images/c/*/*/*/*", "files of its array 'images' are missing or damaged"),
        ("val.zarr/facts.parquet", "its file facts.parquet is missing or damaged"),
        ("train.zarr/statistics.npz", "its file statistics.npz is missing or damaged"),
    ],
)
def test_damaged_parts(made, pattern, match):
    file = sorted(made.folders[1].glob(pattern))[0]
    content = file.read_bytes()
    file.write_bytes(content[:-1])
    made.refused(match)
    file.unlink()
    made.refused(match)
    file.write_bytes(content)
    made.out.join(made.spec, made.folders)


def altered(folder, change) -> None:
    """Give a part other attributes, sealed as if it had been made so."""
    from permafrost.core.identity import content_digest
    from permafrost.core.stores import DIGEST

    for split in SPLITS:
        place = folder / f"{split}.zarr" / "zarr.json"
        content = json.loads(place.read_text())
        change(content["attributes"])
        content["attributes"][DIGEST] = content_digest(content["attributes"], DIGEST)
        place.write_text(json.dumps(content))


def test_parts_that_were_made_in_another_way(made):
    place = made.folders[1] / "val.zarr" / "zarr.json"
    content = place.read_text()
    place.write_text(content.replace("f" * 32, "e" * 32))
    made.refused("another plan", remedy="")
    place.write_text(content.replace('"samples": 30', '"samples": 31'))
    made.refused("its attributes are not what was written")
    place.write_text(content)
    altered(made.folders[2], lambda about: about["versions"].update(pillow="0.1"))
    made.refused("parts made with pillow 0.1 and .* cannot be joined")
    altered(made.folders[2], lambda about: about["versions"].pop("pillow"))
    altered(made.folders[2], lambda about: about["first"]["images"][0].update(height=25))
    made.refused("parts with the first image .* cannot be joined")


def test_data_of_other_samples(made):
    (made.data / "field/00x.png").write_bytes(encode(photo(3)))
    (made.data / "town/00x.png").write_bytes(encode(photo(4)))
    made.refused("parts of 30 samples of val, where the data have 31")


def test_unreadable_images_are_named_as_by_an_undivided_run(three):
    whole = Prepared(three.out.folder.with_name("whole"))
    whole.run(folder_entry(three.data))
    train = whole.store("train").samples()["sample_id"].to_pylist()
    for name in (train[1], train[-1]):
        (three.data / name).write_bytes(b"no image")
    with pytest.raises(PermafrostError, match="2 of 120 images cannot be used") as error:
        whole.run(folder_entry(three.data))
    _, _, said = str(error.value).partition("cannot be used: ")
    named = []
    for number, folder in enumerate(three.folders):
        try:
            three.out.run_part(three.spec, folder)
        except PermafrostError as failure:
            assert f"dataset set, part {number}-of-3" in str(failure)
            named += [name for name in (train[1], train[-1]) if name in str(failure)]
            reason = str(failure).partition("cannot be used: ")[2].partition(": ")[2]
            assert reason.partition("\n")[0].partition(" (")[0] in said
            assert not folder.exists() or not list(folder.glob("*.zarr"))
    assert named == [train[1], train[-1]]


def test_images_that_must_have_embeddings_are_not_divided(three):
    spec = PrepareSpec(dataset="set", entry=three.spec.entry, matched={"a": {"path": "here"}})
    with pytest.raises(PermafrostError, match="cannot be sharded"):
        three.out.run_part(spec, three.folders[0])


# --- sums and samples, however they are divided ------------------------------------------------------------


def values(count: int) -> list[Moments]:
    generator = np.random.default_rng(0)
    images = generator.normal(1e3, 1, (count, 2, 3, 3)) * generator.uniform(
        0.1, 10, (count, 1, 1, 1)
    )
    return [Moments.of(image) for image in images]


def same(one: Moments, other: Moments) -> bool:
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("count", "mean", "squares")
    )


@pytest.mark.parametrize("length", [1, 5, GROUP, 23, 2 * GROUP, 100])
def test_a_sum_of_pieces_is_that_of_one_run_to_the_last_bit(length):
    samples = values(90)
    whole = Total(Moments.none(2))
    for value in samples:
        whole.add(value)
    joined = Total(Moments.none(2))
    for first in range(0, 90, length):
        piece = Pieces(Moments.none(2), first)
        for value in samples[first : first + length]:
            piece.add(value)
        # a piece made of pieces
        again = Pieces(Moments.none(2), first)
        again.extend(piece)
        joined.extend(again)
    assert same(joined.value, whole.value)
    # the order of additions does matter, so equality says something
    plain = sum(samples, Moments.none(2))
    assert not same(plain, whole.value)
    np.testing.assert_allclose(plain.mean, whole.value.mean, rtol=1e-12)


def test_a_group_that_begins_elsewhere_is_refused():
    piece = Pieces(0, GROUP)
    for _ in range(GROUP):
        piece.add(1)
    total = Total(0)
    total.add(1)
    with pytest.raises(ValueError, match="cannot begin with sample 1"):
        total.extend(piece)


@pytest.mark.parametrize("length", [1, 3, 7, 50])
@pytest.mark.parametrize("dates", [1, 3, 30])
def test_the_sample_of_pixels_does_not_depend_on_the_division(dates, length):
    images = [np.full((dates, 1, 4, 4), number) for number in range(50)]
    whole, joined = PixelSample(20), PixelSample(20)
    for image in images:
        whole.add(image)
    for first in range(0, 50, length):
        part = PixelSample(20, first)
        for image in images[first : first + length]:
            part.add(image)
        joined.merge(part)
    assert np.array_equal(whole.pixels, joined.pixels)
    every = {1: 4, 3: 16, 30: 64}[dates]
    assert sorted(set(whole.pixels[0])) == list(range(0, 50, every))


def test_statistics_of_a_band_without_data_in_a_part():
    images = [np.arange(12.0).reshape(1, 3, 4) + number for number in range(40)]
    gone = [np.full((1, 3, 4), number < 20) for number in range(40)]
    whole, joined = BandStatistics(1), BandStatistics(1)
    for image, out in zip(images, gone, strict=True):
        whole.add(image, out)
    for first in (0, 10, 25):
        part = BandStatistics.piece(1, first)
        for number in range(first, {0: 10, 10: 25, 25: 40}[first]):
            part.add(images[number], gone[number])
        joined.merge(part)
    assert joined.of_band(0) == whole.of_band(0)
    assert joined.count.tolist() == [240.0]
    kept = np.stack(images[20:])
    assert whole.of_band(0)["mean"] == pytest.approx(kept.mean())
    assert whole.of_band(0)["std"] == pytest.approx(kept.std())
