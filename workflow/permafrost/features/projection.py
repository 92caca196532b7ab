"""Fit the projection of a backbone's maps to the patches of the train split."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from permafrost.backbones.outputs.projected import Projection
from permafrost.features.reading import read_batches
from permafrost.features.running import batch_outputs, moved

if TYPE_CHECKING:
    from permafrost.data.store.image_store import ImageStore
    from permafrost.features.running import Run

#: images of train, and patches of each map, evenly spaced, to which projections are fitted
MOST_IMAGES, MOST_PATCHES = 256, 128


def fit_projections(run: Run, train: ImageStore, channels: int, batch_size: int) -> None:
    """Have the backbone project maps with more than `channels` channels to this number from now on."""
    rows = np.unique(np.linspace(0, len(train) - 1, MOST_IMAGES).round().astype(np.int64))
    moments: dict[str, torch.Tensor] = {}
    about = {"batch_size": batch_size, "workers": 2, "rows": rows, "telling": run.telling}
    for batch in moved(read_batches(train, run.prepare.stored, **about), run.device):
        _, maps = batch_outputs(run, batch)
        for name, values in zip(run.backbone.layers, maps, strict=True):
            if values.shape[1] > channels:
                moment = _moment(values)
                moments[name] = moments[name] + moment if name in moments else moment
    for name, moment in moments.items():
        run.backbone.projections[name] = Projection.fitted(
            moment.cpu().numpy(), channels, run.device
        )


def _moment(maps: torch.Tensor) -> torch.Tensor:
    """(C, C) float64 sum of products of some patches of (B, C, H, W); the writer refuses those that are not finite."""
    patches = maps.flatten(2)
    count = patches.shape[2]
    chosen = np.unique(np.linspace(0, count - 1, min(count, MOST_PATCHES)).round().astype(np.int64))
    found = patches[:, :, torch.from_numpy(chosen).to(maps.device)].double()
    found = found.transpose(1, 2).flatten(0, 1)
    found = found[torch.isfinite(found).all(dim=1)]
    return found.T @ found
