"""A single class, or splits taken for classes, are refused by names of files alone, with the entry that works."""

from __future__ import annotations

import copy
import re
import shutil
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import yaml
from helpers.plans import CONFIG, fill_root, make_plan
from permafrost.core.errors import PermafrostError
from permafrost.core.home import HOME
from permafrost.data.class_files import check_files
from permafrost.data.sources import read_entry
from permafrost.data.store.job import plan_dataset
from permafrost.plan.validation import validate
from permafrost.stages.cli import main
from PIL import Image

CLASSES = ("forest", "urban", "water")


def write_images(folder: Path, names) -> Path:
    for number, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((8, 8, 3), number, np.uint8)).save(folder / name)
    return folder


def packed(folder: Path, form: str) -> Path:
    """The folder itself, or an archive of what it holds."""
    if form == "folder":
        return folder
    path = folder.with_suffix(f".{form}")
    files = sorted(one for one in folder.rglob("*") if one.is_file())
    if form == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            for one in files:
                archive.write(one, one.relative_to(folder))
                archive.writestr(f"__MACOSX/{one.relative_to(folder)}", b"")
    else:
        with tarfile.open(path, "w:gz" if form.endswith("gz") else "w") as archive:
            for one in files:
                archive.add(one, str(one.relative_to(folder)))
    shutil.rmtree(folder)
    return path


def entry_of(source: dict, **more):
    content = {
        "task": "classification",
        "source": source,
        "sensor": "rgb",
        "bands": ["red", "green", "blue"],
        "units": {"unit": "uint8"},
        "splits": {"method": "random"},
        **more,
    }
    validate(content, "dataset", where="own")
    return read_entry(content, where="own")


def refused(entry) -> str:
    with pytest.raises(PermafrostError) as caught:
        check_files(entry, where="own")
    return str(caught.value)


@pytest.mark.parametrize("form", ["folder", "zip", "tar", "tar.gz"])
@pytest.mark.parametrize("wrapper", ["scenes", "a/b"])
def test_a_folder_around_the_classes_is_named(tmp_path, form, wrapper):
    names = [f"{wrapper}/{name}/{i}.png" for name in CLASSES for i in range(10)]
    path = packed(write_images(tmp_path / "data", names), form)
    source = {"kind": "folder", "path": str(path)}
    text = refused(entry_of(source))
    assert f"all 30 images are of one class, {wrapper.split('/')[0]!r}" in text
    assert "forest, urban, water" in text
    # what the remedy says works
    root = re.search(r"write in source (root: \S+):", text).group(1)
    right = entry_of({**source, **yaml.safe_load(root)})
    check_files(right, where="own")
    assert plan_dataset("own", right).source.classes == list(CLASSES)


@pytest.mark.parametrize("given", [{}, {"split_folders": True}, {"root": "scenes"}])
def test_splits_that_are_taken_for_classes_are_refused(tmp_path, given):
    names = [
        f"scenes/{split}/{name}/{i}.png"
        for split in ("train", "val", "test")
        for name in CLASSES
        for i in range(3)
    ]
    source = {"kind": "folder", "path": str(write_images(tmp_path / "data", names))}
    splits = {"splits": {"method": "given"}} if "split_folders" in given else {}
    text = refused(entry_of({**source, **given}, **splits))
    remedy = re.search(r"write in source (root: scenes), (split_folders: true):", text)
    right = yaml.safe_load("\n".join(remedy.groups()))
    entry = entry_of({**source, **right}, splits={"method": "given"})
    check_files(entry, where="own")
    assert plan_dataset("own", entry).source.classes == list(CLASSES)


def test_one_class_without_others_below_is_refused_everywhere(tmp_path):
    names = [f"scenes/{i}.png" for i in range(20)]
    entry = entry_of({"kind": "folder", "path": str(write_images(tmp_path / "data", names))})
    assert "one class, 'scenes'" in refused(entry) and "two or more classes" in refused(entry)
    # a job run by hand refuses it too, whatever the source
    with pytest.raises(PermafrostError, match="all samples are of one class, 'scenes'"):
        plan_dataset("own", entry)


def test_images_of_a_class_may_lie_deeper(tmp_path):
    names = [f"{name}/flight {i % 2}/{i}.png" for name in CLASSES for i in range(4)]
    entry = entry_of({"kind": "folder", "path": str(write_images(tmp_path / "data", names))})
    check_files(entry, where="own")


def table_of(folder: Path, rows: list[str]) -> dict:
    write_images(folder, [f"{i}.png" for i in range(20)])
    table = folder / "labels.csv"
    table.write_text("\n".join(rows) + "\n")
    return {"kind": "table", "table": str(table), "images": str(folder), "path": "file"}


def test_a_column_of_one_class_names_others(tmp_path):
    rows = [f"{i}.png,scenes,{CLASSES[i % 3]},note {i}" for i in range(20)]
    source = table_of(tmp_path / "data", ["file,set,cover,note", *rows])
    text = refused(entry_of({**source, "label": "set"}))
    assert "all 20 rows of" in text and "one class, 'scenes'" in text
    assert "name the column of the classes with label (cover?)" in text
    check_files(entry_of({**source, "label": "cover"}), where="own")


@pytest.mark.parametrize("key", ["path", "label", "split", "group", "lon", "date"])
def test_a_column_that_is_not_there_is_known_before_a_job(tmp_path, key):
    rows = [f"{i}.png,{CLASSES[i % 3]}" for i in range(20)]
    source = table_of(tmp_path / "data", ["file,cover", *rows])
    text = refused(entry_of({**source, "label": "cover", key: "covr"}))
    assert "no column 'covr', did you mean 'cover'?" in text


def test_the_plan_refuses_it_and_looks_once(tmp_path, monkeypatch):
    config = copy.deepcopy(CONFIG)
    root = fill_root(tmp_path)
    names = [f"scenes/{name}/{i}.png" for name in CLASSES for i in range(2)]
    packed(write_images(root / "data/pictures", names), "zip")
    with pytest.raises(PermafrostError, match="pictures.*root: scenes: it holds forest, urban"):
        make_plan(root, config)
    config["extra_datasets"]["pictures"]["source"]["root"] = "scenes"
    make_plan(root, config)
    never = "permafrost.data.class_files.check_files"
    monkeypatch.setattr(never, lambda *_, **__: pytest.fail("the same files were listed again"))
    make_plan(root, config)


def test_check_says_it_too(tmp_path, monkeypatch, capsys):
    names = [f"scenes/{name}/{i}.png" for name in CLASSES for i in range(4)]
    path = packed(write_images(tmp_path / "scenes", names), "zip")
    entry = {
        "task": "classification",
        "source": {"kind": "folder", "path": str(path)},
        "sensor": "rgb",
        "bands": ["red", "green", "blue"],
        "units": {"unit": "uint8"},
        "splits": {"method": "random"},
    }
    config = tmp_path / "own.yaml"
    config.write_text(yaml.safe_dump({"extra_datasets": {"own": entry}}))
    monkeypatch.chdir(HOME)
    assert main(["check", "rcf", "--dataset", "own", "--config", str(config)]) == 1
    assert "write in source root: scenes" in capsys.readouterr().err
