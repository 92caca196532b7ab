"""Folders, archives, tables and torchgeo classes all give the same records and pixels."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from image_sets import (
    RGB_ENTRY,
    Prepared,
    class_files,
    encode,
    geotiff,
    photo,
    write_folder,
    write_tar,
    write_zip,
)
from permafrost.core.errors import PermafrostError
from permafrost.data.sources import KINDS, open_source

FILES = class_files(count=6)


def folder_source(path, **options):
    entry = {**RGB_ENTRY, "source": {"kind": "folder", "path": str(path), **options}}
    return open_source(entry, where="dataset set")


def pixels(source):
    return [source.decode(i).image for i in range(len(source.records()))]


@pytest.mark.parametrize("kind", ["zip", "tar", "tar.gz"])
def test_an_archive_equals_the_folder_it_was_made_of(tmp_path, kind):
    plain = folder_source(write_folder(tmp_path / "set", FILES))
    path = tmp_path / f"set.{kind}"
    if kind == "zip":
        write_zip(path, FILES)
    else:
        write_tar(path, FILES, "w:gz" if kind == "tar.gz" else "w")
    packed = folder_source(path)
    assert packed.records() == plain.records()
    assert packed.classes == ["field", "town"]
    for a, b in zip(pixels(packed), pixels(plain), strict=True):
        np.testing.assert_array_equal(a, b)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["set", f"set.{kind}"]  # nothing unpacked


def test_a_root_and_split_folders(tmp_path):
    files = {
        f"data/{s}/{name}": encode(photo(i))
        for i, s in enumerate(("train", "test"))
        for name in FILES
    }
    source = folder_source(write_zip(tmp_path / "a.zip", files), root="data", split_folders=True)
    first = source.records()[0]
    assert (first.sample_id, first.split, first.label) == ("test/field/000.png", "test", 0)


def test_other_files_are_an_error_unless_ignored_and_system_junk_is_not_meant(tmp_path):
    files = {
        **FILES,
        "README.txt": b"hello",
        "__MACOSX/field/._000.png": b"",
        "field/.DS_Store": b"",
    }
    path = write_zip(tmp_path / "a.zip", files)
    with pytest.raises(
        PermafrostError, match="1 files that are no images in class folders.*README"
    ):
        folder_source(path)
    assert len(folder_source(path, other_files="ignore").records()) == 12


def test_declared_classes_fix_the_ids_and_refuse_strangers(tmp_path):
    path = write_zip(tmp_path / "a.zip", FILES)
    source = {"kind": "folder", "path": str(path)}
    entry = {**RGB_ENTRY, "source": source, "classes": ["town", "lake", "field"]}
    opened = open_source(entry, where="x")
    assert opened.classes == ["town", "lake", "field"]
    assert {r.sample_id.split("/")[0]: r.label for r in opened.records()} == {"field": 2, "town": 0}
    with pytest.raises(PermafrostError, match="does not list: field"):
        open_source({**entry, "classes": ["town", "lake"]}, where="x")


def table(tmp_path, rows, name="index.csv"):
    path = tmp_path / name
    if name.endswith(".parquet"):
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist(rows), path)
        return path
    with open(path, "w", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return path


def rows():
    return [
        {
            "file": name.split("/")[1],
            "kind": name.split("/")[0],
            "part": ["train", "val", "test"][i % 3],
            "tile": f"t{i // 2}",
            "x": 10.5 + i,
            "y": -3.0,
            "when": "2020-05-01",
            "is_wet": i % 2,
            "is_dry": 1,
            "tags": "wet; dry" if i % 2 else "dry",
        }
        for i, name in enumerate(FILES)
    ]


def table_entry(tmp_path, name="index.csv", data=None, **options):
    write_zip(tmp_path / "images.zip", FILES)
    source = {
        "kind": "table",
        "table": str(table(tmp_path, data or rows(), name)),
        "images": str(tmp_path / "images.zip"),
        "path": "<kind>/<file>",
        **options,
    }
    return {**RGB_ENTRY, "source": source}


@pytest.mark.parametrize("name", ["index.csv", "index.parquet"])
def test_a_table_gives_every_column(tmp_path, name):
    entry = table_entry(
        tmp_path,
        name,
        label="kind",
        split="part",
        group="<kind>-<tile>",
        lon="x",
        lat="y",
        date="when",
    )
    record = open_source(entry, where="x").records()[1]
    assert (record.sample_id, record.label, record.split) == ("field/001.png", 0, "val")
    assert (record.group_id, record.lon, record.lat, record.date) == (
        "field-t0",
        11.5,
        -3.0,
        "2020-05-01",
    )


def test_several_labels_as_columns_or_with_a_separator(tmp_path):
    entry = {**table_entry(tmp_path, labels=["is_dry", "is_wet"]), "task": "multilabel"}
    columns = open_source(entry, where="x")
    assert columns.classes == ["is_dry", "is_wet"]
    assert [r.label for r in columns.records()][:2] == [(1, 0), (1, 1)]
    entry = table_entry(tmp_path, labels={"column": "tags", "separator": ";"})
    separated = open_source({**entry, "task": "multilabel"}, where="x")
    assert separated.classes == ["dry", "wet"]
    assert [r.label for r in separated.records()] == [r.label for r in columns.records()]


def test_masks_of_a_table(tmp_path):
    rng = np.random.default_rng(0)
    masks = [rng.integers(0, 2, (24, 32)).astype(np.uint8) for _ in range(9)]
    masks[0][0, 0] = 255
    files = {f"i/{i}.png": encode(photo(i)) for i in range(9)}
    files |= {f"m/{i}.png": encode(masks[i]) for i in range(9)}
    write_folder(tmp_path / "set", files)
    data = [{"n": str(i), "part": ["train", "val", "test"][i % 3]} for i in range(9)]
    source = {
        "kind": "table",
        "table": str(table(tmp_path, data)),
        "images": str(tmp_path / "set"),
        "path": "i/<n>.png",
        "masks": "m/<n>.png",
        "split": "part",
    }
    entry = {
        **RGB_ENTRY,
        "task": "segmentation",
        "classes": ["land", "sea"],
        "ignore_index": 255,
        "source": source,
    }
    out = Prepared(tmp_path / "out")
    card = out.run(entry)
    np.testing.assert_array_equal(out.store("train").read("masks")[0], masks[0])
    expected = np.bincount(np.concatenate([masks[i].ravel() for i in (0, 3, 6)]), minlength=2)[:2]
    assert card["splits"]["train"]["class_counts"] == expected.tolist()
    with pytest.raises(PermafrostError, match="mask values .255.*ignore value None"):
        out.run({**entry, "ignore_index": None})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": "sort"}, "no column 'sort'; known|no column 'sort'; did you mean"),
        ({"label": "kind", "path": "<kind>/<when>"}, "12 of 12 files listed in .* are not in"),
        ({}, "needs label in source"),
        ({"label": "kind", "lon": "kind", "lat": "y"}, "row 2 has 'field' in kind"),
    ],
)
def test_a_wrong_table_entry_says_where(tmp_path, change, message):
    with pytest.raises(PermafrostError, match=message):
        open_source(table_entry(tmp_path, **change), where="dataset set")


def test_bands_and_units_are_required(tmp_path):
    entry = table_entry(tmp_path, label="kind")
    with pytest.raises(PermafrostError, match="names no bands"):
        open_source({k: v for k, v in entry.items() if k != "bands"}, where="x")
    with pytest.raises(PermafrostError, match="band red has no unit"):
        open_source({k: v for k, v in entry.items() if k != "units"}, where="x")


def test_a_band_may_have_a_unit_of_its_own(tmp_path):
    bands = ["red", "green", {"name": "VV", "sensor": "sentinel1", "unit": "db"}]
    source = open_source({**table_entry(tmp_path, label="kind"), "bands": bands}, where="x")
    assert [b.unit for b in source.bands] == ["uint8", "uint8", "db"]
    assert [b.sensor for b in source.bands] == ["rgb", "rgb", "sentinel1"]


def test_an_unknown_kind_lists_the_known_ones():
    with pytest.raises(PermafrostError, match="folder.*table|did you mean 'folder'"):
        open_source({**RGB_ENTRY, "source": {"kind": "folders"}}, where="x")
    assert set(KINDS) == {"demo", "folder", "table", "torchgeo"}


EUROSAT_BANDS = [
    "B01",
    "B02",
    "B03",
    "B04",
    "B05",
    "B06",
    "B07",
    "B08",
    "B09",
    "B10",
    "B11",
    "B12",
    "B8A",
]


@pytest.fixture(scope="module")
def eurosat_root(tmp_path_factory):
    """EuroSAT as torchgeo lays it out, with tiny images."""
    from torchgeo.datasets import EuroSAT, EuroSATSpatial

    root = tmp_path_factory.mktemp("eurosat")
    rng = np.random.default_rng(0)
    names: dict[str, list[str]] = {"train": [], "val": [], "test": []}
    for c, name in enumerate(("Forest", "River", "SeaLake")):
        for i in range(6):
            array = rng.integers(0, 9000, (13, 8, 8)).astype(np.uint16)
            array[:, 0, 0] = np.arange(13) + 100 * c
            folder = root / EuroSAT.base_dir / name
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{name}_{i}.tif").write_bytes(geotiff(array, lon=c + i, lat=45))
            names[["train", "train", "train", "train", "val", "test"][i]].append(f"{name}_{i}.jpg")
    for filenames in (EuroSAT.split_filenames, EuroSATSpatial.split_filenames):
        for split, file in filenames.items():
            (root / file).write_text("\n".join(names[split]) + "\n")
    return root


def eurosat_entry(root, name="EuroSAT", **more):
    return {
        "task": "classification",
        "sensor": "sentinel2-l1c",
        "bands": EUROSAT_BANDS,
        "units": {"unit": "digital_number", "scale": 1e-4},
        "source": {
            "kind": "torchgeo",
            "name": name,
            "arguments": {"root": str(root), "checksum": False},
            "dtype": "uint16",
        },
        **more,
    }


@pytest.mark.parametrize("name", ["EuroSAT", "EuroSATSpatial"])
def test_eurosat_of_torchgeo(eurosat_root, tmp_path, name):
    out = Prepared(tmp_path / "out")
    card = out.run(eurosat_entry(eurosat_root, name))
    assert [card["splits"][s]["count"] for s in ("train", "val", "test")] == [12, 3, 3]
    assert card["classes"] == ["Forest", "River", "SeaLake"]
    store = out.store("train")
    assert store.read("images").dtype == np.uint16
    assert store.read("images")[0, :, 0, 0].tolist() == list(range(13))
    assert [b["name"] for b in card["bands"]] == EUROSAT_BANDS
    samples = store.samples().to_pylist()
    assert samples[5]["sample_id"] == "River/River_1.tif" and samples[5]["lon"] == pytest.approx(2)


def test_bands_in_another_order_than_torchgeos_are_refused(eurosat_root):
    ordered = sorted(EUROSAT_BANDS, key=lambda b: b.replace("B8A", "B08A"))
    with pytest.raises(PermafrostError, match="EuroSAT returns B01.*B12, B8A"):
        open_source(eurosat_entry(eurosat_root, bands=ordered), where="x")


def test_torchgeo_bands_by_argument(eurosat_root):
    entry = eurosat_entry(eurosat_root, bands=["B04", "B03", "B02"])
    entry["source"]["arguments"]["bands"] = ["B04", "B03", "B02"]
    assert open_source(entry, where="x").decode(0).image[:, 0, 0].tolist() == [3, 2, 1]


def test_wrong_names_arguments_and_places_of_torchgeo_are_clear(eurosat_root, tmp_path):
    with pytest.raises(PermafrostError, match="did you mean 'EuroSAT"):
        open_source(eurosat_entry(eurosat_root, "Eurosat"), where="x")
    entry = eurosat_entry(eurosat_root)
    entry["source"]["arguments"]["rooot"] = "x"
    with pytest.raises(PermafrostError, match="takes no rooot; did you mean 'root'"):
        open_source(entry, where="x")
    with pytest.raises(PermafrostError, match="cannot be built.*download: true"):
        open_source(eurosat_entry(tmp_path / "nowhere"), where="x")


def test_ucmerced_and_resisc45_of_torchgeo(tmp_path):
    from torchgeo.datasets import RESISC45, UCMerced

    for cls, kind, base in (
        (UCMerced, "tiff", UCMerced.base_dir),
        (RESISC45, "jpeg", RESISC45.directory),
    ):
        root = tmp_path / cls.__name__
        ending = {"tiff": "tif", "jpeg": "jpg"}[kind]
        lists = {"train": [], "val": [], "test": []}
        for c, name in enumerate(("beach", "forest")):
            for i, split in enumerate(("train", "train", "val", "test")):
                file = f"{name}{i:02d}.{ending}"
                write_folder(root / base / name, {file: encode(photo(9 * c + i, (256, 256)), kind)})
                lists[split].append(file)
        prefix = "uc_merced" if cls is UCMerced else "resisc45"
        for split, files in lists.items():
            (root / f"{prefix}-{split}.txt").write_text("\n".join(files))
        arguments = {"root": str(root), "checksum": False}
        source = {
            "kind": "torchgeo",
            "name": cls.__name__,
            "arguments": arguments,
            "dtype": "uint8",
        }
        card = Prepared(tmp_path / "out" / prefix).run({**RGB_ENTRY, "source": source})
        assert [card["splits"][s]["class_counts"] for s in lists] == [[2, 2], [1, 1], [1, 1]]


def test_bigearthnet_of_torchgeo_gives_several_labels(tmp_path):
    from torchgeo.datasets import BigEarthNet

    rng = np.random.default_rng(0)
    bands = ["B01", "B02", "B03", "B04", "B05", "B06", "B07", "B08", "B8A", "B09", "B11", "B12"]
    folder = tmp_path / BigEarthNet.metadata["s2"]["directory"]
    for split, info in BigEarthNet.splits_metadata.items():
        lines = []
        for i in range(3):
            patch = f"S2_{split}_{i}"
            (folder / patch).mkdir(parents=True)
            for b, band in enumerate(bands):
                array = rng.integers(0, 5000, (1, 120, 120)).astype(np.uint16)
                array[0, :] = 100 * b
                (folder / patch / f"{patch}_{band}.tif").write_bytes(geotiff(array))
            labels = ["Pastures", "Sea and ocean"] if i else ["Pastures"]
            (folder / patch / "labels.json").write_text(json.dumps({"labels": labels}))
            lines.append(f"{patch},S1_{i}")
        (tmp_path / info["filename"]).write_text("\n".join(lines))
    entry = {
        "task": "multilabel",
        "sensor": "sentinel2-l2a",
        "bands": bands,
        "units": {"unit": "digital_number", "scale": 1e-4},
        "allow_missing_classes": True,
        "source": {
            "kind": "torchgeo",
            "name": "BigEarthNet",
            "arguments": {"root": str(tmp_path), "bands": "s2", "num_classes": 19},
            "dtype": "uint16",
        },
    }
    out = Prepared(tmp_path / "out")
    card = out.run(entry)
    assert len(card["classes"]) == 19 and len(card["dead_classes"]) == 17
    labels = out.store("test").read("labels")
    assert labels.dtype == np.uint8 and labels.sum(axis=1).tolist() == [1, 2, 2]
    assert out.store("test").read("images")[0, :, 0, 0].tolist() == [100 * b for b in range(12)]


def test_so2sat_of_the_catalogue_reads_the_authors_files(tmp_path):
    import h5py
    from permafrost.core.paths import substitute
    from permafrost.plan.catalogue import Catalogue

    rng = np.random.default_rng(0)
    folder = tmp_path / "torchgeo" / "so2sat"
    folder.mkdir(parents=True)
    for file, count in (("training.h5", 34), ("validation.h5", 17), ("testing.h5", 17)):
        with h5py.File(folder / file, "w") as stream:
            stream["sen1"] = rng.normal(size=(count, 32, 32, 8))
            pixels = rng.uniform(0, 0.5, size=(count, 32, 32, 10))
            pixels[:, 0, 0] = np.arange(10) / 20
            stream["sen2"] = pixels
            stream["label"] = np.eye(17)[np.arange(count) % 17]
    config = Path(__file__).parents[2] / "config"
    entry = substitute(Catalogue("dataset", [config], {}).entry("so2sat"), str(tmp_path))
    entry["source"]["arguments"]["checksum"] = False
    out = Prepared(tmp_path / "out")
    card = out.run(entry)
    assert card["splits"]["train"]["class_counts"] == [2] * 17
    store = out.store("test")
    assert store.read("labels").tolist() == list(range(17))
    np.testing.assert_allclose(store.read("images")[3, :, 0, 0], np.arange(10) / 20, rtol=1e-6)
