"""Every benchmark runs at toy size and prints its table, and none uses private names of the package.

Of these only a part is run: `acceptance` runs a suite of one test written here, for the real ones are clones of other
projects; of `slurm`, the project is made and planned, for the rest needs root, a Slurm and minutes; peers, a browser,
other environments and GPUs are left out everywhere. `linear` and `detection_baselines` are given stored input, which
real data and training would else make.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import yaml
from helpers.project import REPOSITORY
from helpers.results.objects import (
    make_object_card,
    make_object_predictions,
    make_object_store,
    score,
)
from permafrost.statistics.leaderboard.leaderboard import write_leaderboard

FOLDER = REPOSITORY / "benchmarks"
SCRIPTS = sorted(file.stem for file in FOLDER.glob("[!_]*.py"))
#: private names of other projects, which have no public ones
OF_OTHERS = {"_C", "_REGISTRY", "_evaluate_predictions_on_coco"}


def suite_of_one_test(folder: Path) -> None:
    """A clone of a project for `acceptance`, whose suite has one test."""
    suite = folder / "tests" / "unittests" / "detection" / "test_map.py"
    suite.parent.mkdir(parents=True)
    suite.write_text("def test_nothing():\n    pass\n")


def features(folder: Path) -> None:
    """What `linear` keeps in its cache."""
    rng = np.random.default_rng(0)
    arrays: dict[str, np.ndarray] = {}
    for part in ("train", "val", "test"):
        arrays[f"y_{part}"] = labels = np.arange(60) % 3
        arrays[f"x_{part}"] = rng.normal(size=(60, 8)).astype(np.float32) + labels[:, None]
    np.savez(folder / "synthetic-2048x45.npz", **arrays)


def detections(folder: Path) -> None:
    """The results of a run with a detection head."""
    card = make_object_card(images=4)
    results = folder / "results"
    named = Path(card["dataset"], "net", "seed0", "fcos.parquet")
    made = make_object_predictions(results / "predictions" / named, card, backbone="net")
    make_object_store(results / "images" / card["dataset"] / "train.zarr", card, split="train")
    table = score(made, folder / "scores.parquet")
    paths = [results / f"leaderboard.{form}" for form in ("parquet", "csv")]
    write_leaderboard([table], *paths, {"fingerprint": "leaderboard"})


def one_probe(folder: Path) -> None:
    """The configuration of the project in `folder`, with fewer probes and with a measure."""
    config = yaml.safe_load(Path("config/config.yaml").read_text())
    config["probes"] = {"knn": {"kind": "knn"}}
    config["measures"] = {"names": ["dimension_two_nn"], "split": "test"}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))


@dataclass(frozen=True)
class Toy:
    """A small run of a script.

    Attributes
    ----------
    arguments : of the command line; `{folder}` is an empty folder, `{data}` that of the shared real data.
    prints : a part of the table.
    makes : writes stored input into the folder.
    finished : the script is started in a finished project.
    """

    arguments: str
    prints: str
    makes: Callable[[Path], None] | None = None
    finished: bool = False


WEIGHTS = "{data}/weights/mobilenetv2_100.tf_coral_in1k.fp16.safetensors"
TOYS = {
    "acceptance": Toy(
        "--packages {folder} --torchmetrics {folder}", "| 1 pass, 0 fail |", suite_of_one_test
    ),
    "bootstrap": Toy("--quick --repeats 1", "(the draw alone)"),
    "cells": Toy("--backbones rcf imagestats-all --datasets m-eurosat", "exact "),
    "dag": Toy("--sizes 2x1 --repeats 1 --only everything job", "one job's start"),
    "detection": Toy("--data {folder} --images 20 --repeats 1", "| lvis "),
    "detection_baselines": Toy("--results {folder}/results", "net fcos seed 0", detections),
    "detection_intervals": Toy(
        "--data {folder} --images 20 --categories 4 --resamples 5", "| categories |"
    ),
    "entrance": Toy("--size 3x3x2", "3x3x2: ", finished=True),
    "environment": Toy("--jobs nothing imagestats --repeats 0", "| imagestats, main"),
    "estimates": Toy("--run . - --fit", '"stages": {"extract"', finished=True),
    "exponents": Toy("--small --only standings", "| aggregate, 20 backbones | datasets | 2 | 3 |"),
    "extraction": Toy(
        "--model test_resnet --images 4 --batch-size 2 --repeats 1 --device cpu --no-memory",
        "ratio of extraction",
    ),
    "geobench": Toy("--images 4 --repeats 1", "peak memory: "),
    "interval_coverage": Toy("--sets 1 --cells numbers --groups 0", "| numbers | 100 |"),
    "knn_scale": Toy(
        "--folder {folder} --rows 200 --queries 10 --repeats 1 --features identical --job-rows 200",
        "a job, 200 train",
    ),
    "light_jobs": Toy(
        "--config config/config.yaml --jobs 2 --only bootstrap", "| overhead now |", finished=True
    ),
    "linear": Toy(
        "--data . --weights . --cases synthetic-2048x45 --repeats 1 --cache {folder}",
        "| synthetic-2048x45 |",
        features,
    ),
    "linear_scale": Toy("--folder {folder} --rows 200 --sides streamed --peer 8", "its peak: "),
    "million": Toy(
        "--folder {folder} --images 4 --held-out 2 --files --parts 1 --prepare-only",
        "| prepare --parts ",
    ),
    "precision": Toy(
        "--data {data} --images 40 --moved 4 --models mobilenetv2_100", "| mobilenetv2_100 | bf16 |"
    ),
    "protocols": Toy(
        "--config {folder}/config.yaml --data . --dataset tiny-landcover --backbone imagestats",
        "| measures ",
        one_probe,
        finished=True,
    ),
    "ranking_coverage": Toy("--tables 1 --datasets 5", "| friedman "),
    "refresh": Toy("nothing", "0 figures moved"),
    "report": Toy("--sizes 2x1 --grown-only", "| 2 backbones, 1 datasets ", finished=True),
    "segmentation": Toy(
        f"--data {{data}} --weights {WEIGHTS} --chips 2 --epochs 1 --batch-size 1 --heads linear"
        " --backbones mobilenetv2 --memory-chips 0",
        "| mobilenetv2 | linear |",
    ),
    "segmentation_bootstrap": Toy("--quick --repeats 1", "| re-summed |"),
    "sgd_linear": Toy("--samples 100 --dimensions 8 --repeats 1", "| training, one rate"),
    "shared_images": Toy(
        "--archive {data}/eurosat_rgb/EuroSAT.zip --images 40", "| none | 100.0 % | 0.0 % | 0 |"
    ),
    "standalone_coverage": Toy("--sets 1 --cells rasters", "| rasters |"),
    "standings": Toy("--sizes 2x2x1", "| 2x2x1 |"),
    "startup": Toy(
        "--config config/config.yaml --repeats 1 --only bootstrap images",
        "imports: ",
        finished=True,
    ),
    "statistics_scale": Toy(
        "--folder {folder} --rows 100 --only bootstrap measure --what '1000 classes' --no-peers",
        "| measure ",
    ),
    "verify": Toy("--gigabytes 0.001 --chunk 0.1 --repeats 1", "sha256sum "),
    "study": Toy(
        '--images 20 --side 32 --models 1 --channels 64 --keep "1 MB"', "features on disk: at most "
    ),
    "wrong_labels": Toy(
        "--dataset tiny-landcover --shares 0.1 --folds 2 --c 1", "| 10 % | 12 |", finished=True
    ),
}
#: scripts that a test of their own runs a part of
IN_PARTS = {"slurm"}


def case(name: str):
    real = name in TOYS and "{data}" in TOYS[name].arguments
    return pytest.param(name, marks=[pytest.mark.shared] if real else [])


@pytest.mark.parametrize("name", [case(name) for name in SCRIPTS if name not in IN_PARTS])
def test_benchmark_runs_at_toy_size(name, tmp_path, request, monkeypatch):
    toy = TOYS.get(name)
    assert toy, (
        f"benchmarks/{name}.py is not tested: add a Toy to TOYS with sizes that take a few seconds"
    )
    if toy.finished:
        monkeypatch.chdir(request.getfixturevalue("project").folder)
    else:
        monkeypatch.chdir(REPOSITORY)
    if name == "environment" and not Path(sys.prefix, ".permafrost").exists():
        pytest.skip("these tests do not run in an environment of envs/run, which would install one")
    data = request.getfixturevalue("shared_data") if "{data}" in toy.arguments else ""
    if toy.makes:
        toy.makes(tmp_path)
    arguments = toy.arguments.format(folder=tmp_path, data=data)
    done = started(str(FOLDER / f"{name}.py"), *shlex.split(arguments))
    assert done.returncode == 0, done.stdout + done.stderr
    # columns are as wide as their widest cell
    assert toy.prints in re.sub(" +", " ", done.stdout), done.stdout


def started(*command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *command], env=environment, capture_output=True, text=True, timeout=300
    )


def test_project_of_slurm_is_planned(tmp_path, monkeypatch):
    monkeypatch.chdir(FOLDER)
    code = (
        "import slurm; from pathlib import Path; run = slurm.Project.snakemake\n"
        "slurm.Project.snakemake = lambda project, *rules: print(run(project, '-n', *rules).stdout)\n"
        f"slurm.prepared(Path({str(tmp_path / 'project')!r}), 8)"
    )
    done = started("-c", code)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^extract +4$", done.stdout, re.MULTILINE), done.stdout


README = """# Figures

<!-- refresh benchmarks/standings.py --sizes 2x1x1 -->
| backbones x datasets x probes | tables | CPU | lost |
|---|---|---|---|
| 2x1x1 | 9,000 | 0.001 s | 4 |
| 2x1x1 | 2 | | |

yesterday
<!-- end -->

<!-- refresh benchmarks/linear.py --data {data} -->
| a |
|---|
<!-- end -->
"""


def test_tables_are_measured_again_and_figures_that_moved_are_named(tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text(README)
    checked = started(str(FOLDER / "refresh.py"), "--readme", str(readme), "--check")
    assert checked.returncode == 1 and readme.read_text() == README
    moved = re.findall("^standings: 2x1x1, (.*)", checked.stdout, re.MULTILINE)
    assert [one.split(":")[0] for one in moved] == ["tables", "CPU", "lost", "tables"]
    assert moved[0] == "tables: 9,000 -> 2" and moved[2] == "lost: 4, no longer measured"
    assert "linear: left out" in checked.stdout and "4 figures moved" in checked.stdout
    done = started(str(FOLDER / "refresh.py"), "standings", "--readme", str(readme))
    assert done.returncode == 0, done.stderr
    made = readme.read_text()
    assert "| 2x1x1 | 2 |" in made and "yesterday" not in made
    assert re.search(r"^20\d\d-\d\d-\d\d, .+, \d+ cores, load ", made, re.MULTILINE)
    assert made.split("<!-- end -->")[1:] == README.split("<!-- end -->")[1:]


def test_a_table_of_a_finished_project_is_measured_in_its_folder(tmp_path, project, monkeypatch):
    monkeypatch.chdir(tmp_path)
    readme = tmp_path / "README.md"
    command = "benchmarks/report.py --results {project}/results --sizes 2x1 --grown-only"
    readme.write_text(f"<!-- refresh {command} -->\n<!-- end -->\n")
    chosen = ["--readme", str(readme), "--project", str(project.folder)]
    done = started(str(FOLDER / "refresh.py"), *chosen)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| 2 backbones, 1 datasets |" in readme.read_text()


def test_all_that_is_run_exists():
    assert {*TOYS, *IN_PARTS} <= {*SCRIPTS}


def test_readme_has_every_benchmark_and_no_option_that_is_gone():
    readme = (FOLDER / "README.md").read_text()
    named = re.findall(r"benchmarks[/.](\w+)(?:\.py)?(.*)", readme)
    assert {name for name, _ in named} >= {*SCRIPTS}
    gone = [
        (name, option)
        for name, rest in named
        if name in SCRIPTS
        for option in re.findall(r"--[a-z0-9-]+", rest)
        if f'"{option}"' not in (FOLDER / f"{name}.py").read_text()
    ]
    assert gone == []


def test_no_benchmark_uses_a_private_name():
    private = [
        (path.name, line, name)
        for path in FOLDER.rglob("*.py")
        for line, name in names_in(path)
        if re.match("_[^_]", name) and name not in OF_OTHERS
    ]
    assert private == [], "use public names of the package"


def names_in(path: Path) -> Iterator[tuple[int, str]]:
    """Line and name of what a file imports of the package, of attributes of others, and of parts of `package:name`."""
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.startswith("permafrost")]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("permafrost"):
            names = [node.module, *(alias.name for alias in node.names)]
        elif isinstance(node, ast.Constant) and re.fullmatch(r"permafrost[\w.:]*", str(node.value)):
            names = [node.value]
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) not in ("self", "cls"):
            names = [node.attr]
        yield from ((node.lineno, part) for name in names for part in re.split("[.:]", name))
