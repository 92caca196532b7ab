"""A linear layer trained by stochastic gradient descent, for one learning rate or for many at once."""

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
    """A linear layer trained by stochastic gradient descent, its learning rate falling to 0 by a cosine from epoch
    to epoch. A list of learning rates is trained at once, for little more than a few of them alone.
    """

    learning_rate: Rates = 0.1
    """Of a list, the one that is best on validation is taken."""
    momentum: Annotated[float, Interval(ge=0, lt=1)] = 0.9
    """Of gradient descent."""
    standardize: bool = True
    """Standardise features with the statistics of train."""


def run_sgd_linear(
    splits: dict[str, Features], options: SgdLinearOptions, *, device: str, seed: int
) -> Prediction:
    """Train on train and predict the test split with the layer that was best on validation.

    All learning rates start from the same weights and see the same batches, so that the result for
    one does not depend on the others. Of equals the smallest is taken. Validation is used for
    nothing else, and for nothing at all if there is one learning rate; `device` is not used.

    Raises
    ------
    PermafrostError : every learning rate led to weights that are not finite; nothing to train on,
        or to choose on.
    """
    fitted, best, settings, gates = fit_sgd_linear(splits, options, seed=seed)
    return fitted.prediction(fitted.scores("test")[best], settings, gates)


def fit_sgd_linear(
    splits: dict[str, Features], options: SgdLinearOptions, *, seed: int
) -> tuple[FittedModel, int, dict, list[str]]:
    """All heads, the number of the one that was best on validation, what is recorded of it, and gates; see above."""
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
    """(H,) whether all of a head's weights are finite."""
    finite = [np.isfinite(p).reshape(-1, model.heads, model.width) for p in model.parameters]
    return np.concatenate(finite).all(axis=(0, 2))


def _validate(fitted: FittedModel, finite: np.ndarray) -> list[float | None]:
    """What each head reaches on validation; None for one that is not finite."""
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
