"""Feature maps in fewer channels: the projection to the subspace that loses least of the training patches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch


@dataclass(frozen=True)
class Projection:
    """A projection of the maps of a layer.

    Attributes
    ----------
    matrix : (kept, channels) float32 with orthonormal rows, on the device of the maps.
    share : what remains of the summed squares of the patches that it was fitted to.
    """

    matrix: torch.Tensor
    share: float

    @classmethod
    def fitted(cls, moment: np.ndarray, kept: int, device: torch.device) -> Projection:
        """Project to the principal `kept` directions of patches with the sum of products `moment`, (C, C) float64.

        Of the bases of this subspace, the one closest to fixed random vectors is used (the polar factor of their
        projection, Higham 1986). It changes little if the moment does, as on another machine, which signs and order of
        eigenvectors do not; and all its channels have about the same spread.
        """
        channels = len(moment)
        values, vectors = np.linalg.eigh(moment)
        principal = vectors[:, -kept:]
        fixed = np.random.default_rng([channels, kept]).standard_normal((channels, kept))
        left, _, right = np.linalg.svd(principal.T @ fixed)
        matrix = torch.from_numpy((principal @ left @ right).T).float()
        total = values.sum()
        share = float(values[-kept:].sum() / total) if total > 0 else 1.0
        return cls(matrix.to(device), share)

    def __call__(self, maps: torch.Tensor) -> torch.Tensor:
        """(B, C, H, W) -> (B, kept, H, W) float32."""
        with torch.autocast(maps.device.type, enabled=False):
            flat = maps.float().flatten(2)
            return (self.matrix @ flat).unflatten(2, maps.shape[2:])
