"""Maps of a compiled model. Tracing takes its time, so this file holds nothing else."""

from __future__ import annotations

import functools

import numpy as np
import torch
from helpers.stores.images import Dataset

MODEL = {"kind": "timm", "model": "test_resnet", "weights": {"source": "random"}}


def test_a_compiled_model_gives_the_same_maps_also_for_a_last_smaller_batch(tmp_path, monkeypatch):
    # traces the hooks like any other backend, and does not take a minute
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="eager"))
    dataset = Dataset(tmp_path, counts=(7, 1, 1), masks=True)
    exact = dataset.extract(MODEL, extraction={"size": 64}, out="exact")["train"]
    compiled = dataset.extract(
        MODEL, extraction={"size": 64, "compile": True}, out="compiled", batch_size=5
    )["train"]
    for name in ("embeddings", "map0", "map3"):
        np.testing.assert_allclose(
            exact.read(name), compiled.read(name), rtol=2e-3, atol=2e-3, err_msg=name
        )
