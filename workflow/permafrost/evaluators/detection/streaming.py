"""Score detections that arrive image by image, as during training, at any time.

A worker thread matches each batch once, in the background. A snapshot joins the matches and counts
them. It equals `evaluate` on the images seen so far, bit for bit.
"""

from __future__ import annotations

import queue
import sys
import threading
from dataclasses import dataclass, fields, is_dataclass, replace

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.evaluators.detection.joining import join
from permafrost.evaluators.detection.prepared import PreparedTruth
from permafrost.metrics.detection.evaluation import Evaluation

# batches that may wait for the worker before `update` blocks
WAITING = 8
_MIB = 1 << 20


@dataclass(frozen=True)
class _Batch:
    number: int
    chosen: np.ndarray
    predictions: object


class DetectionStream:
    """An evaluation that grows batch by batch; call it from one thread only.

    As a context manager it always stops its worker.

    Parameters
    ----------
    truth : from `prepare`; may serve any number of streams, also at the same time.
    memory_budget : bytes for the matched batches. Waiting batches (at most `WAITING`) and the
        memory of a snapshot (copies, curves) come on top.
    """

    def __init__(self, truth: PreparedTruth, *, memory_budget: int = 4 << 30) -> None:
        if memory_budget <= 0:
            raise PermafrostError(
                f"the memory budget must be positive, not {memory_budget} bytes",
                where="memory_budget",
            )
        self.truth, self.memory_budget = truth, memory_budget
        ids = truth.truths.images.ids.tolist()
        self._place = {str(identity): place for place, identity in enumerate(ids)}
        self._seen = np.zeros(len(ids), bool)
        self._updates = 0
        self._queue: queue.Queue[_Batch | None] = queue.Queue(WAITING)
        self._worker: threading.Thread | None = None
        self._closed = False
        # written by the worker; the caller reads it once the queue is empty
        self._parts = [truth.matched([], self._seen)]
        self._bytes, self._entries = 0, 0
        self._branch: str | None = None
        self._error: Exception | None = None

    def __enter__(self) -> DetectionStream:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    @property
    def seen(self) -> int:
        """Number of images passed so far."""
        return int(np.count_nonzero(self._seen))

    def update(self, image_ids, predictions) -> None:
        """Add the detections of further images, to be matched in the background.

        Parameters
        ----------
        image_ids : of all images of the batch, including those without detections.
        predictions : as in `evaluate`; do not change the entries afterwards.

        Raises
        ------
        PermafrostError : an image that is unknown or was passed before (the batch is then ignored);
            an error in an earlier batch, or the memory budget is exceeded (both end the stream).
        """
        self._check()
        places: dict[int, None] = {}
        for identity in image_ids:
            place = self._place.get(str(identity))
            if place is None:
                raise PermafrostError(
                    f"the image {identity} is not in the truth",
                    where=f"update {self._updates + 1}",
                    remedy="prepare the ground truth that contains this image",
                )
            if self._seen[place] or place in places:
                raise PermafrostError(
                    f"the image {identity} was given before",
                    where=f"update {self._updates + 1}",
                    remedy="give every image once, with all of its detections",
                )
            places[place] = None
        chosen = np.zeros(len(self._seen), bool)
        chosen[list(places)] = True
        self._seen |= chosen
        self._updates += 1
        if self._worker is None:
            self._worker = threading.Thread(target=self._work, daemon=True)
            self._worker.start()
        # the caller may refill the list
        given = list(predictions) if isinstance(predictions, list) else predictions
        self._queue.put(_Batch(self._updates, chosen, given))

    def snapshot(self) -> Evaluation:
        """The result of `evaluate` for the images seen so far; the stream continues.

        Raises
        ------
        PermafrostError : as in `update`.
        """
        self._check()
        self._queue.join()
        self._check()
        joined = join(self._parts)
        self._parts = [joined]
        return self.truth.finished(joined)

    def finalize(self, *, incomplete: bool = False) -> Evaluation:
        """The last snapshot; ends the stream.

        Parameters
        ----------
        incomplete : allow images of the truth that were not passed; `warnings` reports them.

        Raises
        ------
        PermafrostError : as in `update`; images that were not passed (the stream can then
            continue).
        """
        self._check()
        missing = len(self._seen) - self.seen
        if missing and not incomplete:
            first = self.truth.truths.images.ids[np.flatnonzero(~self._seen)[0]]
            raise PermafrostError(
                f"{missing} of {len(self._seen)} images were not given (the first is {first})",
                where="finalize",
                remedy="update with them too (with or without detections), or accept an incomplete result",
            )
        last = self.snapshot()
        self.close()
        return last

    def close(self) -> None:
        """Stop the worker; results that were not requested are lost."""
        self._closed = True
        if self._worker is not None:
            self._queue.put(None)
            self._worker.join()
        self._worker, self._parts = None, []

    def _check(self) -> None:
        if self._error is not None:
            raise self._error
        if self._closed:
            raise PermafrostError(
                "the stream has ended", remedy="create another one; the truth can be reused"
            )

    def _work(self) -> None:
        while (batch := self._queue.get()) is not None:
            try:
                # after an error no result can be right, so the remaining batches are dropped
                if self._error is None and not self._closed:
                    self._take(batch)
            except PermafrostError as error:
                where = f"update {batch.number}" + (f": {error.where}" if error.where else "")
                self._error = PermafrostError(error.problem, where=where, remedy=error.remedy)
            except Exception as error:  # the caller raises it again, whatever it is
                self._error = error
            finally:
                self._queue.task_done()

    def _take(self, batch: _Batch) -> None:
        self._check_branch(batch.predictions)
        part = self.truth.matched(batch.predictions, batch.chosen, before=self._entries)
        size = self._bytes + _held(part)
        if size > self.memory_budget:
            raise PermafrostError(
                f"the matches take {size / _MIB:.1f} MiB, more than the memory budget of"
                f" {self.memory_budget / _MIB:.1f} MiB",
                where="memory_budget",
                remedy="raise it, or let several processes evaluate some images each and merge them",
            )
        self._bytes = size
        self._entries = max(self._entries, int(part.detections.entries.max(initial=-1)) + 1)
        self._parts.append(part)

    def _check_branch(self, predictions) -> None:
        """pycocotools decides by the very first detection; a batch is read by its own first one."""
        branch = self.truth.branch(predictions) if self.truth.settings.strict else None
        self._branch = self._branch or branch
        if branch is not None and branch != self._branch:
            raise PermafrostError(
                f"the first detection has a {branch}, that of the first batch a {self._branch},"
                " which strict mode goes by",
                remedy="give all detections alike, or use the corrected mode",
            )


def _held(part: Evaluation) -> int:
    """Bytes that a part holds itself."""
    problem = part.problem
    truths = replace(part.truths, segmentations=None)
    own = (truths, part.detections, part.cells, part.pairs, part.matching)
    return _size((*own, problem.truth_masks, problem.detection_masks))


def _size(value) -> int:
    if isinstance(value, np.ndarray):
        return value.nbytes
    if is_dataclass(value):
        # categories belong to the truth
        names = (field.name for field in fields(value) if field.name != "categories")
        return sum(_size(getattr(value, name)) for name in names)
    if isinstance(value, dict):
        return sum(map(_size, value.values()))
    return sys.getsizeof(value) + sum(map(_size, value if isinstance(value, list | tuple) else ()))
