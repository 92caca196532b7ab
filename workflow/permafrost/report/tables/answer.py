"""The answer first: the best backbone over a group of datasets, and how certain that is."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from permafrost.report.notation import chance, interval_of, listed, number, p_value_text, places
from permafrost.report.tables.blocks import Block
from permafrost.statistics.across_datasets.letters import letters_in, ranks_text
from permafrost.statistics.across_datasets.ranking import RANKED_BY
from permafrost.statistics.leaderboard.rows import distinct, finite

#: the sources of uncertainty in an interval, in words
UNCERTAINTIES = {
    "both": "other datasets, test items and seeds",
    "datasets": "other datasets",
    "items": "other test items and seeds on these datasets",
    "none": "nothing: uncertainty cannot be estimated here",
}
_NAMED = 3
_LISTED = 12


def of_standings(rows: Iterable[dict], **where) -> dict[str, list[dict]]:
    """Statistic to its rows in the order of their ranks, among rows whose columns have these values."""
    chosen = [row for row in rows if all(row[name] == value for name, value in where.items())]
    return {
        statistic: sorted(
            (row for row in chosen if row["statistic"] == statistic),
            key=lambda row: (row["rank"] if finite(row["rank"]) else float("inf"), row["backbone"]),
        )
        for statistic in distinct(chosen, "statistic")
    }


def verdict(found: dict[str, list[dict]]) -> str:
    """One or two sentences: the best backbone, and those that may be as good.

    Parameters
    ----------
    found : `of_standings` of one group and probe.
    """
    ranked = found[RANKED_BY]
    if not finite(ranked[0]["rank"]):
        return f"No backbone is ranked: {ranked[0]['note']}."
    best = [row["backbone"] for row in ranked if row["rank"] == ranked[0]["rank"]]
    others = [row for row in ranked if row["backbone"] not in best]
    says = f"{listed(best)} {'are' if len(best) > 1 else 'is'} "
    says += "best" if ranked[0]["n_datasets"] == 1 else "first by mean rank"
    if len(best) == 1:
        says += _how_sure(best[0], found)
    if ranked[0]["uncertainty"] == "none":
        return f"{says}. Whether this is due to chance is unknown: {ranked[0]['note']}."
    letters = letters_in("".join(row["letters"] or "" for row in ranked[: len(best)]))
    alike = [row["backbone"] for row in others if letters & letters_in(row["letters"])]
    if not others:
        return f"{says}."
    if not alike:
        whom = "the other" if len(others) == 1 else f"all {len(others)} others"
        return f"{says}, and significantly better than {whom}."
    them = "them" if len(best) > 1 else "it"
    if len(alike) == len(others) > _NAMED:
        return f"{says}, but none of the {len(others)} others differs significantly from {them}."
    named = listed(alike) if len(alike) <= _NAMED else f"{len(alike)} of {len(others)} others"
    differ = "does not differ" if len(alike) == 1 else "do not differ"
    return f"{says}, but {named} {differ} significantly from {them}."


def exact_said(found: dict[str, list[dict]]) -> list[str]:
    """The ranking by exact cells alone, and whether its order differs; empty if all cells are exact.

    Parameters
    ----------
    found : `of_standings` of one group and probe.
    """
    exact = found.get("exact_mean_rank")
    if not exact:
        return []
    ranked = found[RANKED_BY]
    if not finite(exact[0]["rank"]):
        return [
            "No dataset fits all of them exactly: filled, omitted or rescaled bands may decide the order."
        ]
    place = {row["backbone"]: row["rank"] for row in ranked}
    pairs = itertools.combinations(exact, 2)
    changed = any(
        one["rank"] < other["rank"] and place[one["backbone"]] > place[other["backbone"]]
        for one, other in pairs
    )
    names = [f"{row['backbone']} {number(row['value'], 2)}" for row in exact]
    more = [f"and {len(names) - _LISTED} more"] if len(names) > _LISTED else []
    says = "the order changes: filled bands decide it" if changed else "the order is the same"
    return [
        f"Ranked on exact cells alone (datasets: {exact[0]['datasets'].replace(';', ', ')}; {len(exact)} of"
        f" {len(ranked)} backbones), {says}. Mean ranks: {', '.join([*names[:_LISTED], *more])}."
    ]


def separated_said(rows: Iterable[dict], group: str, probe: str) -> list[str]:
    """How many neighbours in the ranking differ significantly; empty where nothing could be tested."""
    found = of_standings(rows, group=group, probe=probe)
    ranked = [one for one in found.get(RANKED_BY, ()) if finite(one["rank"]) and one["letters"]]
    neighbours = list(itertools.pairwise(ranked))
    if not neighbours:
        return []
    apart = sum(
        not letters_in(one["letters"]) & letters_in(other["letters"]) for one, other in neighbours
    )
    return [
        f"Of {len(neighbours)} pair{'s' * (len(neighbours) != 1)} of neighbours in the ranking,"
        f" {apart} differ{'s' * (apart == 1)} significantly."
    ]


def same_said(row: dict) -> list[str]:
    """The backbones of a row of the standings that are copies of another one."""
    pairs = [pair.split("=") for pair in (row.get("same_as") or "").split(";") if pair]
    named = ", ".join(f"{copy} is the same as {first}" for copy, first in pairs)
    return [f"A measurement with two names is counted once: {named}."] if named else []


def answer(
    rows: list[dict],
    *,
    group: str,
    probe: str,
    most: int | None = None,
    tests: Sequence[dict] = (),
    warnings: Sequence[str] = (),
) -> Block | None:
    """Ranked backbones of one group and probe; None if nothing was ranked.

    Parameters
    ----------
    rows : of the standings; most : backbones shown, all by default; tests : of the standings' metadata.
    warnings : sentences that follow the verdict.
    """
    found = of_standings(rows, group=group, probe=probe)
    if RANKED_BY not in found:
        return None
    ranked = found[RANKED_BY]
    first = ranked[0]
    head = (
        f"{group} · {probe} · {first['n_datasets']} dataset{'s' * (first['n_datasets'] != 1)}\n"
        f"{verdict(found)}"
    )
    head = "\n".join([head, *exact_said(found), *warnings])
    foot = (
        [f"Omitted because a score is missing: {first['left_out'].replace(';', ', ')}"]
        if first["left_out"]
        else []
    )
    foot += same_said(first)
    if not finite(first["rank"]):
        return Block(
            head, [["backbone"], *([row["backbone"]] for row in ranked)], foot="\n".join(foot)
        )
    means = {row["backbone"]: row for row in found.get("mean", ())}
    chances, losses = (_values(found, name) for name in ("probability_best", "expected_loss"))
    certain = first["uncertainty"] != "none"
    # a line of many letters says less than the ranks that are possible
    lettered = certain and len(letters_in("".join(row["letters"] for row in ranked))) <= _LISTED
    header = ["rank", "backbone", "mean rank", *(["interval"] if certain else [])]
    header += ["mean", *(["interval "] if certain else [])] if means else []
    header += ["best", *(["loss"] if losses else []), "ranks"] if certain else []
    header += ["letters"] if lettered else []
    lines = [header]
    for row, place in zip(ranked, places([row["rank"] for row in ranked]), strict=True):
        name = row["backbone"]
        line = [place, name, number(row["value"], 2)]
        line += [interval_of(row, lambda value: number(value, 2))] if certain else []
        if means:
            line += [number(means[name]["value"])]
            line += [interval_of(means[name])] if certain else []
        if certain:
            ranks = ranks_text(row["rank_low"], row["rank_high"])
            line += [chance(chances[name]) if name in chances else ""]
            line += [_loss(losses[name])] if losses else []
            line += [ranks]
        line += [row["letters"]] if lettered else []
        lines.append(line)
    further = 0 if most is None else len(lines) - 1 - most
    if further > 0:
        lines = lines[: most + 1]
        foot.append(f"and {further} more: permafrost show --probe {probe}")
    if certain:
        foot.append(
            f"{100 * first['confidence']:g} % intervals over {UNCERTAINTIES[first['uncertainty']]};"
            + (
                " backbones that share a letter do not differ significantly."
                if lettered
                else " ranks: those that a backbone may have, jointly for all."
            )
        )
        lost = ", loss: expected shortfall from the best" if losses else ""
        foot += [f"best: chance of being the best{lost}."] if chances else []
    for one in tests:
        if (one["group"], one["probe"]) == (group, probe):
            foot += tests_said(one)
    said = "\n".join(f"  {line}" for line in foot)
    return Block(head, lines, frozenset({"rank", "mean rank", "mean", "best", "loss"}), said)


def _values(found: dict[str, list[dict]], statistic: str) -> dict[str, float]:
    return {row["backbone"]: row["value"] for row in found.get(statistic, ())}


def _how_sure(name: str, found: dict[str, list[dict]]) -> str:
    """Probability of being best and expected loss of the first, and the backbone with the largest probability."""
    chances, losses = (_values(found, each) for each in ("probability_best", "expected_loss"))
    if name not in chances:
        return ""
    says = f"chance of being best {chance(chances[name])}"
    if name in losses:
        says += f", expected loss against the best {_loss(losses[name])}"
    likeliest = max(chances, key=chances.get)
    if chance(chances[likeliest]) != chance(chances[name]):
        says += f"; {likeliest} has the largest chance, {chance(chances[likeliest])}"
    return f" ({says})"


def _loss(value: float) -> str:
    return "< 0.001" if 0 < value < 0.0005 else number(value)


def _p_of(value: float) -> str:
    """``< 0.001`` or ``= 0.042``."""
    text = p_value_text(value)
    return text if text.startswith("<") else f"= {text}"


def tests_said(tests: dict) -> list[str]:
    """Lines on the results of `tested.tested`: whether any differ, the first two, and how to separate these."""
    lines = []
    if tests["friedman_p"] is not None:
        lines.append(
            f"Test whether any two differ by rank: p {_p_of(tests['friedman_p'])} (Friedman, F)."
        )
    if "first" in tests:
        first, second = tests["first"], tests["second"]
        if tests["practical"] is not None:
            lower, within, higher = map(chance, tests["practical"])
            lines.append(
                f"{first} against {second} on a new dataset: better {higher}, practically equal {within},"
                f" worse {lower}."
            )
        ways = []
        if tests["more_datasets"]:
            more = tests["more_datasets"]
            ways.append(f"{more} more dataset{'s' * (more != 1)}")
        if tests["times_items"] is not None and tests["times_items"] > 1:
            ways.append(f"{tests['times_items']:.2g} times the test items")
        if ways:
            lines.append(
                f"{' or '.join(ways)} would detect the difference of {first} and {second} with 80 % power."
            )
    return lines
