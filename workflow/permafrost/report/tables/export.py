"""Export results: tables for papers (LaTeX, Markdown), CSV, torchgeo-bench's format, and BibTeX."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from permafrost.core.errors import PermafrostError
from permafrost.report.explanations.gates import leakage_said
from permafrost.report.notation import NONE, interval, number
from permafrost.report.tables.answer import RANKED_BY, of_standings
from permafrost.report.tables.compared import (
    letters_of,
    pairs_of,
    told_apart_in,
    untested_in,
)
from permafrost.report.tables.shown import Shown
from permafrost.statistics.across_datasets.ranking import EVERYTHING
from permafrost.statistics.leaderboard.published import TORCHGEO_BENCH
from permafrost.statistics.leaderboard.rows import distinct, finite, metric_name, overall
from permafrost.statistics.leaderboard.seeds import merge_seeds

# our metrics with their names, besides the primary one
_THEIR_METRICS = {
    "fw_iou": "frequency_weighted_iou", "precision": "macro_precision", "recall": "macro_recall", "f1": "macro_f1",
    "ece": "expected_calibration_error", "rms_ce": "rms_calibration_error", "mce": "maximum_calibration_error",
    "ece_ts": "expected_calibration_error_scaled", "rms_ce_ts": "rms_calibration_error_scaled",
    "mce_ts": "maximum_calibration_error_scaled", "temperature": "temperature",
}  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """A number with its interval, and whether it is the best of its column or not significantly worse."""

    value: float | None = None
    lower: float | None = None
    upper: float | None = None
    digits: int = 3
    best: bool = False
    tied: bool = False

    @property
    def text(self) -> str:
        return number(self.value, self.digits)

    @property
    def interval(self) -> str:
        return interval(self.lower, self.upper, lambda value: number(value, self.digits))


@dataclass(frozen=True)
class Table:
    """Backbones in rows, datasets in columns.

    Attributes
    ----------
    heads : of the columns; lines : name and cells; letters : of backbones, if ranked; about : a
        sentence.
    leakage : per dataset, a sentence on test images in training.
    unfit : (backbone, dataset) without a score to the reason why they do not fit.
    """

    probe: str
    heads: list[str]
    lines: list[tuple[str, list[Cell]]]
    letters: dict[str, str]
    about: str
    leakage: dict[str, str]
    unfit: dict[tuple[str, str], str]


def tables_of(
    shown: Shown, *, group: str | None, probe: str | None, dataset: str | None = None
) -> list[Table]:
    """One table per probe: ranked backbones, mean rank over several datasets, each dataset."""
    shown.check(group=group, probe=probe, dataset=dataset)
    probes = [probe] if probe else sorted(distinct(shown.rows, "probe"))
    made = [_table(shown, group or EVERYTHING, name, dataset) for name in probes]
    return [table for table in made if table.lines]


def _table(shown: Shown, group: str, probe: str, dataset: str | None) -> Table:
    ranked = of_standings(shown.standings, group=group, probe=probe).get(RANKED_BY, [])
    of_group = None
    if ranked:
        of_group = {*ranked[0]["datasets"].split(";"), *ranked[0]["left_out"].split(";")}
    rows = merge_seeds(overall(shown.rows, probe=probe))
    datasets = sorted(
        name
        for name in distinct(rows, "dataset")
        # a dataset that is named need not be one of the group: derived datasets are of none
        if dataset == name or (dataset is None and (of_group is None or name in of_group))
    )
    order = [row["backbone"] for row in ranked] or sorted(distinct(rows, "backbone"))
    columns = {
        name: _column(shown, [row for row in rows if row["dataset"] == name], probe)
        for name in datasets
    }
    metrics = {row["dataset"]: metric_name(row["metric"]) for row in rows}
    several = bool(ranked) and ranked[0]["n_datasets"] > 1 and dataset is None
    letters = {row["backbone"]: row["letters"] or "" for row in ranked} if several else {}
    means = {row["backbone"]: row for row in ranked} if several else {}
    lines = []
    for name in order:
        cells = []
        if several:
            row = means[name]
            bounds = (row["value"], row["lower"], row["upper"])
            cells.append(Cell(*bounds, digits=2, best=row["rank"] == 1))
        lines.append((name, [*cells, *(columns[one].get(name, Cell()) for one in datasets)]))
    level = rows[0]["confidence"] if rows else 0.95
    scores = "; ".join(f"{name}: {metrics[name]}" for name in datasets)
    unfit = {
        (one["backbone"], one["dataset"]): one["reason"]
        for one in shown.left_out
        if one["dataset"] in datasets and one["probe"] in (None, probe)
    }
    named = ", ".join(f"{name} on {one}" for name, one in unfit)
    without = [f"Excluded because they do not fit: {named}."] if unfit else []
    leakage = {name: " ".join(leakage_said(rows, [name])) for name in datasets}
    leakage = {name: said for name, said in leakage.items() if said}
    return Table(
        probe,
        ["backbone", *(["mean rank"] if several else []), *datasets],
        lines if datasets else [],
        letters,
        f"{probe}, {100 * level:g} % intervals. {' '.join([f'{scores}.', *leakage.values(), *without])}",
        leakage,
        unfit,
    )


def _column(shown: Shown, rows: list[dict], probe: str) -> dict[str, Cell]:
    rows = sorted(rows, key=lambda row: (row["rank"] or float("inf"), row["backbone"]))
    ranked = [row["backbone"] for row in rows]
    compared = shown.comparisons.get((rows[0]["dataset"], probe), [])
    tied: set[str] = set()
    if letters_of(compared, ranked):
        pairs = pairs_of(compared)
        better = told_apart_in(pairs, ranked, 1 if rows[0]["higher_is_better"] else -1)
        apart = better[0] | untested_in(pairs, ranked)[0]
        tied = {name for place, name in enumerate(ranked) if place and not apart[place]}
    return {
        row["backbone"]: Cell(
            row["value"],
            row["lower"],
            row["upper"],
            best=finite(row["rank"]) and row["rank"] == rows[0]["rank"],
            tied=row["backbone"] in tied,
        )
        for row in rows
    }


# --- forms ---------------------------------------------------------------------------------------


def to_csv(tables: list[Table], *, intervals: bool, mark_tied: bool) -> str:
    """Long format with all digits: probe, backbone, column, value, interval, and whether it is best
    or tied with it."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    bounds = ("lower", "upper") if intervals else ()
    tied = ("tied",) if mark_tied else ()
    left_out = ("left_out",) if any(table.unfit for table in tables) else ()
    writer.writerow(
        ["probe", "backbone", "column", "value", *bounds, "best", *tied, "letters", "leakage"]
        + [*left_out]
    )
    for table in tables:
        for name, cells in table.lines:
            for head, cell in zip(table.heads[1:], cells, strict=True):
                marks = [str(getattr(cell, mark)).lower() for mark in ("best", *tied)]
                numbers = [getattr(cell, column) for column in ("value", *bounds)]
                letters = table.letters.get(name, "")
                writer.writerow(
                    [table.probe, name, head, *numbers, *marks, letters, table.leakage.get(head)]
                    + [table.unfit.get((name, head)) for _ in left_out]
                )
    return stream.getvalue()


def to_markdown(tables: list[Table], *, intervals: bool, mark_tied: bool) -> str:
    """Markdown tables; best per column bold, values not significantly worse underlined."""

    def written(cell: Cell) -> str:
        text = f"{cell.text} {cell.interval}".strip() if intervals else cell.text
        if cell.best:
            return f"**{text}**"
        return f"<u>{text}</u>" if cell.tied and mark_tied else text

    blocks = []
    for table in tables:
        heads = [*map(_markdown, table.heads), *(["letters"] if table.letters else [])]
        lines = [f"| {' | '.join(heads)} |", f"|---|{'---:|' * (len(heads) - 1)}"]
        for name, cells in table.lines:
            line = [_markdown(name), *map(written, cells)]
            line += [table.letters.get(name, "")] if table.letters else []
            lines.append(f"| {' | '.join(line)} |")
        blocks.append("\n".join([*lines, "", _markdown(_caption(table, mark_tied))]))
    return "\n\n".join(blocks) + "\n"


def to_latex(tables: list[Table], *, intervals: bool, mark_tied: bool) -> str:
    r"""LaTeX tables with booktabs; best per column bold, not significantly worse underlined."""

    def written(cell: Cell) -> str:
        text = cell.text.replace("−", "$-$").replace(NONE, "--")
        if cell.best:
            text = rf"\textbf{{{text}}}"
        elif cell.tied and mark_tied:
            text = rf"\underline{{{text}}}"
        bounds = cell.interval.replace("−", "$-$")
        return rf"{text} {{\footnotesize {bounds}}}" if intervals and bounds else text

    blocks = ["% \\usepackage{booktabs}"]
    for table in tables:
        heads = [_latex(head) for head in table.heads]
        lines = [
            r"\begin{table}",
            rf"\caption{{{_latex(_caption(table, mark_tied))}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(heads) - 1)}}}",
            r"\toprule",
            " & ".join(heads) + r" \\",
            r"\midrule",
        ]
        for name, cells in table.lines:
            letters = table.letters.get(name, "")
            shown = _latex(name) + (rf"\textsuperscript{{{letters}}}" if letters else "")
            lines.append(" & ".join([shown, *map(written, cells)]) + r" \\")
        blocks.append("\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}"]))
    return "\n\n".join(blocks) + "\n"


def to_torchgeo_bench(tables: list[Table], shown: Shown) -> str:
    """Rows of `tables` in torchgeo-bench's results format, one per seed."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, TORCHGEO_BENCH, restval="", lineterminator="\n")
    writer.writeheader()
    wanted = {(table.probe, head) for table in tables for head in table.heads[1:]}
    others: dict[tuple, dict[str, float]] = {}
    for row in overall(shown.leaderboard.to_pylist(), primary=False):
        others.setdefault(_evaluation(row), {})[row["metric"]] = row["value"]
    for row in shown.rows:
        if (row["probe"], row["dataset"]) not in wanted:
            continue
        settings = json.loads(row["settings"])
        method = f"knn{settings['k']}" if row["kind"] == "knn" and "k" in settings else row["probe"]
        line = {
            "dataset": row["dataset"],
            "method": method,
            "metric_name": row["metric"],
            "metric_value": row["value"],
            "ci_lower": row["lower"],
            "ci_upper": row["upper"],
            "feature_dim": row["feature_dim"],
            "best_c": settings.get("best_c", ""),
            "name": row["backbone"],
            **{name: row[name] for name in ("n_train", "n_val", "n_test", "seed")},
        }
        more = others[_evaluation(row)]
        line |= {theirs: more.get(ours, "") for theirs, ours in _THEIR_METRICS.items()}
        writer.writerow({key: "" if value is None else value for key, value in line.items()})
    return stream.getvalue()


def _evaluation(row: Mapping) -> tuple:
    return row["dataset"], row["probe"], row["backbone"], row["seed"]


def to_bibtex(plan: Mapping) -> str:
    """An entry for each backbone and dataset of a recorded plan that has a citation."""
    blocks = []
    for kind in ("backbones", "datasets"):
        for name, entry in sorted(plan[kind].items()):
            if not entry.get("citation"):
                continue
            fields = {"title": entry.get("title") or name, "note": entry["citation"]}
            fields |= {"year": str(entry["year"])} if entry.get("year") else {}
            lines = [f"  {key} = {{{_latex(value)}}}," for key, value in fields.items()]
            if entry.get("url"):
                lines.append(f"  url = {{{re.sub(r'[{}]', '', entry['url'])}}},")
            blocks.append("\n".join([f"@misc{{{kind[:-1]}-{name},", *lines, "}"]))
    return "\n\n".join(blocks) + "\n" if blocks else ""


def _caption(table: Table, mark_tied: bool) -> str:
    tied = (
        " Underlined: not significantly different from it (paired comparison)." if mark_tied else ""
    )
    letters = (
        " Backbones that share a letter do not differ significantly by mean rank."
        if table.letters
        else ""
    )
    return f"{table.about} Bold: best of the column.{tied}{letters}"


_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}", "²": "$^2$",
}  # fmt: skip


def _latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in " ".join(text.split()))


def _markdown(text: str) -> str:
    return re.sub(r"([\\|*_<>`\[\]])", r"\\\1", text)


FORMS = {"csv": to_csv, "markdown": to_markdown, "latex": to_latex}


def export(
    shown: Shown,
    form: str,
    *,
    group: str | None = None,
    probe: str | None = None,
    dataset: str | None = None,
    intervals: bool = True,
    mark_tied: bool = False,
) -> str:
    """The tables as text in one of `FORMS`, or as ``torchgeo-bench``.

    Raises
    ------
    PermafrostError : a name that is not in the results; nothing to export.
    """
    tables = tables_of(shown, group=group, probe=probe, dataset=dataset)
    if not tables:
        raise PermafrostError(
            "nothing to export: the probe has no scores on these datasets",
            remedy="name another group, probe or dataset",
        )
    if form == "torchgeo-bench":
        return to_torchgeo_bench(tables, shown)
    return FORMS[form](tables, intervals=intervals, mark_tied=mark_tied)
