"""Leakage between splits: its kinds, columns, and the warnings that it adds to every score.

The columns are in samples.parquet of the test split and in prediction tables, if there is leakage.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

#: independent sampling unit: groups and images that contain copies of each other, merged
UNIT = "unit_id"
#: kind of leakage from training or validation images, one of `LEAKS`; null without leakage
LEAK = "leak"
#: columns of samples.parquet that `sample_columns` reads
IDENTIFYING = ("sample_id", "group_id", UNIT, LEAK)
#: kind of leakage, worst first, to the warning (gate) of every score of the dataset
LEAKS = {
    "copy": "test_duplicates_in_train",
    "near": "test_near_duplicates_in_train",
    "group": "test_groups_in_train",
}
#: name of the setting for scores on test images without leakage
CLEAN = "clean test images"


def sample_columns(samples: pa.Table) -> dict[str, pa.ChunkedArray]:
    """``sample_id``, ``group_id`` and, if known, ``leak`` of a prediction table, from samples.parquet.

    ``group_id`` holds the independent units: groups that contain copies of one image are merged.
    """
    import pyarrow as pa

    unit = UNIT if UNIT in samples.column_names else "group_id"
    columns = {"sample_id": samples["sample_id"], "group_id": samples[unit]}
    if LEAK in samples.column_names:
        columns[LEAK] = samples[LEAK]
    return {name: column.cast(pa.string()) for name, column in columns.items()}


def worst_leak(kinds) -> str | None:
    """The most severe of several kinds, such as those of an image's windows; None without leakage."""
    return min(filter(None, kinds), key=list(LEAKS).index, default=None)


def leakage_gates(table: pa.Table) -> list[str]:
    """``GATE:N of M test images (S %)`` for each kind of leakage in a prediction table."""
    found = table[LEAK].to_pylist() if LEAK in table.column_names else []
    return counted_gates({kind: found.count(kind) for kind in LEAKS}, len(found))


def counted_gates(counts: Mapping[str, int], images: int) -> list[str]:
    """As `leakage_gates`, from counts of test images by kind (``test_in_train`` of the card)."""
    return [
        f"{gate}:{count} of {images} test images ({_per_cent(count / images)} %)"
        for kind, gate in LEAKS.items()
        if (count := counts.get(kind))
    ]


def _per_cent(share: float) -> str:
    """Rounded to a whole per cent; 0 and 100 only if exact."""
    if 0 < share < 0.005:
        return "< 1"
    return "> 99" if 0.995 < share < 1 else f"{100 * share:.0f}"
