"""Label efficiency of a backbone: linear and knn probes on small draws of the training set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from permafrost.core.device import resolve_device
from permafrost.core.errors import PermafrostError
from permafrost.core.joined_rows import JoinedRows
from permafrost.core.options import AnyDifferent, Different, Options, Positive, ShareOrAll
from permafrost.core.row_file import RowFile
from permafrost.probes.embeddings.arithmetic import score_on_validation
from permafrost.probes.embeddings.features import (
    Features,
    check_splits,
    chosen_rows,
    class_gates,
    on_embeddings,
)
from permafrost.probes.embeddings.predictions import Prediction
from permafrost.probes.embeddings.settings import PredictionsBySetting, Setting
from permafrost.probes.few_shot.draws import Draw, Size, nested_draws, sizes_of
from permafrost.probes.knn.search import neighbours, vote
from permafrost.probes.linear import LinearSettings, fit_linear
from permafrost.probes.options import CGrid, Metric

if TYPE_CHECKING:
    from permafrost.core.targets import Labels

Classifier = Literal["linear", "knn"]


@dataclass(frozen=True, kw_only=True)
class RankedDraw(Options):
    """The classifier and size that are ranked and compared; one of share and per_class is null."""

    classifier: Classifier = "linear"
    share: ShareOrAll | None = None
    per_class: Positive | None = None


@dataclass(frozen=True, kw_only=True)
class FewShotOptions(CGrid):
    """Linear and knn probes on small draws of the training set, by share and by number per class. Validation
    shrinks as train does; smaller draws are parts of larger ones, the same for all backbones.
    """

    shares: AnyDifferent[ShareOrAll] = field(
        default_factory=lambda: [0.01, 0.05, 0.1, 0.2, 0.5, 1.0]
    )
    """Shares of the training set; classes come in the proportions of the data."""
    per_class: AnyDifferent[Positive] = field(default_factory=lambda: [1, 5, 10, 20])
    """Training samples per class; a class with fewer uses all, with a warning."""
    draws: Positive = 5
    """Number of draws of each size."""
    classifiers: Different[Classifier] = field(default_factory=lambda: ["linear", "knn"])
    """Classifiers that are fitted to each draw."""
    ranked: RankedDraw = field(default_factory=lambda: RankedDraw(share=0.1))
    """The classifier and size that are ranked and compared; one of share and per_class is null."""
    ties: Literal["smallest", "log_loss"] = "log_loss"
    k: Different[Positive] = field(default_factory=lambda: [1, 5, 10])
    """Numbers of neighbours of knn; one is chosen on the draw's validation samples."""
    metric: Metric = "l2"
    """Distance of knn."""


def run_few_shot(
    splits: dict[str, Features], options: FewShotOptions, *, device: str, seed: int
) -> PredictionsBySetting:
    """Fit every classifier to every draw and score the test split; one size of one classifier is ranked.

    Parameters
    ----------
    seed : seed of the draws; the same for all backbones of a dataset, so that they learn from the same images.
    """
    check_splits(splits, where="few_shot")
    sizes = sizes_of(options.shares, options.per_class)
    ranked_name = _ranked(options, sizes)
    data = _Data.of(splits)
    draws = list(
        nested_draws(
            data.train.labels,
            data.val.labels,
            sizes,
            draws=options.draws,
            n_classes=data.n_classes,
            seed=seed,
        )
    )
    settings, ranked = [], None
    for classifier in options.classifiers:
        answers = CLASSIFIERS[classifier](data, draws, options, device)
        for draw, answer in zip(draws, answers, strict=True):
            about = {
                "classifier": classifier,
                "share": draw.size.share,
                "per_class": draw.size.per_class,
            }
            name = _name(classifier, draw.size)
            settings.append(
                Setting(
                    name,
                    data.train.targets.scored(answer.scores, answer.prediction),
                    {**about, **answer.settings},
                    n_train=len(draw.train),
                    n_val=len(draw.val),
                    gates=sorted({*answer.gates, *_gates(data, draw)}),
                    draw=draw.number,
                )
            )
            if name == ranked_name and ranked is None:
                ranked = Prediction(answer.prediction, answer.scores, about, [])
    return PredictionsBySetting(ranked, settings, headline=ranked_name)


# without backbone and probe, so that all use the same draws
run = on_embeddings(run_few_shot, seed_of=("dataset", "seed"), streams=True)


@dataclass(frozen=True)
class _Data:
    train: Features
    val: Features
    test: Features

    @classmethod
    def of(cls, splits: dict[str, Features]) -> _Data:
        return cls(*(splits[name] for name in ("train", "val", "test")))

    @property
    def task(self) -> str:
        return self.train.task

    @property
    def n_classes(self) -> int:
        return len(self.train.classes)


def _linear(
    data: _Data, draws: list[Draw], options: FewShotOptions, device: str
) -> Iterator[Prediction]:
    """The linear probe on each draw: C chosen on its validation rows, refitted on both."""
    settings = LinearSettings(
        np.logspace(np.log10(options.c_min), np.log10(options.c_max), options.c_count),
        merge_val=options.merge_val,
        standardize=options.standardize,
        ties=options.ties,
        device=resolve_device(device, "torch"),
    )
    for draw in draws:
        fit = fit_linear(
            (chosen_rows(data.train.embeddings, draw.train), data.train.labels[draw.train]),
            (chosen_rows(data.val.embeddings, draw.val), data.val.labels[draw.val]),
            settings,
            n_classes=data.n_classes,
            task=data.task,
        )
        scores = fit.scores(data.test.embeddings)
        best = {"best_c": fit.settings["best_c"]}
        yield Prediction(
            cast("Labels", data.train.targets).answers(scores), scores, best, fit.gates
        )


def _knn(
    data: _Data, draws: list[Draw], options: FewShotOptions, device: str
) -> Iterator[Prediction]:
    """Unweighted votes of neighbours in each draw's train rows; k chosen on its validation rows."""
    ks, cut = sorted(options.k), len(data.val.embeddings)
    queries = JoinedRows(data.val.embeddings, data.test.embeddings)
    search = SubsetNeighbours(
        data.train.embeddings,
        queries,
        min(ks[-1], len(data.train.embeddings)),
        metric=options.metric,
        device=resolve_device(device, "faiss"),
    )
    of_test = np.arange(cut, len(queries))
    known: dict[str, Any] = {"n_classes": data.n_classes, "task": data.task}
    for draw in draws:
        found = search.find(draw.train, np.concatenate([draw.val, of_test]))
        # in a draw with fewer rows than every k, all rows are neighbours
        possible = [k for k in ks if k <= len(draw.train)] or [len(draw.train)]
        labels, values = data.val.labels[draw.val], []
        for k in possible:
            answer = vote(found[: len(draw.val), :k], data.train.labels, **known)
            values.append(score_on_validation(labels, *answer, data.task))
        k = possible[int(np.argmax(values))]  # the smallest of equals
        scores, prediction = vote(found[len(draw.val) :, :k], data.train.labels, **known)
        gates = [f"k_above_train:{ks[0]}"] if ks[0] > len(draw.train) else []
        yield Prediction(prediction, scores, {"k": k}, gates)


CLASSIFIERS = {"linear": _linear, "knn": _knn}


def _name(classifier: str, size: Size) -> str:
    return f"{classifier}, {size.name}"


def _ranked(options: FewShotOptions, sizes: list[Size]) -> str:
    """The name of the ranked setting."""
    chosen = options.ranked
    size = Size(chosen.share, chosen.per_class)
    if chosen.classifier not in options.classifiers or size not in sizes:
        raise PermafrostError(
            f"`ranked` is not a setting of this probe: {asdict(chosen)}",
            where="few_shot: ranked",
            remedy="name a classifier, and one share or one number per class of the lists",
        )
    return _name(chosen.classifier, size)


def _gates(data: _Data, draw: Draw) -> list[str]:
    """Warnings: classes that the draw's train rows lack, and those with fewer rows than requested."""
    labels = data.train.labels[draw.train]
    gates = class_gates(labels, data.task, data.n_classes)
    if draw.size.per_class is None:
        return gates
    counts = data.train.targets.counts(labels, data.n_classes)
    few = np.flatnonzero((counts > 0) & (counts < draw.size.per_class))
    return gates + [f"fewer_samples_than_asked:{label}" for label in few]


REACH = 16  # neighbours in the shared list, in multiples of k
ENOUGH = 2  # the list is used if this many multiples of k rows of a subset are expected in it


class SubsetNeighbours:
    """Searches for the same queries in subsets of one training set; results are those of `neighbours`.

    The nearest rows of a subset are the first of its members in the list of the nearest of all rows. That list is
    computed once. If it has too few members for a query, the subset itself is searched, and so are
    small subsets, for which a search is cheap.

    Parameters
    ----------
    train_x, queries : (N, d), (M, d) features: arrays, `RowFile`s or `JoinedRows`. The search of a subset keeps
        all its rows in memory.
    k : the largest number of neighbours that will be requested.
    """

    def __init__(self, train_x, queries, k: int, *, metric: str, device: str = "cpu") -> None:
        self.train, self.queries = _rows(train_x), _rows(queries)
        self.k, self.search = k, {"metric": metric, "device": device}

    @cached_property
    def _listed(self) -> np.ndarray:
        count = min(len(self.train), REACH * self.k)
        return neighbours(self.train, self.queries, count, **self.search)

    def find(self, rows: np.ndarray, queries: np.ndarray | None = None) -> np.ndarray:
        """(Q, min(k, R)) row indices of train, the nearest first, ties by ascending row.

        Parameters
        ----------
        rows : (R,) ascending row indices of the subset.
        queries : (Q,) indices of the queries; all by default.
        """
        queries = np.arange(len(self.queries)) if queries is None else queries
        k = min(self.k, len(rows))
        # of REACH k rows of the list, a share of R / N is expected to be in the subset
        if REACH * len(rows) < ENOUGH * len(self.train):
            return self._directly(rows, queries, k)
        member = np.zeros(len(self.train), bool)
        member[rows] = True
        listed = self._listed[queries]
        inside = member[listed]
        first = np.argsort(~inside, axis=1, kind="stable")[:, :k]
        found = np.take_along_axis(listed, first, axis=1)
        few = np.flatnonzero(inside.sum(axis=1) < k)
        if len(few):
            found[few] = self._directly(rows, queries[few], k)
        return found

    def _directly(self, rows, queries, k: int) -> np.ndarray:
        found = neighbours(self.train[rows], self.queries[queries], k, **self.search)
        return rows[found]


def _rows(features):
    return features if isinstance(features, (RowFile, JoinedRows)) else np.asarray(features)
