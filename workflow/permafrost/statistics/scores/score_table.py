"""Compute a table of scores from a table of predictions: one row per metric, with its interval.

Further settings of a probe, named in the column ``setting``, follow the ranked rows. So do the
scores on the test images without leakage, if some occur in training.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from permafrost.core.identity import canonical_json, derive_seed
from permafrost.core.leakage import CLEAN, LEAK, leakage_gates
from permafrost.core.row_file import RowFile
from permafrost.core.specification import Specification
from permafrost.core.tables import write_table
from permafrost.metrics.tasks import CALIBRATION, METRICS, OF_SETS
from permafrost.statistics.options import ScoringOptions
from permafrost.statistics.predictions.labelled import LabelledSamples
from permafrost.statistics.predictions.reading import (
    Predictions,
    predictions_from_table,
    read_predictions,
)
from permafrost.statistics.predictions.settings import (
    Draws,
    Gain,
    ScoredSetting,
    WholeSetting,
    gain_of,
    settings_from_table,
)
from permafrost.statistics.scores.bootstrap import bootstrap_scores
from permafrost.statistics.scores.gates import score_gates
from permafrost.statistics.tables import ScoreColumns

if TYPE_CHECKING:
    import pyarrow as pa

    from permafrost.statistics.predictions.reading import Predictions


class Scores(ScoreColumns):
    """One row of results/scores/{dataset}/{backbone}/seed{seed}/{probe}.parquet: one metric of one evaluation, over
    all classes or of one class.

    Columns
    -------
    task : Task of the dataset; retrieval for that probe.
    metric : What was measured: {metrics}. Of probabilities of classes, if the configuration asks for it:
        {calibration}. Those with _scaled are after temperature scaling, each part of the test set by the
        temperature of the other parts; temperature is fitted on the whole test set (above 1: overconfident).
        brier_score lies in [0, 2], for multilabel in [0, 1]. aurc is the area under the risk-coverage curve, the mean
        share of errors among the most certain predictions over all shares that are kept; excess_aurc is aurc less
        that of the best order of the same errors. Of conformal prediction sets (calibration.sets), with one
        threshold, one per class or one per group: {sets}; set_size is a mean number of classes.
        Errors of numbers are in the unit of the target.
        box_recall, box_precision and box_f1 are of boxes with a sufficient score, matched by an IoU above 0.4 and
        pooled over all images; those of masks are called mask_*. Of the number of objects in an image, with the same
        score: count_mae and count_rmse, the mean absolute and root mean square error; count_bias, detections minus
        objects in the mean; count_r2, against the mean of the test set; the same with the prefix class_ for each
        class.
        Retrieval also has, for each k, recall_at_k (share of the relevant images among the k nearest) and
        hit_at_k (whether there is one), both means over queries.
    """

    columns = ScoreColumns.changed(*ScoreColumns.but("task", values=tuple(METRICS)))
    words = {
        "metrics": "; ".join(
            f"{', '.join(metric.name for metric in metrics)} ({task})"
            for task, metrics in METRICS.items()
        ),
        "calibration": ", ".join(CALIBRATION),
        "sets": ", ".join(metric.name for metrics in OF_SETS.values() for metric in metrics),
    }


#: key of the specification -> module that is part of a job's code only if its specification has the key
OTHERS = {"harder": "permafrost.statistics.predictions.relative_loss"}
# columns copied from the predictions, so that every row is self-contained
_REPEATED = (
    "dataset", "backbone", "probe", "kind", "seed", "task", "feature_dim", "split_method",
    "spatially_random", "fingerprint", "backbone_fingerprint",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class FromPredictions:
    """Fingerprints of the prediction table, and of that on the images that were made harder, if they were."""

    predictions: str
    clean: str | None = None


@dataclass(frozen=True, kw_only=True)
class BootstrapSpec(Specification):
    """The job of `score_predictions`.

    Attributes
    ----------
    options : those of `bootstrap_scores`.
    harder : of a dataset with harder images ``of`` (its parent), ``degradation`` and ``severity``; else None.
    """

    stage: str = "bootstrap"
    dataset: str
    backbone: str
    probe: str
    seed: int
    task: str
    options: ScoringOptions
    inputs: FromPredictions
    harder: dict | None = None


def score_predictions(
    predictions: Path,
    output: Path,
    *,
    spec: BootstrapSpec,
    fingerprint: str,
    clean: Path | None = None,
) -> str:
    """Score the table `predictions` by `spec` and write `output`; returns a log line.

    The resamples depend on the dataset's name and the configured seed only, so they are the same
    for all backbones and probes of a dataset, and of harder images as for those of the parent.

    Parameters
    ----------
    clean : with ``harder``, predictions on the parent's images.
    """
    read, table, metadata = read_predictions(
        predictions, expect=spec.inputs.predictions, scratch=output.parent
    )
    without_leaks = clean_part(read, table, metadata)
    unseen, metadata = metadata, {**metadata, "gates": [*metadata["gates"], *leakage_gates(table)]}
    options = asdict(spec.options) | {"seed": bootstrap_seed(_drawn_on(spec), spec.options.seed)}
    judged = calibration_options(spec, options.pop("calibration"))
    rows = _rows(read, metadata, {**options, "calibration": judged})
    about = {"fingerprint": fingerprint, "stage": spec.stage, **_items(read, rows)}
    about |= {"derived": metadata["derived"]} if "derived" in metadata else {}
    if without_leaks is not None:
        rows += _rows_of_setting(without_leaks, unseen, options)
    settings = settings_from_table(table, metadata)
    for one in settings:
        rows += _rows_of_setting(one, metadata, options)
    if (gain := gain_of(settings, metadata)) is not None:
        rows += _rows_of_setting(gain, metadata, options)
    if spec.harder is not None:
        harder = import_module(OTHERS["harder"])
        loss = harder.relative_loss(
            read,
            clean,
            expect=spec.inputs.clean,
            about=spec.harder,
            metadata=metadata,
            scratch=output.parent,
        )
        rows += harder.as_losses(_rows_of_setting(loss, metadata, options), spec.harder["severity"])
    table = _table(rows, metadata, spec.options.seed)
    if charts := getattr(read, "charts", None):
        about["charts"] = charts()
    write_table(output, table, about)
    return _summary(rows, metadata)


def _items(predictions: Predictions, rows: list[dict]) -> dict:
    """Facts about the test items for rankings over datasets: identity and contributions."""
    digest = hashlib.sha256()
    for names in (predictions.sample_ids, predictions.groups):
        listed = [] if names is None else [str(name) for name in names]
        digest.update(json.dumps(listed).encode())
    strays = next(row["strays"] for row in rows if row["primary"])
    return {"test_set": digest.hexdigest(), "strays": strays}


def _drawn_on(spec: BootstrapSpec) -> str:
    """The dataset whose random numbers are drawn."""
    return spec.harder["of"] if spec.harder else spec.dataset


def bootstrap_seed(dataset: str, seed: int) -> int:
    """The seed of a dataset's resamples, derived from the configured one."""
    return derive_seed("bootstrap", dataset, seed)


def calibration_options(spec: BootstrapSpec, options: dict | None) -> dict | None:
    """Options of `CalibrationOptions`; folds are the same for all backbones of a dataset."""
    if options is None:
        return None
    return {**options, "seed": derive_seed("temperature", _drawn_on(spec), spec.options.seed)}


def _rows(predictions: Predictions, metadata: dict, options: dict) -> list[dict]:
    """The ranked rows, each with its warnings."""
    rows = bootstrap_scores(predictions, **options)
    about = predictions.about if isinstance(predictions, Draws | WholeSetting | Gain) else None
    # warnings such as chance level do not apply to a difference
    met = () if isinstance(predictions, Gain) else score_gates(predictions, rows)
    shared = {
        "setting": None,
        "gates": {*metadata["gates"], *(about.gates if about else ()), *met},
        "settings": metadata["settings"],
        "n_train": about.n_train if about else metadata["n_train"],
        "n_val": about.n_val if about else metadata["n_val"],
    }
    spread: dict[str, float | None] = predictions.spread() if isinstance(predictions, Draws) else {}
    drawn = len(predictions.drawn) if isinstance(predictions, Draws) else None
    return [
        {
            **row,
            **shared,
            "gates": shared["gates"] | set(row.get("flags", ())),
            "n_draws": drawn,
            "draw_std": spread.get(row["metric"]),
            "n_rows": None,
        }
        for row in rows
    ]


def _rows_of_setting(
    predictions: Draws | WholeSetting | Gain, metadata: dict, options: dict
) -> list[dict]:
    """The rows of a further setting: none is primary; it is ranked only by itself."""
    shared = {
        "setting": predictions.about.name,
        "settings": predictions.about.settings,
        "primary": False,
    }
    return [{**row, **shared} for row in _rows(cast("Predictions", predictions), metadata, options)]


def _table(rows: list[dict], metadata: dict, seed: int) -> pa.Table:
    common = {name: metadata[name] for name in _REPEATED}
    return Scores.from_rows(
        [
            {
                **row,
                **common,
                "gates": ";".join(sorted(row["gates"])),
                "settings": canonical_json(_brief(row["settings"])),
                "bootstrap_seed": seed,
            }
            for row in rows
        ]
    )


def _brief(settings: dict) -> dict:
    """Settings without lists of one number per C, which stay with the predictions."""
    return {key: value for key, value in settings.items() if not isinstance(value, list | dict)}


def _summary(rows: list[dict], metadata: dict) -> str:
    primary = next(row for row in rows if row["primary"])
    return (
        f"{metadata['dataset']} | {metadata['backbone']} | {metadata['probe']}: {primary['metric']} "
        f"{primary['value']:.4f} [{primary['lower']:.4f}, {primary['upper']:.4f}]"
    )


def clean_part(
    predictions: Predictions, table: pa.Table, metadata: dict
) -> Draws | WholeSetting | None:
    """The ranked predictions on the test images without leakage; None if all or none of them leak.

    Parameters
    ----------
    predictions : of all test images; table, metadata : their source, see
        `reading.read_predictions`.
    """
    if LEAK not in table.column_names:
        return None

    clean = table.filter(pc.is_null(table[LEAK]))
    if len(clean) in (0, len(table)):
        return None
    some: Predictions
    if isinstance(predictions, LabelledSamples):
        some = of_samples(predictions, clean["sample_id"].to_pylist())
    else:
        some = predictions_from_table(clean, metadata)
    if isinstance(some, Draws):
        return replace(some, about=replace(some.about, name=CLEAN))
    counts = (metadata["n_train"], metadata["n_val"])
    return WholeSetting(some, ScoredSetting(CLEAN, metadata["settings"], *counts, []))


def of_samples(predictions: LabelledSamples, sample_ids: list[str]) -> LabelledSamples:
    """Predictions of some samples; scores in a file stay in a file."""
    rows = np.flatnonzero(np.isin(predictions.sample_ids, np.array(sample_ids)))
    scores = predictions.scores
    if isinstance(scores, RowFile):
        kept = scores.beside(scores.shape[1], scores.dtype)
        every = 65_536
        for start in range(0, len(rows), every):
            kept.append(scores[rows[start : start + every]])
    else:
        kept = scores[rows]
    groups = predictions.groups
    return replace(
        predictions,
        sample_ids=predictions.sample_ids[rows],
        groups=None if groups is None else groups[rows],
        target=predictions.target[rows],
        prediction=predictions.prediction[rows],
        scores=kept,
    )
