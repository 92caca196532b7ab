"""Classes of torchgeo give images and labels as they are, or say what is wrong."""

import json

import numpy as np
import pytest
from helpers.datasets.images import (
    RGB_ENTRY,
    Prepared,
    catalogue_entry,
    encode,
    geotiff,
    open_source,
    photo,
    write_folder,
)
from permafrost.core.errors import PermafrostError

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
    assert samples[5]["crs"] == "EPSG:4326" and samples[5]["transform"][0] == pytest.approx(1e-4)


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
    with pytest.raises(PermafrostError, match="takes no argument 'rooot', did you mean 'root'"):
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


def test_an_image_that_torchgeo_resizes_keeps_its_place_but_no_transform(tmp_path):
    from torchgeo.datasets import UCMerced

    base = tmp_path / UCMerced.base_dir
    for split in ("train", "val", "test"):
        (tmp_path / f"uc_merced-{split}.txt").write_text("beach00.tif")
    small = geotiff(photo(0, (100, 100)).transpose(2, 0, 1), lon=7)
    write_folder(base, {"beach/beach00.tif": small})
    arguments = {"root": str(tmp_path), "checksum": False}
    source = {"kind": "torchgeo", "name": "UCMerced", "arguments": arguments}
    decoded = open_source({**RGB_ENTRY, "source": source}, where="x").decode(0)
    assert decoded.image.shape == (3, 256, 256)
    assert decoded.place.lon == pytest.approx(7) and decoded.place.transform is None


def cyclones(root, winds) -> dict:
    """The catalogue's entry of TropicalCyclone over files as its authors lay them out."""
    from PIL import Image

    for split, name in (("train", "training_set"), ("test", "test_set")):
        ids = [f"storm{i % 3}_{i:03}" for i in range(len(winds))]
        (root / split).mkdir(parents=True)
        for i, image in enumerate(ids):
            Image.fromarray(photo(i, (366, 366))).save(root / split / f"{image}.jpg")
        rows = "".join(f"{image},{wind}\n" for image, wind in zip(ids, winds, strict=True))
        (root / f"{name}_labels.csv").write_text(f"image_id,wind_speed\n{rows}")
        facts = "".join(f"{image},storm,{i},1\n" for i, image in enumerate(ids))
        (root / f"{name}_features.csv").write_text(f"image_id,storm,relative_time,ocean\n{facts}")
    entry = catalogue_entry("tropical-cyclone", root)
    entry["source"]["arguments"] = {"root": str(root)}
    return entry


def test_numbers_of_torchgeo_are_targets(tmp_path):
    entry = cyclones(tmp_path, [34, 50, 71, 20, 99, 60])
    source = open_source(entry, where="x")
    assert source.classes == [] and source.task == "regression"
    labels = [record.label for record in source.records()]
    assert labels == [34.0, 50.0, 71.0, 20.0, 99.0, 60.0] * 2
    assert all(isinstance(label, float) for label in labels)
    assert source.decode(1).image.shape == (3, 366, 366)


def test_what_is_no_number_is_no_target(tmp_path):
    entry = cyclones(tmp_path, [34, 50])
    entry["source"]["label_key"] = "image"
    with pytest.raises(PermafrostError, match=r"shape \(3, 366, 366\), not one number"):
        open_source(entry, where="x").records()


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
    entry = catalogue_entry("so2sat", tmp_path)
    entry["source"]["arguments"]["checksum"] = False
    out = Prepared(tmp_path / "out")
    card = out.run(entry)
    assert card["splits"]["train"]["class_counts"] == [2] * 17
    store = out.store("test")
    assert store.read("labels").tolist() == list(range(17))
    np.testing.assert_allclose(store.read("images")[3, :, 0, 0], np.arange(10) / 20, rtol=1e-6)
