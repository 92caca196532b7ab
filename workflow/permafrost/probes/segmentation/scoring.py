"""Confusion matrices of predicted pixels, one per image."""

from __future__ import annotations

import torch


def confusion_per_image(
    truth: torch.Tensor, prediction: torch.Tensor, classes: int, ignore_index: int | None
) -> torch.Tensor:
    """(B, K, K) int64 from class ids (B, H, W); rows truth, columns prediction, ignored pixels in none."""
    images = torch.arange(len(truth), device=truth.device)[:, None, None]
    cells = (images * classes + truth) * classes + prediction
    if ignore_index is not None:
        cells = cells[truth != ignore_index]
    counts = torch.bincount(cells.reshape(-1), minlength=len(truth) * classes * classes)
    return counts.reshape(len(truth), classes, classes)
