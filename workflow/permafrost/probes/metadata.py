"""What every table of predictions says of itself, so that it can be judged alone."""

from __future__ import annotations

from typing import ClassVar

from permafrost.core.columns import Column, Table
from permafrost.core.leakage import LEAK, LEAKS
from permafrost.probes.job import ProbeJob


class PredictionColumns(Table):
    """One row of results/predictions/{dataset}/{backbone}/seed{seed}/{probe}.parquet: one test sample. The metadata
    of the file name the classes or the number, the settings that were fitted, and everything that identifies the
    evaluation.

    Columns
    -------
    sample_id : Name of the sample, or of the whole image, unique in the dataset.
    group_id : Samples with the same value are not independent: its group (scene, tile, flight), joined with the
        groups that hold copies of one image (docs/report.md); null if it has none, or nothing is known.
    leak : What the sample shares with training or validation: a byte-equal image (copy), a near-duplicate, or a
        group; null for nothing. The column exists if at least one sample shares something.
    """

    columns: ClassVar[tuple[Column, ...]] = (
        Column("sample_id"),
        Column("group_id", nullable=True),
        Column(LEAK, nullable=True, optional=True, values=tuple(LEAKS)),
    )


# repeated from the feature store
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
    settings, gates : what the probe fitted, and the sanity checks it did not pass; those of the
        features are added.
    """
    return {
        "fingerprint": job.fingerprint,
        "stage": job.kind,
        **{key: getattr(job, key) for key in ("dataset", "backbone", "probe", "seed", "kind")},
        "task": attributes["task"],
        "classes": attributes["classes"],
        # the number that is predicted, where it is one
        **({"target": attributes["target"]} if "target" in attributes else {}),
        **{f"n_{split}": count for split, count in counts.items()},
        "feature_dim": feature_dim,
        "settings": settings,
        "gates": sorted({*attributes.get("gates", []), *gates}),
        "options": job.recorded_options,
        "backbone_fingerprint": job.features,
        **{key: attributes.get(key) for key in _INHERITED},
        # of backbones that take some
        **({"metadata": attributes["metadata"]} if "metadata" in attributes else {}),
        # those of the probe itself are recorded by the table
        "feature_versions": attributes.get("versions"),
    }
