"""Metrics of predicted numbers: R², RMSE, MAE."""

from .evaluate import evaluate, from_sums

__all__ = ["evaluate", "from_sums"]
