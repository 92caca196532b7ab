"""Metrics of predicted numbers: R², RMSE, MAE."""

from permafrost.metrics.regression.evaluate import evaluate, from_sums

__all__ = ["evaluate", "from_sums"]
