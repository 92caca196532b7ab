"""The result of a crown evaluation: values, their replicates, and counts.

Every value is a ratio of two sums over images. A bootstrap of images therefore reweights the two
sums without matching again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from permafrost.data.deepforest.annotations import Annotations
from permafrost.data.labels.geometries import POINT
from permafrost.evaluators.crowns.rules import DEEPFOREST, Rules
from permafrost.metrics.objects.overlaps import areas
from permafrost.metrics.ratios import divide

Name = tuple[str, str | None]  # metric, class (None: overall)


@dataclass(frozen=True)
class CrownEvaluation:
    """Matches of truth and predictions, and every value computed from them.

    Attributes
    ----------
    truth, predictions : the crowns that were matched.
    images : (I,) names of the scored images.
    rules, matching, threshold : the settings of the evaluation.
    partner, quality : see `matching.match_shapes`; `partner` indexes all predictions.
    pair_sums : (2, I) sum and number of the IoUs of all pairs with the same label that reach the
        threshold.
    below_score, unlisted : numbers of predictions excluded by ``min_score`` and by
        ``unlisted: skip``.
    """

    truth: Annotations
    predictions: Annotations
    images: tuple[str, ...]
    rules: Rules
    matching: str
    threshold: float
    partner: np.ndarray
    quality: np.ndarray
    pair_sums: np.ndarray
    below_score: int = 0
    unlisted: int = 0

    @property
    def kind(self) -> str:
        return self.truth.kind

    @cached_property
    def match(self) -> np.ndarray:
        """(T,) bool: truths that were matched."""
        reached = (
            self.quality < self.threshold if self.kind == POINT else self.quality > self.threshold
        )
        return reached & (self.partner >= 0)

    @cached_property
    def hit(self) -> np.ndarray:
        """(P,) bool: predictions that were matched."""
        hit = np.zeros(len(self.predictions), bool)
        hit[self.partner[self.match]] = True
        return hit

    @cached_property
    def image_counts(self) -> dict[str, np.ndarray]:
        """(I,) int64 each: ``truths``, ``predictions``, ``matches``."""
        return {
            "truths": self._per_image(self.truth, slice(None)),
            "predictions": self._per_image(self.predictions, slice(None)),
            "matches": self._per_image(self.truth, self.match),
        }

    @cached_property
    def image_states(self) -> np.ndarray:
        """(I,) str: ``scored``, ``without predictions``, ``without truth`` or ``empty``."""
        truths, predicted = self.image_counts["truths"] > 0, self.image_counts["predictions"] > 0
        return np.select(
            [truths & predicted, truths, predicted],
            ["scored", "without predictions", "without truth"],
            "empty",
        )

    @cached_property
    def counted(self) -> np.ndarray:
        """(I,) bool: images whose predictions count; the rules may exclude some."""
        skipped = self.rules.without_truth == "skip"
        return ~(skipped & (self.image_states == "without truth"))

    @cached_property
    def flat(self) -> np.ndarray:
        """Indices of predictions without area, which can never match."""
        if self.kind == POINT or not len(self.predictions):
            return np.empty(0, np.intp)
        return np.flatnonzero(areas(self.kind, self.predictions.shape) == 0)

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """All labels of truth and predictions, sorted."""
        return tuple(sorted({*self.truth.label.tolist(), *self.predictions.label.tolist()}))

    @cached_property
    def values(self) -> dict[Name, float]:
        """Every value by metric and class; NaN if undefined.

        Without regard to labels: ``recall``, ``precision``, ``f1``; ``matched_iou`` (or
        ``matched_distance``), the mean over matches; ``pair_iou``, DeepForest's validation IoU: the
        mean over *all* pairs with the same label that reach the threshold, without matching (a
        higher threshold raises it); ``empty_image_accuracy``, the share of images without truth
        that have no predictions.

        Per class, over all images: ``recall`` over all its truths, ``precision`` over all its
        predictions (a match with another label counts as a miss and a false positive), and ``f1``;
        ``deepforest_class_recall`` and ``deepforest_class_precision``, which divide by matched
        crowns only and so ignore misses and false positives.
        """
        ones = np.ones((len(self.images), 1), np.uint8)
        return {name: float(value[0]) for name, value in self.replicates(ones).items()}

    def replicates(self, counts: np.ndarray) -> dict[Name, np.ndarray]:
        """Every value on resamples of the images.

        Parameters
        ----------
        counts : (I, B) how often each image is in each resample.

        Returns
        -------
        (B,) float64 for each name of `values`; NaN if undefined.
        """
        found = {}
        for name, (above, below) in self._ratios.items():
            # float64 is exact here: the sums are small integers or means
            found[name] = divide(
                above @ counts.astype(np.float64), below @ counts.astype(np.float64)
            )
        for kind in (None, *self.classes):
            recall, precision = found["recall", kind], found["precision", kind]
            both = np.isfinite(recall) & np.isfinite(precision)
            f1 = divide(2 * recall * precision, recall + precision, undefined=0.0)
            found["f1", kind] = np.where(both, f1, np.nan)
        for label in self.classes:
            _fill(found, label)
        return dict(sorted(found.items(), key=lambda item: (item[0][1] or "", _place(item[0][0]))))

    @property
    def truths(self) -> dict[str, np.ndarray]:
        """(I,) crowns of the truth of every class, in each image."""
        return {
            label: self._per_image(self.truth, self.truth.label == label) for label in self.classes
        }

    def average_of(self, metric: str, label: str | None) -> str:
        """``image`` for a mean over images, ``dataset`` for a value pooled over all images.

        Class values and the quality of matches are always pooled: few images hold a given class.
        """
        means = ("recall", "precision", "f1")
        if label is None and (metric == "empty_image_accuracy" or metric in means):
            return "image" if metric == "empty_image_accuracy" else self.rules.average
        return "dataset"

    def heading(self) -> str:
        """What was evaluated, and with which settings, in one line."""
        sign = "distance <" if self.kind == POINT else "IoU >"
        mean = "all images pooled"
        if self.rules.average == "image":
            mean = "mean over images (classes: all images pooled)"
        return (
            f"{len(self.truth)} {_PLURALS[self.kind]} on {len(self.images)} images,"
            f" {len(self.predictions)} predictions; matched by {self.matching},"
            f" {sign} {self.threshold:g}; {mean}"
        )

    def notes(self) -> list[str]:
        """Remarks on images and predictions that were excluded or handled separately."""
        states, rules = self.image_states, self.rules
        number = {state: int(np.count_nonzero(states == state)) for state in np.unique(states)}
        said = [
            f"{count} rows were left out: {problem}."
            for crowns in (self.truth, self.predictions)
            for problem, count in crowns.dropped.items()
        ]
        if self.below_score:
            said.append(f"{self.below_score} predictions score too low and were left out.")
        if self.unlisted:
            said.append(f"{self.unlisted} predictions on images outside the truth were left out.")
        if count := len(self.flat):
            first = f"row {self.predictions.row[self.flat[0]]} of {self.predictions.where}"
            said.append(
                f"Warning: {count} predicted {_PLURALS[self.kind]} have no area and count as false alarms"
                f" (the first: {first})."
            )
        if count := number.get("without predictions"):
            fate = "0" if rules.without_predictions == "zero" else "left out of the mean"
            fate = "that of no prediction" if rules.average == "dataset" else fate
            said.append(f"{count} images have no predictions: recall 0, precision {fate}.")
        if count := number.get("without truth"):
            lost = int(self.image_counts["predictions"][~self.counted].sum())
            fate = (
                f"left out with {lost} predictions" if lost else "all predictions are false alarms"
            )
            if self._deepforest_without_truth:
                fate += "; as there is no crown at all, precision is 0, as DeepForest's"
            said.append(f"{count} images hold no crown but have predictions: {fate}.")
        if count := number.get("empty"):
            said.append(f"{count} images hold no crown and have no predictions.")
        common = set(self.truth.label) & set(self.predictions.label)
        if len(self.truth) and len(self.predictions) and not common:
            said.append(
                "Truth and predictions have no label in common, so no class has a hit:"
                f" {sorted(set(self.truth.label))[:3]} and {sorted(set(self.predictions.label))[:3]}."
            )
        return said

    def class_sizes(self) -> dict[str, dict[str, int]]:
        """Numbers of truths, predictions and matched truths (DeepForest's size) per class."""
        predicted = self.predictions.label[self._counted_predictions]
        return {
            name: {
                "truths": int(np.count_nonzero(self.truth.label == name)),
                "predictions": int(np.count_nonzero(predicted == name)),
                "deepforest_class_size": int(
                    np.count_nonzero(self.truth.label[self.match] == name)
                ),
            }
            for name in self.classes
        }

    @cached_property
    def _ratios(self) -> dict[Name, tuple[np.ndarray, np.ndarray]]:
        """(I,) numerators and denominators of every value that is a ratio of sums."""
        ratios = {**self._overall(), **self._quality()}
        for label in self.classes:
            ratios.update(self._of_class(label))
        return ratios

    def _overall(self) -> dict[Name, tuple[np.ndarray, np.ndarray]]:
        truths, predictions, matches = self.image_counts.values()
        searched = truths == 0
        empty = (searched & (predictions == 0)).astype(np.float64), searched.astype(np.float64)
        found: dict[Name, tuple[np.ndarray, np.ndarray]] = {("empty_image_accuracy", None): empty}
        if self._deepforest_without_truth:
            found["precision", None] = np.zeros(len(truths)), np.ones(len(truths))
            found["recall", None] = matches, truths
            return found
        predictions = np.where(self.counted, predictions, 0)
        if self.rules.average == "dataset":
            return {
                ("recall", None): (matches, truths),
                ("precision", None): (matches, predictions),
                **found,
            }
        has_precision = predictions > 0
        if self.rules.without_predictions == "zero":
            has_precision |= self.image_states == "without predictions"
        recall = divide(matches, truths, undefined=0.0), (truths > 0).astype(np.float64)
        precision = divide(matches, predictions, undefined=0.0), has_precision.astype(np.float64)
        return {("recall", None): recall, ("precision", None): precision, **found}

    @property
    def _deepforest_without_truth(self) -> bool:
        """Whether the truth is empty under DeepForest's rules, which then set precision to 0."""
        alike = all(getattr(self.rules, key) == value for key, value in DEEPFOREST.items())
        return alike and not len(self.truth) and len(self.predictions) > 0

    def _quality(self) -> dict[Name, tuple[np.ndarray, np.ndarray]]:
        name = "matched_distance" if self.kind == POINT else "matched_iou"
        sums = np.bincount(
            self.image_of(self.truth)[self.match],
            self.quality[self.match],
            minlength=len(self.images),
        )
        found: dict[Name, tuple[np.ndarray, np.ndarray]] = {
            (name, None): (sums, self.image_counts["matches"])
        }
        if self.kind != POINT:
            found["pair_iou", None] = (self.pair_sums[0], self.pair_sums[1])
        return found

    def _of_class(self, label: str) -> dict[Name, tuple[np.ndarray, np.ndarray]]:
        own, predicted = self.truth.label == label, self.predictions.label == label
        agree = np.zeros(len(self.truth), bool)
        agree[self.match] = (
            self.truth.label[self.match] == self.predictions.label[self.partner[self.match]]
        )
        right = self._per_image(self.truth, own & agree)
        # both crowns of a match are on the same image
        return {
            ("recall", label): (right, self._per_image(self.truth, own)),
            ("precision", label): (
                right,
                self._per_image(self.predictions, predicted & self._counted_predictions),
            ),
            ("deepforest_class_recall", label): (
                right,
                self._per_image(self.truth, own & self.match),
            ),
            ("deepforest_class_precision", label): (
                right,
                self._per_image(self.predictions, predicted & self.hit),
            ),
        }

    @cached_property
    def _counted_predictions(self) -> np.ndarray:
        return self.counted[self.image_of(self.predictions)]

    def _per_image(self, crowns: Annotations, chosen) -> np.ndarray:
        return np.bincount(self.image_of(crowns)[chosen], minlength=len(self.images))

    def image_of(self, crowns: Annotations) -> np.ndarray:
        """(N,) index of each crown's image in `images`."""
        number = {name: place for place, name in enumerate(self.images)}
        # images whose crowns were all excluded may be unknown here
        places = np.array([number.get(name, -1) for name in crowns.images], np.intp)
        return places[crowns.image]


def _fill(found: dict[Name, np.ndarray], label: str) -> None:
    """Set 0 for a label that only one side of the matches has, as DeepForest does."""
    names = ("deepforest_class_recall", label), ("deepforest_class_precision", label)
    defined = np.isfinite(found[names[0]]) | np.isfinite(found[names[1]])
    for name in names:
        found[name] = np.where(defined, np.nan_to_num(found[name]), np.nan)


_PLURALS = {"box": "boxes", "polygon": "polygons", "point": "points", "": "crowns"}
_ORDER = ("recall", "precision", "f1")


def _place(metric: str) -> tuple[int, str]:
    return (_ORDER.index(metric) if metric in _ORDER else len(_ORDER), metric)
