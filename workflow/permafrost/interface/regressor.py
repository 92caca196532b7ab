"""The ridge probe for regression, as a scikit-learn estimator."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted, validate_data

from permafrost.interface.fitting import as_value_errors, features_of
from permafrost.interface.given import array_of, in_one_order, pair_of
from permafrost.probes.ridge.probe import RidgeOptions, fit_ridge


class Ridge(RegressorMixin, BaseEstimator):
    """Ridge regression, with alpha chosen by leave-one-out, or on validation data if given.

    Parameters
    ----------
    alpha_min, alpha_max, alpha_count : logarithmic grid of alpha.
    merge_val : fit the chosen alpha on training and validation data together.
    standardize : divide features by their standard deviation in the training data.

    Attributes
    ----------
    alpha_ : the chosen value.
    alphas_, val_scores_ : (A,) all values, and their root mean squared errors.
    gates_ : names of failed sanity checks.

    Examples
    --------
    >>> import numpy as np, permafrost as pf
    >>> X = np.arange(20.0)[:, None]
    >>> ridge = pf.Ridge().fit(X, 2 * X[:, 0] + 1)
    >>> [round(float(value), 3) for value in ridge.predict([[3.0], [30.0]])]
    [7.0, 61.0]
    """

    def __init__(
        self,
        *,
        alpha_min: float = 1e-6,
        alpha_max: float = 1e6,
        alpha_count: int = 49,
        merge_val: bool = True,
        standardize: bool = True,
    ) -> None:
        self.alpha_min = alpha_min
        self.alpha_max = alpha_max
        self.alpha_count = alpha_count
        self.merge_val = merge_val
        self.standardize = standardize

    def fit(self, X, y, validation: tuple | None = None) -> Ridge:
        """Fit (N, d) features and (N,) targets.

        Parameters
        ----------
        validation : pair of features and targets for the choice of alpha; None: leave-one-out.

        Raises
        ------
        ValueError : wrong shapes or types.
        """
        X, y = in_one_order(X=X, y=y)
        X, y = validate_data(
            self, X, y, dtype=[np.float32, np.float64], y_numeric=True, ensure_min_samples=2
        )
        names = ("alpha_min", "alpha_max", "alpha_count", "merge_val", "standardize")
        options = RidgeOptions(
            choose="leave_one_out" if validation is None else "validation",
            **{name: getattr(self, name) for name in names},
        )
        more = (np.zeros((0, X.shape[1])), np.zeros(0))
        if validation is not None:
            rows, numbers = pair_of(validation)
            rows = validate_data(self, rows, reset=False, dtype=[np.float32, np.float64])
            check_consistent_length(rows, numbers)
            more = rows, array_of(numbers, "y of validation")
        train, val = (
            features_of(rows, np.asarray(numbers, np.float64), "regression", 0)
            for rows, numbers in ((X, y), more)
        )
        with as_value_errors():
            self._fit, chosen = fit_ridge(train, val, options)
        self._chosen = chosen.value
        self.alpha_, self.gates_ = chosen.settings["alpha"], chosen.gates
        self.alphas_ = np.array(chosen.settings["alphas"])
        self.val_scores_ = np.array(chosen.settings["val_scores"])
        return self

    def score(self, X, y, sample_weight=None) -> float:
        """R² on (N, d) features and (N,) targets."""
        return super().score(*in_one_order(X=X, y=y, sample_weight=sample_weight))

    def predict(self, X) -> np.ndarray:
        """(N,) predictions for (N, d) features."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=[np.float32, np.float64])
        return self._fit.predict(np.asarray(X, np.float32), self._chosen)[:, 0]
