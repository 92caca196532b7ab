"""Columns and metadata that all tables of predictions share, so that each can be interpreted alone."""

from __future__ import annotations

from typing import ClassVar

from permafrost.core.columns import Column, Table
from permafrost.core.leakage import LEAK, LEAKS
from permafrost.probes.job import ProbeJob


class PredictionColumns(Table):
    """One row of results/predictions/{dataset}/{backbone}/seed{seed}/{probe}.parquet: one test sample. The metadata
    of the file name the classes or the number, the fitted settings, and everything that identifies the
    evaluation.

    Columns
    -------
    sample_id : Name of the sample, or of the whole image, unique in the dataset.
    group_id : Samples with the same value are not independent: its group (scene, tile, flight), merged with
        groups that have copies of one image (docs/report.md); null if it has none or is unknown.
    leak : What the sample shares with training or validation: a byte-equal image (copy), a near-duplicate, or a
        group; null for nothing. The column exists if at least one sample shares something.
    """

    columns: ClassVar[tuple[Column, ...]] = (
        Column("sample_id"),
        Column("group_id", nullable=True),
        Column(LEAK, nullable=True, optional=True, values=tuple(LEAKS)),
    )


# copied from the feature store
_INHERITED = ("weights_sha256", "input", "split_method", "spatially_random", "parameters", "device")


def prediction_metadata(
    job: ProbeJob,
    attributes: dict,
    *,
    counts: dict[str, int],
    feature_dim: int,
    settings: dict,
    gates: list[str],
) -> dict:
    """Metadata of a table, from the job and the attributes of the test feature store.

    Parameters
    ----------
    counts : number of samples by split.
    settings, gates : the probe's fitted settings, and its failed sanity checks; those of the
        features are added.
    """
    return {
        "fingerprint": job.fingerprint,
        "stage": job.kind,
        **{key: getattr(job, key) for key in ("dataset", "backbone", "probe", "seed", "kind")},
        "task": attributes["task"],
        "classes": attributes["classes"],
        # name of the predicted number, for regression
        **({"target": attributes["target"]} if "target" in attributes else {}),
        **{f"n_{split}": count for split, count in counts.items()},
        "feature_dim": feature_dim,
        "settings": settings,
        "gates": sorted({*attributes.get("gates", []), *gates}),
        "options": job.recorded_options,
        "backbone_fingerprint": job.features,
        **{key: attributes.get(key) for key in _INHERITED},
        # of a derived backbone: what it reads, and bytes of a sample
        **({"derived": attributes["derived"]} if "derived" in attributes else {}),
        # for backbones with metadata as input
        **({"metadata": attributes["metadata"]} if "metadata" in attributes else {}),
        # the table records the versions of the probe
        "feature_versions": attributes.get("versions"),
    }
