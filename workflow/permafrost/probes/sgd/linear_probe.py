"""A linear layer trained by stochastic gradient descent, with one learning rate or many at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, cast

import numpy as np
from annotated_types import Interval

from permafrost.core.errors import PermafrostError
from permafrost.core.tasks import targets_of
from permafrost.probes.embeddings.arithmetic import score_on_validation
from permafrost.probes.embeddings.features import Features, on_embeddings
from permafrost.probes.embeddings.predictions import Prediction
from permafrost.probes.options import Descent, Rates
from permafrost.probes.sgd.models import LinearHeads, uniform_start
from permafrost.probes.sgd.training import DescentSchedule, FittedModel

if TYPE_CHECKING:
    from permafrost.core.targets import Labels


@dataclass(frozen=True, kw_only=True)
class SgdLinearOptions(Descent):
    """A linear layer trained by stochastic gradient descent, with a cosine schedule of the learning rate to 0 over
    epochs. All learning rates of a list are trained at once, which takes little more time than a few of them.
    """

    learning_rate: Rates = 0.1
    """Learning rate. Of a list, the best on validation is used."""
    momentum: Annotated[float, Interval(ge=0, lt=1)] = 0.9
    """Momentum of gradient descent."""
    standardize: bool = True
    """Standardise features with the statistics of train."""


def run_sgd_linear(
    splits: dict[str, Features], options: SgdLinearOptions, *, device: str, seed: int
) -> Prediction:
    """Train on train and predict the test split with the layer that is best on validation.

    All learning rates start from the same weights and use the same batches, so that the result for
    one does not depend on the others. Ties go to the smallest. Validation is only used to choose
    among several learning rates; `device` is not used.

    Raises
    ------
    PermafrostError : the weights of every learning rate are not finite; no samples to train or
        choose on.
    """
    fitted, best, settings, gates = fit_sgd_linear(splits, options, seed=seed)
    return fitted.prediction(fitted.scores("test")[best], settings, gates)


def fit_sgd_linear(
    splits: dict[str, Features], options: SgdLinearOptions, *, seed: int
) -> tuple[FittedModel, int, dict, list[str]]:
    """All heads, the index of the best on validation, its record, and gates; see `run_sgd_linear`."""
    given = options.learning_rate
    rates = sorted(given) if isinstance(given, list) else [given]

    def build(generator, inputs: int, outputs: int, task: str) -> LinearHeads:
        return LinearHeads(*uniform_start(generator, inputs, outputs), len(rates), task)

    names = ("epochs", "batch_size", "momentum", "weight_decay")
    schedule = DescentSchedule(tuple(rates), **{name: getattr(options, name) for name in names})
    fitted = FittedModel(
        splits, build, schedule, standardize=options.standardize, seed=seed, where="sgd_linear"
    )
    finite = _finite(fitted.model)
    if not finite.any():
        raise PermafrostError(
            f"the weights became infinite or NaN at every learning rate ({_words(rates)})",
            where="sgd_linear: learning_rate",
            remedy="give a smaller learning_rate or weight_decay",
        )
    val_scores = _validate(fitted, finite) if len(rates) > 1 else []
    best = max(range(len(val_scores)), key=lambda i: _or_least(val_scores[i]), default=0)
    settings = {
        "learning_rate": rates[best],
        "learning_rates": rates,
        "val_scores": val_scores,
        "val_metric": cast("Labels", targets_of(fitted.task)).validation,
        **{name: getattr(options, name) for name in names},
        "standardize": options.standardize,
        "seed": seed,
    }
    diverged = [rate for rate, ok in zip(rates, finite, strict=True) if not ok]
    gates = [*fitted.rescaled, *(f"learning_rate_diverged:{rate:g}" for rate in diverged)]
    if len(rates) > 2 and best in (0, len(rates) - 1):
        gates.append("best_learning_rate_on_edge")
    return fitted, best, settings, gates


run = on_embeddings(run_sgd_linear, streams=True)


def _finite(model: LinearHeads) -> np.ndarray:
    """(H,) bool: all weights of the head are finite."""
    finite = [np.isfinite(p).reshape(-1, model.heads, model.width) for p in model.parameters]
    return np.concatenate(finite).all(axis=(0, 2))


def _validate(fitted: FittedModel, finite: np.ndarray) -> list[float | None]:
    """The validation score of each head; None if it is not finite."""
    labels, scores = fitted.splits["val"].labels, fitted.scores("val")
    answers = cast("Labels", targets_of(fitted.task)).answers
    return [
        score_on_validation(labels, one, answers(one), fitted.task) if ok else None
        for one, ok in zip(scores, finite, strict=True)
    ]


def _or_least(value: float | None) -> float:
    return float("-inf") if value is None else value


def _words(rates: list[float]) -> str:
    return ", ".join(f"{rate:g}" for rate in rates)
