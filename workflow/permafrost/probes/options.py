"""Options shared by probes of embeddings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from permafrost.core.options import Above0, AtLeast0, Different, Options, Positive

Metric = Literal["l2", "cosine"]
#: a learning rate, or several of which the best on validation is used
Rates = Above0 | Different[Above0]


@dataclass(frozen=True, kw_only=True)
class CGrid(Options):
    """Values of the inverse regularisation strength C, and the choice among them on validation."""

    c_min: Above0 = 1e-6
    """Smallest inverse regularisation strength C of linear."""
    c_max: Above0 = 1e4
    """Largest C of linear."""
    c_count: Positive = 40
    """Number of values of C on the logarithmic grid."""
    merge_val: bool = True
    """Refit linear with the chosen C on train and validation."""
    standardize: bool = False
    """Standardise features for linear with the statistics of train."""
    ties: Literal["smallest", "log_loss"] = "smallest"
    """Among values of C that are equally good on validation, the smallest, or that of the least validation log-loss.
    With few validation samples most of the grid is equally good, and the smallest C gives a model that has hardly
    learned."""


@dataclass(frozen=True, kw_only=True)
class Descent(Options):
    """Training by stochastic gradient descent."""

    weight_decay: AtLeast0 = 0.0
    """Weight decay of gradient descent."""
    epochs: Positive = 100
    """Passes over the training samples."""
    batch_size: Positive = 256
    """Samples per training step."""
