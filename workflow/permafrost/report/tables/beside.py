"""Compare published scores with the run's own, by configured names, and their protocols."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from permafrost.core.text import printable_name
from permafrost.report.notation import number, signed
from permafrost.report.tables.blocks import Block
from permafrost.statistics.leaderboard.published import Reference

# names of our bootstrap interval methods
_BOOTSTRAPPED = frozenset({"percentile", "bca", "basic", "basic_square"})


def beside(
    references: Iterable[Reference],
    rows: list[dict],
    plan: Mapping,
    *,
    backbones: dict[str, str],
    datasets: dict[str, str],
    probes: dict[str, str],
) -> list[dict]:
    """Each published score with our score, and the differences of the protocols.

    Parameters
    ----------
    rows : primary rows of the leaderboard; plan : the recorded plan.
    backbones, datasets, probes : their names to ours. Only these names are matched.

    Returns
    -------
    Rows ``backbone, dataset, probe, theirs, ours, difference (ours - theirs), differences, file, row``.
    """
    own = {(row["backbone"], row["dataset"], row["probe"]): row for row in rows}
    found = []
    for one in references:
        names = (backbones.get(one.backbone), datasets.get(one.dataset), probes.get(one.method))
        row = own.get(names)
        if row is not None:
            found.append(
                {
                    "backbone": names[0],
                    "dataset": names[1],
                    "probe": names[2],
                    "theirs": one.value,
                    "ours": row["value"],
                    "difference": row["value"] - one.value,
                    "differences": "; ".join(_differences(one, row, plan)),
                    "file": one.file,
                    "row": one.row,
                }
            )
    return found


def _differences(one: Reference, row: dict, plan: Mapping) -> list[str]:
    """Protocol properties that differ, or that one side does not report."""
    backbone, dataset = plan["backbones"][row["backbone"]], plan["datasets"][row["dataset"]]
    probe = plan["probes"][row["probe"]]
    size = (backbone.get("input") or {}).get("size", plan["config"]["extraction"]["size"])
    bands = dataset.get("select") or dataset.get("bands")
    grid = "{c_min:g}..{c_max:g} by {c_count}".format(**probe) if probe.get("c_min") else ""
    pairs = [
        ("metric", one.metric, row["metric"]),
        ("training images", one.n_train, row["n_train"]),
        ("test images", one.n_test, row["n_test"]),
        ("image size", one.image_size, "native" if size is None else str(size)),
        ("bands", one.bands, ",".join(map(str, bands)) if isinstance(bands, list) else "all"),
        (
            "normalisation",
            one.normalisation,
            (backbone.get("input") or {}).get("normalization", ""),
        ),
        ("C", one.grid, grid),
        ("seed", one.seed, row["seed"]),
        (
            "interval",
            "none" if one.lower is None else "bootstrap",
            "bootstrap" if row["method"] in _BOOTSTRAPPED else row["method"],
        ),
    ]
    return [
        f"{what}: {_said(theirs)} there, {_said(ours)} here"
        for what, theirs, ours in pairs
        if _said(theirs) != _said(ours)
    ]


def _said(value) -> str:
    return "not said" if value in (None, "") else str(value)


def pairs_block(pairs: list[dict]) -> Block:
    """The result of `beside` as a table; each line ends with the protocol differences."""
    lines = [["backbone", "dataset", "probe", "published", "here", "difference", "protocol"]]
    for one in pairs:
        lines.append(
            [
                printable_name(one["backbone"]),
                printable_name(one["dataset"]),
                printable_name(one["probe"]),
                number(one["theirs"]),
                number(one["ours"]),
                signed(one["difference"]),
                one["differences"] or "the same, as far as it is said",
            ]
        )
    head = "Published scores beside one's own. No test compares them: test images and protocol may differ."
    if not pairs:
        return Block(
            f"{head}\n  No pair: name backbones, datasets and methods that are the same.", []
        )
    return Block(head, lines, frozenset({"published", "here", "difference"}))
