"""Operators that make the host wait for a GPU, counted on any device."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from torch.utils._python_dispatch import TorchDispatchMode

# a number read from a tensor, also by `if` and `float`; and shapes that depend on values
WAITING = ("aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::equal")


class _Waits(TorchDispatchMode):
    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func.name() in WAITING
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def waits_in_epochs(trainer: type, monkeypatch) -> Iterator[list[int]]:
    """How often each epoch of training calls such an operator."""
    found, whole = [], trainer._epoch

    def epoch(self, *arguments):
        with _Waits() as waits:
            loss = whole(self, *arguments)
        found.append(waits.count)
        return loss

    with monkeypatch.context() as patched:
        patched.setattr(trainer, "_epoch", epoch)
        yield found
