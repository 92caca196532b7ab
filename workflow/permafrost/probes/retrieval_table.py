"""What became of every query, as the table that statistics read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from permafrost.core.tables import write_table

from .features import Features
from .metadata import prediction_metadata
from .retrieval import Retrieved


def write_retrieved(
    path: Path, result: Retrieved, *, splits: dict[str, Features], spec: dict, fingerprint: str
) -> None:
    """Write one row per query: its average precision, and the relevant images it found."""
    test, options = splits["test"], spec["options"]
    found = np.ascontiguousarray(result.found, dtype=np.int32)
    table = pa.table(
        {
            "sample_id": test.samples["sample_id"].cast(pa.string()),
            "group_id": test.samples["group_id"].cast(pa.string()),
            "average_precision": pa.array(result.precision, pa.float64()),
            "relevant": pa.array(result.relevant.astype(np.int32)),
            "found": pa.FixedSizeListArray.from_arrays(pa.array(found.reshape(-1)), found.shape[1]),
        }
    )
    metadata = prediction_metadata(
        test.attributes,
        spec=spec,
        fingerprint=fingerprint,
        counts={split: len(features.embeddings) for split, features in splits.items()},
        feature_dim=int(test.embeddings.shape[1]),
        settings={name: options[name] for name in ("relevant", "gallery", "metric")},
        gates=result.gates,
    )
    own = {"task": "retrieval", "gallery": result.gallery, "ks": result.ks}
    write_table(path, table, {**metadata, **own})
