"""The answer of a study: one table over all tasks, and a sentence on the best backbone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from permafrost.probes.kinds import KINDS
from permafrost.report.notation import listed, number
from permafrost.report.tables.blocks import Block
from permafrost.report.tables.compared import Field
from permafrost.statistics.across_datasets.ranking import EVERYTHING
from permafrost.statistics.leaderboard.rows import distinct, finite, overall
from permafrost.statistics.leaderboard.seeds import merge_seeds

#: of kinds with equally many results, the first represents a task; then those that keep backbones frozen
_FIRST = ("linear", "ridge", "segmentation", "dense_ridge", "detection")
_NAMED = 3
_HEADS = {
    "best": "best", "alike": "not different", "worse": "worse", "untested": "not tested", "missing": "no score",
}  # fmt: skip


@dataclass(frozen=True)
class Place:
    """One backbone in the table over all tasks.

    Attributes
    ----------
    mean_rank : mean over the datasets of the rank among the backbones; where it has no score, it is last.
    counts : number of datasets on which it is ``best``, among these significantly better than all others
        (``alone``) or tested against none (``unsure``); not significantly different from the best (``alike``),
        significantly ``worse``, not tested against the best (``untested``), and without a score (``missing``).
    worse : the datasets on which it is significantly worse than the best.
    """

    backbone: str
    mean_rank: float
    counts: Mapping[str, int]
    worse: list[str]


@dataclass(frozen=True)
class Study:
    """The table over all tasks.

    Attributes
    ----------
    probes : dataset to the probe that represents its task.
    places : the backbones by mean rank.
    sentence : the best backbone, on how many datasets it is best, and where it is not. rule : how the table is made.
    """

    probes: dict[str, str]
    places: list[Place]
    sentence: str
    rule: str

    def block(self, most: int | None = None) -> Block:
        """The table for the terminal, with at most so many backbones."""
        used = [key for key in _HEADS if any(one.counts[key] for one in self.places)]
        lines = [
            [one.backbone, number(one.mean_rank, 2), *(str(one.counts[key]) for key in used)]
            for one in self.places[:most]
        ]
        heads = ["backbone", "mean rank", *(_HEADS[key] for key in used)]
        further = len(self.places) - len(lines)
        foot = [f"and {further} more: permafrost show"] if further else []
        said = "\n".join(f"  {line}" for line in [*foot, self.rule])
        return Block(self.sentence, [heads, *lines], frozenset(heads[1:]), said)


def study_of(
    rows: Iterable[dict],
    comparisons: Mapping[tuple[str, str], list[dict]],
    standings: Iterable[dict] = (),
) -> Study | None:
    """The table over all tasks; None with fewer than two backbones or datasets.

    Parameters
    ----------
    rows : of the leaderboard; comparisons : (dataset, probe) to rows of paired differences.
    standings : if there are any, only the datasets of their group of all count, which has no derived ones.
    """
    counted = {
        name
        for row in standings
        if row["group"] == EVERYTHING
        for name in (*row["datasets"].split(";"), *row["left_out"].split(";"))
    }
    lines = [
        line
        for line in merge_seeds(overall(rows))
        # derived backbones have no rank
        if (not counted or line["dataset"] in counted) and finite(line["value"]) and line["rank"]
    ]
    probes, backbones = _probes(lines), sorted(distinct(lines, "backbone"))
    if len(probes) < 2 or len(backbones) < 2:
        return None
    ranks: dict[str, list[float]] = {name: [] for name in backbones}
    found: dict[str, Counter] = {name: Counter() for name in backbones}
    worse: dict[str, list[str]] = {name: [] for name in backbones}
    for dataset, probe in probes.items():
        scored = [line for line in lines if (line["dataset"], line["probe"]) == (dataset, probe)]
        field = Field(scored, comparisons.get((dataset, probe), ()))
        places = {line["backbone"]: line["rank"] for line in scored}
        alike = {name: field.alike(name) for name in places}
        first = min(places.values())
        kinds = {name: _kind(places[name] == first, alike[name]) for name in places}
        alone = sorted(kinds.values())[:2] == ["best", "worse"]
        unsure = {*kinds.values()} <= {"best", "untested"}
        for name in backbones:
            kind = kinds.get(name, "missing")
            found[name][kind] += 1
            found[name]["alone"] += kind == "best" and alone
            found[name]["unsure"] += kind == "best" and unsure
            # without a score, the mean of the places that are left
            ranks[name].append(places.get(name, (len(places) + 1 + len(backbones)) / 2))
            if kind == "worse":
                worse[name].append(dataset)
    table = sorted(
        (
            Place(name, sum(ranks[name]) / len(probes), dict(_COUNTS | found[name]), worse[name])
            for name in backbones
        ),
        key=lambda one: (one.mean_rank, one.backbone),
    )
    rule = _rule(lines, probes)
    if any(one.counts["missing"] for one in table):
        rule += " Where a backbone has no score, its rank is the last."
    return Study(probes, table, _sentence(table, len(probes)), rule)


_COUNTS = dict.fromkeys([*_HEADS, "alone", "unsure"], 0)


def _kind(first: bool, alike: int | None) -> str:
    if first:
        return "best"
    return "untested" if alike is None else "alike" if alike else "worse"


def _probes(lines: list[dict]) -> dict[str, str]:
    """Dataset to its probe, sorted by task and name."""
    found = {}
    for task in sorted(distinct(lines, "task")):
        of_task = [line for line in lines if line["task"] == task]
        kinds = {line["probe"]: line["kind"] for line in of_task}
        results = Counter(line["probe"] for line in of_task)
        order = sorted(kinds, key=lambda probe: (-results[probe], *_place(kinds[probe]), probe))
        for dataset in sorted(distinct(of_task, "dataset")):
            there = {line["probe"] for line in of_task if line["dataset"] == dataset}
            found[dataset] = next(probe for probe in order if probe in there)
    return found


def _place(kind: str) -> tuple[int, bool]:
    trains = kind in KINDS and KINDS[kind].trains_backbone
    return (_FIRST.index(kind) if kind in _FIRST else len(_FIRST), trains)


def _sentence(table: list[Place], datasets: int) -> str:
    first = [one for one in table if one.mean_rank == table[0].mean_rank]
    of = f"Of {len(table)} backbones, {listed([one.backbone for one in first])}"
    if len(first) > 1:
        return f"{of} share the best mean rank over {datasets} datasets."
    lead = first[0]
    counts = lead.counts
    said = [f"best on {_count(counts['best'], datasets)}"]
    basis = {"alone": "significantly better than all others", "unsure": "not tested"}
    found = [
        words if counts[key] == counts["best"] else f"{words} on {counts[key]}"
        for key, words in basis.items()
        if counts[key]
    ]
    said[0] += f" ({', '.join(found)})" if found else ""
    if counts["alike"]:
        said.append(f"not significantly different from the best on {counts['alike']}")
    if counts["worse"]:
        names = f" ({listed(lead.worse)})" if len(lead.worse) <= _NAMED else ""
        said.append(f"significantly worse on {counts['worse']}{names}")
    if counts["untested"]:
        said.append(f"not tested against the best on {counts['untested']}")
    if counts["missing"]:
        said.append(f"without a score on {counts['missing']}")
    sentence = f"{of} has the best mean rank over {datasets} datasets: {', '.join(said)}."
    others = sorted(
        (one for one in table[1:] if one.counts["best"]), key=lambda one: -one.counts["best"]
    )
    if others:
        more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
        named = ", ".join(f"{one.backbone} on {one.counts['best']}" for one in others[:_NAMED])
        sentence += f" Also best: {named}{more}."
    return sentence


def _count(count: int, datasets: int) -> str:
    return "all of them" if count == datasets else str(count) if count else "none"


def _rule(lines: list[dict], probes: Mapping[str, str]) -> str:
    tasks = {line["dataset"]: line["task"] for line in lines}
    spoken = sorted({(tasks[dataset], probe) for dataset, probe in probes.items()})
    named = ", ".join(f"{task} by {probe}" for task, probe in spoken)
    return (
        f"One probe for each task, the one with most results: {named}. Tests are paired, on each dataset;"
        " the mean rank has no interval over several tasks."
    )
