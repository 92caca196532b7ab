"""Content of ``permafrost show``: the ranking, then each dataset; or two backbones compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from permafrost.core.errors import PermafrostError, look_up
from permafrost.core.tables import read_table
from permafrost.report.explanations.gates import leakage_said
from permafrost.report.tables.answer import answer
from permafrost.report.tables.blocks import Block
from permafrost.report.tables.compared import difference_block, finds, letters_of
from permafrost.report.tables.derived import derived_blocks
from permafrost.report.tables.harder import loss_blocks
from permafrost.report.tables.study import Study, study_of
from permafrost.report.tables.terminal import leaderboard_blocks
from permafrost.statistics.across_datasets.ranking import EVERYTHING
from permafrost.statistics.leaderboard.derived import DerivedLine, set_apart
from permafrost.statistics.leaderboard.harder import Loss, losses_of
from permafrost.statistics.leaderboard.rows import distinct, finite, overall
from permafrost.statistics.leaderboard.seeds import merge_seeds


@dataclass(frozen=True)
class Shown:
    """Tables of a results folder, for display.

    Attributes
    ----------
    leaderboard : table; rows : its primary rows of whole test sets.
    standings : rows, empty if this leaderboard has none.
    comparisons : (dataset, probe) to rows of the primary metric.
    tests : from the standings' metadata, one per group and probe.
    left_out : rows of `permafrost.plan.misfits.recorded_misfits`.
    derived : lines of derived backbones; the rows and comparisons above are without them.
    with_derived : comparisons of derived backbones with those that they are derived from.
    losses : on harder images.
    """

    leaderboard: pa.Table
    rows: list[dict]
    standings: list[dict]
    comparisons: dict[tuple[str, str], list[dict]]
    tests: list[dict]
    left_out: list[dict] = field(default_factory=list)
    derived: list[DerivedLine] = field(default_factory=list)
    with_derived: list[dict] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)

    @classmethod
    def of(cls, leaderboard: pa.Table, results: Path, about: Mapping) -> Shown:
        """Read the tables next to a leaderboard; missing ones and those of another run are skipped.

        Parameters
        ----------
        about : the leaderboard's metadata.
        """
        everything = leaderboard.to_pylist()
        every = overall(everything)
        metrics = {(row["dataset"], row["probe"]): row["metric"] for row in every}
        comparisons = {}
        for (dataset, probe), metric in metrics.items():
            path = results / "comparisons" / dataset / f"{probe}.parquet"
            compared = read_table(path)[0].to_pylist() if path.exists() else []
            comparisons[dataset, probe] = [row for row in compared if row["metric"] == metric]
        rows, ranked, lines = set_apart(every, comparisons, about)
        derived = about.get("derived", {})
        pairs = [
            row
            for compared in comparisons.values()
            for row in compared
            if derived.keys() & {row["backbone_a"], row["backbone_b"]}
        ]
        unranked = pa.array(derived, leaderboard.column("backbone").type)
        leaderboard = leaderboard.filter(
            pc.invert(pc.is_in(leaderboard.column("backbone"), value_set=unranked))
        )
        standings, tests = [], []
        if (results / "standings.parquet").exists():
            found = read_table(results / "standings.parquet", expect=about["fingerprint"])
            standings, tests = found[0].to_pylist(), found[1].get("tests", [])
        left_out = about.get("left_out", [])
        losses = losses_of(everything)
        return cls(leaderboard, rows, standings, ranked, tests, left_out, lines, pairs, losses)

    def blocks(
        self,
        *,
        probe: str | None = None,
        dataset: str | None = None,
        group: str | None = None,
        compare: list[str] | None = None,
        most: int | None = None,
    ) -> list[Block]:
        """The requested blocks, with at most `most` backbones per table, all by default.

        Raises
        ------
        PermafrostError : a name that is not in the results.
        """
        self.check(probe=probe, dataset=dataset, group=group, compare=compare)
        chosen = {"probe": probe, "dataset": dataset}
        chosen = {name: value for name, value in chosen.items() if value is not None}
        if compare:
            return [self._difference(*compare, **chosen)]
        study = self._study(probe, dataset, group)
        shown = [study.block(most)] if study else []
        shown += [] if dataset else self._answers(group, probe, most)
        if group is None:
            table = self.leaderboard
            for name, value in chosen.items():
                table = table.filter(pc.equal(table.column(name), value))
            shown += leaderboard_blocks(
                table,
                letters=self._letters(),
                found={key: finds(rows) for key, rows in self.comparisons.items()},
                most=most,
                left_out=self.left_out,
            )
            shown += derived_blocks(
                [
                    one
                    for one in self.derived
                    if all(one.row[name] == value for name, value in chosen.items())
                ]
            )
            shown += loss_blocks(
                [
                    one
                    for one in self.losses
                    if probe in (None, one.probe) and dataset in (None, one.of, one.dataset)
                ]
            )
        return shown

    def values(
        self,
        *,
        probe: str | None = None,
        dataset: str | None = None,
        group: str | None = None,
        compare: list[str] | None = None,
    ) -> dict:
        """What is requested as plain values, with None for a number that is not finite.

        Returns
        -------
        study : sentence, rule, probes of datasets and places of backbones (`study.Study`); None if
            a probe, dataset or group is chosen, or there is none.
        scores : rows of the leaderboard with seeds merged; standings, differences : rows of their files.
        losses : of harder images (`statistics.leaderboard.harder.Loss`).

        Raises
        ------
        PermafrostError : a name that is not in the results.
        """
        self.check(probe=probe, dataset=dataset, group=group, compare=compare)
        named = {"probe": probe, "dataset": dataset, "group": group}

        def chosen(rows: Iterable[dict]) -> list[dict]:
            kept = [
                row
                for row in rows
                if all(
                    row.get(key, value) == value
                    for key, value in named.items()
                    if value is not None
                )
            ]
            return [{key: _plain(value) for key, value in row.items()} for row in kept]

        study = self._study(probe, dataset, group)
        compared = [row for rows in self.comparisons.values() for row in rows] + self.with_derived
        pair = set(compare or ())
        return {
            "study": study and asdict(study),
            "standings": chosen(self.standings),
            "scores": chosen(merge_seeds(self.rows) + [one.row for one in self.derived]),
            "differences": chosen(
                row
                for row in compared
                if not pair or {row["backbone_a"], row["backbone_b"]} == pair
            ),
            "losses": chosen(asdict(one) for one in self.losses),
        }

    def _study(self, *chosen: str | None) -> Study | None:
        if any(one is not None for one in chosen):
            return None
        return study_of(self.leaderboard.to_pylist(), self.comparisons, self.standings)

    def _answers(self, group: str | None, probe: str | None, most: int | None) -> list[Block]:
        """Blocks over all datasets, if there are several; for a named group in any case."""
        asked = EVERYTHING if group is None else group
        blocks = []
        for name in distinct(self.standings, "probe"):
            block = (
                answer(
                    self.standings,
                    group=asked,
                    probe=name,
                    tests=self.tests,
                    most=most,
                    warnings=self.leakage(asked, name),
                )
                if probe in (None, name)
                else None
            )
            several = group is not None or any(
                row["n_datasets"] != 1
                for row in self.standings
                if row["group"] == asked and row["probe"] == name
            )
            if block is not None and several:
                blocks.append(block)
        others = [name for name in distinct(self.standings, "group") if name != asked]
        if blocks and others and group is None:
            names = ", ".join(repr(name) for name in others)
            blocks.append(Block(f"Other groups of datasets, for --group: {names}", []))
        return blocks

    def leakage(self, group: str, probe: str) -> list[str]:
        """Sentences on leakage in the datasets that a probe is ranked on in a group."""
        ranked = [one for one in self.standings if (one["group"], one["probe"]) == (group, probe)]
        datasets = {name for one in ranked for name in one["datasets"].split(";")}
        return leakage_said(self.rows, datasets)

    def _letters(self) -> dict[tuple[str, str], dict[str, str]]:
        found = {}
        for (dataset, probe), compared in self.comparisons.items():
            rows = merge_seeds(overall(self.rows, dataset=dataset, probe=probe))
            ranked = sorted(rows, key=lambda row: (row["rank"] or float("inf"), row["backbone"]))
            letters = letters_of(compared, [row["backbone"] for row in ranked])
            if letters:
                found[dataset, probe] = letters
        return found

    def _difference(self, a: str, b: str, **chosen) -> Block:
        rows = [
            row
            for compared in [*self.comparisons.values(), self.with_derived]
            for row in compared
            if {row["backbone_a"], row["backbone_b"]} == {a, b}
            and all(row[name] == value for name, value in chosen.items())
        ]
        if not rows:
            raise PermafrostError(
                f"{a!r} and {b!r} were compared on no dataset that is shown",
                remedy="run snakemake, which compares the backbones of a run",
            )
        return difference_block(rows, a, b)

    def check(self, *, compare: list[str] | None = None, **chosen) -> None:
        """Refuse names of a probe, dataset, group or of backbones that are not in the results."""
        known = {
            "probe": distinct(self.rows, "probe"),
            "dataset": distinct(self.rows, "dataset"),
            "group": distinct(self.standings, "group"),
        }
        asked = [(name, value) for name, value in chosen.items() if value is not None]
        asked += [("backbone", value) for value in compare or ()]
        derived = dict.fromkeys(one.row["backbone"] for one in self.derived)
        known["backbone"] = [*distinct(self.rows, "backbone"), *derived]
        for what, value in asked:
            remedy = f"name one of {', '.join(known[what]) or 'none: there are no standings'}"
            look_up(known[what], value, f"these results have no {what}", remedy=remedy)


def _plain(value):
    return value if not isinstance(value, float) or finite(value) else None
