"""Unified focal loss: a focal cross-entropy and a focal Tversky loss in one (Yeung et al. 2022).

With p the probability of the true class, and per class tp, fp, fn summed over the scored pixels::

    CE     = mean over pixels of w_class (1 - p)^(1 - gamma) (-log p)
    mTI    = (tp + s) / (tp + (1 - delta) fp + delta fn + s)
    TV     = mean over classes that occur in the truth of (1 - mTI)^gamma
    loss   = lambda CE + (1 - lambda) TV
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

SMOOTH = 1e-5


class UnifiedFocalLoss(nn.Module):
    """Of logits (B, K, H, W) and class ids (B, H, W).

    Parameters
    ----------
    lam : share of the cross-entropy (lambda), the rest is Tversky.
    gamma : focus, in [0, 1]: larger suppresses easy pixels less and enhances rare classes more.
    delta : what a missed pixel weighs beside a false one, in [0, 1].
    weight : of each class in the cross-entropy; by default 1.
    log_cosh : take log(cosh(.)) of the Tversky part, which smooths its gradient.
    ignore_index : class id of pixels that do not count.
    """

    def __init__(
        self,
        lam: float = 0.5,
        gamma: float = 0.5,
        delta: float = 0.6,
        weight: torch.Tensor | None = None,
        log_cosh: bool = False,
        ignore_index: int = -100,
    ) -> None:
        super().__init__()
        for name, value in (("lam", lam), ("gamma", gamma), ("delta", delta)):
            if not 0 <= value <= 1:
                raise ValueError(f"{name} = {value} is not between 0 and 1")
        self.lam, self.gamma, self.delta = lam, gamma, delta
        self.log_cosh, self.ignore_index = log_cosh, ignore_index
        self.register_buffer("weight", weight)

    def forward(self, logits: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
        logits = logits.float()
        valid = masks != self.ignore_index
        classes = logits.shape[1]
        log_p = functional.log_softmax(logits.permute(0, 2, 3, 1)[valid], dim=1)
        truth = masks[valid]
        return self.lam * self._cross_entropy(log_p, truth) + (1 - self.lam) * self._tversky(
            log_p.exp(), functional.one_hot(truth, classes).to(log_p.dtype)
        )

    def _cross_entropy(self, log_p: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
        log_true = log_p.gather(1, truth[:, None])[:, 0]
        # (1 - p)^(1 - gamma) has no finite slope at p = 1
        easy = (-torch.expm1(log_true)).clamp_min(torch.finfo(log_p.dtype).eps)
        loss = -(easy ** (1 - self.gamma)) * log_true
        return (loss if self.weight is None else loss * self.weight[truth]).mean()

    def _tversky(self, p: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
        hits = (p * truth).sum(dim=0)
        false, missed = p.sum(dim=0) - hits, truth.sum(dim=0) - hits
        index = (hits + SMOOTH) / (hits + (1 - self.delta) * false + self.delta * missed + SMOOTH)
        present = truth.any(dim=0)
        loss = (1 - index[present]).clamp_min(torch.finfo(p.dtype).eps) ** self.gamma
        loss = loss.mean()
        return torch.log(torch.cosh(loss)) if self.log_cosh else loss
