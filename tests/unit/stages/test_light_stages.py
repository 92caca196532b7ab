"""What the light stages import while they do their work: the whole command, not only its modules."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import helpers.predictions.objects as object_cases
import numpy as np
import pyarrow as pa
import pytest
from helpers.predictions.masks import predictions, write_predictions
from permafrost.core.identity import canonical_json, fingerprint
from permafrost.core.stores import write_store
from permafrost.plan.sources import code_hash
from permafrost.stages.cli import main

NEVER = {"torch", "torchvision", "timm", "torchgeo", "sklearn", "scipy", "pandas", "matplotlib"}
SCORING = {"resamples": 20, "confidence": 0.95, "method": "percentile", "seed": 0}
PROGRAM = """
import sys
from permafrost.stages.cli import main
status = main(sys.argv[1:])
loaded = {name.partition(".")[0] for name in sys.modules}
print("|".join(sorted(loaded)), file=sys.stderr)
sys.exit(status)
"""


def imported(stage: str, spec: dict, *options) -> set[str]:
    """Top-level names that were imported by the command when it was done."""
    command = [
        stage,
        "--spec",
        canonical_json(spec),
        "--code",
        code_hash(stage, spec),
        *map(str, options),
    ]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.splitlines()[-1].split("|"))


def print_of(spec: dict) -> str:
    """The fingerprint of what a stage makes of `spec`."""
    return fingerprint(canonical_json(spec), code_hash(spec["stage"], spec))


def write_features(folder: Path) -> list[Path]:
    """Feature stores of the three splits of a dataset of two groups of points."""
    paths = []
    for number, split in enumerate(("train", "val", "test")):
        rng = np.random.default_rng(number)
        labels = np.arange(30) % 2
        embeddings = rng.normal(size=(30, 4)).astype(np.float32) + 2 * labels[:, None]
        paths.append(folder / f"{split}.zarr")
        with write_store(paths[-1], fingerprint="features") as writer:
            array = writer.array("embeddings", (30, 4), "float32", rows_per_chunk=16)
            array[:] = embeddings
            writer.array("labels", (30,), "int64", rows_per_chunk=16)[:] = labels
            names = [f"{split} {i:02}" for i in range(30)]
            groups = [f"scene {i // 5}" for i in range(30)]
            writer.samples(pa.table({"sample_id": names, "group_id": groups}))
            writer.attributes.update(
                task="classification",
                classes=["a", "b"],
                dataset="demo",
                gates=[],
                split_method="random",
                spatially_random=True,
            )
    return paths


@pytest.fixture(scope="module")
def done(tmp_path_factory) -> dict[str, set[str]]:
    """Every light stage run once, one after the other: what each has imported."""
    folder = tmp_path_factory.mktemp("light")
    found, rows, segmented = {}, [], {}
    classified = folder / "knn.parquet"
    spec = {
        "stage": "knn",
        "dataset": "demo",
        "backbone": "one",
        "probe": "knn",
        "seed": 0,
        "options": {"kind": "knn", "k": 3, "metric": "l2"},
        "inputs": {"features": "features"},
    }
    found["knn"] = imported(
        "knn", spec, "--features", *write_features(folder), "--output", classified
    )
    for backbone in ("one", "two"):
        path = folder / "predictions/demo" / backbone / "seed0/fpn.parquet"
        write_predictions(path, predictions(boundary=True), backbone=backbone, dataset="demo")
        segmented[f"{backbone}/seed0"] = "made"
    detected = folder / "fcos.parquet"
    object_cases.write_predictions(detected, object_cases.predictions(), dataset="demo")
    tables = ("knn", classified, print_of(spec)), ("fpn", path, "made"), ("fcos", detected, "made")
    for probe, table, made in tables:
        judged = {"calibration": {"bins": 15, "folds": 5, "floor": 0.1}} if probe == "knn" else {}
        spec = {
            "stage": "bootstrap",
            "dataset": "demo",
            "backbone": "one",
            "probe": probe,
            "seed": 0,
            "task": "classification",
            "options": SCORING | judged,
            "inputs": {"predictions": made},
        }
        output = folder / f"{probe}-scores.parquet"
        found[f"bootstrap of {probe}"] = imported(
            "bootstrap", spec, "--predictions", table, "--output", output
        )
        rows.append({"stage": "bootstrap", "path": str(output), "fingerprint": print_of(spec)})
    spec = {
        "stage": "compare",
        "dataset": "demo",
        "probe": "fpn",
        "task": "segmentation",
        "options": {key: one for key, one in SCORING.items() if key != "method"},
        "inputs": {"predictions": segmented},
    }
    found["compare"] = imported(
        "compare", spec, "--results", folder, "--output", folder / "compared.parquet"
    )
    plan = folder / "plan.json"
    plan.write_text(json.dumps({"results": str(folder), "outputs": rows}))
    options = {"resamples": 20, "confidence": 0.95, "seed": 0}
    outputs = [
        argument
        for name in ("parquet", "csv", "standings", "standings-csv", "stamp")
        for argument in (f"--{name}", folder / f"leaderboard.{name}")
    ]
    found["aggregate"] = imported(
        "aggregate",
        {
            "stage": "aggregate",
            "options": options,
            "groups": [["all", ["demo"]]],
            "ranking": {},
            "inputs": {},
        },
        "--plan",
        plan,
        *outputs,
    )
    return found


@pytest.mark.parametrize(
    "stage", ["knn", "bootstrap of knn", "bootstrap of fpn", "compare", "aggregate"]
)
def test_a_light_stage_imports_nothing_heavy(done, stage):
    assert "pyarrow" in done[stage], "the stage did no work"
    assert done[stage] & NEVER == set()
    if stage != "knn":
        assert done[stage] & {"zarr", "faiss"} == set()


def test_detections_are_matched_with_scipy_and_nothing_heavier(done):
    assert done["bootstrap of fcos"] & NEVER == {"scipy"}
    assert done["bootstrap of fcos"] & {"zarr", "faiss"} == set()


def test_pandas_can_still_be_used_after_pyarrow_was_spared_it(tmp_path):
    pytest.importorskip("pandas")
    # a path, not a file object of Python's: pyarrow aborts now and then at exit after reading one
    program = (
        "import sys, permafrost.core.tables as tables, pyarrow as pa\n"
        "assert 'pandas' not in sys.modules\n"
        "import pandas as pd\n"
        "frame = pd.DataFrame({'name': ['a', None], 'value': [1.0, float('nan')]})\n"
        "frame.to_parquet(sys.argv[1])\n"
        "assert pd.read_parquet(sys.argv[1]).equals(frame)\n"
        "assert pa.array(frame['value']).null_count == 1\n"
    )
    command = [sys.executable, "-c", program, tmp_path / "frame.parquet"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_job_that_was_planned_with_other_sources_is_refused(tmp_path, capsys):
    output = tmp_path / "scores.parquet"
    spec = canonical_json({"stage": "bootstrap", "inputs": {"predictions": "x"}})
    command = ["bootstrap", "--spec", spec, "--code", "0" * 32, "--predictions", "none"]
    assert main([*command, "--output", str(output)]) == 1
    assert "changed since this bootstrap job was planned" in capsys.readouterr().err
    assert not output.exists()
