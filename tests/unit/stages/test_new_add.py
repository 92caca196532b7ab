"""``permafrost new --add``: the entry lands in the project, and nothing else of it changes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml
from permafrost.operate.additions import named
from permafrost.operate.offers import read_offers
from permafrost.stages.cli import main
from PIL import Image

CONFIG = """\
# what is run
catalogues: ["{permafrost}/config", config]
backbones: [imagestats]   # a comment
datasets: [my-scenes]  # another
probes:
  knn: {kind: knn}
"""
OWN = """\
# mine
my-scenes:
  task: classification
  source: {kind: folder, path: data/scenes}   # a comment
  sensor: rgb
  bands: [red, green, blue]
  units: {unit: uint8}
"""


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    root = tmp_path / "project"
    (root / "config" / "datasets").mkdir(parents=True)
    (root / "Snakefile").write_text("# permafrost\n")
    (root / "config/config.yaml").write_text(CONFIG)
    (root / "config/datasets/own.yaml").write_text(OWN)
    for number in range(12):
        path = root / "data/tiles" / "ab"[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        values = np.random.default_rng(number).integers(0, 256, (16, 16, 3), np.uint8)
        Image.fromarray(values).save(path)
    monkeypatch.chdir(root)
    return root


def written(root: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def test_the_entry_stands_where_the_project_looks_for_it(project, capsys):
    assert main(["new", "dataset", "data/tiles", "--add"]) == 0
    said = capsys.readouterr().out
    assert "config/datasets/own.yaml: dataset tiles added" in said
    assert "permafrost check rcf --dataset tiles" in said
    assert "fed      to imagestats" in said and (project / "config/datasets/tiles.png").exists()
    # what was there stays, letter by letter
    assert (project / "config/datasets/own.yaml").read_text().startswith(OWN)
    expected = CONFIG.replace("[my-scenes]", "[my-scenes, tiles]")
    assert (project / "config/config.yaml").read_text() == expected
    entry = read_offers(project).dataset("tiles")
    assert entry["source"]["path"] == "data/tiles" and entry["classes"] == ["a", "b"]
    assert main(["check", "rcf", "--dataset", "tiles", "--images", "2"]) == 0


def test_paths_are_those_of_the_project_wherever_the_command_runs(project, monkeypatch):
    monkeypatch.chdir(project / "data")
    assert main(["new", "dataset", "tiles", "--add", "--name", "mine"]) == 0
    assert read_offers(project).dataset("mine")["source"]["path"] == "data/tiles"


@pytest.mark.parametrize(
    ("name", "where"), [("my-scenes", "own.yaml"), ("m-eurosat", "geobench.yaml")]
)
def test_a_name_that_exists_is_refused(project, name, where, capsys):
    before = written(project)
    assert main(["new", "dataset", "data/tiles", "--add", "--name", name]) == 1
    complained = capsys.readouterr().err
    assert f"there is a dataset '{name}' already" in complained and where in complained
    assert written(project) == before


def test_nothing_is_written_where_the_configuration_cannot_be_changed(project, capsys):
    shared = "lists: {one: &one [my-scenes]}\n"
    (project / "config/config.yaml").write_text(
        shared + CONFIG.replace("datasets: [my-scenes]", "datasets: *one")
    )
    before = written(project)
    assert main(["new", "dataset", "data/tiles", "--add"]) == 1
    assert "the layout of this file does not allow additions" in capsys.readouterr().err
    assert written(project) == before


def test_outside_of_a_project_nothing_is_added(project, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["new", "dataset", "project/data/tiles", "--add"]) == 1
    assert "no project" in capsys.readouterr().err


def test_a_backbone_is_added_as_well(project):
    (project / "model.py").write_text("def build(inputs): ...\n")
    assert main(["new", "backbone", "model.py:build", "--add"]) == 0
    assert yaml.safe_load((project / "config/config.yaml").read_text())["backbones"] == [
        "imagestats",
        "model",
    ]
    own = yaml.safe_load((project / "config/backbones/own.yaml").read_text())
    assert own["model"]["entrypoint"] == "model.py:build"


def test_a_draft_fits_into_a_catalogue_as_it_is(project, capsys):
    assert main(["new", "dataset", "data/tiles"]) == 0
    text = capsys.readouterr().out
    (project / "config/datasets/more.yaml").write_text(text)
    assert read_offers(project).dataset("tiles")["classes"] == ["a", "b"]
    (project / "config/datasets/more.yaml").unlink()
    (project / "config/datasets/own.yaml").write_text(OWN + text)
    offers = read_offers(project)
    assert {"tiles", "my-scenes"} <= {*offers.datasets.names(["all"])}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("datasets: [a]\n", ["a", "x"]),
        ("datasets: [a, b, ] # c\nprobes: {}\n", ["a", "b", "x"]),
        ("datasets: [\n  a,\n  b   # last\n]\n", ["a", "b", "x"]),
        ("datasets: []\n", ["x"]),
        ("datasets:\nprobes: {}\n", ["x"]),
        ("datasets:\n- a\n- b # c\nprobes: {}\n", ["a", "b", "x"]),
        ("datasets:\n    - a\n    # c\n", ["a", "x"]),
        ("datasets:\n  - a", ["a", "x"]),
        ("# nothing\n", ["x"]),
        ("", ["x"]),
        ("probes: {}", ["x"]),
    ],
)
def test_a_name_joins_a_list_however_it_is_written(text, names):
    after = named(text, "datasets", "x")
    read = yaml.safe_load(after)
    assert read["datasets"] == names
    before = yaml.safe_load(text) or {}
    assert {**read, "datasets": None} == {**before, "datasets": None}
    assert sum(line.count("#") for line in after.splitlines()) == text.count("#")
