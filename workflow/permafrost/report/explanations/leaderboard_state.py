"""Missing parts of a leaderboard (failed jobs, an outdated plan), as text and tables."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping

import pyarrow as pa

from permafrost.core.tables import read_metadata
from permafrost.statistics.leaderboard.rows import distinct

KEY = "incomplete"  # metadata key of a leaderboard with missing results
GATE = "incomplete_run"
_COLUMNS = ("backbone", "dataset", "stage", "error")
_NOT_RUN = "not run: the run ended before"


def describe(plan: dict, failures: list[dict], missing: list[dict]) -> dict:
    """Metadata of a leaderboard of an incomplete run.

    Parameters
    ----------
    plan : the recorded plan.
    failures : jobs that failed (``stage``, ``error``, ``log`` and the names it worked on).
    missing : results that are missing: ``dataset``, ``backbone``, ``probe`` (or measures, profile), ``seed``
        and ``reason``, the error of the job that failed, or None.
    """
    without = {row["backbone"] for row in missing}
    return {
        "plan": plan["plan"],
        "backbones": len(plan["backbones"]),
        "complete": sum(name not in without for name in plan["backbones"]),
        "failures": failures,
        "missing": [{**row, "reason": row["reason"] or _NOT_RUN} for row in missing],
    }


def read_incomplete(leaderboard) -> dict | None:
    """The metadata (`describe`) of an incomplete leaderboard; None if it is complete."""
    return read_metadata(leaderboard).get(KEY)


def headline(about: Mapping) -> str:
    """``Incomplete: 9 of 10 backbones have all their results; 3 results are missing.``"""
    complete, planned, count = about["complete"], about["backbones"], len(about["missing"])
    if not count:
        return "Incomplete: no score is missing, but comparisons of backbones are."
    backbones = f"{complete} of {planned} backbone{'' if planned == 1 else 's'}"
    have = "has all its" if complete == 1 else "have all their"
    missing = "1 result is missing" if count == 1 else f"{count} results are missing"
    return f"Incomplete: {backbones} {have} results; {missing}."


def mark_incomplete(table: pa.Table, missing: Iterable[Mapping]) -> pa.Table:
    """Add a warning to every row that was ranked among fewer backbones than planned."""
    columns = {(row["dataset"], row["probe"]) for row in missing}
    rows = zip(*(table[name].to_pylist() for name in ("gates", "dataset", "probe")), strict=True)
    gates = [
        ";".join(filter(None, (gate, GATE if (dataset, probe) in columns else "")))
        for gate, dataset, probe in rows
    ]
    place = table.column_names.index("gates")
    return table.set_column(place, table.schema.field("gates"), pa.array(gates, pa.string()))


def format_failures(failures: list[dict], *, width: int | None = None) -> str:
    """Text table of the failed jobs, each once, with its error and log file.

    Parameters
    ----------
    width : of the terminal, to wrap long errors; None for a file.
    """
    rows = [
        (row["backbone"] or "all", row["dataset"] or "all", _stage(row), row["error"], row["log"])
        for row in failures
    ]
    widths = [max(len(row[place]) for row in [_COLUMNS, *rows]) for place in range(3)]
    indent = 2 + sum(widths) + 6
    lines = [f"{len(rows)} job{'' if len(rows) == 1 else 's'} failed:"]
    for *names, error, log in [(*_COLUMNS, ""), *rows]:
        head = "  " + "  ".join(f"{n:<{w}}" for n, w in zip(names, widths, strict=True)) + "  "
        texts = [error, f"log: {log}"] if log else [error]
        wrapped = [part for text in texts for part in _wrapped(text, width and width - indent)]
        lines += [head + wrapped[0], *(" " * indent + part for part in wrapped[1:])]
    return "\n".join(lines)


def _stage(failure: Mapping) -> str:
    probe, seed = failure.get("probe"), failure.get("seed")
    of_probe = f" of {probe}" if probe and probe != failure["stage"] else ""
    return f"{failure['stage']}{of_probe}{f' seed {seed}' if seed else ''}"


def _wrapped(text: str, width: int | None) -> list[str]:
    # a narrow terminal wraps lines itself
    return textwrap.wrap(text, width, break_on_hyphens=False) if width and width > 20 else [text]


def failures_table(failures: list[dict]) -> pa.Table:
    """The failures as a table of text, for ``failures.csv``."""
    names = ("backbone", "dataset", "stage", "probe", "seed", "error", "log")
    return pa.table({n: pa.array([_text(f.get(n)) for f in failures], pa.string()) for n in names})


def _text(value) -> str | None:
    return None if value is None else str(value)


def suite_words(suite: Mapping | None) -> str | None:
    """The suite of a run, and whether results are comparable with others; None without one.

    Parameters
    ----------
    suite : ``name``, ``version``, ``digest`` of the suite, ``data`` of its datasets, and what was ``changed``.
    """
    if not suite:
        return None
    named = f"Suite {suite['name']}, version {suite['version']}"
    if changed := suite.get("changed"):
        return f"{named}, changed. Not comparable with runs of this suite: {'; '.join(changed)}."
    digests = ", ".join(f"{key} {suite.get(key, 'not known')[:12]}" for key in ("digest", "data"))
    return f"{named} ({digests}): comparable with every run that states the same."


def policy_words(fit: str | None) -> str | None:
    """The policy for input that does not fit; None for `strict`, which fills nothing."""
    if fit in (None, "strict"):
        return None
    return f"Input that does not fit is adapted by the policy {fit}: not comparable with rankings of another policy."


def left_out_words(left_out: list[dict], of: str, name: str) -> str:
    """A sentence on the excluded partners of a backbone or a dataset; empty if there are none.

    Parameters
    ----------
    left_out : rows of `permafrost.plan.misfits.recorded_misfits`.
    of : ``backbone`` or ``dataset``; `name` is its name.
    """
    other = "dataset" if of == "backbone" else "backbone"
    said = [
        one[other] + (f" ({one['probe']})" if one["probe"] else "")
        for one in left_out
        if one[of] == name
    ]
    return (
        f"{other.capitalize()}s excluded because they do not fit: {', '.join(said)}."
        if said
        else ""
    )


def same_words(same: Mapping[tuple[str, str], str], of: str, name: str) -> str:
    """A sentence on cells that are one measurement under two names; empty if there are none.

    Parameters
    ----------
    same : `permafrost.statistics.leaderboard.rows.copies`.
    of : ``backbone`` or ``dataset``; `name` is its name.
    """
    if of == "dataset":
        said = [
            f"{copy} is the same as {first}" for (one, copy), first in same.items() if one == name
        ]
    else:
        said = [f"{first} on {dataset}" for (dataset, one), first in same.items() if one == name]
        said = [f"it is the same as {', '.join(said)}"] if said else []
    return f"Fed the same, and so counted once: {', '.join(said)}." if said else ""


def describe_outdated(table: pa.Table, metadata: Mapping, recorded: Mapping) -> str | None:
    """The warning for a leaderboard from another plan than `recorded`; None if it matches.

    Parameters
    ----------
    table : the leaderboard; metadata : its metadata, with ``fingerprint``.
    recorded : the current plan (``outputs``, and by name ``backbones``, ``datasets``, ``probes``).
    """
    (current,) = (row for row in recorded["outputs"] if row["stage"] == "aggregate")
    if metadata["fingerprint"] == current["fingerprint"]:
        return None
    rows = table.select(["backbone", "dataset", "probe"]).to_pylist()
    # measures and profiles are also rows of the leaderboard, under names that no probe has
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
        f"NOT of the current plan{differs}. This leaderboard was computed from another configuration, data or "
        f"code (plan {metadata['fingerprint'][:12]}; the current plan is {current['fingerprint'][:12]}), and "
        "no run of the current plan has ended since. For the current one, run snakemake."
    )
    return textwrap.fill(text, 100)
