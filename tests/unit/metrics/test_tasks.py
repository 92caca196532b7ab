"""The registries of tasks and metrics; and that a metric or a task that somebody adds is scored."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.predictions.labels import multi_label, single_label
from permafrost.core.errors import PermafrostError
from permafrost.core.targets import Boxes, InstanceMasks, OrientedBoxes, Points
from permafrost.core.tasks import TASKS, task_of, tasks_with
from permafrost.metrics.tasks import METRICS, metric_of, primary_metric
from permafrost.plan.validation import load_schema
from permafrost.statistics.predictions.confusions import Confusions
from permafrost.statistics.predictions.labelled import LabelledSamples
from permafrost.statistics.predictions.numbers import PredictedNumbers
from permafrost.statistics.resampling.resamples import Resamples

WORKFLOW = Path(__file__).parents[3] / "workflow"
OF_DATASETS = {name for name, task in TASKS.items() if task.of_datasets}


# --- the registries ------------------------------------------------------------------------------


def test_every_task_has_metrics_one_of_them_primary_and_a_reader():
    assert set(METRICS) == set(TASKS)
    for name, metrics in METRICS.items():
        primary = [metric.name for metric in metrics if metric.primary]
        assert primary == [primary_metric(name)] and not metric_of(primary[0]).per_class
        reader = task_of(name).load_reader()
        assert callable(reader.from_table) and callable(reader.evaluate)


def test_a_metric_of_two_tasks_behaves_the_same_in_both():
    for metrics in METRICS.values():
        for metric in metrics:
            # but for the one that backbones are ranked by
            assert replace(metric_of(metric.name), primary=metric.primary) == metric


def test_a_metric_in_no_list_is_a_share_of_which_more_is_better():
    found = metric_of("recall_at_5")
    assert found.words == "recall at 5" and found.higher_is_better and found.bounds == "unit"


def test_an_unknown_task_is_an_error_that_names_the_nearest():
    with pytest.raises(PermafrostError, match="did you mean 'segmentation'"):
        task_of("segmentaton")


def test_the_schema_of_datasets_lists_the_tasks():
    assert set(load_schema("dataset")["properties"]["task"]["enum"]) == OF_DATASETS


# --- one implementation per metric ---------------------------------------------------------------


def predictions_of(task: str):
    names = [f"{place:03d}" for place in range(120)]
    rng = np.random.default_rng(3)
    if task_of(task).targets.calibrated:
        arrays = single_label(n=120, classes=9) if task == "classification" else multi_label()
        width = arrays[2].shape[1]
        return LabelledSamples.from_arrays(
            names, *arrays, task=task, classes=list("abcdefghi"[:width])
        )
    if task == "segmentation":
        confusion = rng.integers(0, 50, (120, 4, 4))
        return Confusions.from_arrays(names, confusion, classes=list("abcd"), dead_classes=[2])
    target = rng.normal(size=120)
    return PredictedNumbers.from_arrays(names, target, target + rng.normal(size=120))


@pytest.mark.parametrize(
    ("task", "tolerance"),
    [("classification", 0), ("multilabel", 1e-14), ("segmentation", 0), ("regression", 1e-14)],
)
def test_the_value_is_the_replicate_with_weights_of_one(task, tolerance):
    predictions = predictions_of(task)
    once = Resamples.of(np.ones((120, 1), np.uint8))
    replicates = predictions.family(np.arange(120)).replicates(once)
    values = predictions.evaluate()
    assert set(replicates) == set(values)
    for name, value in values.items():
        found = replicates[name][..., 0]
        np.testing.assert_allclose(found, value, rtol=tolerance, atol=0, err_msg=name)


# --- added from outside --------------------------------------------------------------------------

SCORE = """
import json, sys
import numpy as np, pyarrow as pa
from permafrost.plan.sources import stage_modules
from permafrost.statistics.leaderboard.rows import metric_name
from permafrost.statistics.predictions.reading import predictions_from_table
from permafrost.statistics.scores.bootstrap import bootstrap_scores
from permafrost.statistics.scores.gates import score_gates

task, metric, width = sys.argv[1], sys.argv[2], int(sys.argv[3])
rng = np.random.default_rng(0)
target = rng.integers(0, 3, 60)
prediction = np.where(rng.random(60) < 0.7, target, 0)
columns = {"sample_id": [str(i) for i in range(60)], "target": target, "prediction": prediction}
if width:
    scores = np.eye(width)[prediction].ravel()
    columns["scores"] = pa.FixedSizeListArray.from_arrays(pa.array(scores), width)
metadata = {"task": task, "classes": list("abc"[:width])}
found = predictions_from_table(pa.table(columns), metadata)
rows = bootstrap_scores(found, seed=0)
used = stage_modules("bootstrap", (("permafrost.core.tasks", task),))
row = next(row for row in rows if row["metric"] == metric)
print(json.dumps([row, score_gates(found, rows), metric_name(metric), list(used)], default=str))
"""


@pytest.fixture
def workflow(tmp_path):
    """A copy of the workflow, for edits; ``workflow.changed()`` says which files differ."""
    hidden = shutil.ignore_patterns("__pycache__")
    return shutil.copytree(WORKFLOW, tmp_path / "workflow", ignore=hidden)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1, (path, old)
    path.write_text(text.replace(old, new))


def changed(workflow: Path) -> list[str]:
    """Files that differ from those of the project, or that it lacks."""
    files = [path.relative_to(workflow) for path in workflow.rglob("*") if path.is_file()]
    return sorted(
        str(file)
        for file in files
        if "__pycache__" not in file.parts
        and not (
            (WORKFLOW / file).exists()
            and (WORKFLOW / file).read_bytes() == (workflow / file).read_bytes()
        )
    )


def scored(workflow: Path, *arguments: str) -> list:
    environment = {**os.environ, "PYTHONPATH": str(workflow), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", SCORE, *arguments], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_metric_is_added_with_two_files(workflow):
    library = workflow / "permafrost"
    edit(
        library / "metrics/tasks.py",
        '        Metric("top5_accuracy"',
        '        Metric("error_rate", "rate of errors", better="lower", bounds="positive"),\n'
        '        Metric("top5_accuracy"',
    )
    edit(
        library / "metrics/classification.py",
        '        "balanced_accuracy": mean',
        '        "error_rate": 1 - divide(hits.sum(axis=0), targets.sum(axis=0)),\n'
        '        "balanced_accuracy": mean',
    )
    assert len(changed(workflow)) == 2
    row, _, words, _ = scored(workflow, "classification", "error_rate", "3")
    assert 0 < row["lower"] < row["value"] < row["upper"] < 1
    assert row["method"] == "jackknife_log" and row["higher_is_better"] is False
    assert words == "rate of errors"


READER = '''
"""Predictions of grades."""

from permafrost.statistics.predictions.numbers import PredictedNumbers


class PredictedGrades(PredictedNumbers):
    task = "grading"

    def evaluate(self) -> dict:
        return {"mae": super().evaluate()["mae"]}
'''


def test_a_task_is_added_with_at_most_eight_files_beside_its_own_code(workflow):
    library = workflow / "permafrost"
    own = library / "statistics/predictions/grades.py"
    own.write_text(READER)
    edit(
        library / "core/tasks.py",
        '    "retrieval": Task(\n',
        '    "grading": Task(\n'
        "        targets=Number(),\n"
        '        reader="permafrost.statistics.predictions.grades:PredictedGrades",\n'
        '        figures="permafrost.report.tasks.regression",\n'
        '    ),\n    "retrieval": Task(\n',
    )
    edit(
        library / "metrics/tasks.py",
        '    "point_detection": (\n',
        '    "grading": (Metric("mae", "MAE", primary=True, better="lower", bounds="positive"),),\n'
        '    "point_detection": (\n',
    )
    files = changed(workflow)
    wiring = [file for file in files if not own.match(file)]
    assert len(files) == len(wiring) + 1 and len(wiring) == 2, files
    row, gates, _, used = scored(workflow, "grading", "mae", "0")
    assert row["primary"] and row["higher_is_better"] is False
    assert row["lower"] < row["value"] < row["upper"]
    assert not any(gate.startswith("class_missing") for gate in gates)
    # its jobs depend on its reader, and on those of no other task
    prefix = "permafrost.statistics.predictions."
    assert f"{prefix}grades" in used and f"{prefix}queries" not in used


def test_a_task_whose_targets_are_known_is_served_by_the_sources_of_such_targets():
    from permafrost.data.sources import KINDS

    assert tasks_with(Boxes, Points, OrientedBoxes, InstanceMasks) == KINDS["coco"].tasks
    assert {"classification", "segmentation", "pixel_regression", "change"} == KINDS["folder"].tasks
