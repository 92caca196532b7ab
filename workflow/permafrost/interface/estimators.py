"""The probes of embeddings for classification and multi-label tasks, as scikit-learn estimators.

With the same features, options and seed, they give the same predictions as the pipeline, to the
last bit. Features are converted to float32, as in feature stores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_consistent_length
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from permafrost.core.device import resolve_device
from permafrost.core.tasks import targets_of
from permafrost.interface.fitting import as_value_errors, features_of, held_out
from permafrost.interface.given import group_names, in_one_order, pair_of
from permafrost.probes.knn.search import NeighbourSearch, vote
from permafrost.probes.linear import LinearSettings, fit_linear
from permafrost.probes.sgd.linear_probe import SgdLinearOptions, fit_sgd_linear

if TYPE_CHECKING:
    from permafrost.core.targets import Labels


class _Probe(ClassifierMixin, BaseEstimator):
    """Converts classes of any type to ids and back; (N, L) targets of 0 and 1 are multi-label."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = False
        return tags

    def _known(self, X, y) -> tuple[np.ndarray, np.ndarray]:
        """Checked features and class ids of the training data; sets ``task_`` and ``classes_``."""
        X, y = in_one_order(X=X, y=y)
        X, y = validate_data(
            self, X, y, dtype=[np.float32, np.float64], multi_output=True, ensure_min_samples=2
        )
        if y.ndim == 2 and y.shape[1] == 1:
            y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        self.task_ = "multilabel" if y.ndim == 2 else "classification"
        if self.task_ == "multilabel":
            self.classes_, self._label_type = np.arange(y.shape[1]), y.dtype
            return X, (y != 0).astype(np.uint8)
        self.classes_, ids = np.unique(y, return_inverse=True)
        return X, ids.astype(np.int64)

    def _ids(self, y) -> np.ndarray:
        """The ids of validation targets, whose classes must occur in the training data."""
        y = np.asarray(y)
        if self.task_ == "multilabel":
            return (y != 0).astype(np.uint8)
        unknown = np.setdiff1d(y, self.classes_)
        if unknown.size:
            raise ValueError(f"validation has classes that train lacks: {unknown.tolist()[:5]}")
        return np.searchsorted(self.classes_, y).astype(np.int64)

    def _splits(self, X, ids, validation, groups) -> tuple[tuple, tuple]:
        """Train and validation as pairs of features and ids."""
        if validation is not None:
            more, y = pair_of(validation)
            check_consistent_length(more, y)
            more = validate_data(self, more, reset=False, dtype=[np.float32, np.float64])
            return (X, ids), (more, self._ids(y))
        groups = None if groups is None else group_names(groups, len(ids))
        out = held_out(ids, fraction=self.validation_fraction, seed=self.seed, groups=groups)
        return (X[~out], ids[~out]), (X[out], ids[out])

    def _asked(self, X) -> np.ndarray:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=[np.float32, np.float64])
        return np.asarray(X, np.float32)

    def score(self, X, y, sample_weight=None) -> float:
        """Accuracy on (N, d) features; if multi-label, the share with all labels correct."""
        return super().score(*in_one_order(X=X, y=y, sample_weight=sample_weight))

    def predict(self, X) -> np.ndarray:
        """(N,) classes for (N, d) features, or (N, L) labels of 0 and 1."""
        shares = self.predict_proba(X)
        found = cast("Labels", targets_of(self.task_)).answers(shares)
        return (
            found.astype(self._label_type) if self.task_ == "multilabel" else self.classes_[found]
        )


class KNN(_Probe):
    """Vote of the k nearest training samples, by exact search.

    Equal distances are ordered by index, and equal votes by class, the lowest first.

    Parameters
    ----------
    k : number of neighbours.
    metric : ``cosine`` or ``l2``.
    device : ``cpu``, ``cuda`` or ``auto``: a GPU if FAISS can use one.

    Examples
    --------
    >>> import numpy as np, permafrost as pf
    >>> X, y = np.array([[0.0], [0.1], [1.0], [1.1]]), np.array(["sea", "sea", "land", "land"])
    >>> pf.KNN(k=2, metric="l2").fit(X, y).predict([[0.2], [0.9]]).tolist()
    ['sea', 'land']
    """

    def __init__(self, k: int = 5, *, metric: str = "cosine", device: str = "cpu") -> None:
        self.k = k
        self.metric = metric
        self.device = device

    def fit(self, X, y) -> KNN:
        """Store (N, d) features and (N,) classes or (N, L) labels of 0 and 1, with N at least k.

        Raises
        ------
        ValueError : fewer than k samples, or wrong shapes or types.
        """
        X, self._train_ids = self._known(X, y)
        if len(X) < self.k:
            raise ValueError(f"k = {self.k} neighbours of n_samples = {len(X)}; choose a smaller k")
        with as_value_errors():
            self._search = NeighbourSearch(
                np.asarray(X, np.float32),
                self.k,
                metric=self.metric,
                device=resolve_device(self.device, "faiss"),
            )
        return self

    def __getstate__(self) -> dict:
        # FAISS's index cannot be pickled, so it is rebuilt from its rows
        state = dict(super().__getstate__())
        if search := state.pop("_search", None):
            state["_search_rows"] = search.source
        return state

    def __setstate__(self, state: dict) -> None:
        rows = state.pop("_search_rows", None)
        super().__setstate__(state)
        if rows is not None:
            self._search = NeighbourSearch(
                rows, self.k, metric=self.metric, device=resolve_device(self.device, "faiss")
            )

    def kneighbors(self, X) -> np.ndarray:
        """(N, k) indices of the nearest training samples, by distance, then by index."""
        rows = self._asked(X)
        with as_value_errors():
            return self._search.find(rows)

    def predict_proba(self, X) -> np.ndarray:
        """(N, K) shares of the neighbours with each class or label, ordered as ``classes_``."""
        found = self.kneighbors(X)
        return vote(found, self._train_ids, n_classes=len(self.classes_), task=self.task_)[0]


class LinearSweep(_Probe):
    """Logistic regression with C chosen from a grid on validation data, then fitted again.

    Parameters
    ----------
    C : values to try; by default 40 from 1e-6 to 1e4.
    validation_fraction : if `fit` gets no validation data, the share of each class (or of the
        groups, if given) that is held out.
    merge_val : fit the chosen C on training and validation data together.
    standardize : divide features by their standard deviation in the training data.
    solver : ``lbfgs``, to convergence, or ``adam``, in mini-batches.
    ties : choice among equally good values of C: the ``smallest``, or the one with the lowest
        ``log_loss``.
    seed : seed of the held-out samples and of ``adam``.
    device : ``cpu`` (NumPy), ``cuda`` or ``auto``.

    Attributes
    ----------
    C_ : the chosen value; None: the training data have one class.
    C_path_ : dict of arrays, one value per C: ``C``, ``val_score``, ``objective``, ``converged``.
    coef_, intercept_ : (K, d) and (K,), of the final model.
    gates_ : names of failed sanity checks, such as ``best_c_on_edge``.

    Examples
    --------
    >>> import numpy as np, permafrost as pf
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 50)
    >>> X = rng.normal(size=(100, 4)) + 3 * y[:, None]
    >>> sweep = pf.LinearSweep(C=[0.01, 1.0, 100.0]).fit(X, y)
    >>> float(sweep.score(X, y)) > 0.95
    True
    """

    def __init__(
        self,
        C: Sequence[float] | None = None,
        *,
        validation_fraction: float = 0.2,
        merge_val: bool = True,
        standardize: bool = False,
        solver: str = "lbfgs",
        ties: str = "smallest",
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        self.C = C
        self.validation_fraction = validation_fraction
        self.merge_val = merge_val
        self.standardize = standardize
        self.solver = solver
        self.ties = ties
        self.seed = seed
        self.device = device

    def fit(self, X, y, validation: tuple | None = None, groups=None) -> LinearSweep:
        """Fit (N, d) features and (N,) classes or (N, L) labels of 0 and 1.

        Parameters
        ----------
        validation : pair of features and targets for the choice of C; None: held out of `X`.
        groups : (N,) names; whole groups are held out.

        Raises
        ------
        ValueError : wrong shapes or types, or too few samples to hold some out.
        """
        X, y, groups = in_one_order(X=X, y=y, groups=groups)
        X, ids = self._known(X, y)
        train, val = self._splits(X, ids, validation, groups)
        settings = LinearSettings(
            self.C,
            merge_val=self.merge_val,
            standardize=self.standardize,
            solver=self.solver,
            ties=self.ties,
            seed=self.seed,
            device=resolve_device(self.device, "torch"),
        )
        with as_value_errors():
            self._fit = fit_linear(
                *cast(
                    "tuple[tuple, tuple]",
                    ((np.asarray(rows, np.float32), labels) for rows, labels in (train, val)),
                ),
                settings,
                n_classes=len(self.classes_),
                task=self.task_,
            )
        self.coef_, self.intercept_ = self._fit.coef, self._fit.intercept
        self.gates_, found = self._fit.gates, self._fit.settings
        self.C_ = found["best_c"]
        self.C_path_ = {
            "C": np.array(found["c_grid"]),
            "val_score": np.array(found["val_scores"]),
            "objective": np.array(found.get("objectives", []), np.float64),
            "converged": np.array(found.get("converged", []), bool),
        }
        return self

    def predict_proba(self, X) -> np.ndarray:
        """(N, K) probabilities, or (N, L) if multi-label, in the order of ``classes_``."""
        rows = self._asked(X)
        with as_value_errors():
            return self._fit.scores(rows)


class SGDLinear(_Probe):
    """A linear layer trained by SGD with momentum; the best of several learning rates.

    Parameters
    ----------
    learning_rates : values to try, or a single value, which needs no validation data.
    momentum, weight_decay : as in ``torch.optim.SGD``; the learning rate follows a cosine schedule.
    epochs, batch_size : passes over the training data, and samples per step.
    standardize : divide centred features by their standard deviation in the training data.
    validation_fraction, seed : as in `LinearSweep`.

    Attributes
    ----------
    learning_rate_ : the chosen value.
    gates_ : names of failed sanity checks.

    Examples
    --------
    >>> import numpy as np, permafrost as pf
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["land", "sea"], 50)
    >>> X = rng.normal(size=(100, 4)) + 6 * (y == "sea")[:, None]
    >>> probe = pf.SGDLinear(0.1, epochs=20, batch_size=20).fit(X, y)
    >>> probe.learning_rate_, float(probe.score(X, y)) > 0.95
    (0.1, True)
    """

    def __init__(
        self,
        learning_rates: float | Sequence[float] = (0.001, 0.01, 0.1, 1.0),
        *,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        epochs: int = 100,
        batch_size: int = 256,
        standardize: bool = True,
        validation_fraction: float = 0.2,
        seed: int = 0,
    ) -> None:
        self.learning_rates = learning_rates
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.epochs = epochs
        self.batch_size = batch_size
        self.standardize = standardize
        self.validation_fraction = validation_fraction
        self.seed = seed

    def fit(self, X, y, validation: tuple | None = None, groups=None) -> SGDLinear:
        """Train on (N, d) features; arguments and errors as in `LinearSweep.fit`."""
        X, y, groups = in_one_order(X=X, y=y, groups=groups)
        X, ids = self._known(X, y)
        one = np.ndim(self.learning_rates) == 0
        if one and validation is None:
            train = val = (X, ids)  # there is nothing to choose, so nothing is held out
        else:
            train, val = self._splits(X, ids, validation, groups)
        names = ("momentum", "weight_decay", "epochs", "batch_size", "standardize")
        options = SgdLinearOptions(
            # a float if `one`, else a sequence
            learning_rate=self.learning_rates if one else list(self.learning_rates),  # type: ignore[arg-type]
            **{name: getattr(self, name) for name in names},
        )
        splits = {
            name: features_of(*split, self.task_, len(self.classes_))
            for name, split in (("train", train), ("val", val))
        }
        with as_value_errors():
            self._fitted, self._head, settings, self.gates_ = fit_sgd_linear(
                splits, options, seed=self.seed
            )
        self.learning_rate_ = settings["learning_rate"]
        return self

    def predict_proba(self, X) -> np.ndarray:
        """(N, K) probabilities, or (N, L) if multi-label, in the order of ``classes_``."""
        rows = self._asked(X)
        return self._fitted.scores_of(rows)[self._head]
