"""The optimiser and schedule of heads, against those of torch, and what they spare."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from helpers.stores.maps import toy_stores
from permafrost.probes.dense.adamw import AdamW, scheduled_rate


def test_adamw_moves_as_torch_does():
    torch.manual_seed(0)
    ours = [torch.nn.Parameter(torch.randn(5, 3)), torch.nn.Parameter(torch.randn(4))]
    theirs = [torch.nn.Parameter(p.detach().clone()) for p in ours]
    mine = AdamW(ours, 0.01, 0.1)
    reference = torch.optim.AdamW(theirs, lr=0.01, weight_decay=0.1)
    for step in range(20):
        for p, q in zip(ours, theirs, strict=True):
            p.grad = torch.randn_like(p) * (step + 1)
            q.grad = p.grad.clone()
        mine.step(), reference.step()
    for p, q in zip(ours, theirs, strict=True):
        torch.testing.assert_close(p, q, rtol=1e-6, atol=1e-7)


def test_the_cosine_is_that_of_torch():
    parameter = [torch.nn.Parameter(torch.zeros(1))]
    reference = torch.optim.AdamW(parameter, lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(reference, T_max=7, eta_min=1e-3)
    for epoch in range(7):
        found = scheduled_rate("cosine", 0.1, 1e-3, epoch, 7)
        assert found == pytest.approx(reference.param_groups[0]["lr"])
        reference.step(), schedule.step()
    assert scheduled_rate("constant", 0.1, 1e-3, 5, 7) == 0.1


def test_training_needs_no_compiler_of_torch(tmp_path):
    """Importing it takes longer than training a small head."""
    toy = toy_stores(tmp_path / "stores")
    code = (
        "import sys; sys.path.insert(0, 'tests'); from pathlib import Path; from helpers.stores.maps import *;"
        f"stores = { ({k: str(v) for k, v in toy.items()})!r};"
        f"run_probe(spec(SEGMENTATION), stores, Path({str(tmp_path / 'x.parquet')!r}), device='cpu');"
        "print([m for m in ('torch._dynamo', 'sympy', 'timm', 'torchgeo') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
