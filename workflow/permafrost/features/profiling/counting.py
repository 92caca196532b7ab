"""Count the parameters of a network and the FLOPs of its forward pass."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from permafrost.features.profiling.quantity import Quantity, undefined

# operators that copy, create or view tensors without arithmetic
_NO_ARITHMETIC = frozenset(
    [
        "_to_copy",
        "_unsafe_view",
        "alias",
        "arange",
        "as_strided",
        "cat",
        "clone",
        "constant_pad_nd",
        "contiguous",
        "copy",
        "copy_",
        "detach",
        "detach_",
        "empty",
        "empty_like",
        "empty_strided",
        "expand",
        "fill_",
        "flatten",
        "full",
        "full_like",
        "index_select",
        "lift_fresh",
        "new_empty",
        "new_empty_strided",
        "new_full",
        "new_ones",
        "new_zeros",
        "ones",
        "ones_like",
        "permute",
        "repeat",
        "reshape",
        "resize_",
        "roll",
        "select",
        "slice",
        "split",
        "split_with_sizes",
        "squeeze",
        "squeeze_",
        "stack",
        "t",
        "transpose",
        "transpose_",
        "unbind",
        "unsqueeze",
        "unsqueeze_",
        "view",
        "zero_",
        "zeros",
        "zeros_like",
    ]
)


@dataclass(frozen=True)
class Size:
    """Numbers of parameters and buffers of a module, each tensor once, and their bytes."""

    parameters: int
    buffers: int
    bytes: int


def size_of(module: nn.Module) -> Size:
    """Size of a module; buffers are tensors that are not trained, such as running means."""
    parameters, buffers = _distinct(module.parameters()), _distinct(module.buffers())
    return Size(
        sum(tensor.numel() for tensor in parameters),
        sum(tensor.numel() for tensor in buffers),
        sum(tensor.numel() * tensor.element_size() for tensor in (*parameters, *buffers)),
    )


def _distinct(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    return list({id(tensor): tensor for tensor in tensors}.values())


def count_flops(forward: Callable[[], object]) -> Quantity:
    """Floating-point operations of `forward`; a multiply-add counts as two.

    Counted by `torch.utils.flop_counter`, which covers matrix products, convolutions and attention.
    Other operators (activations, normalization, pooling, sums) count as zero and are listed in the
    notes. Fused attention is disabled, since it would hide its matrix products.
    """
    counter, seen = FlopCounterMode(display=False), _Operators()
    # the counter is innermost: it decomposes operators before `seen` gets them
    with torch.no_grad(), _no_fused_attention(), seen, counter:
        forward()
    uncounted = sorted(seen.names)
    total = counter.get_total_flops()
    if not total:
        reason = f"none of its operators is counted ({', '.join(uncounted) or 'it has none'})"
        return undefined("FLOPs", reason)
    return Quantity(float(total), "FLOPs", notes={"uncounted": uncounted})


class _Operators(TorchDispatchMode):
    """Collects the names of arithmetic operators that are not counted."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        packet = getattr(func, "overloadpacket", func)
        if packet not in flop_registry:
            name = str(packet).rpartition(".")[2]
            if name not in _NO_ARITHMETIC:
                self.names.add(name)
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def _no_fused_attention() -> Iterator[None]:
    """Context in which attention runs as matrix products and a softmax."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
