"""Curves of label shares and matrices of transfers as tables, from kept predictions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from permafrost.core.tables import read_table
from permafrost.report.notation import NONE, interval, interval_of, number, signed
from permafrost.report.tables.blocks import Block
from permafrost.report.tables.compared import letters_of
from permafrost.report.tables.recorded import Recorded
from permafrost.statistics.leaderboard.rows import metric_name
from permafrost.statistics.predictions.reading import Predictions, predictions_from_table
from permafrost.statistics.several_datasets import (
    Area,
    Loss,
    Matrix,
    Read,
    areas,
    curves_of,
    losses,
    matrices_of,
)


@dataclass(frozen=True)
class SeveralResults(Recorded):
    """What areas and losses of a folder of results are computed from; derived backbones are left out."""

    def runs(self, dataset: str, probe: str) -> dict[str, dict[int, Predictions]]:
        """Backbone -> seed -> predictions that are here."""
        found: dict[str, dict[int, Predictions]] = {}
        for made in self.planned("probe", dataset=dataset, probe=probe):
            derived = self.plan["backbones"][made["backbone"]].get("kind") == "derived"
            if not derived and self.place(made).exists():
                table = read_table(self.place(made), expect=made["fingerprint"])
                found.setdefault(made["backbone"], {})[made["seed"]] = predictions_from_table(
                    *table
                )
        return found


def each_area(plan: Mapping, read: Read) -> Iterator[tuple[list[Area], list[dict]]]:
    """`areas` of each curve and probe that has some."""
    for curve in curves_of(plan["datasets"]):
        for probe in sorted(plan["probes"]):
            found = areas(curve, probe, read)
            if found[0]:
                yield found


def each_loss(plan: Mapping, read: Read) -> Iterator[tuple[Matrix, list[Loss]]]:
    """`losses` of each transfer and probe that has some."""
    for matrix in matrices_of(plan["datasets"]):
        for probe in sorted(plan["probes"]):
            if found := losses(matrix, probe, read):
                yield matrix, found


def area_rows(found: list[Area], compared: list[dict]) -> list[dict]:
    """One row per backbone, with its letters; ``scores`` is a mapping of share to score."""
    letters = letters_of(compared, [one.backbone for one in found])
    return [{**asdict(one), "letters": letters.get(one.backbone, "")} for one in found]


def area_block(found: list[Area], compared: list[dict]) -> Block:
    """The curves of one dataset and probe as text."""
    first = found[0]
    shares = [f"{100 * share:g} %" for share in first.scores]
    lines = [["backbone", "area", "interval", "letters", *shares]]
    for row in area_rows(found, compared):
        scores = [number(score) for score in row["scores"].values()]
        lines.append(
            [row["backbone"], number(row["area"]), interval_of(row), row["letters"], *scores]
        )
    head = f"{first.curve} · {first.probe} · {metric_name(first.metric)} with shares of the labels of {first.of}"
    foot = "  area: mean score over the logarithm of the share; letters: those with a common one do not differ"
    return Block(head, lines, frozenset({"area", *shares}), foot)


def loss_blocks(matrix: Matrix, found: list[Loss]) -> list[Block]:
    """A table per backbone: rows are trained on, columns are tested on."""
    blocks = []
    for backbone in dict.fromkeys(one.backbone for one in found):
        own = {(one.train, one.test): one for one in found if one.backbone == backbone}
        lines = [["trained on", *(f"tested on {name}" for name in matrix.of)]]
        lines += [
            [train, *(cell(own.get((train, test))) for test in matrix.of)] for train in matrix.of
        ]
        head = f"{matrix.name} · {found[0].probe} · {metric_name(found[0].metric)} · {backbone}"
        foot = "  in brackets: the difference to training on the dataset that is tested, with its paired interval"
        blocks.append(Block(head, lines, frozenset(lines[0][1:]), foot))
    return blocks


def cell(one: Loss | None) -> str:
    """A score, and what it differs from the diagonal."""
    if one is None:
        return NONE
    if one.train == one.test:
        return number(one.value)
    return f"{number(one.value)} ({signed(-one.loss)} {interval(-one.upper, -one.lower, signed)})"
