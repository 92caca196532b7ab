"""What the audit of a dataset says of test images and reaches every score: kinds, columns and gates.

The columns are in samples.parquet of the test split and in tables of predictions, each only where it says something.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

#: the group of a sample joined with the groups and images that it has copies in: what is independent of all others
UNIT = "unit_id"
#: what a sample shares with training or validation images, one of `LEAKS`; null where nothing was found
LEAK = "leak"
#: columns of samples.parquet that `sample_columns` reads
IDENTIFYING = ("sample_id", "group_id", UNIT, LEAK)
#: kind of leakage, the worst first, to the gate of every score of the dataset
LEAKS = {
    "copy": "test_duplicates_in_train",
    "near": "test_near_duplicates_in_train",
    "group": "test_groups_in_train",
}
#: setting of the scores on the test images without leakage
CLEAN = "clean test images"


def sample_columns(samples: pa.Table) -> dict[str, pa.ChunkedArray]:
    """``sample_id``, ``group_id`` and, where known, ``leak`` of a table of predictions, from samples.parquet.

    ``group_id`` holds the independent units: the groups, joined where they hold copies of one image.
    """
    import pyarrow as pa

    unit = UNIT if UNIT in samples.column_names else "group_id"
    columns = {"sample_id": samples["sample_id"], "group_id": samples[unit]}
    if LEAK in samples.column_names:
        columns[LEAK] = samples[LEAK]
    return {name: column.cast(pa.string()) for name, column in columns.items()}


def worst_leak(kinds) -> str | None:
    """The most severe of several kinds of leakage, as of the windows of an image; None without leakage."""
    return min(filter(None, kinds), key=list(LEAKS).index, default=None)


def leakage_gates(table: pa.Table) -> list[str]:
    """``GATE:N of M test images (S %)`` for each kind of leakage in a table of predictions."""
    found = table[LEAK].to_pylist() if LEAK in table.column_names else []
    return counted_gates({kind: found.count(kind) for kind in LEAKS}, len(found))


def counted_gates(counts: Mapping[str, int], images: int) -> list[str]:
    """The same from the number of test images of each kind, as the card's ``test_in_train`` has it."""
    return [
        f"{gate}:{count} of {images} test images ({_per_cent(count / images)} %)"
        for kind, gate in LEAKS.items()
        if (count := counts.get(kind))
    ]


def _per_cent(share: float) -> str:
    """To a whole per cent, never 0 or 100 of what is neither."""
    if 0 < share < 0.005:
        return "< 1"
    return "> 99" if 0.995 < share < 1 else f"{100 * share:.0f}"
