"""Weights: safetensors, torch's files by its restricted unpickler, and the converter's own unpickler."""

from __future__ import annotations

import io
import pickle

import torch
from permafrost.backbones.weights import unpickling
from permafrost.backbones.weights.checkpoint import read_state_dict
from safetensors.torch import save

from helpers.fuzzing import Reader
from helpers.fuzzing.bounds import written

_STATE = {"conv.weight": torch.arange(8.0).reshape(2, 4), "bias": torch.zeros(2, dtype=torch.int8)}


class _Runs:
    """A pickle of it starts a program."""

    def __reduce__(self):
        import os

        return os.system, ("touch hostile",)


def _read(ending: str):
    return lambda data: read_state_dict(written(data, f"weights{ending}"), where="backbone x")


def _convert(data: bytes) -> None:
    """What the converter's process does, without its limits."""
    file, size = io.BytesIO(data), len(data)
    kind = unpickling._Zip if data[:4] == b"PK\x03\x04" else unpickling._Legacy
    opened = kind(file, size)
    tensors, _ = unpickling.weights_of(opened.content(), None)
    unpickling.check_tensors(tensors, unpickling._most_bytes(size))
    unpickling.write(io.BytesIO(), tensors, opened.raw)


def _saved(content, **options) -> bytes:
    stream = io.BytesIO()
    torch.save(content, stream, **options)
    return stream.getvalue()


def _checkpoints() -> list[bytes]:
    nested = {"state_dict": _STATE, "epoch": 3}
    legacy = {"_use_new_zipfile_serialization": False}
    return [
        *(_saved(each) for each in (_STATE, nested)),
        *(_saved(each, **legacy) for each in (_STATE, nested)),
        _saved({"state_dict": _STATE, "args": _Runs()}, **legacy),
        pickle.dumps(_Runs()),
    ]


_WORDS = (
    "cos\\nsystem\\n",
    "torch._utils",
    "_rebuild_tensor_v2",
    "torch",
    "FloatStorage",
    "storage",
)
READERS = {
    "safetensors": Reader(
        _read(".safetensors"), lambda: [save(_STATE)], ("dtype", "shape", "data_offsets", "F32")
    ),
    "checkpoint": Reader(_read(".pth"), _checkpoints, _WORDS),
    # its process turns any exception into a refusal
    "convert": Reader(_convert, _checkpoints, _WORDS, accepted=(Exception,)),
}
