"""Results as a submission to the GEO-Bench-2 leaderboard: a table of scores, and a description.

The leaderboard's validation (``utils/input_validation.py`` of its repository) requires five rows
for each backbone and dataset, columns of text or numbers, the keys of the second file, and all
datasets of one of its dimensions.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping

from permafrost.core.errors import PermafrostError
from permafrost.report.tables.shown import Shown
from permafrost.statistics.leaderboard.rows import distinct, finite

#: their names, longest first, so that pastis-r does not match pastis
DATASETS = (
    "dynamic_earthnet", "biomassters", "burn_scars", "cloudsen12", "substation", "everwatch", "forestnet", "kuro_siwo",
    "spacenet2", "spacenet7", "treesatai", "nzcattle", "pastis_r", "so2sat", "flair2", "pastis", "benv2", "caffe",
    "fotw",
)  # fmt: skip
#: task to their metric and ours
METRICS = {
    "classification": ("Overall_Accuracy", "accuracy"),
    "multilabel": ("Multilabel_F1_Score", "micro_f1"),
    "segmentation": ("Multiclass_Jaccard_Index", "mean_iou"),
    "pixel_regression": ("RMSE", "rmse"),
    "detection": ("test_test_map", "AP"),
    "instance_segmentation": ("test_test_segm_map", "AP"),
}
COLUMNS = (
    "dataset", "Metric", "test metric", "experiment_name", "partition name", "backbone", "decoder",
    "batch_size_selection", "frozen_or_full_ft", "early_stop_patience", "n_trials", "Seed", "data_percentages",
    "batch_size", "weight_decay", "lr",
)  # fmt: skip
#: required rows per backbone and dataset
SEEDS = 5
_PREFIX = "geobench2-"


def submission(shown: Shown, plan: Mapping, *, probe: str | None = None) -> dict[str, str]:
    """File name to text: ``results_and_parameters.csv`` and ``additional_info.json``.

    A deterministic probe has one score, which is repeated in all five rows; the second file reports
    this.

    Parameters
    ----------
    plan : the recorded plan. probe : the probe to export; optional if there is only one.

    Raises
    ------
    PermafrostError : several probes, a dataset twice (with two sensors), or neither one nor five
        seeds.
    """
    shown.check(probe=probe)
    names = {
        name: their
        for name in distinct(shown.rows, "dataset")
        if (their := theirs(name)) is not None
    }
    rows = [
        row
        for row in shown.leaderboard.to_pylist()
        if row["class"] is None
        and row["setting"] is None
        and row["dataset"] in names
        and row["task"] in METRICS
        and row["metric"] == METRICS[row["task"]][1]
        and probe in (None, row["probe"])
        and finite(row["value"])
    ]
    if not rows:
        raise PermafrostError(
            "no score is of a dataset of GEO-Bench-2",
            remedy="run entries of config/datasets/geobench2.yaml, with probes that serve them",
        )
    probes = distinct(rows, "probe")
    if len(probes) > 1:
        raise PermafrostError(
            f"the scores are of {len(probes)} probes ({', '.join(probes)}), but a submission has one",
            remedy="name one with --probe",
        )
    scores: dict[tuple[str, str], dict[int, dict]] = {}
    for row in rows:
        scores.setdefault((row["backbone"], row["dataset"]), {})[row["seed"]] = row
    _check_datasets([dataset for _, dataset in scores], names)
    lines = [
        line
        for (backbone, dataset), by_seed in sorted(scores.items())
        for line in _lines(backbone, dataset, names[dataset], by_seed, plan)
    ]
    stream = io.StringIO()
    writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    info = _info(plan, distinct(rows, "backbone"), probes[0], min(map(len, scores.values())))
    return {
        "results_and_parameters.csv": stream.getvalue(),
        "additional_info.json": json.dumps(info, indent=1) + "\n",
    }


def theirs(dataset: str) -> str | None:
    """Their name of a catalogue entry, for any sensors and dates; None for other datasets."""
    name = dataset.removeprefix(_PREFIX).replace("-", "_")
    if name == dataset.replace("-", "_"):
        return None
    return next((one for one in DATASETS if name == one or name.startswith(f"{one}_")), None)


def _check_datasets(datasets: list[str], names: Mapping[str, str]) -> None:
    seen: dict[str, str] = {}
    for dataset in datasets:
        first = seen.setdefault(names[dataset], dataset)
        if first != dataset:
            raise PermafrostError(
                f"{first!r} and {dataset!r} are both the dataset {names[dataset]!r}",
                remedy="submit a run with one of them",
            )


def _lines(
    backbone: str, dataset: str, their: str, by_seed: dict[int, dict], plan: Mapping
) -> list:
    seeds = sorted(by_seed)
    if len(seeds) == 1:
        seeds = [seeds[0]] * SEEDS
    if len(seeds) != SEEDS:
        raise PermafrostError(
            f"{backbone!r} has {len(seeds)} seeds on {dataset!r}, and {SEEDS} are wanted",
            remedy=f"set seeds: {list(range(SEEDS))} in the configuration and run snakemake again",
        )
    probe = plan["probes"][by_seed[seeds[0]]["probe"]]
    return [
        {
            "dataset": their,
            "Metric": METRICS[by_seed[seed]["task"]][0],
            "test metric": by_seed[seed]["value"],
            "experiment_name": f"permafrost_{backbone}_{by_seed[seed]['probe']}",
            "partition name": "100%",
            "backbone": backbone,
            "decoder": probe.get("head") or probe["kind"],
            "batch_size_selection": "fixed",
            "frozen_or_full_ft": "full_ft" if by_seed[seed]["kind"] == "fine_tune" else "frozen",
            "early_stop_patience": 0,
            "n_trials": 1,
            "Seed": seeds[0] + place if len(by_seed) == 1 else seed,
            "data_percentages": 100,
            "batch_size": probe.get("batch_size") or 0,
            "weight_decay": _number(probe.get("weight_decay")),
            "lr": _number(probe.get("learning_rate")),
        }
        for place, seed in enumerate(seeds)
    ]


def _number(value) -> float:
    """A single setting; 0 for none and for one selected from a list."""
    return float(value) if isinstance(value, int | float) else 0.0


def _info(plan: Mapping, backbones: list[str], probe: str, seeds: int) -> dict:
    same = "" if seeds > 1 else " The probe draws nothing, so that all seeds have one score."
    return {
        "Paper Link": "",
        "Code Repository Link ": "",
        "License": "",
        "Number of HPO trials": "1",
        "Number of repeated seeds trials": str(SEEDS),
        "Additional information about submission": (
            f"Permafrost, plan {plan['plan']}, probe {probe}: {json.dumps(plan['probes'][probe])}.{same}"
        ),
        "Comments on new models in submission": "",
        "New model info": [
            {
                "model_display_name": plan["backbones"][name].get("title") or name,
                "model_size": str(plan["backbones"][name].get("parameters") or ""),
                "unique_backbone_key": name,
            }
            for name in backbones
        ],
    }
