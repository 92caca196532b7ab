"""Read the predictions of one backbone on one test set, for any task."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np

from permafrost.core.tables import read_table
from permafrost.core.tasks import task_of
from permafrost.statistics.predictions.settings import headline_of

# evaluators of outside files need only names from this module
if TYPE_CHECKING:
    import pyarrow as pa

    from permafrost.statistics.replicates.families import Family


class Predictions(Protocol):
    """Interface of predictions for statistics; rows are sorted by sample id.

    Attributes
    ----------
    sample_ids : (N,) unique strings, ascending.
    groups : (N,) strings or None, or None as a whole if no group is known.
    task : a name of `core.tasks`.
    classes : names of the K classes.
    truth : (N, …) per sample: class ids or numbers (N,), labels (N, L) of 0 and 1, or pixels or
        objects of each class (N, K).
    truth_keys : (N, …) identifies a test set: `truth`, or a digest of it.
    answers : (N, …) predictions, in the form of `truth`.
    dead_classes : ids of classes that are never scored.
    rules : the dataset's other settings that affect scores, such as a matching distance.
    boundary : whether boundaries were counted.
    """

    @property
    def sample_ids(self) -> np.ndarray: ...

    @property
    def groups(self) -> np.ndarray | None: ...

    @property
    def task(self) -> str: ...

    @property
    def classes(self) -> list[str]: ...

    @property
    def dead_classes(self) -> tuple[int, ...]: ...

    @property
    def rules(self) -> tuple: ...

    def __len__(self) -> int: ...

    @property
    def truth(self) -> np.ndarray: ...

    @property
    def truth_keys(self) -> np.ndarray: ...

    @property
    def answers(self) -> np.ndarray: ...

    @property
    def boundary(self) -> bool: ...

    def evaluate(self) -> dict:
        """Every metric on the whole test set: name to a float, or to (K,) per class."""

    def family(self, units: np.ndarray) -> Family:
        """Evaluates every metric on resamples of the units; `units` is (N,), see `units`."""


def predictions_from_table(table, metadata: dict) -> Predictions:
    """From a prediction table and its metadata, as `core.tables.read_table` returns them.

    Raises
    ------
    PermafrostError : an unknown task; a column is missing, has the wrong width, or holds a null.
    """
    reader = task_of(metadata["task"]).load_reader()
    if metadata.get("headline") is not None:
        # a `WholeSetting` has the attributes of its predictions
        return cast("Predictions", headline_of(table, metadata))
    return reader.from_table(table, metadata)


def read_predictions(
    path: Path, *, expect: str | None = None, scratch: Path
) -> tuple[Predictions, pa.Table, dict]:
    """Predictions in a file, with its table and metadata; large scores stay on disk.

    Parameters
    ----------
    scratch : folder for a copy of scores too large for memory.

    Raises
    ------
    PermafrostError : as in `core.tables.read_table` and `predictions_from_table`.
    """
    table, metadata = read_table(
        path, expect=expect, without=lambda found: ("scores",) if _by_blocks(found) else ()
    )
    if not _by_blocks(metadata):
        return predictions_from_table(table, metadata), table, metadata
    reader = task_of(metadata["task"]).load_reader()
    return reader.from_file(path, table, metadata, scratch), table, metadata


def _by_blocks(metadata: dict) -> bool:
    """Whether scores are read separately, block by block."""
    if metadata.get("headline") is not None:
        return False
    return hasattr(task_of(metadata["task"]).load_reader(), "from_file")
