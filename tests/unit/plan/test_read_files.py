"""What jobs read without declaring it: kept by the job, compared by the next plan."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.job_runs import SMALL, JobRuns
from helpers.plans import changed, fingerprints
from permafrost.core.read_files import ReadFiles
from permafrost.operate.stale import outdated
from permafrost.plan.record import plan_file, record_plan
from PIL import Image

NET = """
import sys, json, importlib.util, pathlib, runpy, os
import torch
from PIL import Image
{how}

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(1))

    def forward(self, images):
        return images.mean((2, 3)) * FACTOR * self.scale

def build(inputs):
    {late}
    return Net()
"""
THEIRS = "../their-model"
CODE = "FACTOR = {}\n"


def write_code(path: Path, factor: int) -> None:
    path.write_text(f"# of {factor}\nFACTOR = {factor}\n")


def write_json(path: Path, factor: int) -> None:
    path.write_text(json.dumps(factor))


def write_numpy(path: Path, factor: int) -> None:
    np.save(path, np.array([factor]))


def write_torch(path: Path, factor: int) -> None:
    torch.save(torch.tensor(factor), path)


INSERT = f'sys.path.insert(0, os.path.abspath("{THEIRS}"))\n'
#: name -> the file that is read, how it is written, and how the entry point reads it
FORMS = {
    "module of a neighbour": (
        f"{THEIRS}/theirs.py",
        write_code,
        f"{INSERT}from theirs import FACTOR",
    ),
    "package of a neighbour": (
        f"{THEIRS}/pack/inner.py",
        write_code,
        f"{INSERT}from pack.inner import FACTOR",
    ),
    "dynamic import": (
        "own/extra.py",
        write_code,
        'import importlib\nFACTOR = importlib.import_module("own." + "extra").FACTOR',
    ),
    "file location": (
        "lib/part.py",
        write_code,
        's = importlib.util.spec_from_file_location("p", "lib/part.py")\n'
        "m = importlib.util.module_from_spec(s)\ns.loader.exec_module(m)\nFACTOR = m.FACTOR",
    ),
    "runpy": ("lib/part.py", write_code, 'FACTOR = runpy.run_path("lib/part.py")["FACTOR"]'),
    "exec": ("lib/part.py", write_code, 'exec(open("lib/part.py").read())'),
    "json": ("lib/scale.json", write_json, 'FACTOR = json.load(open("lib/scale.json"))'),
    "bytes": (
        "lib/scale.json",
        write_json,
        'FACTOR = int(pathlib.Path("lib/scale.json").read_bytes())',
    ),
    "memory map": (
        f"{THEIRS}/scale.npy",
        write_numpy,
        f'import numpy\nFACTOR = float(numpy.load("{THEIRS}/scale.npy", mmap_mode="r")[0])',
    ),
    "torch": ("lib/scale.pth", write_torch, 'FACTOR = torch.load("lib/scale.pth")'),
    "link": ("lib/real.py", write_code, f"{INSERT}from linked import FACTOR"),
}
#: what is read when the function is called or the model runs, not when the module is loaded
LATE = {"json", "torch"}


def entry_point(how: str, *, late: bool = False) -> str:
    if late:
        return NET.format(how="FACTOR = 0", late=f"global FACTOR; {how}")
    return NET.format(how=how, late="pass")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A project with its image stores."""
    root = tmp_path_factory.mktemp("base") / "project"
    root.mkdir()
    here = os.getcwd()
    os.chdir(root)
    try:
        study(root).prepare("world")
    finally:
        os.chdir(here)
    return root


def study(root: Path, **changes) -> JobRuns:
    for folder in ("own", "lib", THEIRS, f"{THEIRS}/pack"):
        (root / folder).mkdir(exist_ok=True)
    if not (root / "own/net.py").exists():
        (root / "own/net.py").write_text(entry_point("FACTOR = 1"))
    return JobRuns(
        {
            "catalogues": [],
            "data": "data",
            "backbones": ["own", "stats"],
            "datasets": ["world"],
            "extra_backbones": {
                "stats": {"kind": "imagestats"},
                "own": {"kind": "entrypoint", "entrypoint": "own/net.py:build"},
            },
            "extra_datasets": {"world": SMALL},
            "probes": {"knn": {"kind": "knn"}},
            "seeds": [0],
            **changes,
        }
    )


def study_that_reads_json(root: Path, **changes) -> JobRuns:
    """A study whose entry point reads ``lib/scale.json``."""
    write_json(root / "lib/scale.json", 1)
    (root / "own/net.py").write_text(entry_point(FORMS["json"][2]))
    return study(root, **changes)


@pytest.fixture
def root(prepared, tmp_path, monkeypatch):
    shutil.copytree(prepared.parent, tmp_path / "all", symlinks=True)
    monkeypatch.chdir(tmp_path / "all/project")
    return tmp_path / "all/project"


OF_OWN = {
    ("extract", "world", "own"),
    ("probe", "world", "own", "knn", 0),
    ("bootstrap", "world", "own", "knn", 0),
    ("compare", "world", "knn"),
    ("aggregate",),
    ("report",),
}


def record(place: str = "extract/world/own.json") -> ReadFiles:
    return ReadFiles.load(Path("results/read") / place)


@pytest.mark.parametrize("form", FORMS)
def test_what_an_entry_point_reads_counts_however_it_is_read(root, form):
    file, write, how = FORMS[form]
    write(root / file, 1)
    if form == "link":
        (root / THEIRS / "linked.py").symlink_to(root / file)
    (root / "own/net.py").write_text(entry_point(how, late=form in LATE))
    runs = study(root)
    first = runs.plan()
    runs.extract("world", "own")
    assert changed(first, runs.plan()) == set()
    write(root / file, 7)
    second = runs.plan()
    assert changed(first, second) == OF_OWN
    assert list(second.changes()) == ["extract/world/own.json"]
    runs.extract("world", "own")
    third = runs.plan()
    assert changed(second, third) == set()
    assert not third.changes()
    # what was moved away as a whole reruns nothing, what is missing does
    if file.startswith(THEIRS):
        (root / THEIRS).rename(root / "../away")
        assert changed(third, runs.plan()) == set()


def test_views_keep_what_they_read(root):
    augmentations = {"views": 2, "images": 8}
    measures = {"names": ["alignment_augmentations"], "augmentations": augmentations}
    runs = study_that_reads_json(root, measures=measures)
    first = runs.plan()
    runs.views("world", "own")
    assert first.views("world", "own") == runs.plan().views("world", "own")
    write_json(root / "lib/scale.json", 2)
    (before, after) = (plan.views("world", "own").fingerprint for plan in (first, runs.plan()))
    assert before != after


def test_fine_tuning_keeps_what_it_reads(root):
    tuned = {"kind": "fine_tune", "epochs": 1, "head_epochs": 1, "warmup_epochs": 0}
    runs = study_that_reads_json(root, probes={"tune": tuned})
    plan = runs.plan()
    record_plan(plan, "results")
    job = plan.probe("world", "own", "tune", 0).fingerprint
    # in a process of its own: torch looks into the sources of its callers, which would be these tests
    command = [sys.executable, "-m", "permafrost.stages.cli", "fine_tune", "--job", job]
    command += ["--plan", plan_file(plan, "results"), "--card", "results/images/world/card.json"]
    command += ["--output", "results/predictions/world/own/seed0/tune.parquet", "--device", "cpu"]
    subprocess.run(command, check=True)
    assert changed(plan, runs.plan()) == set()
    write_json(root / "lib/scale.json", 2)
    assert ("probe", "world", "own", "tune", 0) in changed(plan, runs.plan())


def test_declared_files_are_not_kept_twice(root):
    (root / "own/part.py").write_text("FACTOR = 2\n")
    (root / "own/net.py").write_text(entry_point("from own.part import FACTOR"))
    runs = study(root)
    runs.extract("world", "own")
    runs.extract("world", "stats")
    assert not (root / "results/read").exists()


def test_a_listed_folder_counts_by_its_names(root):
    how = 'FACTOR = len(list(pathlib.Path("lib").glob("*.json")))'
    write_json(root / "lib/a.json", 1)
    (root / "own/net.py").write_text(entry_point(how))
    runs = study(root)
    first = runs.plan()
    runs.extract("world", "own")
    assert changed(first, runs.plan()) == set()
    write_json(root / "lib/b.json", 1)
    assert changed(first, runs.plan()) == OF_OWN


def test_a_missing_file_runs_the_job_again(root):
    write_json(root / "lib/other.json", 1)
    runs = study_that_reads_json(root)
    first = runs.plan()
    runs.extract("world", "own")
    (root / "lib/scale.json").unlink()
    assert changed(first, runs.plan()) == OF_OWN


def test_deleted_stores_do_not_hide_a_change(root):
    runs = study_that_reads_json(root)
    first = runs.plan()
    runs.extract("world", "own")
    shutil.rmtree(root / "results/features")
    assert changed(first, runs.plan()) == set()
    write_json(root / "lib/scale.json", 2)
    assert changed(first, runs.plan()) == OF_OWN


def test_a_change_after_the_plan_is_refused_by_name(root, capsys):
    runs = study_that_reads_json(root)
    runs.extract("world", "own")
    plan = runs.plan()
    write_json(root / "lib/scale.json", 2)
    runs.plan = lambda: plan
    with pytest.raises(AssertionError):
        runs.extract("world", "own")
    said = capsys.readouterr().err
    assert "lib/scale.json" in said
    assert "changed since this run was planned" in said


def test_stale_results_name_the_file_that_changed(root):
    runs = study_that_reads_json(root)
    plan = runs.plan()
    runs.extract("world", "own")
    record_plan(plan, "results")
    path = Path(plan_file(plan, "results"))
    assert outdated(path, Path("results"), root) == []
    write_json(root / "lib/scale.json", 2)
    stale = outdated(path, Path("results"), root)
    assert {place.parent.name for place, _ in stale} == {"own"}
    assert all("lib/scale.json" in reason for _, reason in stale)


def test_parts_of_a_job_count_together(root):
    runs = study_that_reads_json(root)
    first = runs.plan()
    parts = [f"results/parts/world/own/{part}-of-2" for part in range(2)]
    for part in range(2):
        runs.extract_part("world", "own", f"{part}-of-2")
    runs.extract("world", "own", "--parts", *parts)
    assert set(record().found) == {"file lib/scale.json"}
    assert changed(first, runs.plan()) == set()
    write_json(root / "lib/scale.json", 2)
    assert changed(first, runs.plan()) == OF_OWN


def test_the_shared_cache_gives_no_output_made_from_other_files(root, monkeypatch, tmp_path):
    monkeypatch.setenv("PERMAFROST_CACHE", str(tmp_path / "cache"))
    runs = study_that_reads_json(root)
    first = runs.plan()
    runs.extract("world", "own")
    kept = record()
    shutil.rmtree(root / "results/features")
    shutil.rmtree(root / "results/read")
    # the same files: taken, with the record
    write_json(root / "own/never_read.json", 1)
    runs.extract("world", "own")
    assert record() == kept
    # another project, whose file differs
    shutil.rmtree(root / "results/features")
    shutil.rmtree(root / "results/read")
    write_json(root / "lib/scale.json", 5)
    assert fingerprints(runs.plan()) == fingerprints(first)
    runs.extract("world", "own")
    assert record().found != kept.found


def test_an_altered_record_runs_its_job_again(root):
    runs = study_that_reads_json(root)
    first = runs.plan()
    runs.extract("world", "own")
    path = root / "results/read/extract/world/own.json"
    path.write_text(path.read_text().replace("scale", "other"))
    second = runs.plan()
    assert changed(first, second) == OF_OWN
    runs.extract("world", "own")
    assert changed(second, runs.plan()) == set()


RESISC = {
    "task": "classification",
    "source": {
        "kind": "torchgeo",
        "name": "RESISC45",
        "dtype": "uint8",
        "arguments": {"root": "{data}/resisc", "download": True},
    },
    "bands": ["red", "green", "blue"],
    "units": {"unit": "uint8"},
}


def resisc(folder: Path, seed: int) -> None:
    """Three JPEGs of three classes in the layout of torchgeo's class, each in one split."""
    rng = np.random.default_rng(seed)
    for number, split in enumerate(("train", "val", "test")):
        names = []
        for label in ("airplane", "beach", "forest"):
            path = folder / f"NWPU-RESISC45/{label}/{label}_{number}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(rng.integers(0, 255, (16, 16, 3), np.uint8)).save(path)
            names.append(f"{path.name}\n")
        (folder / f"resisc45-{split}.txt").write_text("".join(names))


def test_the_files_of_a_torchgeo_class_that_downloads_count(tmp_path, monkeypatch):
    pytest.importorskip("torchgeo")
    monkeypatch.chdir(tmp_path)
    resisc(tmp_path / "data/resisc", 0)
    runs = study(tmp_path, datasets=["resisc"], backbones=["stats"], catalogues=[])
    runs.config["extra_datasets"] = {"resisc": RESISC}
    first = runs.plan()
    runs.prepare("resisc")
    assert set(record("prepare/resisc.json").found) == {"data"}
    (tmp_path / "data/resisc/.hidden").write_text("x")
    assert changed(first, runs.plan()) == set()
    resisc(tmp_path / "data/resisc", 1)
    second = runs.plan()
    assert changed(first, second) == fingerprints(first).keys()
    runs.prepare("resisc")
    assert changed(second, runs.plan()) == set()
    # moved elsewhere, then away
    (tmp_path / "data").rename(tmp_path / "moved")
    runs.config["data"] = "moved"
    assert changed(second, runs.plan()) == set()
    (tmp_path / "moved").rename(tmp_path / "gone")
    assert changed(second, runs.plan()) == set()
    (tmp_path / "gone").rename(tmp_path / "moved")
    (tmp_path / "moved/resisc/NWPU-RESISC45/beach/beach_0.jpg").unlink()
    assert changed(second, runs.plan()) == fingerprints(first).keys()


def test_parts_of_a_preparation_keep_the_files_of_a_download(tmp_path, monkeypatch):
    pytest.importorskip("torchgeo")
    monkeypatch.chdir(tmp_path)
    resisc(tmp_path / "data/resisc", 0)
    runs = study(tmp_path, datasets=["resisc"], backbones=["stats"])
    runs.config["extra_datasets"] = {"resisc": RESISC}
    first = runs.plan()
    for part in range(2):
        runs.prepare_part("resisc", f"{part}-of-2")
    runs.prepare("resisc", "--parts", *[f"results/parts/resisc/{part}-of-2" for part in range(2)])
    assert changed(first, runs.plan()) == set()
    resisc(tmp_path / "data/resisc", 1)
    assert changed(first, runs.plan()) == fingerprints(first).keys()
