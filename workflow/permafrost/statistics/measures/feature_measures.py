"""Compute feature metrics of features and of augmented views, as a table without rank."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from permafrost.core.errors import PermafrostError
from permafrost.core.identity import canonical_json
from permafrost.core.specification import SPLITS, Specification
from permafrost.core.tables import write_table
from permafrost.core.tasks import TASKS
from permafrost.metrics.representation import (
    LABEL_FREE,
    LABELLED,
    MEASURES,
    VIEW_MEASURES,
    Measure,
    measures,
    measures_of_views,
)
from permafrost.statistics.measures.measured import measured
from permafrost.statistics.measures.rows import FeatureRows, ViewRows, read_rows, read_views
from permafrost.statistics.scores.gates import few_units
from permafrost.statistics.tables import ScoreColumns

# used in the columns for the probe and its kind
KIND = "measures"


class Measures(ScoreColumns):
    """One row of results/measures/{dataset}/{backbone}.parquet: one measure of the features of a backbone, in the
    columns of a score.

    Columns
    -------
    seed : Always 0: rows are drawn by the seed of the configuration.
    metric : What was measured: {label_free} (without labels); {labelled} (with labels); {of_views} (of augmented
        views).
    value : The measure of the rows in settings. NaN if it is undefined; settings says why.
    method : How the interval was computed: by Student's t and the standard error from the effect of each unit, for
        positive measures on the log scale; by percentiles of resamples for dimension_lpca, which is a count.
    resamples : Number of units whose effect the interval comes from, or of bootstrap resamples.
    n_undefined : Resamples on which the measure is undefined: all of them or none.
    n_rows : Number of measured rows (samples). RankMe and the dimensions grow with it, so compare only
        measures of equal numbers of rows.
    n_units : Number of such units among the measured rows.
    n_test, n_train, n_val : Number of samples of this split if its features were measured, else null.
    primary : Always false.
    settings : As a JSON object: the split, the number of rows that were measured and that they were drawn_from,
        why the value is undefined, why it is doubtful (flag), and counts (duplicates, zero_rows, singletons,
        zero_distances, short_lists, range_end). For augmented views also the number of views of each row, the
        configured augmentations, delta, and the counts zero_views and lone_images.
    fingerprint : Fingerprint of this table.
    backbone_fingerprint : Fingerprint of the features, or of the augmented views, that were measured.
    probe, kind : Always measures.
    class, setting, n_draws, draw_std, n_carriers, higher_is_better : Always null.
    """

    columns = ScoreColumns.changed(
        *ScoreColumns.but("probe", "kind", values=(KIND,)),
        *ScoreColumns.but("seed", values=(0,)),
        *ScoreColumns.but(
            "task", values=tuple(name for name, task in TASKS.items() if task.of_datasets)
        ),
        *ScoreColumns.but("metric", values=(*MEASURES, *VIEW_MEASURES)),
        *ScoreColumns.but("method", values=("jackknife_t", "jackknife_log", "percentile")),
        *ScoreColumns.but("n_rows", nullable=False),
        *ScoreColumns.but("n_test", "n_train", "n_val", nullable=True, least=1),
        *ScoreColumns.but("primary", values=(False,)),
    )
    words = {
        "label_free": ", ".join(LABEL_FREE),
        "labelled": ", ".join(LABELLED),
        "of_views": ", ".join(VIEW_MEASURES),
    }


@dataclass(frozen=True, kw_only=True)
class OfFeatures:
    """Fingerprints of the measured stores."""

    features: str
    views: str | None = None


@dataclass(frozen=True, kw_only=True)
class MeasureSpec(Specification):
    """The job of `measure_features`."""

    stage: str = "measure"
    dataset: str
    backbone: str
    options: dict
    inputs: OfFeatures
    derived: list[str] | None = None


def measure_features(
    store: Path, output: Path, *, views: Path | None = None, spec: MeasureSpec, fingerprint: str
) -> str:
    """Measure the features of `store` by `spec` and write `output`; returns a log line.

    The table has the columns of a score table. ``higher_is_better`` is null, so that measures rank
    nothing. ``settings`` describes the measured rows and the limits of each value.

    Parameters
    ----------
    views : store of augmented views, measured if `spec` requests it.

    Raises
    ------
    PermafrostError : `views` is missing, or unexpected; see also `read_rows` and `read_views`.
    """
    dataset, options, inputs = spec.dataset, spec.options, spec.inputs
    if (views is None) != (inputs.views is None):
        raise PermafrostError(
            "--views is given, but the job uses no views"
            if views is not None
            else "the job uses augmented views, but --views is missing",
            where=views,
            remedy="give --views exactly if they are an input of the job",
        )
    rows = read_rows(store, options, dataset=dataset, expect=inputs.features)
    measured_rows: list[tuple[FeatureRows | ViewRows, str, dict[str, Measure]]] = [
        (rows, inputs.features, measure_rows(rows, options["names"]))
    ]
    if views is not None:
        seen = read_views(views, expect=inputs.views, split=options["split"])
        measured_rows.append((seen, inputs.views, _measure_views(seen, options)))
    values: dict[str, Any]
    values_by_name: dict[str, dict]
    values_by_name, lines = {}, []
    for about, source, values in measured_rows:
        values = measured(values, about.units, options["bootstrap"], dataset=dataset)
        lines += _lines(values, about, source, spec, fingerprint)
        values_by_name |= values
    metadata = {"fingerprint": fingerprint, "stage": spec.stage}
    write_table(output, Measures.from_rows(lines), metadata)
    return _summary(values_by_name, spec, len(rows))


def _measure_views(views: ViewRows, options: dict) -> dict[str, Measure]:
    """The measures `names` of views, or all of them."""
    values = measures_of_views(
        views.features,
        delta=options["augmentations"]["delta"],
        units=views.units.index,
        names=options["names"],
    )
    return _with_notes(values, views.notes())


def measure_rows(rows: FeatureRows, names: list[str] | None) -> dict[str, Measure]:
    """The measures `names`, or all of them, in the order of `MEASURES`.

    Measures that need classes are undefined, with a reason, if samples have no class.
    """
    wanted = [name for name in MEASURES if names is None or name in names]
    if not wanted:
        return {}
    able = [name for name in wanted if rows.labels is not None or name not in LABELLED]
    # rows are already drawn; measures of all rows need no seed
    values = measures(
        rows.features, rows.labels, seed=0, max_rows=len(rows), units=rows.units.index, names=able
    )
    reason = f"samples of the task {rows.attributes['task']!r} have no class"
    without = Measure(float("nan"), {"rows": len(rows), "undefined": reason})
    return _with_notes({name: values.get(name, without) for name in wanted}, rows.notes())


def _with_notes(values: dict[str, Measure], notes: dict) -> dict[str, Measure]:
    return {
        name: dataclasses.replace(one, notes={**one.notes, **notes}) for name, one in values.items()
    }


def _lines(
    measures: dict[str, dict],
    rows: FeatureRows | ViewRows,
    source: str,
    spec: MeasureSpec,
    fingerprint: str,
) -> list[dict]:
    """Rows of the table; `source` is the fingerprint of the measured store."""
    attributes, split = rows.attributes, spec.options["split"]
    few = few_units([{"n_units": rows.units.count}])
    common = {
        "dataset": spec.dataset,
        "backbone": spec.backbone,
        "probe": KIND,
        "kind": KIND,
        "seed": 0,
        "task": attributes["task"],
        **dict.fromkeys(("class", "setting", "n_draws", "draw_std", "n_carriers", "largest_share")),
        **{f"n_{name}": rows.total if name == split else None for name in SPLITS},
        "n_rows": len(rows),
        "feature_dim": rows.features.shape[-1],
        "primary": False,
        "higher_is_better": None,
        "split_method": attributes["split_method"],
        "spatially_random": attributes["spatially_random"],
        "gates": ";".join(sorted([*attributes.get("gates", []), *few])),
        "fingerprint": fingerprint,
        "backbone_fingerprint": source,
    }
    return [
        {
            **common,
            **values,
            "metric": name,
            "settings": canonical_json({"split": split, **values["notes"]}),
        }
        for name, values in measures.items()
    ]


def _summary(measures: dict[str, dict], spec: MeasureSpec, count: int) -> str:
    undefined = [name for name, values in measures.items() if "undefined" in values["notes"]]
    words = f", undefined: {', '.join(undefined)}" if undefined else ""
    return (
        f"{spec.dataset} | {spec.backbone}: {len(measures) - len(undefined)} measures of "
        f"{count} samples of {spec.options['split']}{words}"
    )
