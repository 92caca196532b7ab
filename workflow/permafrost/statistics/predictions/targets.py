"""What predictions have in common that hold one target for every sample; see `Predictions`."""

from __future__ import annotations

import numpy as np


class Targets:
    """Has ``sample_ids``, ``target`` and, unless ``answers`` is overridden, ``prediction``."""

    dead_classes = ()
    rules = ()
    boundary = False

    def __len__(self) -> int:
        return len(self.sample_ids)

    @property
    def truth(self) -> np.ndarray:
        return self.target

    @property
    def truth_keys(self) -> np.ndarray:
        return self.target

    @property
    def answers(self) -> np.ndarray:
        return self.prediction
