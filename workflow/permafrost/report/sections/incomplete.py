"""The page's banner over a run of which some jobs failed: what is missing, and why."""

from __future__ import annotations

from collections.abc import Mapping

from permafrost.report.explanations.incomplete import headline


def incomplete_section(about: Mapping | None) -> dict | None:
    """What the template asks of an incomplete run; None for a complete one.

    Parameters
    ----------
    about : the leaderboard's ``incomplete`` metadata (`report.explanations.incomplete.describe`).
    """
    if about is None:
        return None
    missing: dict[tuple[str, str], list[str]] = {}
    for row in about["missing"]:
        seed = f", seed {row['seed']}" if row["seed"] else ""
        what = f"{row['dataset']}, {row['probe']}{seed}"
        missing.setdefault((row["backbone"], row["reason"]), []).append(what)
    return {
        "headline": headline(about),
        "failures": about["failures"],
        "missing": [
            {"backbone": backbone, "reason": reason, "what": "; ".join(what)}
            for (backbone, reason), what in missing.items()
        ],
    }
