"""The labels of a test set, judged by several backbones together.

An image is suspected if more than half of the backbones contradict its label by confident learning and propose the
same other class. Such an image may have a wrong label, show two classes, or be one that no backbone can classify: its
numbers are alike. Scores without suspects are too high, since the images left out are those on which backbones err.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.statistics.across_datasets.standings import ranks_within
from permafrost.statistics.wrong_labels.confident import Confident, confident
from permafrost.statistics.wrong_labels.difficulty import (
    Difficulty,
    difficulty_of,
    discrimination_of,
)


@dataclass(frozen=True)
class Judged:
    """N images of K classes, judged by B backbones, which are sorted by accuracy, the best first.

    Attributes
    ----------
    backbones : their names.
    given : (N,) class ids.
    predicted : (B, N) class ids.
    votes : (N,) number of backbones that contradict the label and propose `proposed`.
    proposed : (N,) the class with most votes, the first of equal ones; -1 without votes.
    suspects : (N,) bool.
    own, margin : (N,) means over backbones, as in `Confident`.
    found_if_wrong : share of images that would be suspects if they had another label, drawn at random.
    alone : (B,) number of labels that each backbone contradicts.
    discrimination : (N,) see `discrimination_of`.
    """

    backbones: list[str]
    given: np.ndarray
    predicted: np.ndarray
    votes: np.ndarray
    proposed: np.ndarray
    suspects: np.ndarray
    own: np.ndarray
    margin: np.ndarray
    found_if_wrong: float
    alone: np.ndarray
    difficulty: Difficulty
    discrimination: np.ndarray

    @property
    def right(self) -> np.ndarray:
        """(B, N) bool."""
        return self.predicted == self.given

    @property
    def order(self) -> np.ndarray:
        """Suspects, those with most votes first, then those with the lowest margin."""
        found = np.flatnonzero(self.suspects)
        return found[np.lexsort((found, self.margin[found], -self.votes[found]))]

    @property
    def all_wrong(self) -> float:
        """Share of images on which every backbone errs; the rest is the accuracy of the best choice per image."""
        return float((~self.right.any(axis=0)).mean())

    @property
    def same_wrong(self) -> float:
        """Share of images on which all backbones give the same wrong class."""
        same = (self.predicted == self.predicted[0]).all(axis=0)
        return float((same & ~self.right[0]).mean())

    @property
    def accuracy(self) -> np.ndarray:
        """(2, B) on all images, and without suspects (NaN if nothing is left)."""
        kept = self.right[:, ~self.suspects]
        left = kept.mean(axis=1) if kept.size else np.full(len(kept), np.nan)
        return np.stack([self.right.mean(axis=1), left])

    @property
    def ranks(self) -> np.ndarray:
        """(2, B) of `accuracy`; ties share their mean rank."""
        return ranks_within(self.accuracy)

    @property
    def decides(self) -> np.ndarray:
        """(N,) number of the better backbone (0 or 1) if exactly one of the first two is right, else -1."""
        if len(self.backbones) < 2:
            return np.full(len(self.given), -1)
        first, second = self.right[:2]
        return np.where(first == second, -1, np.where(first, 0, 1))


def judge_several(
    given: np.ndarray, answers: Mapping[str, tuple[np.ndarray, np.ndarray]]
) -> Judged:
    """Judge each label of images with L labels: as L tests of two classes, absent (0) and present (1).

    Parameters
    ----------
    given : (N, L) of 0 and 1. answers : backbone -> (N, L) predicted labels, and (N, L) probabilities.

    Returns
    -------
    With L N items: all images for the first label, then for the second, …

    Raises
    ------
    PermafrostError : as `confident`, with the backbone.
    """
    each = {
        name: (np.ravel(said.T), np.stack([1 - scores.T.ravel(), scores.T.ravel()], axis=1))
        for name, (said, scores) in answers.items()
    }
    return judge_labels(np.ravel(given.T), each, labels=given.shape[1])


def judge_labels(
    given: np.ndarray,
    answers: Mapping[str, tuple[np.ndarray, np.ndarray]],
    *,
    labels: int = 1,
) -> Judged:
    """Judge the labels of a test set.

    Parameters
    ----------
    given : (N,) class ids.
    labels : parts of equal length whose thresholds are apart.
    answers : backbone -> (N,) predicted class ids, and (N, K) probabilities of a probe that has not seen the image.

    Raises
    ------
    PermafrostError : as `confident`, with the backbone.
    """
    accuracy = {name: np.mean(said == given) for name, (said, _) in answers.items()}
    names = sorted(answers, key=lambda name: (-accuracy[name], name))
    each = [_confident(name, given, answers[name][1], labels) for name in names]
    classes = answers[names[0]][1].shape[1]
    sure = _counted([one.classes for one in each], classes)
    votes = _counted([np.where(one.contradicted, one.classes, -1) for one in each], classes)
    most = votes.max(axis=1)
    suspects = 2 * most > len(names)
    predicted = np.stack([answers[name][0] for name in names])
    right = predicted == given
    return Judged(
        names,
        given,
        predicted,
        most,
        np.where(most > 0, votes.argmax(axis=1), -1),
        suspects,
        np.mean([one.own for one in each], axis=0),
        np.mean([one.margin for one in each], axis=0),
        _found_if_wrong(sure, given, len(names)),
        np.array([np.count_nonzero(one.contradicted) for one in each]),
        difficulty_of(right),
        discrimination_of(right),
    )


def _confident(name: str, given: np.ndarray, probabilities: np.ndarray, labels: int) -> Confident:
    parts = zip(np.split(given, labels), np.split(probabilities, labels), strict=True)
    try:
        found = [astuple(confident(*part)) for part in parts]
        return Confident(*map(np.concatenate, zip(*found, strict=True)))
    except PermafrostError as error:
        raise PermafrostError(error.problem, where=name, remedy=error.remedy) from error


def _counted(chosen: list[np.ndarray], classes: int) -> np.ndarray:
    """(N, K) how many backbones chose each class; -1 is none."""
    counts = np.zeros((len(chosen[0]), classes), np.int64)
    for one in chosen:
        rows = np.flatnonzero(one >= 0)
        counts[rows, one[rows]] += 1
    return counts


def _found_if_wrong(sure: np.ndarray, given: np.ndarray, backbones: int) -> float:
    """A wrong label is contradicted if a majority is sure of one class, and the label is another one."""
    images, classes = sure.shape
    if classes < 2:
        return 0.0
    agreed = 2 * sure.max(axis=1) > backbones
    # of the K - 1 wrong labels one is what a majority is sure of, unless that is the given one
    chance = np.where(sure.argmax(axis=1) == given, 1.0, (classes - 2) / (classes - 1))
    return float((agreed * chance).sum() / images)
