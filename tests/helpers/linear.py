"""The linear probe with its settings as keywords."""

from __future__ import annotations

from permafrost.probes import linear


def fit_linear(
    train_x, train_y, val_x, val_y, *, n_classes: int, task: str, **settings
) -> linear.LinearFit:
    """`permafrost.probes.linear.fit_linear`."""
    return linear.fit_linear(
        (train_x, train_y),
        (val_x, val_y),
        linear.LinearSettings(**settings),
        n_classes=n_classes,
        task=task,
    )
