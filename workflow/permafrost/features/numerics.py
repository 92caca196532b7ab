"""The process-wide switches of torch that decide about bits, set for one run and put back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def exact_numerics(threads: int | None = None) -> Iterator[None]:
    """Inside: no TF32, deterministic cuDNN, `threads` CPU threads. Afterwards: as it was before."""
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    saved = (
        matmul.fp32_precision,
        cudnn.conv.fp32_precision,
        cudnn.rnn.fp32_precision,
        torch.backends.mkldnn.matmul.fp32_precision,
        torch.backends.mkldnn.conv.fp32_precision,
        cudnn.deterministic,
        cudnn.benchmark,
        torch.get_num_threads(),
    )
    try:
        _set("ieee", "ieee", "ieee", "ieee", "ieee", True, False, threads or saved[-1])
        yield
    finally:
        _set(*saved)


def _set(matmul, conv, rnn, cpu_matmul, cpu_conv, deterministic, benchmark, threads) -> None:
    torch.backends.cuda.matmul.fp32_precision = matmul
    torch.backends.cudnn.conv.fp32_precision = conv
    torch.backends.cudnn.rnn.fp32_precision = rnn
    torch.backends.mkldnn.matmul.fp32_precision = cpu_matmul
    torch.backends.mkldnn.conv.fp32_precision = cpu_conv
    torch.backends.cudnn.deterministic = deterministic
    torch.backends.cudnn.benchmark = benchmark
    if threads != torch.get_num_threads():
        torch.set_num_threads(threads)
