"""Dense nearest centroids: each patch of a test image gets the class whose mean over the train patches is nearest."""

from __future__ import annotations

from dataclasses import dataclass

from permafrost.core.errors import PermafrostError
from permafrost.probes.dense.map_splits import MaskSplit, mask_gates, open_splits
from permafrost.probes.dense.tables import MaskRows, Outcome, rows_to_fill
from permafrost.probes.dense_knn.probe import (
    OfPatches,
    PatchClasses,
    choose_layer,
    patches_of,
    train_patches,
)
from permafrost.probes.job import ProbeJob
from permafrost.probes.knn.centroids import Centroids


@dataclass(frozen=True, kw_only=True)
class DenseCentroidOptions(OfPatches):
    """The class whose mean over the train patches is nearest; a train patch has the majority class of its pixels."""


def run_dense_centroid(job: ProbeJob[DenseCentroidOptions]) -> None:
    """Find the means, and write the test predictions; validation is not used.

    The distances of a patch to the means are resized to the scored size, and the nearest mean is predicted.

    Raises
    ------
    PermafrostError : no train patch has a class, or anything else that the user can fix; no partial output remains.
    """
    splits, options = open_splits(MaskSplit, job), job.options
    train, test = splits["train"], splits["test"]
    layer = choose_layer(train, options.layer, job.where)
    gates = mask_gates(splits)
    features, labels, available = train_patches(
        PatchClasses, train, layer, options.max_patches, job.derived_seed
    )
    if not len(labels):
        raise PermafrostError(
            f"there are no {PatchClasses.called}",
            where=job.where,
            remedy="choose a layer with a larger map",
        )
    means = Centroids(features, labels, len(train.classes), options.metric)
    settings = {
        "metric": options.metric,
        "layers": [layer.name],
        "working_size": list(train.working_size),
        "patches": len(labels),
        "patches_available": available,
    }
    with rows_to_fill(MaskRows, job, test) as rows:
        for start, patches in patches_of(test, layer, job.where):
            PatchClasses.add_scores(rows, start, means.scores(patches), layer)
        rows.write(job, splits, Outcome([layer], settings, gates))
