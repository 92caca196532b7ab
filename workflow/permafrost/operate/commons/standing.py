"""How backbones of several submissions rank: scores, and paired differences on the same test items."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from permafrost.core.identity import fingerprint
from permafrost.core.options import build
from permafrost.core.tables import read_metadata, read_table
from permafrost.operate.commons.check import other_options
from permafrost.operate.commons.commons import Commons, Entry
from permafrost.operate.commons.facts import (
    labels_of,
    same_predictions,
    suite_config,
    test_set_of,
)
from permafrost.operate.commons.submission import Evaluation
from permafrost.plan.plan import calibration_of
from permafrost.plan.recorded import current_plan, places, read_plan
from permafrost.report.notation import interval_of, number
from permafrost.report.tables.compared import Field
from permafrost.statistics.leaderboard.leaderboard import build_leaderboard
from permafrost.statistics.leaderboard.rows import metric_name, overall
from permafrost.statistics.leaderboard.seeds import merge_seeds
from permafrost.statistics.options import ComparisonOptions
from permafrost.statistics.predictions.reading import read_predictions
from permafrost.statistics.scores.comparison_table import (
    CompareSpec,
    OfBackbones,
    compare_predictions,
)

_NAMED = 4


@dataclass(frozen=True)
class Column:
    """A dataset under a probe.

    Attributes
    ----------
    lines : merged rows of the leaderboard, best first, each with ``better`` and ``worse`` (labels of significantly
        worse and better backbones) and ``alike`` (the others that were tested).
    """

    dataset: str
    probe: str
    lines: list[dict]

    @property
    def metric(self) -> str:
        return metric_name(self.lines[0]["metric"])


def columns(entries: Iterable[Entry], config: dict, tasks: dict[str, str]) -> list[Column]:
    """One per dataset and probe, in the suite's order.

    Parameters
    ----------
    config : the suite's (`facts.suite_config`). tasks : of its datasets.
    """
    by_column: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        by_column.setdefault((entry.of.dataset, entry.of.probe), []).append(entry)
    order = [
        pair
        for pair in itertools.product(config["datasets"], config["probes"])
        if pair in by_column
    ]
    return [_column(by_column[pair], config, tasks[pair[0]]) for pair in order]


def _column(entries: list[Entry], config: dict, task: str) -> Column:
    board = build_leaderboard([_labelled(entry) for entry in entries])
    with TemporaryDirectory(prefix="permafrost-") as scratch:
        compared = Path(scratch) / "compared.parquet"
        write_comparison(entries, compared, config=config, task=task)
        rows = read_table(compared)[0].to_pylist()
    field = Field(merge_seeds(overall(board.to_pylist())), rows)
    better, named = field.better, np.array(field.ranked, object)
    alike = ~(better | better.T | field.untested | np.eye(len(named), dtype=bool))
    for place, line in enumerate(field.lines):
        line["better"], line["worse"] = list(named[better[place]]), list(named[better[:, place]])
        line["alike"] = list(named[alike[place]])
    return Column(entries[0].of.dataset, entries[0].of.probe, field.lines)


def _labelled(entry: Entry) -> pa.Table:
    table, _ = read_table(entry.scores)
    label = pa.array([entry.label] * len(table), pa.string())
    return table.set_column(
        table.column_names.index("backbone"), table.schema.field("backbone"), label
    )


def write_comparison(
    entries: Sequence[Entry], output: Path, *, config: dict, task: str, of: str | None = None
) -> None:
    """Write the paired differences of one dataset and probe, as ``permafrost compare`` of one study would.

    Parameters
    ----------
    of : fingerprint to write; None: one of the predictions'.
    """
    dataset, _, _, probe = entries[0].of
    with TemporaryDirectory(prefix="permafrost-") as scratch:
        expected = {}
        for entry in entries:
            name = f"{entry.label}/seed{entry.of.seed}"
            place = Path(scratch) / dataset / name / f"{probe}.parquet"
            place.parent.mkdir(parents=True)
            place.symlink_to(entry.predictions.resolve())
            expected[name] = read_metadata(place)["fingerprint"]
        kind = config["probes"][probe]["kind"]
        judged = calibration_of(config["calibration"], kind, task, "bins", "like")
        spec = CompareSpec(
            dataset=dataset,
            probe=probe,
            task=task,
            options=build(ComparisonOptions, {**config["comparison"], **judged}),
            inputs=OfBackbones(predictions=expected),
        )
        compare_predictions(
            Path(scratch), output, spec=spec, fingerprint=of or fingerprint(expected)
        )


# --- somebody's own run


def standing_of(
    results: Path, commons: Commons, *, backbones: Iterable[str] | None = None
) -> list[str]:
    """Sentences on how the backbones of a run rank among the accepted ones: a line per dataset and probe.

    A dataset whose test items or labels differ is not compared, and the line says so.
    """
    plan = read_plan(current_plan(results), results)
    there = [
        Evaluation(row["dataset"], row["backbone"], row["seed"], row["probe"])
        for row, path in places(plan, results)
        if row["stage"] == "bootstrap" and path.exists()
    ]
    own = [Entry(one, one.backbone, results) for one in there]
    suite = (plan["config"].get("suite") or {}).get("name")
    keys = [
        key for key, one in commons.suites.items() if suite in (None, one["suite"]["suite"]["name"])
    ]
    lines = [said for key in keys for said in standing_in(key, commons, own)]
    return lines or ["No dataset and probe of this run is in the commons."]


def standing_in(key: str, commons: Commons, own: list[Entry]) -> list[str]:
    """Sentences on entries of other folders among those of a suite's version."""
    reference = commons.suites[key]
    config, facts = suite_config(reference["suite"]), reference["datasets"]
    held, _ = commons.entries(key)
    lines: list[str] = []
    usable: list[Entry] = []
    for one in own:
        if one.of.dataset in facts and one.of.probe in facts[one.of.dataset]["labels"]:
            if said := _not_paired(one, facts[one.of.dataset], config):
                lines.append(
                    f"{one.of.dataset} · {one.of.probe} · {one.of.backbone}: not compared, {said}"
                )
            else:
                usable.append(one)
    known = {(entry.label, entry.of): entry for entry in held}
    taken = {entry.label for entry in held}
    yours, same = [], set()
    for one in usable:
        other = known.get((one.label, one.of))
        if other is not None and same_predictions(one.predictions, other.predictions):
            held.remove(other)
            same.add((one.label, one.of.dataset, one.of.probe))
            yours.append(one)
        else:
            label = f"{one.label} (yours)" if one.label in taken else one.label
            yours.append(Entry(one.of, label, one.folder))
    mine = {entry.label for entry in yours}
    met = {(one.of.dataset, one.of.probe) for one in yours}
    among = [entry for entry in held if (entry.of.dataset, entry.of.probe) in met]
    tasks = {name: one["task"] for name, one in facts.items()}
    for column in columns([*among, *yours], config, tasks):
        for line in column.lines:
            if line["backbone"] in mine:
                again = (line["backbone"], column.dataset, column.probe) in same
                lines.append(
                    place_said(column, line) + "; the same predictions as in the commons" * again
                )
    return lines


def place_said(column: Column, line: dict) -> str:
    """``eurosat · knn · mine: 7th of 60 (accuracy 0.81 [0.79, 0.83]), not significantly different from 4 (…)``."""
    rank, count = line["rank"], len(column.lines)
    place = "not ranked" if rank is None else f"{ordinal(rank)} of {count}"
    said = f"{column.dataset} · {column.probe} · {line['backbone']}: {place}"
    said += f" ({column.metric} {number(line['value'])} {interval_of(line)})"
    alike = line["alike"]
    tested = len(line["better"]) + len(line["worse"]) + len(alike)
    if not tested:
        return f"{said}, not tested against any other" if count > 1 else said
    if not alike:
        untested = "" if tested == count - 1 else f" but {count - 1 - tested} that were not tested"
        return f"{said}, significantly different from all others{untested}"
    more = "" if len(alike) <= _NAMED else ", …"
    return (
        f"{said}, not significantly different from {len(alike)} ({', '.join(alike[:_NAMED])}{more})"
    )


def ordinal(rank: float) -> str:
    """``3rd``; of several that share a rank ``2.5th``."""
    if rank != int(rank):
        return f"{rank:g}th"
    of_ten = {1: "st", 2: "nd", 3: "rd"} if int(rank) % 100 not in (11, 12, 13) else {}
    return f"{int(rank)}{of_ten.get(int(rank) % 10, 'th')}"


def _not_paired(one: Entry, facts: dict, config: dict) -> str | None:
    """Why predictions cannot be paired with those of the commons; None if they can."""
    if facts["retired"]:
        return f"the dataset is retired: {facts['retired']}"
    with TemporaryDirectory(prefix="permafrost-") as scratch:
        predictions, _, metadata = read_predictions(one.predictions, scratch=Path(scratch))
    if test_set_of(predictions) != facts["test_set"]:
        return "its test items differ"
    if labels_of(predictions) != facts["labels"][one.of.probe]:
        return "its labels differ"
    return other_options(one.of, metadata, config)
