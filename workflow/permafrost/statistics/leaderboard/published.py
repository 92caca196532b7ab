"""Published results as reference rows: never ranked, tested or averaged with the run's own results.

File formats
------------
- ``torchgeo-bench``: its results, one row per model configuration, dataset and method; one file, or
  since 0.5.0 a folder with a file per model.
- ``geobench2``: a ``results_and_parameters.csv`` as submitted to the GEO-Bench-2 leaderboard, one
  row per seed.

Rules
-----
- The files of a folder are one source.
- These formats grow. Columns that are not known here are kept as text, but tell no rows apart.
- Costs and measures of features are left out, and so are scores outside [0, 1] of metrics that are
  not known here; the number of such rows is reported.
- Identical rows count once.
- Two rows of one configuration with different values raise an error, or the `first` or `last` of the
  file is used, on request. With equal values but different intervals, the first counts or, on
  request, the last; the number of such rows is reported.
- Lists of Sentinel-2 bands by colour (``blue``) and by number (``b02``) become numbers in the order
  of the instrument.
- If both limits are 0 and the value is not, there is no interval.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pyarrow as pa

from permafrost.core.errors import PermafrostError
from permafrost.core.inputs import is_pipe
from permafrost.core.text import printable_name

#: columns of torchgeo-bench's results files of 2026-10 (results/models); unknown values stay empty
TORCHGEO_BENCH = (
    "dataset", "method", "metric_name", "metric_value", "ci_lower", "ci_upper", "feature_dim", "best_c", "best_lr",
    "best_batch_size", "n_train", "n_val", "n_test", "seed", "model", "name", "normalization", "image_size",
    "interpolation", "partition", "bands", "num_classes", "config_hash", "c_range_start", "c_range_stop",
    "c_range_num", "merge_val", "bootstrap", "res", "pool", "fw_iou", "precision", "recall", "f1", "ece", "rms_ce",
    "mce", "ece_ts", "rms_ce_ts", "mce_ts", "temperature", "calibration_n_bins",
)  # fmt: skip
DUPLICATES = ("refuse", "first", "last")
_GEOBENCH2 = (
    "dataset", "Metric", "test metric", "mlflow_run_name", "mlflow_run_id", "mlflow_run_status", "Seed",
    "experiment_id", "experiment_name", "index", "batch_size", "lr", "decoder", "backbone", "early_stop_patience",
    "n_trials", "partition_name", "data_percentages", "batch_size_selection", "weight_decay", "partition name",
    "frozen_or_full_ft",
)  # fmt: skip
# part of a configuration, without a field of their own
_TORCHGEO_SETTINGS = ("interpolation", "partition", "merge_val", "res", "pool", "resolved_bands")
_GEOBENCH2_SETTINGS = (
    "partition_name", "partition name", "data_percentages", "n_trials", "early_stop_patience", "batch_size_selection",
    "batch_size", "lr", "weight_decay",
)  # fmt: skip
_NEEDED = {
    "torchgeo-bench": ("dataset", "method", "metric_name", "metric_value", "name"),
    "geobench2": (
        "dataset",
        "Metric",
        "test metric",
        "backbone",
        "decoder",
        "Seed",
        "frozen_or_full_ft",
    ),
}
# torchgeo-bench's methods whose rows are not scores
_NO_SCORES = ("profile", "intrinsic_dim")
# metrics in [0, 1], and those without an upper bound; of others the range is not known
_SHARES = frozenset(
    {
        *("accuracy", "micro_mAP", "mIoU", "Multiclass_Jaccard_Index", "Multilabel_F1_Score"),
        *("Overall_Accuracy", "test_test_map", "test_test_segm_map"),
    }
)
_ERRORS = frozenset({"RMSE", "rmse", "mae", "MAE"})
_COLOURS = {
    "coastal_aerosol": "b01", "blue": "b02", "green": "b03", "red": "b04", "red_edge_1": "b05", "red_edge_2": "b06",
    "red_edge_3": "b07", "nir": "b08", "red_edge_4": "b8a", "water_vapour": "b09", "swir_1": "b11", "swir_2": "b12",
}  # fmt: skip
_ORDER = ("b01", "b02", "b03", "b04", "b05", "b06", "b07", "b08", "b8a", "b09", "b10", "b11", "b12")
# limits on the length of a name and on the file size, above anything published
_LONGEST, _MOST_BYTES = 500, 200_000_000


@dataclass(frozen=True)
class Reference:
    """A published score.

    Attributes
    ----------
    row : number in the file; the header is row 1.
    bands, normalisation, image_size, grid : of the protocol, "" if the file lacks them; of the grid, values of C
        as ``smallest..largest by number``.
    settings : the rest of the configuration, as ``column=value`` of the file.
    other : columns that are not known here, likewise.
    """

    file: str
    form: str
    row: int
    backbone: str
    dataset: str
    method: str
    metric: str
    value: float
    lower: float | None
    upper: float | None
    seed: int | None
    bands: str
    normalisation: str
    image_size: str
    grid: str
    settings: str
    n_train: int | None
    n_test: int | None
    other: str = ""


@dataclass(frozen=True)
class Published:
    """The scores of a source, and the numbers of rows that the rules removed.

    Attributes
    ----------
    identical : rows equal in every column. same_value : rows of the same configuration and value,
        with another
        interval or other columns. replaced : rows of the same configuration with another value.
    unknown : columns that are not known here. aside : rows that are not scores, or whose metric has an unknown range.
    """

    rows: list[Reference]
    identical: int
    same_value: int
    replaced: int
    unknown: tuple[str, ...] = ()
    aside: int = 0

    def table(self) -> pa.Table:
        return pa.Table.from_pylist([asdict(row) for row in self.rows], schema=_SCHEMA)


_TYPES = {"int": pa.int64(), "float": pa.float64()}
_SCHEMA = pa.schema(
    [
        (name, _TYPES.get(str(field.type).removesuffix(" | None"), pa.string()))
        for name, field in Reference.__dataclass_fields__.items()
    ]
)


def read_published(path, *, duplicates: str = "refuse") -> Published:
    """Read a file, or all CSV files of a folder; their columns determine the format.

    Parameters
    ----------
    duplicates : rule for two values of one configuration, one of `DUPLICATES`.

    Raises
    ------
    PermafrostError : a file is missing, its columns match neither format, a score is impossible,
        or one configuration has two values; the message names the row.
    """
    seen: set[tuple] = set()
    rows: dict[tuple, Reference] = {}
    unknown: dict[str, None] = {}
    identical = same_value = replaced = aside = 0
    every = (found for file in _files(Path(path)) for found in _rows(file, unknown))
    for place, row, cells in every:
        if row is None:
            aside += 1
            continue
        if cells in seen:
            identical += 1
            continue
        seen.add(cells)
        key = _configuration(row)
        if key in rows:
            same = row.value == rows[key].value
            same_value, replaced = same_value + same, replaced + (not same)
            if duplicates == "refuse" and not same:
                raise _contradiction(place, rows[key], row, unknown)
            if duplicates != "last":
                continue
        rows[key] = row
    return Published(list(rows.values()), identical, same_value, replaced, tuple(unknown), aside)


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.rglob("*.csv") if file.is_file())
    if not files:
        raise PermafrostError(
            "the folder has no CSV file", where=path, remedy="give a published table of results"
        )
    return files


def _rows(path: Path, unknown: dict[str, None]) -> Iterator[tuple[Path, Reference | None, tuple]]:
    """The file, the score (None if it is left out) and the cells of each row.

    `unknown` gets the columns that are not known here.
    """
    lines = _read(path)
    header = lines[0][1] if lines else []
    forms = {
        "torchgeo-bench": ({*TORCHGEO_BENCH, *_TORCHGEO_SETTINGS}, _torchgeo_bench),
        "geobench2": ({*_GEOBENCH2}, _geobench2),
    }
    form = max(forms, key=lambda name: len(forms[name][0] & set(header)))
    columns, convert = forms[form]
    _check_columns(path, header, form)
    further = tuple(name for name in header if name not in columns)
    unknown |= dict.fromkeys(further)
    for number, cells in lines[1:]:
        if len(cells) != len(header):
            raise _wrong(path, number, f"{len(cells)} cells below {len(header)} columns")
        named = dict(zip(header, cells, strict=True))
        row = None
        if not _is_aside(named, form):
            row = replace(convert(path, number, named), other=_settings(named, further))
        yield path, row, tuple(named.items())


def _is_aside(cells: Mapping[str, str], form: str) -> bool:
    """Whether a row is not a score, or is outside [0, 1] for a metric that is not known here."""
    metric, value = (
        ("Metric", "test metric") if form == "geobench2" else ("metric_name", "metric_value")
    )
    if form == "torchgeo-bench" and cells["method"] in _NO_SCORES:
        return True
    if cells[metric] in _SHARES | _ERRORS:
        return False
    try:
        number = float(cells[value])
    except ValueError:
        return False
    return number < 0 or number > 1  # NaN is an error


def _contradiction(
    path: Path, one: Reference, other: Reference, unknown: Iterable[str]
) -> PermafrostError:
    first = f"{one.row}" if one.file == other.file else f"{one.row} of {printable_name(one.file)}"
    named = ", ".join(map(printable_name, unknown))
    maybe = f"; columns that are not known may tell them apart: {named}" if named else ""
    return PermafrostError(
        f"rows {first} and {other.row} are of one configuration ({printable_name(one.backbone)} on"
        f" {printable_name(one.dataset)}, {printable_name(one.method)}) and say {one.value:g} and"
        f" {other.value:g}{maybe}",
        where=path,
        remedy="correct the file, or take the first or last of them (duplicates)",
    )


def _configuration(row: Reference) -> tuple:
    return (
        row.backbone, row.dataset, row.method, row.metric, row.seed, row.bands, row.normalisation, row.image_size,
        row.grid, row.settings,
    )  # fmt: skip


def _read(path: Path) -> list[tuple[int, list[str]]]:
    """Numbers and cells of the non-empty rows."""
    try:
        is_pipe(path)
        if path.stat().st_size > _MOST_BYTES:
            raise PermafrostError("is too large for a published table", where=path)
        with open(path, newline="", encoding="utf-8-sig") as stream:
            reader = csv.reader(stream, strict=True)
            return [(reader.line_num, cells) for cells in reader if cells]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise PermafrostError(
            f"cannot be read as CSV ({error})",
            where=path,
            remedy="give a published table of results",
        ) from error


def _check_columns(path: Path, header: list[str], form: str) -> None:
    lacks = [name for name in _NEEDED[form] if name not in header]
    twice = {printable_name(name) for name in header if header.count(name) > 1}
    for problem, names in (("lacks", lacks), ("repeats", sorted(twice))):
        if names:
            raise PermafrostError(
                f"{problem} columns: {', '.join(names[:8])}; it looks most like a table of {form}",
                where=path,
                remedy="give torchgeo-bench's results, or a results_and_parameters.csv of GEO-Bench-2",
            )


def _torchgeo_bench(path: Path, number: int, cells: dict) -> Reference:
    value = _score(path, number, cells, "metric_value", cells["metric_name"])
    limits = [
        _score(path, number, cells, name, cells["metric_name"], needed=False)
        for name in ("ci_lower", "ci_upper")
    ]
    if None in limits or (limits == [0, 0] and value != 0):
        limits = [None, None]
    grid = [cells.get(f"c_range_{name}", "") for name in ("start", "stop", "num")]
    return Reference(
        file=path.name,
        form="torchgeo-bench",
        row=number,
        backbone=_name(path, number, cells, "name"),
        dataset=_name(path, number, cells, "dataset"),
        method=_name(path, number, cells, "method"),
        metric=cells["metric_name"],
        value=value,
        lower=limits[0],
        upper=limits[1],
        seed=_whole(path, number, cells, "seed"),
        bands=bands_spelt(cells.get("bands", "")),
        normalisation=cells.get("normalization", ""),
        image_size=_size(cells.get("image_size", "")),
        # k-nearest neighbours have no C
        grid=_grid(path, number, grid) if all(grid) and cells["method"] == "linear" else "",
        settings=_settings(cells, _TORCHGEO_SETTINGS),
        n_train=_whole(path, number, cells, "n_train"),
        n_test=_whole(path, number, cells, "n_test"),
    )


def _geobench2(path: Path, number: int, cells: dict) -> Reference:
    return Reference(
        file=f"{path.parent.name}/{path.name}",
        form="geobench2",
        row=number,
        backbone=_name(path, number, cells, "backbone"),
        dataset=_name(path, number, cells, "dataset"),
        method=f"{cells['frozen_or_full_ft']} {cells['decoder']}".strip(),
        metric=cells["Metric"],
        value=_score(path, number, cells, "test metric", cells["Metric"]),
        lower=None,
        upper=None,
        seed=_whole(path, number, cells, "Seed"),
        bands="",
        normalisation="",
        image_size="",
        grid="",
        settings=_settings(cells, _GEOBENCH2_SETTINGS),
        n_train=None,
        n_test=None,
    )


def is_published(columns: Collection[str]) -> bool:
    """Whether a table with these columns is of one of the formats."""
    return any({*needed} <= {*columns} for needed in _NEEDED.values())


def is_error(metric: str) -> bool:
    """Whether lower is better and the metric has no upper bound."""
    return metric in _ERRORS


def bands_spelt(text: str) -> str:
    """Sentinel-2 bands by number, in the order of the instrument; any other text unchanged."""
    names = [_COLOURS.get(name, name) for name in text.strip().lower().split(",")]
    if len(names) < 2 or not set(names) <= set(_ORDER):
        return text.strip()
    return ",".join(sorted(names, key=_ORDER.index))


def _settings(cells: dict, columns: tuple) -> str:
    return ", ".join(
        f"{name}={cells[name].strip()}" for name in columns if cells.get(name, "").strip()
    )


def _score(path, number, cells, column, metric, *, needed: bool = True) -> float | None:
    text = cells.get(column, "").strip()
    if not text and not needed:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    highest = math.inf if metric in _ERRORS else 1
    if not 0 <= value <= highest or math.isinf(value):
        raise _wrong(
            path, number, f"{column} is {printable_name(text)!r}, no {printable_name(metric)}"
        )
    return value


def _whole(path, number, cells, column) -> int | None:
    text = cells.get(column, "").strip()
    if not text:
        return None
    try:
        value = float(text)
        if value != int(value) or not 0 <= value < 2**53:
            raise ValueError
    except (ValueError, OverflowError):
        raise _wrong(path, number, f"{column} is {printable_name(text)!r}, no number") from None
    return int(value)


def _name(path, number, cells, column) -> str:
    text = cells[column].strip()
    if not text or len(text) > _LONGEST:
        raise _wrong(path, number, f"{column} is {printable_name(text)!r}, no name")
    return text


def _grid(path, number, cells: list[str]) -> str:
    """Text of a grid, from exponents of ten and a number of values."""
    try:
        start, stop, count = map(float, cells)
        return f"{10**start:g}..{10**stop:g} by {count:g}"
    except (ValueError, OverflowError):
        raise _wrong(path, number, f"C goes from {cells[0]} to {cells[1]} by {cells[2]}") from None


def _size(text: str) -> str:
    """``224`` for ``224.0``."""
    return text.strip().removesuffix(".0")


def _wrong(path: Path, number: int, problem: str) -> PermafrostError:
    return PermafrostError(
        f"row {number}: {problem}", where=path, remedy="correct the row, or leave it out"
    )
