"""A leaderboard that is not of the plan recorded last, in words."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

import pyarrow as pa

from permafrost.report.values.rows import distinct


def describe_outdated(table: pa.Table, metadata: Mapping, recorded: Mapping) -> str | None:
    """What to say above a leaderboard that was made from another plan than `recorded`; None if it is of it.

    Parameters
    ----------
    table : the leaderboard; metadata : its metadata, with ``fingerprint``.
    recorded : the current plan (``outputs``, and by name ``backbones``, ``datasets``, ``probes``).
    """
    (current,) = (row for row in recorded["outputs"] if row["stage"] == "aggregate")
    if metadata["fingerprint"] == current["fingerprint"]:
        return None
    rows = table.select(["backbone", "dataset", "probe"]).to_pylist()
    # measures and profiles are rows of the leaderboard too, under names that no probe of the plan has
    probes = {row["probe"] for row in recorded["outputs"] if row["stage"] == "bootstrap"}
    differences = []
    for kind, planned in (
        ("backbone", set(recorded["backbones"])),
        ("dataset", set(recorded["datasets"])),
        ("probe", probes),
    ):
        shown = set(distinct(rows, kind))
        lacking, further = sorted(planned - shown), sorted(shown - planned)
        if kind == "probe":
            further = [name for name in further if name not in ("measures", "profile")]
        if lacking:
            differences.append(f"without {kind} {', '.join(lacking)}")
        if further:
            differences.append(f"with {kind} {', '.join(further)}")
    differs = f": it is {'; '.join(differences)}" if differences else ""
    text = (
        f"NOT of the current plan{differs}. This leaderboard was made from another configuration, data or "
        f"code (plan {metadata['fingerprint'][:12]}; the current plan is {current['fingerprint'][:12]}), and "
        "no run of the current plan has ended since. For the current one, run snakemake."
    )
    return textwrap.fill(text, 100)
