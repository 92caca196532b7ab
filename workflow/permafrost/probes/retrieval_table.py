"""What became of every query, as the table that statistics read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from .features import Features
from .predictions import write_rows
from .retrieval import Retrieved


def write_retrieved(
    path: Path, result: Retrieved, *, splits: dict[str, Features], spec: dict, fingerprint: str
) -> None:
    """Write one row per query: its average precision, and the relevant images it found."""
    options = spec["options"]
    found = np.ascontiguousarray(result.found, dtype=np.int32)
    write_rows(
        path,
        {
            "average_precision": pa.array(result.precision, pa.float64()),
            "relevant": pa.array(result.relevant.astype(np.int32)),
            "found": pa.FixedSizeListArray.from_arrays(pa.array(found.reshape(-1)), found.shape[1]),
        },
        splits=splits,
        spec=spec,
        fingerprint=fingerprint,
        settings={name: options[name] for name in ("relevant", "gallery", "metric")},
        gates=result.gates,
        task="retrieval",
        gallery=result.gallery,
        ks=result.ks,
    )
