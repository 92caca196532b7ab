"""Ensembles of the backbones in a folder of results, from kept predictions, and what is said of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from permafrost.core.errors import PermafrostError
from permafrost.probes.kinds import KINDS
from permafrost.report.notation import interval, number, p_value_text, signed
from permafrost.report.tables.blocks import Block
from permafrost.report.tables.recorded import read_runs
from permafrost.report.tables.sliced import SlicedResults
from permafrost.statistics.ensembles import Ensemble, greedy, pairs
from permafrost.statistics.leaderboard.rows import metric_name
from permafrost.statistics.predictions.reading import Predictions

#: pairs that a terminal shows
_SHOWN = 10
WAYS = {"pair": pairs, "greedy": greedy}


@dataclass(frozen=True)
class EnsembleResults(SlicedResults):
    """The predictions in a folder of results that are averaged."""

    def ensembles(self, row: Mapping, way: str, metric: str | None = None) -> list[Ensemble]:
        """Ensembles of all backbones of an evaluation's dataset and probe.

        Parameters
        ----------
        row : of `evaluations`. way : of `WAYS`.

        Raises
        ------
        PermafrostError : the probe has no probabilities; as in `statistics.ensembles`.
        """
        where = f"{row['dataset']}, {row['probe']}"
        try:
            if not has_probabilities(row):
                raise PermafrostError(
                    "its scores are not probabilities, so they cannot be averaged",
                    remedy="name another probe, such as linear or knn",
                )
            return WAYS[way](self._backbones(row), metric=metric)
        except PermafrostError as error:
            raise PermafrostError(error.problem, where=where, remedy=error.remedy) from error

    def _backbones(self, row: Mapping) -> dict[str, dict[int, Predictions]]:
        """Backbone -> seed -> predictions, of all rows with a score."""
        keys = ("dataset", "probe")
        scored = {
            (one["backbone"], one["seed"])
            for one in self.rows
            if all(one[key] == row[key] for key in keys)
        }
        return read_runs(
            (made["backbone"], made["seed"], self.place(made), made["fingerprint"])
            for made in self.planned("probe", **{key: row[key] for key in keys})
            if (made["backbone"], made["seed"]) in scored
        )


def has_probabilities(row: Mapping) -> bool:
    """Whether the predictions of the probe of a row can be averaged."""
    return row["task"] == "regression" or KINDS[row["kind"]].probabilities


def ensemble_rows(row: Mapping, way: str, found: list[Ensemble]) -> list[dict]:
    """One row per ensemble."""
    return [
        {
            **{name: row[name] for name in ("dataset", "probe")},
            "way": way,
            "backbones": ";".join(one.members),
            "size": len(one.members),
            **{
                name: getattr(one, name)
                for name in (
                    "metric",
                    "value",
                    "single",
                    "single_value",
                    "difference",
                    "lower",
                    "upper",
                )
            },
            **{
                name: getattr(one, name)
                for name in ("p_value", "p_adjusted", "confidence", "better", "gates")
            },
        }
        for one in found
    ]


def ensemble_block(row: Mapping, way: str, found: list[Ensemble]) -> Block:
    """Ensembles as text: score, the single backbone, and the difference."""
    pair = way == "pair"
    single = "better half" if pair else "best backbone"
    header = ["backbones", "value", single, "its value", "difference", "interval", "p adjusted", ""]
    lines = [
        [
            " + ".join(one.members),
            number(one.value),
            one.single,
            number(one.single_value),
            signed(one.difference),
            interval(one.lower, one.upper, signed),
            p_value_text(one.p_adjusted),
            f"better than {'both halves' if pair else 'the best backbone'}" if one.better else "",
        ]
        for one in found[:_SHOWN]
    ]
    head = (
        f"{row['dataset']} · {row['probe']} · {metric_name(found[0].metric)} of averaged "
        f"{'numbers' if row['task'] == 'regression' else 'probabilities'}, "
        + ("pairs" if pair else "greedy selection")
    )
    count = sum(one.better for one in found)
    said = (
        [f"significantly better than both halves: {count} of {len(found)} pairs"]
        if pair
        else [
            "the listed backbones are selected on all test images; values are cross-validated: each fifth of the"
            " test units is predicted by backbones selected on the other four"
        ]
    )
    if len(found) > _SHOWN:
        said.append(f"the best {_SHOWN} of {len(found)}; `Results.ensembles` in Python has all")
    right = frozenset({"value", "its value", "difference", "p adjusted"})
    return Block(head, [header, *lines], right, "\n".join(f"  {words}" for words in said))
