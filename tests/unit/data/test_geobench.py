"""GEO-Bench V1: bands by name, labels, dates, partitions, groups; what is wrong with the files is one error."""

import json
import shutil
import threading
import time

import h5py
import numpy as np
import pytest
from helpers.datasets.geobench import (
    NOWHERE,
    pickled,
    write_dataset,
    write_partition,
    write_sample,
)
from helpers.datasets.images import (
    Prepared,
    dataset_entry,
    open_source,
    validated,
    write_tar,
    write_zip,
)
from permafrost.core.errors import PermafrostError
from permafrost.data.digest import source_digest
from permafrost.data.entry_checks import entry_mistakes
from permafrost.data.sources.geobench import GeobenchSource

SPLITS = {"map": {"train": ["train"], "val": ["valid"], "test": ["test"]}}


def entry_of(path, task="classification", **options) -> dict:
    source = {
        "kind": "geobench",
        "path": str(path),
        "arrays": ["02 - Blue", "08 - NIR"],
        "size": 16,
    }
    return {
        "task": task,
        "classes": ["field", "town", "sea"],
        "sensor": "sentinel2",
        "bands": ["B02", "B08"],
        "units": {"unit": "digital_number", "scale": 1e-4},
        "splits": SPLITS,
        "source": {**source, **options},
    }


def valid_entry(*arguments, **options) -> dict:
    return validated(entry_of(*arguments, **options))


def plane(value: int, side: int = 16, dtype=np.int16) -> np.ndarray:
    return (np.arange(side * side).reshape(side, side) % 7 + value).astype(dtype)


def one_sample(folder, arrays, label=1, name="id_1", **more) -> None:
    write_sample(folder, name, arrays, label, **more)
    write_partition(folder, {"train": [name]})


def opened(folder, **options):
    return open_source(entry_of(folder, **options), where="dataset set")


def test_bands_come_by_name_in_the_order_of_the_entry(tmp_path):
    # in the file, names sort otherwise than the entry lists them
    one_sample(tmp_path, {"08 - NIR": plane(80), "02 - Blue": plane(20), "03 - Green": plane(30)})
    source = opened(tmp_path)
    image = source.decode(0).image
    assert image.dtype == np.int16
    np.testing.assert_array_equal(image, [plane(20), plane(80)])
    assert [(r.sample_id, r.label, r.split) for r in source.records()] == [("id_1", 1, "train")]


def test_one_thread_decodes_whatever_is_asked_for(tmp_path, monkeypatch):
    folder = tmp_path / "set"
    write_dataset(folder, entry_of(folder), count=40)
    decode, threads = GeobenchSource.decode, set()

    def watched(self, index):
        threads.add(threading.current_thread().name)
        time.sleep(0.001)
        return decode(self, index)

    monkeypatch.setattr(GeobenchSource, "decode", watched)
    Prepared(tmp_path / "out").run(entry_of(folder), workers=4)
    # one worker of each split, and the caller's own for the first image
    assert len(threads - {"MainThread"}) == 3


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_an_archive_equals_the_folder_and_has_its_root(tmp_path, kind):
    plain = tmp_path / "m-set"
    write_dataset(plain, entry_of(plain), count=3)
    files = {f"m-set/{path.name}": path.read_bytes() for path in plain.iterdir()}
    packed = (write_zip if kind == "zip" else write_tar)(tmp_path / f"data.{kind}", files)
    archived, folder = opened(packed, root="m-set"), opened(plain)
    assert archived.records() == folder.records() and len(folder.records()) == 9
    for i in range(9):
        np.testing.assert_array_equal(archived.decode(i).image, folder.decode(i).image)


def test_dates_stand_in_the_names_of_arrays(tmp_path):
    arrays = {"02 - Blue_2016-01-01": plane(1), "08 - NIR_2016-01-01": plane(2)}
    one_sample(tmp_path, arrays)
    source = opened(tmp_path)
    assert source.records()[0].date == "2016-01-01"
    np.testing.assert_array_equal(source.decode(0).image, [plane(1), plane(2)])


def test_of_several_dates_one_has_to_be_chosen(tmp_path):
    years = (2016, 2014, 2015)
    arrays = {
        f"{name}_{year}-01-01": plane(year + shift)
        for year in years
        for shift, name in enumerate(("02 - Blue", "08 - NIR"))
    }
    one_sample(tmp_path, arrays)
    with pytest.raises(PermafrostError, match="images of 3 dates.*date: first or date: last"):
        opened(tmp_path)
    for choice, year in (("first", 2014), ("last", 2016)):
        source = opened(tmp_path, date=choice)
        assert source.records()[0].date == f"{year}-01-01"
        np.testing.assert_array_equal(source.decode(0).image, [plane(year), plane(year + 1)])


def test_a_mask_is_an_array_and_its_name_may_carry_a_date(tmp_path):
    mask = np.arange(256).reshape(16, 16) % 3
    dated = {"02 - Blue_2016-01-01": plane(1), "08 - NIR_2016-01-01": plane(2)}
    for label in ("label", "label_2016-01-01"):
        one_sample(tmp_path, {**dated, label: mask.astype(np.float32)}, label=None)
        decoded = opened(tmp_path, task="segmentation").decode(0)
        np.testing.assert_array_equal(decoded.mask, mask)
        np.testing.assert_array_equal(decoded.image, [plane(1), plane(2)])


def test_channels_of_a_cube_and_coarser_bands(tmp_path):
    cube = np.random.default_rng(0).normal(size=(4, 4, 9)).astype(np.float32)
    one_sample(tmp_path, {"Red": plane(1, dtype=np.uint8), "CHM": cube[..., :1], "Neon": cube})
    entry = entry_of(
        tmp_path,
        arrays=[
            "Red",
            "CHM",
            {"name": "Neon", "channels": 9},
            {"name": "Neon", "channels": [8, 2]},
        ],
    )
    entry["bands"] = [{"name": f"b{i}"} for i in range(13)]
    del entry["sensor"]
    assert entry_mistakes(dataset_entry(entry), where="set") == []
    with pytest.raises(Exception, match="'CHM' is 4 x 4 pixels, not 16 x 16"):
        open_source(entry, where="set").decode(0)
    entry["source"]["resample"] = "nearest"
    image = open_source(entry, where="set").decode(0).image
    assert image.shape == (13, 16, 16) and image.dtype == np.float32
    np.testing.assert_array_equal(image[0], plane(1))
    wide = cube.repeat(4, axis=0).repeat(4, axis=1).transpose(2, 0, 1)
    np.testing.assert_array_equal(image[1:], np.concatenate([wide[:1], wide, wide[[8, 2]]]))


def test_partitions_by_name(tmp_path):
    write_dataset(tmp_path, entry_of(tmp_path), count=4)
    write_partition(tmp_path, {"train": ["sample_0"], "test": ["sample_2"]}, "0.01x_train")
    assert len(opened(tmp_path).records()) == 12
    for name in ("0.01x", "0.01x_train"):
        assert [r.sample_id for r in opened(tmp_path, partition=name).records()] == [
            "sample_0",
            "sample_2",
        ]
    with pytest.raises(
        PermafrostError, match="no partition '0.02x'.*0.01x_train.*use one of these"
    ):
        opened(tmp_path, partition="0.02x")


def test_only_samples_and_the_partition_are_the_identity(tmp_path):
    write_dataset(tmp_path, entry_of(tmp_path), count=2)
    before = source_digest(valid_entry(tmp_path))
    (tmp_path / "band_stats.json").write_text("{}")
    write_partition(tmp_path, {"train": ["sample_0"]}, "0.01x_train")
    assert source_digest(valid_entry(tmp_path)) == before
    small = source_digest(valid_entry(tmp_path, partition="0.01x"))
    write_partition(tmp_path, {"train": ["sample_1"]}, "0.01x_train")
    assert source_digest(valid_entry(tmp_path, partition="0.01x")) != small
    write_partition(tmp_path, {"train": ["sample_0"]})
    assert source_digest(valid_entry(tmp_path)) != before


def test_groups_from_names_and_from_runs_of_numbers(tmp_path):
    arrays = {"02 - Blue": plane(1), "08 - NIR": plane(2)}
    names = ["p_labels_0042_0", "p_labels_0042_1", "p_labels_0051_25"]
    for name in names:
        write_sample(tmp_path, name, arrays, 1)
    write_partition(tmp_path, {"train": names})
    groups = [r.group_id for r in opened(tmp_path, group=r"(\d+)_\d+$").records()]
    assert groups == ["0042", "0042", "0051"]
    runs = [r.group_id for r in opened(tmp_path, group=r"(\d+)$", group_run=25).records()]
    assert runs == ["0", "0", "1"]
    with pytest.raises(PermafrostError, match="'p', which is not a number"):
        opened(tmp_path, group=r"^(p)", group_run=25)


def test_places_only_where_the_entry_trusts_them(tmp_path):
    arrays = {"02 - Blue": plane(1), "08 - NIR": plane(2)}
    one_sample(tmp_path, arrays)
    assert opened(tmp_path).records()[0].lon is None
    record = opened(tmp_path, place="corner").records()[0]
    assert (round(record.lon, 2), round(record.lat, 2)) == (28.56, 44.04)
    site = {"crs": 'LOCAL_CS["site",UNIT["metre",1]]', "transform": (1, 0, 5, 0, -1, 6)}
    one_sample(tmp_path, arrays, place=site)
    assert opened(tmp_path, place="corner").records()[0].lon is None
    one_sample(tmp_path, arrays, place=NOWHERE)
    assert opened(tmp_path, place="corner").records()[0].lon is None


def test_a_type_to_store_has_to_hold_every_value(tmp_path):
    one_sample(tmp_path, {"02 - Blue": plane(1), "08 - NIR": plane(2)})
    assert opened(tmp_path, dtype="uint8").decode(0).image.dtype == np.uint8
    one_sample(tmp_path, {"02 - Blue": plane(1), "08 - NIR": plane(250)})
    with pytest.raises(Exception, match="values that uint8 cannot"):
        opened(tmp_path, dtype="uint8").decode(0)


@pytest.mark.parametrize("task", ["classification", "multilabel", "segmentation"])
def test_all_of_it_is_prepared(tmp_path, task):
    entry = entry_of(tmp_path / "set", task)
    write_dataset(tmp_path / "set", entry, count=6)
    out = Prepared(tmp_path / "out")
    card = out.run({**entry, "licence": "free", "citation": "Me 2020"})
    assert {split: card["splits"][split]["count"] for split in card["splits"]} == dict.fromkeys(
        ("train", "val", "test"), 6
    )
    assert (card["licence"], card["citation"]) == ("free", "Me 2020")
    assert card["image_size"] == {"min": [16, 16], "max": [16, 16]}
    assert card["dead_classes"] == []
    assert out.store("val").read("images").shape == (6, 2, 16, 16)


def broken_files(folder):
    """Name of a mistake -> (what it does to the files, what the one error says)."""

    def damage(change):
        path = folder / "sample_4.hdf5"
        path.write_bytes(change(path.read_bytes()))

    def rewrite(arrays=None, label=1, **more):
        arrays = arrays or {"02 - Blue": plane(1), "08 - NIR": plane(2)}
        write_sample(folder, "sample_4", arrays, label, **more)

    def link():
        with h5py.File(folder / "sample_4.hdf5", "a") as file:
            del file["08 - NIR"]
            file["08 - NIR"] = h5py.ExternalLink("sample_5.hdf5", "/08 - NIR")

    def bare():
        with h5py.File(folder / "sample_4.hdf5", "a") as file:
            del file.attrs["pickle"]

    whole = {"02 - Blue": plane(1), "08 - NIR": plane(2)}
    return {
        "cut off": (lambda: damage(lambda data: data[:3000]), "not a whole HDF5 file.*truncated"),
        "cut off in the pixels": (
            lambda: damage(lambda data: data[:-700]),
            "not a whole HDF5 file",
        ),
        "empty": (lambda: damage(lambda data: b""), "not a whole HDF5 file"),
        "a web page": (lambda: damage(lambda data: b"<html>" * 99), "not a whole HDF5 file"),
        "absent": (
            lambda: (folder / "sample_4.hdf5").unlink(),
            "1 of them are not there, e.g. sample_4.hdf5",
        ),
        "another size": (
            lambda: rewrite({"02 - Blue": plane(1, 12), "08 - NIR": plane(2, 12)}),
            "is 12 x 12 pixels, not 16 x 16",
        ),
        "bands of two sizes": (
            lambda: rewrite({**whole, "08 - NIR": plane(2, 8)}),
            "'08 - NIR' is 8 x 8",
        ),
        "another type": (lambda: rewrite({k: v / 1 for k, v in whole.items()}), "float64 values"),
        "a missing band": (
            lambda: rewrite({"02 - Blue": plane(1)}),
            "no array '08 - NIR', only 02 - Blue",
        ),
        "a cube": (
            lambda: rewrite({**whole, "08 - NIR": np.ones((16, 16, 5))}),
            "holds 5 bands, not one",
        ),
        "a row": (lambda: rewrite({**whole, "08 - NIR": np.ones(16)}), r"shape \(16,\)"),
        "words": (lambda: rewrite({**whole, "08 - NIR": np.full((16, 16), b"a")}), "no numbers"),
        "a link": (link, "'08 - NIR' is a link"),
        "no attribute": (bare, "no attribute 'pickle'"),
        "half an attribute": (
            lambda: rewrite(stored=pickled({"label": 1})[:-9] + "'"),
            "cannot be read",
        ),
        "no label": (lambda: rewrite(stored=pickled({"bands_order": []})), "has no label"),
        "an unknown label": (lambda: rewrite(label=3), "label 3, the entry names 3 classes"),
        "several labels": (lambda: rewrite(label=[0, 1, 0]), "several labels.*correct the task"),
        "no partition": (
            lambda: (folder / "default_partition.json").unlink(),
            "no partition 'default'",
        ),
        "half a partition": (
            lambda: (folder / "default_partition.json").write_text('{"train": ["sample'),
            "default_partition.json of .* is not a partition",
        ),
        "another JSON": (
            lambda: (folder / "default_partition.json").write_text("[1]"),
            "is not a partition",
        ),
        "a way out": (
            lambda: write_partition(folder, {"train": ["../sample_4"]}),
            r"not there, e.g. \.\./sample_4",
        ),
        "twice": (
            lambda: write_partition(folder, {"train": ["sample_1"], "test": ["sample_1"]}),
            "listed more than once, e.g. sample_1",
        ),
    }


@pytest.mark.parametrize("mistake", broken_files(None))
def test_bad_files_are_one_error_and_nothing_is_written(tmp_path, mistake):
    folder = tmp_path / "set"
    entry = entry_of(folder)
    write_dataset(folder, entry, count=4, array=lambda number, band: plane(10 * number + band))
    change, message = broken_files(folder)[mistake]
    change()
    out = Prepared(tmp_path / "out")
    with pytest.raises(PermafrostError, match=message) as refused:
        out.run(entry, name="m-set")
    assert "dataset m-set" in str(refused.value) and "Remedy: " in str(refused.value)
    assert "sample_" in str(refused.value) or "partition" in str(refused.value)
    assert out.leftovers() == []


def test_all_damaged_files_are_named_at_once(tmp_path):
    write_dataset(tmp_path, entry_of(tmp_path), count=4)
    for number in (1, 7):
        path = tmp_path / f"sample_{number}.hdf5"
        path.write_bytes(path.read_bytes()[:900])
    with pytest.raises(PermafrostError, match="2 of 12 .*sample_1.hdf5.*sample_7.hdf5"):
        opened(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"arrays": ["02 - Blue"]}, "names 2 bands, but arrays holds 1"),
        ({"arrays": ["a", {"name": "b", "channels": 3}]}, "names 2 bands, but arrays holds 4"),
        ({"group_run": 25}, "group_run has no meaning without group"),
    ],
)
def test_entries_that_cannot_be_right(tmp_path, options, message):
    (mistake,) = entry_mistakes(dataset_entry(entry_of(tmp_path, **options)), where="set")
    assert message in str(mistake)


def test_an_entry_without_classes_is_refused(tmp_path):
    entry = entry_of(tmp_path)
    del entry["classes"]
    (mistake,) = entry_mistakes(dataset_entry(entry), where="set")
    assert "has to name the classes" in str(mistake)


def test_a_read_only_folder_is_read(tmp_path):
    write_dataset(tmp_path / "set", entry_of(tmp_path), count=1)
    shutil.copytree(tmp_path / "set", tmp_path / "copy")
    for path in [*(tmp_path / "copy").iterdir(), tmp_path / "copy"]:
        path.chmod(0o555)
    assert opened(tmp_path / "copy").decode(0).image.shape == (2, 16, 16)
    assert json.loads((tmp_path / "copy" / "default_partition.json").read_text())


def test_samples_whose_file_or_label_cannot_be_read_may_be_left_out(tmp_path):
    folder = tmp_path / "set"
    write_dataset(folder, entry_of(folder))
    (folder / "sample_5.hdf5").write_bytes(b"no HDF5")
    with pytest.raises(PermafrostError, match="1 of 24 images cannot be used: sample_5.hdf5"):
        opened(folder)
    entry = entry_of(folder) | {"on_error": {"skip_up_to": 0.05}}
    card = Prepared(tmp_path / "out").run(entry)
    assert list(card["skipped"]) == ["sample_5"] and "HDF5" in card["skipped"]["sample_5"]
    assert sum(split["count"] for split in card["splits"].values()) == 23
