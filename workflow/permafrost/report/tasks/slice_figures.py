"""Where the best backbones fail: scores by slice of the test set, and a map of errors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from permafrost.core.errors import PermafrostError
from permafrost.core.stores import Store
from permafrost.core.tables import read_table
from permafrost.core.tasks import targets_of
from permafrost.metrics.tasks import metric_of, primary_metric
from permafrost.report.figures.slices import draw_error_map, draw_slices
from permafrost.report.material.dataset import (
    Drawn,
    Evaluation,
    Material,
    best_of_each,
    name_of,
    names_of,
    save,
)
from permafrost.report.material.hardest import error_of, errors_of
from permafrost.report.tables.sliced import samples_like, slice_words
from permafrost.statistics.slices.labels import Labels, Slicing, slicing
from permafrost.statistics.slices.sliced import Sliced, score_slices

_BACKBONES = 3
# ways to slice a page shows, if the samples have what they need
_BY = ("latitude", "season", "group", "fold")
# more slices are a table, for the command
_MOST_SLICES = 12
_PERMUTATIONS = 399
# more samples, or scores of labels, and metrics of curves take seconds: the command has them
_MOST_SCORED = 10_000


def draw_failures(material: Material, folder: Path) -> tuple[list[Drawn], list[str]]:
    """Figures of slices and the map, and a sentence per way to slice on the best evaluation.

    Nothing without the image store, and where no place, date or group of test images is known.
    """
    best = best_of_each(material)[:_BACKBONES]
    # places and dates are in the store itself, also if it reads its images from others
    if not best or material.images is None or not Path(material.images).exists():
        return [], []
    names = _table(material, best[0], ["sample_id"])[0]
    samples = _samples(material, names)
    figures, said, known = [], [], set()
    card, metric = material.card, metric_of(primary_metric(material.card.task))
    scored = len(names) * (len(card.classes) if targets_of(card.task).several else 1)
    if scored <= _MOST_SCORED and not metric.of_curves:
        tables = {one: _table(material, one) for one in best}
        for by in _BY:
            scores = _scores(tables, samples, slicing(by))
            first = scores.get(best[0])
            # folds may be the seasons, bands or groups themselves
            values = frozenset(one.slice for one in first.slices) if first else frozenset()
            if first is not None and values not in known:
                known.add(values)
                figures.append(_slices(material, scores, by, folder))
                words = "; ".join(slice_words(first, of_groups=slicing(by).of_groups))
                said.append(f"By {by}, {name_of(best[0], material)}: {words}.")
    return figures + _map(material, best[0], samples, folder), said


def _table(
    material: Material, key: Evaluation, columns: list[str] | None = None
) -> tuple[pa.Table, dict]:
    path = material.predictions[key]
    return read_table(path, expect=material.expected(path), columns=columns)


def _samples(material: Material, table: pa.Table) -> pa.Table:
    """Name, place, date, group and fold of the rows of a table of predictions."""
    store = Store(material.images, expect=material.expected(material.images), split="test")
    wanted = ("lon", "lat", "date", "group_id", "fold")
    known = samples_like(table, store.samples(["sample_id", "image_id", *wanted]))
    places = [name for name in wanted if name in known.column_names]
    return known.select(places).append_column("sample_id", table["sample_id"])


def _scores(
    tables: Mapping[Evaluation, tuple[pa.Table, dict]], samples: pa.Table, by: Slicing
) -> dict[Evaluation, Sliced]:
    """Scores of each evaluation, the first one's tested; empty where a figure would say nothing."""
    if not {*by.needs} <= {*samples.column_names}:
        return {}
    try:
        labels = by.labels(samples)
    except PermafrostError:  # nothing is known
        return {}
    if not 2 <= len(labels.names) <= _MOST_SLICES:
        return {}
    codes = dict(zip(samples["sample_id"].to_pylist(), labels.codes.tolist(), strict=True))
    found: dict[Evaluation, Sliced] = {}
    for key, (table, metadata) in tables.items():
        own = np.array([codes[name] for name in table["sample_id"].to_pylist()])
        first = not found
        found[key] = score_slices(
            table,
            metadata,
            Labels(labels.names, own),
            of_groups=by.of_groups,
            intervals=first,
            permutations=_PERMUTATIONS if first else 0,
        )
        if len(found[key].judged) < 2:
            return {}
    return found


def _slices(
    material: Material, scores: Mapping[Evaluation, Sliced], by: str, folder: Path
) -> Drawn:
    figure = draw_slices(
        {key[0]: found for key, found in scores.items()}, by=by, title=material.name
    )
    metric = next(iter(scores.values())).metric
    return save(
        figure,
        folder,
        "slices",
        material.name,
        by,
        wide=True,
        alt=f"{metric_of(metric).words} of the best backbones on slices of {material.name} by {by}",
        caption=f"Scores on parts of the test set, by {by}: {names_of([*scores], material)}.",
    )


def _map(material: Material, best: Evaluation, samples: pa.Table, folder: Path) -> list[Drawn]:
    """Errors of the best evaluation at the places of the images; nothing if fewer than two are known."""
    error = error_of(material)
    if error is None or not {"lon", "lat"} <= {*samples.column_names}:
        return []
    errors = errors_of(material, best)
    lon, lat = (
        samples[name].to_numpy(zero_copy_only=False).astype(float) for name in ("lon", "lat")
    )
    values = np.array([errors.get(name, np.nan) for name in samples["sample_id"].to_pylist()])
    known = (np.abs(lon) <= 180) & (np.abs(lat) <= 90) & np.isfinite(values)
    if len({*zip(lon[known].tolist(), lat[known].tolist(), strict=True)}) < 2:
        return []
    figure = draw_error_map(
        lon[known],
        lat[known],
        values[known],
        words=error.unit,
        title=f"{material.name}: {name_of(best, material)}",
    )
    left = int(np.count_nonzero(~known))
    missing = f" {left} images without a place or an error are not on it." if left else ""
    return [
        save(
            figure,
            folder,
            "error_map",
            material.name,
            wide=True,
            alt=f"Map of the test images of {material.name}, coloured by the error of {best[0]}",
            caption=f"Where the best evaluation errs: the test images at their places.{missing}",
        )
    ]
