"""Drawing random weights without leaving a trace in the process's generators."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator


@contextlib.contextmanager
def isolated_seed(seed: int) -> Iterator[None]:
    """Inside, torch, NumPy and Python draw from `seed`; afterwards their states are as before."""
    import numpy as np
    import torch

    python_state, numpy_state = random.getstate(), np.random.get_state()
    try:
        # CPU generator only: models are built on the CPU, whatever device they run on
        with torch.random.fork_rng(devices=[]):
            torch.random.default_generator.manual_seed(seed)
            np.random.seed(seed % 2**32)
            random.seed(seed)
            yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)
