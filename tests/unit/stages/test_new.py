"""``permafrost new``: drafts of entries, which ``permafrost check`` then takes as they are."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import rasterio
import yaml
from permafrost.stages.cli import main
from PIL import Image
from rasterio.transform import from_origin

ROOT = Path(__file__).resolve().parents[3]
RANDOM = np.random.default_rng(0)
SPLITS = ("train", "valid", "test")


def png(path: Path, values=None, size: int = 24) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if values is None:
        values = RANDOM.integers(0, 256, (size, size, 3), np.uint8)
    Image.fromarray(np.asarray(values, np.uint8)).save(path)
    return path


def tif(
    path: Path, values, place: tuple | None = None, names=(), nodata=None, crs="EPSG:32632"
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    values = np.asarray(values)
    values = values[None] if values.ndim == 2 else values
    about = {"crs": crs, "transform": from_origin(*place, 10, 10)} if place else {}
    count, height, width = values.shape
    # else GDAL takes the fourth of four bands of bytes for transparency
    about["photometric"] = "MINISBLACK"
    with rasterio.open(
        path, "w", driver="GTiff", count=count, height=height, width=width,
        dtype=values.dtype, nodata=nodata, **about,
    ) as raster:  # fmt: skip
        raster.write(values)
        raster.descriptions = names or raster.descriptions


def codes(high: int = 3) -> np.ndarray:
    return RANDOM.integers(0, high, (24, 24)).astype(np.uint8)


def of_class_folders(folder: Path) -> None:
    for number in range(24):
        png(folder / f"scenes/{('field', 'water')[number % 2]}/{number}.png")


def of_splits_and_classes(folder: Path) -> None:
    for number in range(24):
        png(folder / SPLITS[number % 3] / ("field", "water")[number // 3 % 2] / f"{number}.png")
    (folder / "README.txt").write_text("words\n")


def of_places(folder: Path) -> None:
    for number in range(24):
        values = RANDOM.integers(0, 9000, (12, 24, 24), np.uint16)
        place = 500000 + 3000 * number, 5000000
        tif(folder / ("field", "water")[number % 2] / f"{number}.tif", values, place, nodata=65535)


def of_masks(folder: Path) -> None:
    for number in range(24):
        png(folder / f"images/{number}.png")
        mask = codes()
        mask[0] = 255
        png(folder / f"masks/{number}.png", mask)


def of_masks_by_split(folder: Path) -> None:
    for number in range(24):
        png(folder / SPLITS[number % 3] / f"images/{number}.png")
        png(folder / SPLITS[number % 3] / f"labels/{number}.png", codes() * 50)


def of_masks_beside(folder: Path) -> None:
    for number in range(24):
        png(folder / f"{number}.png")
        png(folder / f"{number}_mask.png", codes())


def of_heights(folder: Path) -> None:
    for number in range(24):
        png(folder / f"images/{number}.png")
        tif(folder / f"dsm/{number}.tif", RANDOM.normal(size=(24, 24)).astype(np.float32))


def _coco(names: list[str]) -> dict:
    return {
        "images": [
            {"id": n, "file_name": name, "width": 24, "height": 24} for n, name in enumerate(names)
        ],
        "categories": [{"id": 1, "name": "tree"}, {"id": 2, "name": "car"}],
        "annotations": [
            {"id": n, "image_id": n, "category_id": 1 + n % 2, "bbox": [2, 3, 8, 9], "area": 72}
            for n in range(len(names))
        ],
    }


def of_coco(folder: Path) -> None:
    names = [png(folder / f"images/{n}.png").name for n in range(24)]
    (folder / "all.json").write_text(json.dumps(_coco(names)))
    (folder / "about.json").write_text("{}")


def of_coco_by_split(folder: Path) -> None:
    for number, split in enumerate(SPLITS):
        names = [png(folder / f"images/{number}{n}.png").name for n in range(8)]
        place = folder / f"annotations/instances_{split}.json"
        place.parent.mkdir(exist_ok=True)
        place.write_text(json.dumps(_coco(names)))


def of_voc(folder: Path) -> None:
    (folder / "xml").mkdir(parents=True)
    for number in range(24):
        png(folder / f"jpg/{number}.png")
        box = "<xmin>2</xmin><ymin>3</ymin><xmax>9</xmax><ymax>9</ymax>"
        text = f"<object><name>{('tree', 'car')[number % 2]}</name><bndbox>{box}</bndbox></object>"
        size = "<size><width>24</width><height>24</height><depth>3</depth></size>"
        (folder / f"xml/{number}.xml").write_text(
            f"<annotation><filename>{number}.png</filename>{size}{text}</annotation>"
        )


def of_yolo(folder: Path) -> None:
    for number in range(24):
        split = ("train", "val", "test")[number % 3]
        png(folder / f"images/{split}/{number}.png")
        label = folder / f"labels/{split}/{number}.txt"
        label.parent.mkdir(parents=True, exist_ok=True)
        label.write_text(f"{number // 3 % 2} 0.5 0.5 0.25 0.25\n")
    (folder / "data.yaml").write_text("names: [tree, car]\n")


def of_points(folder: Path) -> None:
    for number in range(24):
        png(folder / f"images/{number}.png")
        table = folder / f"points/{number}.csv"
        table.parent.mkdir(exist_ok=True)
        table.write_text("x,y\n3.5,4.5\n10,11\n")


def of_deepforest(folder: Path) -> None:
    lines = ["image_path,xmin,ymin,xmax,ymax,label"]
    for number in range(24):
        png(folder / f"pictures/{number}.png")
        lines.append(f"{number}.png,2,3,9,10,{('tree', 'car')[number % 2]}")
    (folder / "boxes.csv").write_text("\n".join(lines) + "\n")


def of_table(folder: Path) -> None:
    lines = ["file,label,split,lon,lat"]
    for number in range(24):
        png(folder / f"pictures/{number}.png")
        label, split = ("field", "water")[number // 3 % 2], ("train", "val", "test")[number % 3]
        lines.append(f"{number}.png,{label},{split},{7 + number / 10},47.5")
    (folder / "table.csv").write_text("\n".join(lines) + "\n")


def of_numbers(folder: Path) -> None:
    lines = ["file,yield,region"]
    for number in range(120):
        png(folder / f"{number}.png")
        lines.append(f"{number}.png,{number * 1.5},r{number // 4}")
    (folder / "table.csv").write_text("\n".join(lines) + "\n")


def of_flags(folder: Path) -> None:
    lines = ["file,field,water"]
    for number in range(24):
        png(folder / f"{number}.png")
        lines.append(f"{number}.png,{number % 2},{number // 2 % 2}")
    (folder / "table.csv").write_text("\n".join(lines) + "\n")


def of_scenes(folder: Path) -> None:
    for number in range(2):
        place = 500000 + number * 30000, 5000000
        values = RANDOM.integers(0, 256, (4, 2048, 2048)).astype(np.uint8)
        tif(folder / f"images/{number}.tif", values, place, names=("red", "green", "blue", "nir"))
        coarse = RANDOM.integers(0, 3, (8, 8)).astype(np.uint8)
        tif(folder / f"masks/{number}.tif", np.kron(coarse, np.ones((256, 256), np.uint8)), place)


def of_polygons(folder: Path) -> None:
    values = RANDOM.integers(0, 256, (3, 2048, 2048)).astype(np.uint8)
    tif(folder / "scene.tif", values, (500000, 5000000))
    features = []
    for number in range(64):
        x, y = 500000 + number % 8 * 2560, 5000000 - number // 8 * 2560
        ring = [[x, y], [x + 2000, y], [x + 2000, y - 2000], [x, y - 2000], [x, y]]
        properties = {"cover": ("field", "water")[number // 4 % 2], "number": number}
        shape = {"type": "Polygon", "coordinates": [ring]}
        features.append({"type": "Feature", "properties": properties, "geometry": shape})
    crs = {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::32632"}}
    content = {"type": "FeatureCollection", "crs": crs, "features": features}
    (folder / "cover.geojson").write_text(json.dumps(content))


CASES = {
    of_class_folders: ("classification", {"root": "scenes"}, {"sensor": "rgb"}, "random"),
    of_splits_and_classes: ("classification", {"split_folders": True}, {}, "given"),
    of_places: ("classification", {}, {"sensor": "sentinel2-l2a", "gsd_m": 10.0}, "block"),
    of_masks: ("segmentation", {"masks": "masks"}, {"ignore_index": 255}, "random"),
    of_masks_by_split: (
        "segmentation",
        {"images": "<split>/images", "masks": "<split>/labels"},
        {"mask_values": {"0": "class 0", "50": "class 50", "100": "class 100"}},
        "given",
    ),
    of_masks_beside: ("segmentation", {"masks": "<stem>_mask.png"}, {}, "random"),
    of_heights: ("pixel_regression", {"targets": "dsm"}, {"target": {"name": "dsm"}}, "random"),
    of_coco: ("detection", {"annotations": "<path>/all.json", "root": "images"}, {}, "random"),
    of_coco_by_split: ("detection", {"root": "images"}, {}, "given"),
    of_voc: ("detection", {"images": "jpg", "annotations": "xml"}, {}, "random"),
    of_yolo: ("detection", {"images": "images/<split>", "names": "data.yaml"}, {}, "given"),
    of_points: ("point_detection", {"points": "points"}, {"classes": ["object"]}, "random"),
    of_deepforest: ("detection", {"table": "<path>/boxes.csv", "root": "pictures"}, {}, "random"),
    of_table: ("classification", {"path": "pictures/<file>", "lon": "lon"}, {}, "given"),
    of_numbers: ("regression", {"target": "yield", "group": "region"}, {}, "group"),
    of_flags: ("multilabel", {"labels": ["field", "water"]}, {}, "random"),
    of_scenes: ("segmentation", {"blocks": {"tiles": 4}}, {"sensor": "aerial"}, "group"),
    of_polygons: ("segmentation", {"attribute": "cover"}, {"gsd_m": 10.0}, "group"),
}


@pytest.fixture
def new(tmp_path, monkeypatch, capsys):
    """Run the command; returns (status, entry, its text, what it complained of)."""
    monkeypatch.chdir(ROOT)

    def run(what: str, source, *options: str):
        output = tmp_path / "mine.yaml"
        output.unlink(missing_ok=True)
        named = ["--name", "mine", "--output", str(output), *options]
        status = main(["new", what, str(source), *named])
        text = output.read_text() if output.exists() else ""
        entry = yaml.safe_load(text)[f"extra_{what}s"]["mine"] if text else None
        return status, entry, text, capsys.readouterr().err

    return run


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_a_draft_says_what_the_files_hold_and_check_takes_it(make, new, tmp_path, capsys):
    task, source, fields, method = CASES[make]
    folder = tmp_path / "files"
    folder.mkdir()
    make(folder)
    status, entry, _, complained = new("dataset", folder)
    assert status == 0, complained
    assert entry["task"] == task
    assert {key: entry["source"].get(key) for key in source} == source
    assert {key: entry.get(key) for key in fields} == fields
    assert entry.get("splits", {"method": "given"})["method"] == method
    given = ["--config", str(tmp_path / "mine.yaml"), "--images", "2"]
    ended = main(["check", "rcf", "--dataset", "mine", *given])
    assert ended == 0, capsys.readouterr().err


def test_an_archive_is_looked_into_without_unpacking(new, tmp_path):
    import shutil

    of_class_folders(tmp_path / "files")
    path = shutil.make_archive(str(tmp_path / "packed"), "zip", tmp_path / "files")
    status, entry, _, _ = new("dataset", path)
    assert status == 0 and entry["source"]["path"] == path
    assert entry["classes"] == ["field", "water"]


@pytest.mark.parametrize(
    "make", [of_coco, of_coco_by_split, of_deepforest, of_table, of_class_folders]
)
def test_images_in_an_archive_beside_their_annotations(make, new, tmp_path, capsys):
    """As many sets of objects are shipped: annotations, and an archive of the images."""
    import shutil

    files = tmp_path / "files"
    files.mkdir()
    make(files)
    (tmp_path / "inner").mkdir()
    for folder in [one for one in files.iterdir() if any(one.rglob("*.png"))]:
        folder.rename(tmp_path / "inner" / folder.name)
    shutil.make_archive(str(files / "images"), "zip", tmp_path / "inner")
    status, entry, _, complained = new("dataset", files)
    assert status == 0, complained
    place = entry["source"]["images" if make is of_table else "path"]
    assert place == str(files / "images.zip")
    given = ["--config", str(tmp_path / "mine.yaml"), "--images", "2"]
    assert main(["check", "rcf", "--dataset", "mine", *given]) == 0, capsys.readouterr().err
    # several archives are named
    (files / "more.zip").write_bytes((files / "images.zip").read_bytes())
    status, entry, _, complained = new("dataset", files)
    assert (status, entry) == (1, None)
    assert "holds no images, but the archives images.zip, more.zip" in complained


def test_annotations_without_images_are_one_error(new, tmp_path):
    of_coco(tmp_path)
    for image in tmp_path.glob("images/*"):
        image.unlink()
    status, entry, _, complained = new("dataset", tmp_path)
    assert (status, entry) == (1, None) and "holds annotations and no images" in complained


def test_what_only_a_person_knows_is_asked_for_in_comments(new, tmp_path):
    for number in range(24):
        values = RANDOM.integers(0, 9000, (7, 24, 24), np.uint16)
        tif(tmp_path / "files" / ("a", "b")[number % 2] / f"{number}.tif", values)
    _, entry, text, _ = new("dataset", tmp_path / "files")
    assert len(entry["bands"]) == 7 and "sensor" not in entry
    assert "# 7 bands of unknown sensor: name the sensor" in text
    assert "# uint16: check scale and offset" in text
    of_masks(tmp_path / "masked")
    assert (
        "# name the classes; found in a sample of the masks: 0, 1, 2, 255"
        in new("dataset", tmp_path / "masked")[2]
    )


def test_images_of_a_local_system_are_drafted_without_a_place(new, tmp_path):
    for number in range(24):
        values = RANDOM.integers(0, 256, (3, 24, 24), np.uint8)
        about = {"crs": 'LOCAL_CS["site",UNIT["metre",1]]'}
        path = tmp_path / "files" / ("a", "b")[number % 2] / f"{number}.tif"
        tif(path, values, (0, 0), **about)
    status, entry, text, complained = new("dataset", tmp_path / "files")
    assert status == 0, complained
    assert entry["splits"] == {"method": "random"} and "georeferenced" not in text


def test_transparency_is_no_band(new, tmp_path):
    for number in range(24):
        values = RANDOM.integers(0, 256, (24, 24, 4), np.uint8)
        png(tmp_path / "files" / ("a", "b")[number % 2] / f"{number}.png", values)
    _, entry, text, _ = new("dataset", tmp_path / "files")
    assert entry["convert"] == ["alpha"] and entry["sensor"] == "rgb"
    assert "# remove what must not happen" in text


def test_the_infrared_of_four_bands_is_no_transparency(new, tmp_path):
    """GDAL takes the fourth band of any four for transparency, if the file does not say otherwise."""
    for number in range(24):
        path = tmp_path / "files" / ("a", "b")[number % 2] / f"{number}.tif"
        path.parent.mkdir(parents=True, exist_ok=True)
        size = {"count": 4, "height": 24, "width": 24, "dtype": "uint8", "photometric": "RGB"}
        with rasterio.open(path, "w", driver="GTiff", **size) as raster:
            raster.write(RANDOM.integers(0, 256, (4, 24, 24), np.uint8))
    _, entry, _, _ = new("dataset", tmp_path / "files")
    assert entry["bands"] == ["red", "green", "blue", "nir"] and "convert" not in entry


@pytest.mark.parametrize(
    ("values", "fields"),
    [
        (
            [1, 2, 255],
            {"ignore_index": 255, "mask_values": {"1": "class 1", "2": "class 2", "255": None}},
        ),
        ([0, 1, 255], {"ignore_index": 255, "classes": ["class 0", "class 1"]}),
        # black and white
        ([0, 255], {"mask_values": {"0": "class 0", "255": "class 255"}}),
    ],
)
def test_255_beside_classes_is_no_class(new, tmp_path, values, fields):
    for number in range(24):
        png(tmp_path / f"files/images/{number}.png")
        png(tmp_path / f"files/masks/{number}.png", RANDOM.choice(values, (24, 24)))
    status, entry, text, complained = new("dataset", tmp_path / "files")
    assert status == 0, complained
    assert {key: entry.get(key) for key in fields} == fields
    assert ("ignore_index" in entry) == ("taken for pixels without a label" in text)
    assert ("ignore_index" in entry) == ("ignore_index" in fields)


def test_thumbnails_lie_beside_the_draft_and_a_first_number_ends_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    for number in range(60):
        values = RANDOM.integers(0, 256, (24, 24, 3)) // (1 + number % 2)
        png(tmp_path / "files/wrapped" / ("field", "water")[number % 2] / f"{number}.png", values)
        (tmp_path / "files/__MACOSX").mkdir(exist_ok=True)
    (tmp_path / "files/__MACOSX/._x.png").write_bytes(b"junk")
    output = tmp_path / "mine.yaml"
    made = ["new", "dataset", str(tmp_path / "files"), "--name", "mine", "--output", str(output)]
    assert main([*made, "--try"]) == 0
    said = capsys.readouterr().out
    assert "fed      to imagestats: " in said and "red = " in said
    score = re.search(r"score +accuracy ([0-9.]+) \[([0-9.]+), ([0-9.]+)\]", said)
    assert score and float(score[2]) <= float(score[1]) <= float(score[3])
    with Image.open(tmp_path / "mine.png") as sheet:
        assert sheet.format == "PNG" and sheet.width > 500
    assert {path.name for path in tmp_path.iterdir()} == {"files", "mine.yaml", "mine.png"}


def test_a_trial_of_what_cannot_be_read_says_why_and_keeps_the_draft(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    from permafrost.data.proposal.looks import sample

    names = [f"{'ab'[n // 50]}/{n}.png" for n in range(100)]
    for name in names:
        png(tmp_path / "files" / name)
    # one of the images that the draft itself does not look at
    damaged = next(name for name in sorted(names) if name not in sample(sorted(names)))
    (tmp_path / "files" / damaged).write_bytes(b"no image")
    output = tmp_path / "mine.yaml"
    assert main(["new", "dataset", str(tmp_path / "files"), "--output", str(output), "--try"]) == 1
    assert damaged in capsys.readouterr().err and output.exists()
    assert main(["new", "backbone", "resnet18", "--try"]) == 1
    assert "--try is for datasets" in capsys.readouterr().err


def test_folders_of_some_splits_only_are_split_anew(new, tmp_path):
    for number in range(24):
        png(tmp_path / "files" / ("train", "val")[number % 2] / f"c{number // 2 % 2}/{number}.png")
    _, entry, text, _ = new("dataset", tmp_path / "files")
    assert entry["splits"]["method"] == "random" and entry["source"]["split_folders"]
    assert "# the files name train and val, and so no train and test" in text


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "holds 0 images among 0 files"),
        ({"a.png": None, "b.png": None}, "holds 2 images among 2 files, but no labels"),
        ({"a/1.png": b"no image", "b/2.png": None}, "the image a/1.png cannot be read"),
        ({"part.tortilla": b"x"}, "docs/datasets.md"),
    ],
)
def test_files_that_say_nothing_are_one_error_and_nothing_is_written(new, tmp_path, files, words):
    (tmp_path / "files").mkdir()
    for name, content in files.items():
        path = png(tmp_path / "files" / name) if content is None else tmp_path / "files" / name
        path.parent.mkdir(exist_ok=True)
        if content is not None:
            path.write_bytes(content)
    status, entry, _, complained = new("dataset", tmp_path / "files")
    assert status == 1 and entry is None and words in complained


def test_a_file_that_exists_is_not_overwritten(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    path = tmp_path / "mine.yaml"
    path.write_text("kept: 1\n")
    assert main(["new", "backbone", "resnet18", "--output", str(path)]) == 1
    assert "exists already" in capsys.readouterr().err and path.read_text() == "kept: 1\n"


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("resnet50.a1_in1k", {"kind": "timm", "weights": {"source": "pretrained"}}),
        ("ResNet50_Weights.SENTINEL2_ALL_MOCO", {"kind": "torchgeo"}),
        ("scalemae_large_patch16", {"kind": "torchgeo", "weights": None}),
        ("config/backbones/template.py", {"entrypoint": "config/backbones/template.py:build"}),
    ],
)
def test_a_backbone_is_known_by_its_name_or_file(new, model, expected):
    status, entry, _, _ = new("backbone", model)
    assert status == 0 and {key: entry[key] for key in expected} == expected


def test_a_checkpoint_is_recognised_by_its_tensors_and_says_what_is_assumed(new, tmp_path):
    import timm
    import torch

    for bands, words in ((3, "of pixels / 255"), (13, "the weights take 13 channels")):
        model = timm.create_model("resnet18", num_classes=5, in_chans=bands)
        torch.save(model.state_dict(), tmp_path / "mine.pth")
        _, entry, text, _ = new("backbone", tmp_path / "mine.pth")
        assert entry["model"] == "resnet18" and words in text
        assert "its tensors have these names and shapes" in text
    assert entry["input"]["mean"] == [0.485, 0.456, 0.406]
    assert entry["input"]["normalization"] == "weights"


def test_a_checkpoint_of_no_known_architecture_says_so(new, tmp_path):
    import torch

    torch.save({"weight": torch.ones(3)}, tmp_path / "mine.pth")
    _, _, text, _ = new("backbone", tmp_path / "mine.pth")
    assert "NOT KNOWN, resnet50 only fills the place" in text
    torch.save({"weight": torch.ones(3)}, tmp_path / "resnet18_mine.pth")
    _, entry, text, _ = new("backbone", tmp_path / "resnet18_mine.pth")
    assert entry["model"] == "resnet18" and "BUT the tensors are other ones" in text


def test_a_checkpoint_asks_for_its_architecture(new, tmp_path):
    (tmp_path / "resnet18_mine.pth").write_bytes(b"x")
    _, entry, text, _ = new("backbone", tmp_path / "resnet18_mine.pth")
    assert entry["model"] == "resnet18" and entry["weights"]["source"] == "file"
    assert "guessed from the file's name" in text and "permafrost convert-checkpoint" in text


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("resnet5", "did you mean 'resnet50'"),
        ("ResNet50_Weights.SENTINEL2_ALL_MOCOO", "did you mean"),
        ("none/weights.pth", "there is no such file"),
        ("none/mine.py:build", "cannot be read as Python"),
    ],
)
def test_an_unknown_model_is_one_error(new, model, words):
    status, entry, _, complained = new("backbone", model)
    assert status == 1 and entry is None and words in complained
