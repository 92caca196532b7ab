"""Modules that serve some forms of targets: datasets of other forms run none of their code."""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path

import pytest
from helpers.datasets.images import (
    RGB_ENTRY,
    Prepared,
    class_files,
    encode,
    folder_entry,
    pair_entry,
    pair_files,
    photo,
    write_folder,
    write_table,
)
from helpers.datasets.objects import coco_entry
from helpers.datasets.rasters import raster_entry, raster_files
from permafrost.core.tasks import targets_of
from permafrost.plan.sources import ROOT, SERVES, chosen_by, module_path, stage_modules

# refuse options that mean nothing for the task; their result is an error or nothing
REFUSING = {"check_options", "_used"}


def table_entry(folder: Path, task: str, **source) -> dict:
    """A table of photos with numbers, or with labels in two columns."""
    files = {f"{number:02d}.png": encode(photo(number)) for number in range(12)}
    write_folder(folder / "images", files)
    rows = [
        {"file": name, "height": number / 7, "field": number % 2, "town": number % 3 // 2}
        for number, name in enumerate(files)
    ]
    write_table(folder / "table.csv", rows)
    place = {"kind": "table", "table": str(folder / "table.csv"), "images": str(folder / "images")}
    splits = {"method": "random", "fractions": [0.5, 0.25, 0.25]}
    return {
        **RGB_ENTRY,
        "task": task,
        "source": {**place, "path": "file", **source},
        "splits": splits,
    }


ENTRIES = {
    "classification": lambda folder: folder_entry(write_folder(folder / "set", class_files())),
    "multilabel": lambda folder: table_entry(folder, "multilabel", labels=["field", "town"]),
    "regression": lambda folder: table_entry(folder, "regression", target="height"),
    "segmentation": lambda folder: pair_entry(
        write_folder(folder / "set", pair_files()),
        {"images": "images/<id>.png", "masks": "masks/<id>.png"},
    ),
    "pixel_regression": lambda folder: raster_entry(
        write_folder(folder / "set", raster_files()),
        {"images": "images/<id>.png", "targets": "targets/<id>.tif"},
    ),
    "detection": coco_entry,
}


@pytest.fixture
def ran():
    """(file, function) of the library's functions that run, in all threads."""
    for name in SERVES:
        importlib.import_module(name)
    found, tool = set(), sys.monitoring.PROFILER_ID
    sys.monitoring.use_tool_id(tool, "test")
    sys.monitoring.register_callback(
        tool,
        sys.monitoring.events.PY_START,
        lambda code, _: found.add((code.co_filename, code.co_name)),
    )
    sys.monitoring.set_events(tool, sys.monitoring.events.PY_START)
    yield found
    sys.monitoring.set_events(tool, 0)
    sys.monitoring.free_tool_id(tool)


@pytest.mark.parametrize("task", ENTRIES)
def test_a_dataset_runs_no_code_of_other_targets(tmp_path, ran, task):
    entry = ENTRIES[task](tmp_path)
    assert entry["task"] == task
    ran.clear()
    Prepared(tmp_path / "made").run(entry)
    files = {str(module_path(name)): name for name in SERVES}
    used = {files[file] for file, name in ran if file in files and name not in REFUSING}
    counted = SERVES.keys() & set(stage_modules("prepare", chosen_by({"entry": entry})))
    assert used <= counted
    targets = targets_of(task)
    assert counted == {name for name, kind in SERVES.items() if getattr(targets, kind)}


def test_others_use_only_functions_and_classes_of_them():
    """A constant would count without a call."""
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module in SERVES:
                module = importlib.import_module(node.module)
                assert all(callable(getattr(module, one.name)) for one in node.names), path
