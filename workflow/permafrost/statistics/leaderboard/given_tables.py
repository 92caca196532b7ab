"""Read a leaderboard that somebody gives.

Forms
-----
- ``wide``: a row per backbone, a column of scores per dataset. A cell is a number, with an interval as in
  ``0.81 [0.79, 0.83]``.
- ``long``: a row per score, with a column of backbones, of datasets and of values; possibly of probes, seeds, metrics,
  and of both ends of an interval.
- published: the results of torchgeo-bench and GEO-Bench-2 (`published`). Configurations of one backbone, such as bands
  and normalisation, are backbones of their own, named by what differs.

Rules
-----
- If all scores are 0 to 100, those of a dataset are percentages if one of them exceeds 1.
- Columns of a wide table that are means, ranks or properties of backbones, by their names, are not datasets.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from permafrost.core.errors import PermafrostError, look_up
from permafrost.core.text import LONGEST_LINE, printable_name
from permafrost.data.sources.table_files import PARQUET, Cell
from permafrost.data.user_tables import columns_of
from permafrost.statistics.leaderboard.given import Given, Score
from permafrost.statistics.leaderboard.published import (
    Reference,
    is_error,
    is_published,
    read_published,
)

#: what a long table calls its columns, in lower case and without signs
LONG = {
    "backbone": ("backbone", "model", "modelname", "method", "system", "name"),
    "dataset": ("dataset", "task", "taskname", "benchmark", "datasetname"),
    "value": ("value", "score", "mainscore", "metricvalue", "testmetric", "result"),
    "probe": ("probe", "evaluation", "head", "method"),
    "seed": ("seed", "run", "fold"),
    "metric": ("metric", "metricname"),
    "lower": ("lower", "cilower", "cilow", "low"),
    "upper": ("upper", "ciupper", "cihigh", "high"),
}
_NOT_A_DATASET = re.compile(
    r"^$|^(rank|ranking|place|position|mean|average|avg|overall|total|sum|median|borda|elo|zero.?shot|index|id|"
    r"unnamed|#)(?![a-z\d])|"
    r"(?<![a-z])(params?|parameters?|dims?|dimensions?|tokens?|memory|date|year|released?|licen[cs]es?|"
    r"[gmt]?flops|macs|layers|throughput|resolution|epochs|size|latency|url)(?![a-z])",
    re.IGNORECASE,
)
# numbers that are not written with a point
_COMMA = re.compile(r"[-+−]?\d+(,\d+)+\s*%?")
_CELL = re.compile(
    r"(?P<value>[-+−]?[\d.]+(?:e[-+]?\d+)?)\s*%?\s*"
    r"(?:[\[(]\s*(?P<lower>[-+−]?[\d.]+)\s*[,;–]\s*(?P<upper>[-+−]?[\d.]+)\s*[\])])?(?P<spread>\s*(?:±|\+/-).*)?",
    re.IGNORECASE,
)
_NOTHING = frozenset({"", "-", "–", "—", "na", "n/a", "nan", "none", "null"})
# parts of a protocol by which configurations of one backbone are told apart
_PROTOCOL = ("bands", "normalisation", "image_size", "grid", "settings")


def read_given(
    table: Path | Mapping[str, list[Cell]],
    *,
    where: Mapping[str, str] | None = None,
    without: Collection[str] = (),
    lower_is_better: Collection[str] = (),
    duplicates: str = "refuse",
) -> Given:
    """Read a table.

    Parameters
    ----------
    table : CSV or parquet file, of torchgeo-bench also a folder; or the text of each row by column, which is not taken
        for a published table.
    where : column -> value, the rows that are kept. without : columns of a wide table, or datasets, that are left out.
    lower_is_better : datasets or metrics.
    duplicates : rule for two values of one configuration of published tables, one of `published.DUPLICATES`.

    Raises
    ------
    PermafrostError : a file that is no such table, a cell that is no score, two scores of one backbone on a dataset, an
        unknown column or name. It names the row.
    """
    path = table if isinstance(table, Path) else Path("table")
    columns: Mapping[str, list[Cell]] = {}
    if not isinstance(table, Path):
        columns = table
    elif not path.is_dir():
        columns = _columns(path)
    if isinstance(table, Path) and (path.is_dir() or is_published(columns)):
        found = _published(path, where or {}, duplicates)
    else:
        columns, rows = _kept(path, columns, where or {})
        named = _named(columns)
        found = _long(path, columns, rows, named) if named else _wide(path, columns, rows, without)
    datasets = found.datasets
    for name in without:
        look_up([*datasets, *columns], name, "the table has no dataset", where=path)
    scores = [_printable(one) for one in found.scores if one.dataset not in without]
    known = ({one.dataset for one in scores} | {one.metric for one in scores}) - {""}
    for name in lower_is_better:
        look_up(known, name, "the table has no dataset or metric", where=path)
    errors = {
        one.dataset
        for one in scores
        if {one.dataset, one.metric} & {*lower_is_better}
        or is_error(one.metric)
        or is_error(one.dataset.lower())
    }
    _check(path, scores)
    said = [f"lower is better: {', '.join(sorted(errors))}"] if errors else []
    return _as_shares(
        replace(found, scores=scores, lower=frozenset(errors), said=[*found.said, *said])
    )


def _columns(path: Path) -> dict[str, list[Cell]]:
    if not path.name.lower().endswith((".csv", *PARQUET)):
        raise PermafrostError(
            "leaderboards are read from CSV and parquet files",
            where=path,
            remedy="end its name in .csv or .parquet",
        )
    columns = columns_of(
        path, remedy="give a row per backbone and a column per dataset, or a row per score"
    )
    if not columns or not any(columns.values()):
        raise PermafrostError("the table is empty", where=path, remedy="give a table with scores")
    return columns


def _kept(
    path: Path, columns: Mapping[str, list[Cell]], where: Mapping[str, str]
) -> tuple[Mapping[str, list[Cell]], list[int]]:
    """The rows with these values, and their numbers in a file with a header."""
    rows = [*range(2, 2 + len(next(iter(columns.values()), ())))]
    for name, value in where.items():
        look_up(columns, name, "the table has no column", where=path)
        look_up(
            [one for one in columns[name] if one is not None],
            value,
            f"no row has {name} =",
            where=path,
        )
        kept = [one == value for one in columns[name]]
        rows = [*itertools.compress(rows, kept)]
        columns = {key: [*itertools.compress(cells, kept)] for key, cells in columns.items()}
    return columns, rows


def _named(columns: Iterable[str]) -> dict[str, str]:
    """What a column of a long table is -> its name; empty if it is none."""
    plain = {_plain(name): name for name in columns}
    found: dict[str, str] = {}
    for what, names in LONG.items():
        name = next(
            (plain[one] for one in names if one in plain and plain[one] not in found.values()), None
        )
        if name is not None:
            found[what] = name
    return found if {"backbone", "dataset", "value"} <= found.keys() else {}


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _long(
    path: Path, columns: Mapping[str, list[Cell]], rows: Sequence[int], named: Mapping[str, str]
) -> Given:
    scores = []
    seeds: dict[Cell, int] = {}
    cells = {what: columns[name] for what, name in named.items()}
    for place, (row, text) in enumerate(zip(rows, cells["value"], strict=True)):
        own = {what: column[place] for what, column in cells.items()}
        value = _number(path, row, named["value"], text)
        if value is None:
            continue
        ends = [
            _number(path, row, named[end], own[end]) if end in own else None
            for end in ("lower", "upper")
        ]
        scores.append(
            Score(
                _name(path, row, named["backbone"], own["backbone"]),
                _name(path, row, named["dataset"], own["dataset"]),
                own.get("probe") or path.stem,
                value,
                own.get("metric") or "",
                seeds.setdefault(own.get("seed"), len(seeds)),
                *ends,
            )
        )
    said = [f"a row per score: {', '.join(f'{what} from {named[what]!r}' for what in named)}"]
    if left := [name for name in columns if name not in named.values()]:
        said.append(f"columns that are not used: {', '.join(left)}")
    return Given(scores, said=said)


def _backbones(columns: Mapping[str, list[Cell]], without: Collection[str]) -> str:
    """The column of a wide table that names backbones: by its own name, else the first with text, else the first."""
    plain = {_plain(name): name for name in columns if name not in without}
    named = [plain[name] for name in LONG["backbone"][:3] if name in plain]
    texts = [
        name
        for name in plain.values()
        if any(columns[name]) and not any(_CELL.fullmatch(one or "") for one in columns[name])
    ]
    return [*named, *texts, *columns][0]


def _wide(
    path: Path, columns: Mapping[str, list[Cell]], rows: Sequence[int], without: Collection[str]
) -> Given:
    if not columns:
        raise PermafrostError("the table is empty", where=path, remedy="give a table with scores")
    names = _backbones(columns, without)
    if _plain(names) in LONG["dataset"]:
        raise PermafrostError(
            f"its rows are datasets, by the column {names!r}",
            where=path,
            remedy="transpose it: a row per backbone and a column per dataset",
        )
    left, texts, scores, spread = [], [], [], False
    for dataset in columns:
        if dataset == names or dataset in without:
            continue
        if _NOT_A_DATASET.search(dataset.strip()):
            left.append(dataset)
            continue
        cells = [
            None if (text or "").strip().lower() in _NOTHING else (text or "").strip()
            for text in columns[dataset]
        ]
        read = [text and _CELL.fullmatch(text) for text in cells]
        if not any(read) and not any(text and _COMMA.fullmatch(text) for text in cells):
            texts.append(dataset)
            continue
        for row, name, text, match in zip(rows, columns[names], cells, read, strict=True):
            if text is None:
                continue
            if not match:
                raise _not_a_score(path, row, dataset, text)
            backbone = _name(path, row, names, name)
            numbers = [
                _number(path, row, dataset, match[part]) for part in ("value", "lower", "upper")
            ]
            scores.append(Score(backbone, dataset, path.stem, numbers[0], "", 0, *numbers[1:]))  # type: ignore[arg-type]
            spread |= match["spread"] is not None
    if not scores:
        raise PermafrostError(
            "no column has scores",
            where=path,
            remedy="give a row per backbone and a column per dataset, or a row per score with the columns"
            " backbone, dataset and value",
        )
    said = [f"backbones are the rows, by {names!r}; datasets are the columns"]
    if left:
        said.append(
            f"not taken as datasets, by their names: {', '.join(name or '(no name)' for name in left)}"
        )
    if texts:
        said.append(f"not taken as datasets, since they have no numbers: {', '.join(texts)}")
    if spread:
        said.append(
            "numbers after ± are not used: whether they are errors or deviations is not known"
        )
    return Given(scores, said=said)


def _published(path: Path, where: Mapping[str, str], duplicates: str) -> Given:
    read = read_published(path, duplicates=duplicates)
    rows = read.rows
    for name, value in where.items():
        look_up(
            [*Reference.__dataclass_fields__], name, "published scores have no column", where=path
        )
        look_up(
            [str(getattr(one, name)) for one in rows], value, f"no row has {name} =", where=path
        )
        rows = [one for one in rows if str(getattr(one, name)) == value]
    widest: dict[str, int] = {}
    for one in rows:
        widest[one.dataset] = max(widest.get(one.dataset, 0), one.bands.count(","))
    rows = [
        # "all" of a dataset is often spelt out
        replace(one, bands="all") if one.bands.count(",") == widest[one.dataset] > 2 else one
        for one in rows
    ]
    several: dict[str, set[str]] = {}
    groups: dict[tuple, list[Reference]] = {}
    for one in rows:
        groups.setdefault((one.backbone, one.dataset, one.method, one.metric, one.seed), []).append(
            one
        )
    for (backbone, *_), same in groups.items():
        differ = {part for part in _PROTOCOL if len({getattr(one, part) for one in same}) > 1}
        several.setdefault(backbone, set()).update(differ)
    scores = [
        Score(_configured(one, several[one.backbone]), one.dataset, one.method, one.value, one.metric, one.seed or 0,
              one.lower, one.upper)
        for one in rows
    ]  # fmt: skip
    said = [f"{len(scores)} published scores"]
    if any(several.values()):
        said.append("configurations of one backbone are ranked as backbones of their own")
    return Given(scores, said=said)


def _configured(one: Reference, parts: Collection[str]) -> str:
    values = [text for part in _PROTOCOL if part in parts and (text := getattr(one, part))]
    return f"{one.backbone} ({', '.join(values)})" if values else one.backbone


def _as_shares(given: Given) -> Given:
    """Percentages become shares."""
    largest: dict[str, float] = {}
    for one in given.scores:
        if one.dataset not in given.lower:
            if not 0 <= one.value <= 100:
                return given
            largest[one.dataset] = max(largest.get(one.dataset, 0), one.value)
    percent = [dataset for dataset, value in largest.items() if value > 1]
    if not percent:
        return given
    scores = [
        replace(
            one,
            value=one.value / 100,
            lower=None if one.lower is None else one.lower / 100,
            upper=None if one.upper is None else one.upper / 100,
        )
        if one.dataset in percent
        else one
        for one in given.scores
    ]
    which = "" if len(percent) == len(largest) else f" on {', '.join(percent)}"
    return replace(given, scores=scores, said=[*given.said, f"scores{which} are percentages"])


def _printable(score: Score) -> Score:
    """With names that figures and terminals can show."""
    return replace(
        score,
        backbone=printable_name(score.backbone, LONGEST_LINE),
        dataset=printable_name(score.dataset, LONGEST_LINE),
        probe=printable_name(score.probe, LONGEST_LINE),
    )


def _check(path: Path, scores: Sequence[Score]) -> None:
    """Refuse two scores of one backbone on a dataset, and intervals without their score."""
    seen: set[tuple] = set()
    metrics: dict[tuple, str] = {}
    for one in scores:
        key = (one.backbone, one.dataset, one.probe, one.seed)
        if (
            one.lower is not None
            and one.upper is not None
            and not one.lower <= one.value <= one.upper
        ):
            raise PermafrostError(
                f"{one.backbone} on {one.dataset}: {one.value:g} is not in its interval [{one.lower:g}, {one.upper:g}]",
                where=path,
                remedy="correct the score or both ends",
            )
        if metrics.setdefault((one.dataset, one.probe), one.metric) != one.metric:
            raise PermafrostError(
                f"{one.dataset} has scores by {metrics[one.dataset, one.probe]} and by {one.metric}",
                where=path,
                remedy="keep one of them: where metric=…",
            )
        if key in seen:
            raise PermafrostError(
                f"{one.backbone} has two scores on {one.dataset} ({one.probe})",
                where=path,
                remedy="keep the rows of one configuration: where COLUMN=VALUE; or give a column seed."
                " A table with a row per score needs columns backbone, dataset and value",
            )
        seen.add(key)


def _number(path: Path, row: int, column: str, text: Cell) -> float | None:
    """None for an empty cell."""
    text = (text or "").strip()
    if text.lower() in _NOTHING:
        return None
    try:
        value = float(text.replace("−", "-").removesuffix("%"))
    except ValueError:
        raise _not_a_score(path, row, column, text) from None
    # sums of squares must be finite
    if not abs(value) < 1e100:
        raise _not_a_score(path, row, column, text)
    return value


def _not_a_score(path: Path, row: int, column: str, text: str) -> PermafrostError:
    return PermafrostError(
        f"row {row}: {column} is {text!r}, which is not a score",
        where=path,
        remedy="write the number with a point and without separators"
        if _COMMA.fullmatch(text)
        else "correct the cell, or leave the column out",
    )


def _name(path: Path, row: int, column: str, text: Cell) -> str:
    if not (text or "").strip():
        raise PermafrostError(f"row {row}: {column} is empty", where=path, remedy="give a name")
    return (text or "").strip()
