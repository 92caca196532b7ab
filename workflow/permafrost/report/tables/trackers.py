"""Scores for experiment trackers: one run per evaluation, in a local folder. Nothing is uploaded.

The client libraries are not part of the environment: they are imported here if installed.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from permafrost.core.errors import PermafrostError
from permafrost.statistics.leaderboard.rows import finite, gates_of, overall

PROJECT = "permafrost"


@dataclass(frozen=True)
class Run:
    """One evaluation: a probe on a dataset, of a backbone, with a seed."""

    name: str
    labels: dict[str, str]
    options: dict[str, object]
    metrics: dict[str, float]
    gates: list[str]


def runs_of(rows: list[dict], plan: Mapping, **where) -> Iterator[Run]:
    """The evaluations of a leaderboard, with all overall metrics and their interval bounds.

    Parameters
    ----------
    rows : of the leaderboard; measures and profiles are skipped.
    plan : the recorded plan, whose probe options are the runs' parameters.
    where : columns and the value to select.
    """
    found: dict[tuple, list[dict]] = {}
    for row in overall(rows, primary=False, **where):
        if row["probe"] in plan["probes"]:
            key = tuple(row[name] for name in ("dataset", "backbone", "probe", "seed"))
            found.setdefault(key, []).append(row)
    for (dataset, backbone, probe, seed), one in found.items():
        numbers: dict[str, float] = {}
        for row in one:
            named = {"": "value", "_lower": "lower", "_upper": "upper"}
            ends = {f"{row['metric']}{end}": row[column] for end, column in named.items()}
            numbers |= {name: value for name, value in ends.items() if finite(value)}
        labels = {"dataset": dataset, "backbone": backbone, "probe": probe, "seed": str(seed)}
        chosen = {f"chosen_{k}": v for k, v in json.loads(one[0]["settings"] or "{}").items()}
        gates = sorted({gate for row in one for gate in gates_of(row)})
        options = {**plan["probes"][probe], **chosen}
        yield Run(f"{dataset}/{backbone}/{probe}/seed{seed}", labels, options, numbers, gates)


def write_mlflow(runs: list[Run], folder: Path, plan: str) -> None:
    """Add the runs to the experiment ``permafrost`` in a folder ``mlruns`` of MLflow's file store."""
    # newer clients require this for a file store instead of a database
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow = _library("mlflow", "mlflow-skinny")
    client = mlflow.MlflowClient(tracking_uri=folder.resolve().as_uri())
    known = client.get_experiment_by_name(PROJECT)
    experiment = client.create_experiment(PROJECT) if known is None else known.experiment_id
    for run in runs:
        tags = {**run.labels, "plan": plan, "gates": ";".join(run.gates)}
        made = client.create_run(experiment, run_name=run.name, tags=tags).info.run_id
        for key, value in run.options.items():
            client.log_param(made, key, value)
        for key, value in run.metrics.items():
            client.log_metric(made, key, value)
        client.set_terminated(made)


def write_wandb(runs: list[Run], folder: Path, plan: str) -> None:
    """Write the runs as offline runs of Weights & Biases into a folder, for ``wandb sync``."""
    wandb = _library("wandb", "wandb")
    folder.mkdir(parents=True, exist_ok=True)
    settings = wandb.Settings(console="off", silent=True, disable_git=True, save_code=False)
    for run in runs:
        began = wandb.init(
            project=PROJECT,
            name=run.name,
            group=run.labels["dataset"],
            tags=[run.labels["probe"], *run.gates],
            config={**run.labels, "plan": plan, **run.options},
            dir=str(folder),
            mode="offline",
            settings=settings,
        )
        began.summary.update(run.metrics)
        began.finish()


TRACKERS = {"mlflow": write_mlflow, "wandb": write_wandb}


def _library(module: str, distribution: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise PermafrostError(
            f"the library {module} is not installed and is not part of the environment",
            where=f"--format {module}",
            remedy=f"install it: pip install {distribution}",
        ) from error
