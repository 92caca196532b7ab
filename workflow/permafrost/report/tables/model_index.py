"""Scores for model cards on the Hugging Face hub: the entry ``model-index``."""

from __future__ import annotations

from collections.abc import Mapping

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

    lines = [line for line in merge_seeds(overall(rows, **where)) if finite(line["value"])]
    if not lines:
        raise PermafrostError("no scores are left", remedy="use fewer filters: --probe, --dataset")
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
