"""Scenario slices: scores by weather, by site, or by any other axis of a manifest.

A manifest gives every image a label on each of its axes. As JSON it is
``{"manifest_version": "1", "key_kind": "image_id", "rows": [{"key": 17, "weather": "fog"}, …]}``;
as CSV it has a column ``image_id`` (or ``key``) and a column per axis. Images that are missing from
it or have no label are ``__unassigned__``, which comes last.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from permafrost.core.errors import PermafrostError, first_line, look_up
from permafrost.core.inputs import read_text
from permafrost.evaluators.detection.subset import subset
from permafrost.metrics.detection.evaluation import Evaluation
from permafrost.metrics.detection.inputs.parsing import parse

UNASSIGNED = "__unassigned__"
_KEYS = ("key", "image_id")


@dataclass(frozen=True)
class Manifest:
    """Labels of the I images of an evaluation.

    Attributes
    ----------
    labels : axis to (I,) labels (objects), in the order of the images.
    warnings : sentences about rows that match no image.
    """

    labels: dict[str, np.ndarray]
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Slice:
    """The images with one label, and their evaluation: a `subset` of the whole."""

    axis: str
    label: str
    chosen: np.ndarray
    evaluation: Evaluation


@dataclass(frozen=True)
class Robustness:
    """How much of a score remains outside the baseline conditions, along one axis.

    Attributes
    ----------
    axis, baseline, metric : the axis, the baseline label on it, and the metric.
    baseline_value : the score of the baseline slice.
    mpc : mean over the other slices ("mean performance under corruption"); all slices have the same
        weight, whatever their number of images.
    rpc : mpc / baseline_value ("relative"); NaN if the baseline is 0.
    slices, undefined : number of slices in mpc, and the labels of slices excluded because the score
        is undefined there (no truth).

    Source: Michaelis et al., Benchmarking Robustness in Object Detection (2019), equations 1 and 2.
    """

    axis: str
    baseline: str
    metric: str
    baseline_value: float
    mpc: float
    rpc: float
    slices: int
    undefined: tuple[str, ...] = ()


@dataclass(frozen=True)
class ManifestRows:
    """A manifest not yet matched to images: one mapping per row, and its source."""

    rows: list[dict]
    where: str

    @property
    def axes(self) -> list[str]:
        """Names of the axes, in the order of their first row."""
        return list(dict.fromkeys(name for row in self.rows for name in row if name not in _KEYS))

    def check_baseline(self, baseline: str, *, crossed: bool = False) -> None:
        """Refuse, before any evaluation, a label that no row has, on any axis or `crossed`."""
        axes = self.axes
        labels = {str(row[axis]) for row in self.rows for axis in axes if axis in row}
        if crossed:
            labels |= {" & ".join(str(row.get(axis)) for axis in axes) for row in self.rows}
        look_up(labels, baseline, "there is no image labelled", where=self.where)

    def check_axis(self, axis: str) -> None:
        """Refuse an axis (a column) that the manifest does not have."""
        look_up(self.axes, axis, "there is no column", where=self.where)


def read_rows(source) -> ManifestRows:
    """Read a manifest: path of a JSON or CSV file, parsed JSON, or a list of rows.

    Raises
    ------
    PermafrostError : the source is not a manifest, or it has no axis.
    """
    found = ManifestRows(*_rows(source))
    if not found.axes:
        raise PermafrostError(
            "the manifest has no axis", where=found.where, remedy="add for example a column weather"
        )
    return found


def read_manifest(source, images: np.ndarray) -> Manifest:
    """The labels of the images with these ids.

    Parameters
    ----------
    source : as in `read_rows`, or its return value.

    Raises
    ------
    PermafrostError : the source is not a manifest, names an image twice, or has no axis.
    """
    given = source if isinstance(source, ManifestRows) else read_rows(source)
    rows, where, axes = given.rows, given.where, given.axes
    place = {str(image): index for index, image in enumerate(images.tolist())}
    labels = {axis: np.full(len(images), UNASSIGNED, object) for axis in axes}
    seen: set[str] = set()
    unknown: list[str] = []
    for number, row in enumerate(rows):
        key = _key(row, f"{where}: row {number + 1}")
        if key in seen:
            raise PermafrostError(f"the image {key} is named twice", where=where)
        seen.add(key)
        if key not in place:
            unknown.append(key)
            continue
        for axis in axes:
            value = row.get(axis)
            if value is not None and str(value) != "":
                labels[axis][place[key]] = str(value)
    warnings = []
    if unknown:
        warnings.append(
            f"{where}: {len(unknown)} images of the manifest are not in the truth"
            f" (the first is {unknown[0]})"
        )
    return Manifest(labels, warnings)


def crossed(manifest: Manifest, axes: list[str] | None = None) -> Manifest:
    """One axis whose labels are the combinations that occur; `axes`: None for all."""
    axes = list(manifest.labels) if axes is None else axes
    for axis in axes:
        look_up(manifest.labels, axis, "no axis", where="slices")
    columns = [manifest.labels[axis] for axis in axes]
    labels = np.empty(len(columns[0]), object)
    for image, parts in enumerate(zip(*columns, strict=True)):
        labels[image] = UNASSIGNED if UNASSIGNED in parts else " & ".join(parts)
    return Manifest({" & ".join(axes): labels}, manifest.warnings)


def slices(evaluation: Evaluation, manifest: Manifest) -> list[Slice]:
    """All slices, axis by axis, with ascending labels."""
    found = []
    for axis, labels in manifest.labels.items():
        for label in sorted(set(labels.tolist()), key=lambda text: (text == UNASSIGNED, text)):
            chosen = labels == label
            found.append(Slice(axis, label, chosen, subset(evaluation, chosen)))
    return found


def robustness(parts: list[Slice], baseline: str) -> list[Robustness]:
    """mPC and rPC of every summary score, along every axis that has the label `baseline`.

    Images without a label are excluded, because their condition is unknown.

    Parameters
    ----------
    parts : from `slices`.

    Raises
    ------
    PermafrostError : no axis has this label, or no other slice to compare with the baseline.
    """
    found = []
    for axis, (base, *others) in against_baseline(parts, baseline).items():
        values = [
            [math.nan if value == -1 else float(value) for value in part.evaluation.stats]
            for part in (base, *others)
        ]
        for metric, own, *rest in zip(base.evaluation.names, *values, strict=True):
            defined = [value for value in rest if not math.isnan(value)]
            pairs = zip(others, rest, strict=True)
            undefined = tuple(part.label for part, value in pairs if math.isnan(value))
            mpc = sum(defined) / len(defined) if defined else math.nan
            rpc = mpc / own if own else math.nan
            found.append(Robustness(axis, baseline, metric, own, mpc, rpc, len(defined), undefined))
    return found


def against_baseline(parts: list[Slice], baseline: str) -> dict[str, list[Slice]]:
    """Per axis with the label `baseline`: that slice, then the other labelled ones.

    Raises
    ------
    PermafrostError : no slice has this label, or an axis has no other labelled slice.
    """
    labels = {part.label for part in parts} - {UNASSIGNED}
    look_up(labels, baseline, "there is no slice labelled", where="baseline")
    found = {}
    for axis in dict.fromkeys(part.axis for part in parts if part.label == baseline):
        own = [part for part in parts if part.axis == axis and part.label != UNASSIGNED]
        if len(own) < 2:
            raise PermafrostError(
                f"the axis {axis} has no slice beside the baseline {baseline!r}",
                where="baseline",
                remedy="label images of other conditions too",
            )
        found[axis] = sorted(own, key=lambda part: part.label != baseline)
    return found


def _rows(source) -> tuple[list[dict], str]:
    where = "manifest"
    if isinstance(source, str | Path):
        where = str(source)
        source = _read(Path(source))
    if isinstance(source, dict):
        for name, expected in (("manifest_version", "1"), ("key_kind", "image_id")):
            if str(source.get(name, expected)) != expected:
                raise PermafrostError(
                    f"{name} must be {expected!r}, not {source[name]!r}", where=where
                )
        source = source.get("rows")
    if not isinstance(source, list) or not all(isinstance(row, dict) for row in source):
        raise PermafrostError(
            "a manifest must have rows, one object per image",
            where=where,
            remedy='write {"manifest_version": "1", "key_kind": "image_id", "rows": […]}',
        )
    return source, where


def _read(path: Path):
    text = read_text(path)
    return parse(text, path) if text.lstrip().startswith(("{", "[")) else _csv(text, path)


def _csv(text: str, path: Path) -> list[dict]:
    try:
        rows = list(csv.reader(text.splitlines()))
    except csv.Error as error:
        raise PermafrostError(f"not a CSV file ({first_line(error)})", where=path) from error
    header = [name.strip() for name in rows[0]] if rows else []
    if not set(header) & set(_KEYS) or len(set(header)) != len(header):
        raise PermafrostError(
            "a table of images needs a column image_id, and different names for all columns",
            where=path,
            remedy="write for example image_id,weather in the first line",
        )
    for number, row in enumerate(rows[1:], 2):
        if row and len(row) != len(header):
            raise PermafrostError(
                f"{len(row)} cells under {len(header)} names", where=f"{path}: line {number}"
            )
    stripped = ([cell.strip() for cell in row] for row in rows[1:] if row)
    return [dict(zip(header, row, strict=True)) for row in stripped]


def _key(row: dict, where: str) -> str:
    for name in _KEYS:
        value = row.get(name)
        if value is not None and str(value) != "":
            return str(value)
    raise PermafrostError("has no image_id", where=where, remedy="name the image of every row")
