"""Detections that arrive image by image, as during a training, scored at any time.

A worker thread matches every batch once, while the caller goes on; a snapshot joins what was matched
and counts. It equals `evaluate` on the images seen so far, bit for bit.
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

# batches that wait for the worker before `update` waits too
WAITING = 8
_MIB = 1 << 20


@dataclass(frozen=True)
class _Batch:
    number: int
    chosen: np.ndarray
    predictions: object


class DetectionStream:
    """An evaluation that grows batch by batch; calls must come from one thread.

    As a context manager it ends its worker whatever happens.

    Parameters
    ----------
    truth : of `prepare`; may be used for any number of streams, one after the other or together.
    memory_budget : bytes that the matched batches may take. The batches that wait (`WAITING` at most)
        and what a snapshot makes (copies, curves) come on top.
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
        # what the worker writes; the caller reads it when the queue is done
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
        """Number of images given so far."""
        return int(np.count_nonzero(self._seen))

    def update(self, image_ids, predictions) -> None:
        """Give the detections of further images, to be matched in the background.

        Parameters
        ----------
        image_ids : of all images of the batch, also of those on which nothing was found.
        predictions : as of `evaluate`; the entries must not be changed afterwards.

        Raises
        ------
        PermafrostError : an image that is unknown or was given before (nothing of the batch is taken
            then); what was wrong with an earlier batch, or the memory budget (the stream cannot go
            on then).
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
        # the list may be filled anew by the caller
        given = list(predictions) if isinstance(predictions, list) else predictions
        self._queue.put(_Batch(self._updates, chosen, given))

    def snapshot(self) -> Evaluation:
        """What `evaluate` gives for the images seen so far; the stream goes on.

        Raises
        ------
        PermafrostError : as of `update`.
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
        incomplete : accept that some images of the truth were not given; `warnings` says so.

        Raises
        ------
        PermafrostError : as of `update`; images that were not given (the stream can go on then).
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
        """End the worker; what was not asked for is lost."""
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
                # after an error nothing can be right any more: what still comes is let go
                if self._error is None and not self._closed:
                    self._take(batch)
            except PermafrostError as error:
                where = f"update {batch.number}" + (f": {error.where}" if error.where else "")
                self._error = PermafrostError(error.problem, where=where, remedy=error.remedy)
            except Exception as error:  # the caller must hear of it, whatever it is
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
        """pycocotools goes by the first detection of all; each batch is read by its own first one."""
        branch = self.truth.branch(predictions) if self.truth.settings.strict else None
        self._branch = self._branch or branch
        if branch is not None and branch != self._branch:
            raise PermafrostError(
                f"the first detection has a {branch}, that of the first batch a {self._branch},"
                " which strict mode goes by",
                remedy="give all detections alike, or use the corrected mode",
            )


def _held(part: Evaluation) -> int:
    """Bytes of what a part keeps for itself."""
    problem = part.problem
    truths = replace(part.truths, segmentations=None)
    own = (truths, part.detections, part.cells, part.pairs, part.matching)
    return _size((*own, problem.truth_masks, problem.detection_masks))


def _size(value) -> int:
    if isinstance(value, np.ndarray):
        return value.nbytes
    if is_dataclass(value):
        # categories are those of the truth
        names = (field.name for field in fields(value) if field.name != "categories")
        return sum(_size(getattr(value, name)) for name in names)
    if isinstance(value, dict):
        return sum(map(_size, value.values()))
    return sys.getsizeof(value) + sum(map(_size, value if isinstance(value, list | tuple) else ()))
