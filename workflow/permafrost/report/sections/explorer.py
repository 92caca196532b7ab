"""Data of the overview page as compact columns: ranking, scores, and paired differences."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Mapping, Sequence

import numpy as np

from permafrost.core.tasks import targets_of
from permafrost.probes.kinds import KINDS
from permafrost.report.explanations.gates import explain, leakage_said
from permafrost.report.material.dataset import slug
from permafrost.report.sections.backbone import backbone_page
from permafrost.report.sections.scores import flags_of
from permafrost.report.tables.answer import (
    RANKED_BY,
    UNCERTAINTIES,
    exact_said,
    of_standings,
    same_said,
    tests_said,
    verdict,
)
from permafrost.report.tables.compared import Field
from permafrost.report.tables.study import Study, study_of
from permafrost.statistics.across_datasets.letters import compact_letters, ranks_possible
from permafrost.statistics.leaderboard.rows import distinct, finite, metric_name, overall
from permafrost.statistics.leaderboard.seeds import clean_lines, merge_seeds

#: statistics shown next to a backbone's rank: key to name in the standings
_BESIDE = {
    "best": "probability_best", "loss": "expected_loss", "top3": "probability_top3", "mean": "mean",
    "iqm": "iqm", "elo": "elo", "win_rate": "win_rate", "gain": "gain", "improvability": "improvability",
    "normalised": "normalised_mean", "normalised_iqm": "normalised_iqm",
}  # fmt: skip
# a number in 16 bits; the last code means missing
_STEPS, _NOTHING = 65534, 65535


def explorer(
    plan: Mapping,
    rows: list[dict],
    comparisons: Mapping[tuple[str, str], list[dict]],
    *,
    standings: Sequence[dict] = (),
    tests: Sequence[dict] = (),
    facts: Sequence[dict] = (),
) -> dict:
    """Data for the page's script, as plain values (`embedded` serialises them).

    Parameters
    ----------
    plan : the recorded plan, whose entries describe backbones and datasets.
    rows : of the leaderboard; comparisons : (dataset, probe) to rows of paired differences.
    standings : of all groups, may be empty; tests : from their metadata.
    facts : of the backbones (`run.backbone_facts`).
    """
    lines = merge_seeds(overall(rows))
    names = {
        "backbones": sorted(distinct(lines, "backbone")),
        "datasets": sorted(distinct(lines, "dataset")),
        "probes": sorted(distinct(lines, "probe")),
    }
    places = {kind: {name: at for at, name in enumerate(each)} for kind, each in names.items()}
    gates = sorted({gate for line in lines for gate in flags_of(line)})
    fields = {
        key: _Pairs(
            [line for line in lines if (line["dataset"], line["probe"]) == key],
            comparisons.get(key, []),
        )
        for key in dict.fromkeys((line["dataset"], line["probe"]) for line in lines)
    }
    return {
        "backbones": _backbones(plan, names["backbones"], rows, facts),
        "datasets": [_dataset(plan, name) for name in names["datasets"]],
        "probes": names["probes"],
        "unfit": {
            "|".join(filter(None, (one["dataset"], one["backbone"], one["probe"]))): one["reason"]
            for one in plan.get("left_out", ())
        },
        "gates": [explain(gate) for gate in gates],
        "metrics": {
            f"{line['dataset']}|{line['probe']}": [
                metric_name(line["metric"]),
                line["higher_is_better"],
                line["n_units"],
                line["unit"],
            ]
            for line in lines
        },
        "cells": _cells(lines, places, gates, fields) | _clean_cells(lines, clean_lines(rows)),
        "standings": _standings(standings, fields, tests, lines),
        "pairs": {
            "|".join(key): pairs.columns(places["backbones"])
            for key, pairs in fields.items()
            if pairs.compared
        },
        "confidence": lines[0]["confidence"] if lines else 0.95,
        "study": _study(study_of(rows, comparisons, standings)),
    }


def not_told_apart(data: Mapping) -> dict[tuple[str, str], list[str]]:
    """(dataset, probe) to the best backbone and those not significantly worse, if compared."""
    names = [[one["name"] for one in data[kind]] for kind in ("datasets", "backbones")]
    found: dict[tuple[str, str], list[str]] = {}
    columns = (data["cells"][name] for name in ("dataset", "backbone", "probe", "alike"))
    for dataset, backbone, probe, alike in zip(*columns, strict=True):
        if alike:
            key = (names[0][dataset], data["probes"][probe])
            found.setdefault(key, []).append(names[1][backbone])
    return found


def embedded(data) -> str:
    """JSON that is safe inside an HTML element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # neither end tag nor comment can occur inside an element
    return text.replace("<", "\\u003c")


def _study(study: Study | None) -> dict | None:
    """The table over all tasks as plain values."""
    if study is None:
        return None
    return {
        "sentence": study.sentence,
        "rule": study.rule,
        "probes": study.probes,
        "rows": {
            one.backbone: {**one.counts, "mean_rank": _short(one.mean_rank)} for one in study.places
        },
    }


def _backbones(
    plan: Mapping, names: list[str], rows: list[dict], facts: Sequence[dict]
) -> list[dict]:
    known = {one["name"]: one for one in facts}
    widths = {
        row["backbone"]: row["feature_dim"]
        for row in rows
        if row["kind"] in KINDS and KINDS[row["kind"]].reads == "embeddings"
    }
    speeds: dict[str, list[float]] = {}
    for row in rows:
        if row["metric"] == "throughput" and finite(row["value"]):
            speeds.setdefault(row["backbone"], []).append(row["value"])
    said = ("parameters", "extraction_ms", "year", "trained_on", "licence")
    return [
        {
            "name": name,
            "title": plan["backbones"].get(name, {}).get("title") or "",
            "href": backbone_page(name),
            **{key: known.get(name, {}).get(key) for key in said},
            "width": widths.get(name),
            "throughput": _short(np.median(speeds[name])) if name in speeds else None,
        }
        for name in names
    ]


def _dataset(plan: Mapping, name: str) -> dict:
    entry = plan["datasets"].get(name, {})
    modalities = entry.get("modalities") or {}
    sensors = [entry.get("sensor"), *(one.get("sensor") for one in modalities.values())]
    task = entry.get("task")
    return {
        "name": name,
        "title": entry.get("title") or "",
        "task": task or "",
        "of_places": bool(task) and targets_of(task).dense,
        "sensors": sorted({sensor.partition("-")[0] for sensor in sensors if sensor}),
        "gsd": entry.get("gsd_m"),
        "href": f"datasets/{slug(name)}.html",
    }


class _Pairs(Field):
    """The comparisons of one dataset and probe as columns."""

    def columns(self, places: dict[str, int]) -> dict:
        """Half the interval, adjusted p-value and smallest detectable difference of each pair.

        Pairs are of sorted names; numbers are base64-encoded 16-bit integers.
        """
        names = sorted(self.ranked)
        pairs = [self.rows.get(pair) for pair in itertools.combinations(names, 2)]
        halves = np.array([_half(row) for row in pairs])
        found = np.array([_number(row, "detectable") for row in pairs])
        scale, most = (_largest(each) for each in (halves, found))
        return {
            "backbones": [places[name] for name in names],
            "scale": scale,
            "half": _packed(halves / (scale or 1)),
            "p": _packed(np.array([_number(row, "p_adjusted") for row in pairs])),
            "most": most,
            "found": _packed(found / (most or 1)),
        }


def _half(row: dict | None) -> float:
    """The wider half of the interval."""
    if row is None or not finite(row["difference"]):
        return np.nan
    return max(row["upper"] - row["difference"], row["difference"] - row["lower"])


def _number(row: dict | None, column: str) -> float:
    return np.nan if row is None or not finite(row[column]) else row[column]


def _largest(values: np.ndarray) -> float:
    return float(np.nanmax(values)) if np.isfinite(values).any() else 0.0


def _packed(shares: np.ndarray) -> str:
    """Numbers in [0, 1] as base64 of little-endian 16-bit integers."""
    steps = np.where(np.isnan(shares), _NOTHING, np.rint(np.nan_to_num(shares) * _STEPS))
    return base64.b64encode(steps.astype("<u2").tobytes()).decode()


def _cells(lines: list[dict], places: dict, gates: list[str], fields: dict) -> dict[str, list]:
    """Columns of the evaluations' numbers."""
    return {
        "dataset": [places["datasets"][line["dataset"]] for line in lines],
        "backbone": [places["backbones"][line["backbone"]] for line in lines],
        "probe": [places["probes"][line["probe"]] for line in lines],
        **{
            column: [_short(line[name]) for line in lines]
            for column, name in (
                ("value", "value"),
                ("lower", "lower"),
                ("upper", "upper"),
                ("rank", "rank"),
                ("seed_std", "seed_std"),
            )
        },
        "alike": [fields[line["dataset"], line["probe"]].alike(line["backbone"]) for line in lines],
        "gates": [[gates.index(gate) for gate in flags_of(line)] for line in lines],
    }


def _clean_cells(lines: list[dict], clean: dict) -> dict[str, list]:
    """Value, interval and number of test images without leakage, if any evaluation has them."""
    if not clean:
        return {}
    found = [clean.get((line["dataset"], line["probe"], line["backbone"])) for line in lines]
    return {
        "clean": [
            one and [*(_short(one[name]) for name in ("value", "lower", "upper")), one["n_test"]]
            for one in found
        ]
    }


def _standings(
    standings: Sequence[dict], fields: dict, tests: Sequence[dict], lines: list[dict]
) -> dict[str, dict[str, dict]]:
    """Group to probe to the answer: words, its basis, and a row per backbone."""
    found: dict[str, dict[str, dict]] = {}
    said = {(one["group"], one["probe"]): tests_said(one) for one in tests}
    for group, probe in dict.fromkeys((row["group"], row["probe"]) for row in standings):
        by_statistic = of_standings(standings, group=group, probe=probe)
        ranked = by_statistic[RANKED_BY]
        first = ranked[0]
        datasets = [name for name in first["datasets"].split(";") if name]
        alone = fields.get((first["datasets"], probe))
        if alone is not None:
            # on a single dataset, the paired comparisons are the better test
            _take_letters(ranked, alone)
        beside = {
            key: {row["backbone"]: row for row in by_statistic.get(statistic, ())}
            for key, statistic in _BESIDE.items()
        }
        found.setdefault(group, {})[probe] = {
            "verdict": " ".join(
                [
                    verdict(by_statistic),
                    *exact_said(by_statistic),
                    *same_said(first),
                    *leakage_said(lines, datasets),
                ]
            ),
            "datasets": datasets,
            "left_out": [name for name in first["left_out"].split(";") if name],
            "uncertainty": UNCERTAINTIES[first["uncertainty"]],
            "note": first["note"],
            "tests": said.get((group, probe), []),
            "rows": [
                {
                    "backbone": row["backbone"],
                    "rank": row["rank"],
                    "ranks": [row["rank_low"], row["rank_high"]],
                    "letters": row["letters"],
                    "imputed": row["imputed"],
                    "mean_rank": _bounds(row),
                    **{
                        key: _bounds(each[row["backbone"]])
                        for key, each in beside.items()
                        if row["backbone"] in each
                    },
                }
                for row in ranked
            ],
        }
    return found


def _take_letters(ranked: list[dict], pairs: _Pairs) -> None:
    if not pairs.compared or (pairs.untested & ~np.eye(len(pairs.ranked), dtype=bool)).any():
        return
    letters = dict(zip(pairs.ranked, compact_letters(pairs.better), strict=True))
    ranks = dict(zip(pairs.ranked, ranks_possible(pairs.better).tolist(), strict=True))
    for row in ranked:
        if row["backbone"] in letters:
            row["letters"] = letters[row["backbone"]]
            row["rank_low"], row["rank_high"] = ranks[row["backbone"]]


def _bounds(row: dict) -> list[float | None]:
    return [_short(row[name]) for name in ("value", "lower", "upper")]


def _short(value) -> float | None:
    """Six significant digits, more than are shown; the files have all."""
    return float(f"{value:.6g}") if finite(value) else None
