"""Portfolios of backbones over the datasets of a run, as tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from permafrost.core.errors import PermafrostError
from permafrost.report.notation import interval, number
from permafrost.report.tables.blocks import Block
from permafrost.statistics.across_datasets.portfolio import (
    SMALL,
    Portfolio,
    portfolios_of,
    smallest,
)
from permafrost.statistics.leaderboard.rows import distinct


def each_portfolio(
    lines: list[dict], derived: Collection[str]
) -> Iterator[tuple[str, list[Portfolio]]]:
    """Probe and its portfolios, for probes with enough datasets.

    Parameters
    ----------
    lines : primary rows of backbones that are not derived, seeds merged.
    derived : datasets to leave out, which have the images of others.
    """
    for probe in distinct(lines, "probe"):
        own = [row for row in lines if row["probe"] == probe and row["dataset"] not in derived]
        try:
            yield probe, portfolios_of(own)
        except PermafrostError:
            continue


def portfolio_rows(probe: str, found: Iterable[Portfolio]) -> list[dict]:
    """One row per set."""
    return [
        {
            "probe": probe,
            "size": len(one.members),
            "backbones": ";".join(one.members),
            **{
                name: getattr(one, name)
                for name in ("loss", "lower", "upper", "confidence", "worst", "worst_loss")
            },
        }
        for one in found
    ]


def portfolio_block(probe: str, found: list[Portfolio]) -> Block:
    """The sets as text, the smallest first."""
    lines = [["backbones", "mean loss", "interval", "largest loss", "on"]]
    lines += [
        [
            " + ".join(one.members),
            number(one.loss),
            interval(one.lower, one.upper),
            number(one.worst_loss),
            one.worst,
        ]
        for one in found
    ]
    enough = smallest(found)
    said = (
        f"the smallest set with a mean loss of at most {SMALL:g}: {' + '.join(enough.members)}"
        if enough
        else f"no set of at most {len(found[-1].members)} has a mean loss of at most {SMALL:g}"
    )
    foot = f"  {said}. Each dataset is judged with the set that is chosen on the others"
    head = f"{probe} · portfolios: what the best of a set loses to the best of all backbones, over datasets"
    return Block(head, lines, frozenset({"mean loss", "largest loss"}), foot)
