"""Scores for the Hugging Face hub: ``model-index`` of model cards, and files in ``.eval_results/``."""

from __future__ import annotations

from collections.abc import Mapping

import yaml

from permafrost.core.errors import PermafrostError
from permafrost.report.explanations.gates import leakage_said
from permafrost.report.material.dataset import slug
from permafrost.statistics.leaderboard.rows import distinct, finite, metric_name, overall
from permafrost.statistics.leaderboard.seeds import merge_seeds

# the hub's task names; other tasks keep ours
_TASKS = {
    "classification": "image-classification",
    "multilabel": "image-classification",
    "segmentation": "image-segmentation",
    "change": "image-segmentation",
    "detection": "object-detection",
}


def primary_lines(rows: list[dict], **where) -> list[dict]:
    """Primary scores of a leaderboard that match `where`, over seeds; raises if there are none."""
    lines = [line for line in merge_seeds(overall(rows, **where)) if finite(line["value"])]
    if not lines:
        raise PermafrostError("no scores are left", remedy="use fewer filters: --probe, --dataset")
    return lines


def model_cards(rows: list[dict], plan: Mapping, **where) -> dict[str, str]:
    """File name to the head of a model card, one per backbone, with its primary scores.

    Parameters
    ----------
    rows : of the leaderboard; where : columns and the value to select.
    plan : the recorded plan, whose entries have the titles.

    Raises
    ------
    PermafrostError : no scores match.
    """
    from huggingface_hub import EvalResult, ModelCardData

    lines = primary_lines(rows, **where)
    cards = {}
    for backbone in distinct(lines, "backbone"):
        results = [
            EvalResult(
                task_type=_TASKS.get(line["task"], line["task"]),
                dataset_type=line["dataset"],
                dataset_name=plan["datasets"].get(line["dataset"], {}).get("title")
                or line["dataset"],
                dataset_split="test",
                metric_type=line["metric"],
                metric_name=f"{metric_name(line['metric'])}, {line['probe']} on frozen features",
                metric_value=line["value"],
                metric_args={
                    "probe": line["probe"],
                    "lower": line["lower"],
                    "upper": line["upper"],
                    "confidence": line["confidence"],
                    "seeds": len(line["seeds"]),
                    **({"warnings": said} if (said := leakage_said([line])) else {}),
                    # the hub's source field requires a URL, which a run lacks
                    "made_by": f"Permafrost, plan {plan['plan'][:12]}",
                },
            )
            for line in lines
            if line["backbone"] == backbone
        ]
        title = plan["backbones"].get(backbone, {}).get("title") or backbone
        head = ModelCardData(model_name=title, eval_results=results).to_yaml()
        cards[f"{slug(backbone)}.md"] = f"---\n{head}\n---\n"
    return cards


def eval_results(
    rows: list[dict], plan: Mapping, *, benchmark: str, source: str | None = None, **where
) -> dict[str, str]:
    """File name to text: ``BACKBONE/.eval_results/permafrost.yaml``, and ``eval.yaml`` of the benchmark.

    Format: docs/hub/eval-results.md of github.com/huggingface/hub-docs. A task of the benchmark is
    one probe on one dataset.

    Parameters
    ----------
    rows, where, plan : as for `model_cards`.
    benchmark : the hub's dataset repository whose leaderboard shows the scores.
    source : address of the results.
    """
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

    lines = primary_lines(rows, **where)
    files: dict[str, object] = {}
    for backbone in distinct(lines, "backbone"):
        files[f"{slug(backbone)}/.eval_results/permafrost.yaml"] = eval_result_entries_to_yaml(
            [
                EvalResultEntry(
                    dataset_id=benchmark,
                    task_id=_task(line),
                    value=line["value"],
                    source_url=source,
                    notes=_notes(line, plan),
                )
                for line in lines
                if line["backbone"] == backbone
            ]
        )
    tasks = {_task(line): line["dataset"] for line in lines}
    files["eval.yaml"] = {
        "name": benchmark.partition("/")[2],
        "description": "Probes on the features of frozen geospatial backbones, by Permafrost.",
        "evaluation_framework": "permafrost",
        "tasks": [{"id": id_, "config": tasks[id_], "split": "test"} for id_ in sorted(tasks)],
    }
    return {
        name: yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
        for name, content in files.items()
    }


def _task(line: Mapping) -> str:
    return f"{slug(line['dataset'])}-{slug(line['probe'])}"


def _notes(line: dict, plan: Mapping) -> str:
    """What the format has no field for, in words."""
    seeds = f", {len(line['seeds'])} seeds" if len(line["seeds"]) > 1 else ""
    bounds = ""
    if finite(line["lower"]) and finite(line["upper"]):
        level = f"{100 * line['confidence']:g} % interval"
        bounds = f", {level} {line['lower']:.6g} to {line['upper']:.6g}"
    frozen = "" if line["kind"] == "fine_tune" else " on frozen features"
    said = f"{metric_name(line['metric'])} of {line['probe']}{frozen}{seeds}{bounds}."
    return " ".join([said, f"Permafrost, plan {plan['plan'][:12]}.", *leakage_said([line])])
