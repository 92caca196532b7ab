"""Average precision by PASCAL VOC's rules, as DOTA, HRSC2016, DIOR and NWPU VHR-10 are scored.

Of one class, all detections are taken in descending score. Each looks at the truth of its image with the largest
overlap, taken or not (of equals, the first in the file):

| largest overlap      | that truth             | the detection is           |
|----------------------|------------------------|----------------------------|
| at most the threshold| any                    | a false alarm              |
| above it             | difficult              | neither right nor wrong    |
| above it             | not taken yet          | right, and the truth taken |
| above it             | taken                  | a false alarm              |

Difficult truths (`ignore` or `iscrowd` in COCO's form) are not to be found. COCO's rule differs: there, a detection may
take a worse truth that is free, and one at the threshold matches.

Source: Everingham et al., The PASCAL Visual Object Classes Challenge (2010; points: 2015); ``voc_eval`` of DOTA_devkit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from permafrost.core.errors import PermafrostError, look_up
from permafrost.metrics.detection.axes import make_axes
from permafrost.metrics.detection.cells import Cells, make_cells
from permafrost.metrics.detection.evaluate import check_settings, make_request
from permafrost.metrics.detection.evaluation import Settings
from permafrost.metrics.detection.inputs.parsing import pause_collector
from permafrost.metrics.detection.inputs.tables import Detections, Truths
from permafrost.metrics.detection.kernels import make_kernel
from permafrost.metrics.detection.kernels.bbox import BoxOverlap
from permafrost.metrics.detection.pairs import Similarity, find_pairs
from permafrost.metrics.detection.problem import read_problem
from permafrost.metrics.detection.ragged import by_descending

#: precision is read at 11 recalls (2007), or at all, as the area under the curve (from 2010 on)
PROTOCOLS = {"voc07": 11, "voc12": None}
THRESHOLD = 0.5
# numbers of a class's detections times resamples in memory at once
_BLOCK = 1 << 22
_TINY = np.finfo(np.float64).eps


@dataclass(frozen=True)
class VocEvaluation:
    """What became of every detection, from which all figures follow.

    Rows are detections, ascending by class, and within a class in descending score.

    Attributes
    ----------
    protocol : a name of `PROTOCOLS`.
    settings : the kind of overlap, and the mode.
    inclusive : whether upright boxes include the pixels of their last row and column.
    thresholds : (T,) overlaps above which a truth is found.
    truths, detections : what was evaluated.
    rows : (D,) positions in `detections`.
    bucket : (D,) class of each row.
    right, wrong : (D, T) bool; neither at a difficult truth.
    """

    protocol: str
    settings: Settings
    inclusive: bool
    thresholds: np.ndarray
    truths: Truths
    detections: Detections
    rows: np.ndarray
    bucket: np.ndarray
    right: np.ndarray
    wrong: np.ndarray

    @property
    def points(self) -> int | None:
        """The number of recalls at which precision is read; None: the area under the curve."""
        return PROTOCOLS[self.protocol]

    @property
    def strict(self) -> bool:
        """Whether recalls are compared as DOTA_devkit does, see `average_precision`."""
        return self.settings.strict

    @cached_property
    def difficult(self) -> np.ndarray:
        """(G,) bool: truths that are not to be found."""
        return self.truths.ignored | self.truths.crowd

    @cached_property
    def positives(self) -> np.ndarray:
        """(K, I) number of truths to be found, by class and image."""
        return self._counted(~self.difficult)

    def _counted(self, chosen: np.ndarray) -> np.ndarray:
        shape = len(self.truths.categories), len(self.truths.images)
        place = self.truths.category[chosen] * shape[1] + self.truths.image[chosen]
        return np.bincount(place, minlength=shape[0] * shape[1]).reshape(shape)

    @property
    def reached(self) -> str:
        """What an overlap must be to find a truth, before the threshold."""
        return "above"

    @property
    def marked(self) -> dict[str, int]:
        """Kind of truth that has rules of its own, as a word, to its number."""
        return {"difficult": int(self.difficult.sum())}

    def remarks(self) -> list[str]:
        """What the reader of the figures should know of the detections."""
        bare = np.count_nonzero(self.positives.sum(axis=1)[self.bucket] == 0)
        if not bare:
            return []
        return [
            f"{bare} of {len(self.detections)} detections count in no figure, as their classes have no truth"
            " to be found"
        ]

    @cached_property
    def average_precision(self) -> np.ndarray:
        """(T, K); NaN for a class without truths to be found."""
        return self.replicates(np.ones((len(self.truths.images), 1), np.int64))[0][..., 0]

    @cached_property
    def recall(self) -> np.ndarray:
        """(T, K) share of truths that are found; NaN without any."""
        return self.replicates(np.ones((len(self.truths.images), 1), np.int64))[1][..., 0]

    def curve(self, category: int, threshold: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Recall and precision after each detection of a class, in descending score."""
        own = self.bucket == category
        right = np.cumsum(self.right[own, threshold])
        wrong = np.cumsum(self.wrong[own, threshold])
        found = self.positives[category].sum()
        return right / (found if found > 0 else 1), right / np.maximum(right + wrong, _TINY)

    def replicates(self, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Average precision and recall on resamples of the images, (T, K, B) each.

        An image drawn n times has its detections n times in a row. Precision rises from copy to copy of
        a right one, so the last copy shapes the envelope, as one row of weight n does.

        Parameters
        ----------
        counts : (I, B) how often each image is in each resample.
        """
        shape = len(self.thresholds), len(self.truths.categories), counts.shape[1]
        precision, recall = np.full(shape, np.nan), np.full(shape, np.nan)
        image = self.detections.image[self.rows]
        begin = np.searchsorted(self.bucket, np.arange(shape[1] + 1))
        for k in range(shape[1]):
            own = slice(begin[k], begin[k + 1])
            width = max(1, _BLOCK // max(own.stop - own.start, 1))
            for start in range(0, shape[2], width):
                part = slice(start, start + width)
                drawn = np.asarray(counts[:, part], np.int64)
                found = self.positives[k] @ drawn
                weight = drawn[image[own]]
                for t in range(shape[0]):
                    precision[t, k, part], recall[t, k, part] = average_precision(
                        weight * self.right[own, t, None],
                        weight * self.wrong[own, t, None],
                        found,
                        self.points,
                        strict=self.strict,
                    )
        return precision, recall


def average_precision(right, wrong, positives, points: int | None, *, strict: bool = False):
    """Average precision and recall of ranked detections, of B columns at once.

    Parameters
    ----------
    right, wrong : (D, B) whole numbers of right and wrong detections, in descending score.
    positives : (B,) truths to be found.
    points : recalls 0, 1 / (points - 1), …, 1 at which the largest precision of any higher recall is read;
        None: the area under that precision.
    strict : compare with the points as sums of 0.1, in floats, of which some exceed the recall that they
        mean: 3 of 10 truths do not reach the recall 0.30000000000000004.

    Returns
    -------
    (B,) and (B,); NaN without positives.
    """
    right, wrong = np.cumsum(right, axis=0), np.cumsum(wrong, axis=0)
    known = np.where(positives > 0, positives, 1)
    precision = right / np.maximum(right + wrong, _TINY)
    envelope = np.maximum.accumulate(precision[::-1], axis=0)[::-1]
    recall = right[-1] / known if len(right) else np.zeros(len(known))
    if not len(right):
        area = np.zeros(len(known))
    elif points is None:
        area = (np.diff(right, axis=0, prepend=0) * envelope).sum(axis=0) / known
    else:
        area = _at_points(right, envelope, known, points, strict)
    undefined = positives == 0
    return np.where(undefined, np.nan, area), np.where(undefined, np.nan, recall)


def _at_points(right, envelope, positives, points: int, strict: bool) -> np.ndarray:
    columns = np.arange(right.shape[1])
    grid = np.arange(0.0, 1 + 1 / (points - 1), 1 / (points - 1))
    total = np.zeros(right.shape[1])
    for place in range(points):
        if strict:
            reached = right / positives >= grid[place]
        else:
            # in whole numbers, so that a recall is reached exactly where it is
            reached = right * (points - 1) >= place * positives
        first = np.argmax(reached, axis=0)
        total += np.where(reached[-1], envelope[first, columns], 0.0)
    return total / points


def evaluate_voc(
    truth,
    predictions,
    *,
    iou_type: str,
    protocol: str = "voc07",
    iou_thresholds=(THRESHOLD,),
    inclusive: bool = False,
    mode: str = "corrected",
    box_convention: str | None = None,
    invalid: str = "error",
    images=None,
    categories=None,
) -> VocEvaluation:
    """Evaluate detections by VOC's rules.

    Parameters
    ----------
    truth, predictions, iou_type, box_convention, invalid, images, categories : as in `evaluate`;
        keypoints have no overlap.
    protocol : ``voc07`` reads precision at 11 recalls, ``voc12`` takes the area under the curve.
    iou_thresholds : a truth is found by an overlap above the threshold.
    inclusive : upright boxes hold the pixels of both edges, as in VOC's, NWPU VHR-10's and DIOR's files: sides are
        max - min + 1. In oriented boxes and masks this changes nothing, and it is refused.
    mode : ``strict`` compares recalls in floats as DOTA_devkit does, and keeps ties in the order of the file;
        ``corrected`` compares them exactly, and orders ties by box.

    Raises
    ------
    PermafrostError : an invalid entry, which the message names, or an invalid option.
    """
    look_up(PROTOCOLS, protocol, "there is no protocol named", where="protocol")
    if inclusive and iou_type != "bbox":
        raise PermafrostError(
            f"edges of pixels are those of upright boxes, not of {iou_type}",
            where="inclusive",
            remedy="leave it out, or evaluate upright boxes (iou_type bbox)",
        )
    if iou_type == "keypoints":
        raise PermafrostError("VOC's rules know no keypoints", where="iou_type")
    request = make_request(
        iou_type=iou_type,
        box_convention=box_convention,
        iou_thresholds=iou_thresholds,
        invalid=invalid,
        categories=categories,
    )
    settings = check_settings(replace(request.settings, mode=mode))
    with pause_collector():
        # the strict mode of reading follows pycocotools, which knows no difficult objects
        problem = read_problem(truth, predictions, request, images=images)
    truths, detections = problem.truths, problem.detections
    cells = make_cells(
        truths,
        detections,
        use_categories=True,
        cap=None,
        by_box=not settings.strict,
    )
    kernel = _inclusive(truths, detections) if inclusive else make_kernel(iou_type, problem)
    thresholds = make_axes(iou_type, iou_thresholds=iou_thresholds).thresholds
    difficult = (truths.ignored | truths.crowd)[cells.truths]
    right, wrong = outcomes(cells, kernel, thresholds, difficult)
    order = by_descending(cells.detection_bucket, detections.scores[cells.detections])
    return VocEvaluation(
        protocol,
        settings,
        inclusive,
        thresholds,
        truths,
        detections,
        cells.detections[order],
        cells.detection_bucket[order],
        right[order],
        wrong[order],
    )


def _inclusive(truths: Truths, detections: Detections) -> BoxOverlap:
    """The overlap of boxes that include the pixels of their last row and column."""
    wider = np.array([0, 0, 1, 1])
    return BoxOverlap(detections.boxes + wider, truths.boxes + wider, truths.crowd)


def outcomes(
    cells: Cells,
    kernel: Similarity,
    thresholds: np.ndarray,
    difficult: np.ndarray,
    *,
    at: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """(D, T) bool each: right and wrong detections, in row order of `cells`.

    Parameters
    ----------
    difficult : (G,) bool, in column order.
    at : an overlap equal to the threshold is enough.
    """
    right = np.zeros((len(cells.detections), len(thresholds)), bool)
    wrong = np.ones_like(right)
    rows, column, largest = best_truths(cells, kernel, float(thresholds.min()))
    for t, threshold in enumerate(thresholds):
        above = np.flatnonzero(largest >= threshold if at else largest > threshold)
        wrong[rows[above[difficult[column[above]]]], t] = False
        regular = above[~difficult[column[above]]]
        # rows ascend by descending score in a cell: the first takes the truth
        taker = regular[np.unique(column[regular], return_index=True)[1]]
        right[rows[taker], t], wrong[rows[taker], t] = True, False
    return right, wrong


def best_truths(
    cells: Cells, kernel: Similarity, lowest: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(R,) ascending rows of `cells` with an overlap of at least `lowest`, column of the largest, and this overlap."""
    # with a threshold of 0, a truth that is not touched is not found either
    pairs = find_pairs(cells, kernel, lowest if lowest > 0 else np.nextafter(0, 1))
    if not len(pairs):
        return pairs.rows, pairs.columns, pairs.similarity
    starts = np.flatnonzero(np.diff(pairs.rows, prepend=-1))
    rows = pairs.rows[starts]
    ends = np.append(starts[1:], len(pairs)) - 1
    largest = pairs.similarity[ends]
    # pairs of a row ascend by overlap, then by column: the first of the largest is the first in the file
    sizes = ends - starts + 1
    equal = pairs.similarity == np.repeat(largest, sizes)
    first = np.flatnonzero(
        equal & np.concatenate(([True], ~equal[:-1] | (np.diff(pairs.rows) > 0)))
    )
    return rows, pairs.columns[first], largest
