"""Scores in the format of Every Eval Ever: one JSON file per backbone, with intervals.

Format: every_eval_ever/schemas/eval.schema.json of github.com/evaleval/every_eval_ever, version 0.3.0.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from uuid import UUID

from permafrost import __version__
from permafrost.metrics.tasks import metric_of
from permafrost.report.explanations.gates import leakage_said
from permafrost.report.material.dataset import slug
from permafrost.report.tables.model_index import primary_lines
from permafrost.statistics.leaderboard.rows import distinct, finite

SCHEMA_VERSION = "0.3.0"
# `bounds` of a metric, as their least and largest score
_RANGES = {"unit": (0, 1), "positive": (0, "Infinity"), "below_one": ("-Infinity", 1)}
_REPOSITORY = re.compile(r"https://(huggingface\.co|github\.com)/([\w.-]+)/([\w.-]+)/?")


def records(
    rows: list[dict],
    plan: Mapping,
    *,
    made: int,
    organization: str,
    source: str | None = None,
    first_party: bool = False,
    **where,
) -> dict[str, str]:
    """File name to text, ``data/permafrost/DEVELOPER/MODEL/UUID.json``, as their repository has them.

    Parameters
    ----------
    rows : of the leaderboard; where : columns and the value to select.
    plan : the recorded plan, whose entries have titles, citations and licences.
    made : when the leaderboard was made, in seconds since 1970.
    organization : who publishes the scores; source : their address.
    first_party : whether the publisher made the backbones.

    Raises
    ------
    PermafrostError : no scores match.
    """
    lines = primary_lines(rows, **where)
    files = {}
    for backbone in distinct(lines, "backbone"):
        entry = plan["backbones"].get(backbone, {})
        developer, model, on_hub = _known_as(backbone, entry)
        record = {
            "schema_version": SCHEMA_VERSION,
            "evaluation_id": f"permafrost-{plan['plan'][:12]}/{slug(backbone)}/{made}",
            "evaluation_timestamp": str(made),
            "retrieved_timestamp": str(made),
            "source_metadata": {
                "source_name": "Permafrost",
                "source_type": "evaluation_run",
                "source_organization_name": organization,
                **({"source_organization_url": source} if source else {}),
                "evaluator_relationship": "first_party" if first_party else "third_party",
                "additional_details": {"plan": plan["plan"]},
            },
            "eval_library": {"name": "permafrost", "version": __version__},
            "model_info": {
                "name": entry.get("title") or backbone,
                "id": f"{developer}/{model}",
                **({"developer": developer} if developer != "unknown" else {}),
                "additional_details": {
                    "deployment_type": "self_deployed",
                    "model_availability": "open_weights" if on_hub else "unknown",
                    "permafrost_name": backbone,
                    **_given(entry, "citation", "licence", "url", "parameters"),
                },
            },
            "evaluation_results": [
                _result(line, plan) for line in lines if line["backbone"] == backbone
            ],
        }
        text = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        name = UUID(bytes=hashlib.sha256(text.encode()).digest()[:16], version=4)
        files[f"data/permafrost/{developer}/{model}/{name}.json"] = text
    return files


def _known_as(backbone: str, entry: Mapping) -> tuple[str, str, bool]:
    """Developer and model of an entry, from its address, and whether this is the model on the hub."""
    found = _REPOSITORY.fullmatch(entry.get("url") or "")
    if found and found[1] == "huggingface.co":
        return found[2], found[3], True
    # what has no parameters is made here
    ours = "permafrost" if entry.get("parameters") == 0 else "unknown"
    return found[2] if found else ours, slug(backbone), False


def _result(line: dict, plan: Mapping) -> dict:
    metric, dataset = metric_of(line["metric"]), line["dataset"]
    lowest, highest = _RANGES[metric.bounds]
    uncertainty: dict[str, object] = {"num_samples": line["n_test"]}
    if finite(line["lower"]) and finite(line["upper"]):
        uncertainty["confidence_interval"] = {
            "lower": line["lower"],
            "upper": line["upper"],
            "confidence_level": line["confidence"],
            "method": line["method"],
        }
    settings = _given(line, "kind", "settings", "n_train", "n_val", "split_method", "unit")
    return {
        "evaluation_result_id": f"{dataset}/{line['probe']}/{metric.name}",
        "evaluation_name": f"{dataset}, {line['probe']}",
        "source_data": {
            "dataset_name": dataset,
            "source_type": "other",
            "additional_details": _given(
                plan["datasets"].get(dataset, {}), "title", "citation", "licence"
            ),
        },
        "metric_config": {
            "evaluation_description": f"{line['task']}: {metric.words} of the probe {line['probe']}",
            "metric_id": metric.name,
            "metric_name": metric.words,
            "lower_is_better": not line["higher_is_better"],
            "score_type": "continuous",
            "min_score": lowest,
            "max_score": highest,
        },
        "score_details": {
            "score": line["value"],
            "details": {
                **settings,
                "seeds": json.dumps(line["seeds"]),
                **({"warnings": " ".join(said)} if (said := leakage_said([line])) else {}),
            },
            "uncertainty": uncertainty,
        },
    }


def _given(entry: Mapping, *names: str) -> dict[str, str]:
    """The fields that are given, as text: the format has no other values there."""
    return {name: str(entry[name]) for name in names if entry.get(name) not in (None, "")}
