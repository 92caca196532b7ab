"""The array operations of the solver, for NumPy and for torch.

The algorithm is written once, with operators and methods that arrays and tensors share
(``@``, ``+=``, ``reshape``, ``swapaxes``, ``sum(axis=...)``); this module has the others.
"""

from __future__ import annotations

import contextlib

import numpy as np

from permafrost.core.errors import PermafrostError, near_names

# OpenBLAS does not pack matrices of a product with at most this many multiply-adds.
# Packing takes most of the time of a product with few columns, so blocks of rows are this small.
SMALL_PRODUCT = 950_000
SMALL_OUTPUT = 1_200


class NumpyBackend:
    """Arrays in main memory, in float32 or (``precise``) float64."""

    name = "numpy"
    span_bytes = 32 * 2**20  # of rows processed at once

    def __init__(self, precise: bool = False) -> None:
        self.precise = precise
        self.dtype = np.float64 if precise else np.float32

    def finer(self) -> NumpyBackend:
        return NumpyBackend(precise=True)

    @staticmethod
    def room_for(n_bytes: int) -> bool:
        """Whether to load all rows of a file into memory: never."""
        return False

    @staticmethod
    def block_rows(n: int, columns: int, width: int) -> int:
        """Rows per block so that (columns x width) @ (width x rows) is a small product.

        It depends only on shapes, so that results do not depend on the load of the machine.
        """
        rows = min(SMALL_PRODUCT // (columns * width), SMALL_OUTPUT // columns, 72) // 8 * 8
        if rows < 24:
            rows = 512
        return max(1, min(rows, n))

    def real(self, array):
        """A contiguous array in the working precision."""
        return np.ascontiguousarray(array, dtype=self.dtype)

    @staticmethod
    def float64(array):
        return np.ascontiguousarray(array, dtype=np.float64)

    @staticmethod
    def integer(array):
        return np.ascontiguousarray(array, dtype=np.int64)

    def zeros(self, shape):
        return np.zeros(shape, dtype=self.dtype)

    @staticmethod
    def numpy(array) -> np.ndarray:
        return np.asarray(array)

    exp_ = staticmethod(lambda array: np.exp(array, out=array))
    sqrt = staticmethod(np.sqrt)
    log1p = staticmethod(np.log1p)
    expm1 = staticmethod(np.expm1)
    maximum = staticmethod(np.maximum)
    where = staticmethod(np.where)
    eigh = staticmethod(np.linalg.eigh)
    inv = staticmethod(np.linalg.inv)
    qr = staticmethod(np.linalg.qr)

    @staticmethod
    def amax(array, axis: int):
        return array.max(axis=axis)

    @staticmethod
    def take(array, flat):
        """Elements of ``array`` at positions of its flattened form."""
        return array.reshape(-1)[flat]

    @staticmethod
    def put_(array, flat, values) -> None:
        """Set elements of a contiguous ``array`` at positions of its flattened form."""
        array.reshape(-1)[flat] = values

    @staticmethod
    def dot(a, b) -> float:
        return float(np.dot(a.reshape(-1), b.reshape(-1)))

    @staticmethod
    def total(array) -> float:
        """The sum of all elements, accumulated in float64."""
        return float(array.sum(dtype=np.float64))

    @staticmethod
    def exact_products():
        """Context in which float32 products keep all bits of float32."""
        return contextlib.nullcontext()


class TorchBackend:
    """Tensors on ``device``; torch is imported only if this backend is used."""

    name = "torch"
    span_bytes = 256 * 2**20

    def __init__(self, device: str = "cpu", precise: bool = False) -> None:
        import torch

        self.torch, self.precise = torch, precise
        self.dtype = torch.float64 if precise else torch.float32
        if device.startswith("cuda") and not torch.cuda.is_available():
            raise PermafrostError(
                "no CUDA device is available to the linear probe",
                where=f"device: {device}",
                remedy="use device: auto or cpu, or run where torch sees a GPU",
            )
        self.device = device
        self.log1p, self.expm1, self.where = torch.log1p, torch.expm1, torch.where
        self.eigh, self.inv, self.qr = torch.linalg.eigh, torch.linalg.inv, torch.linalg.qr
        self.sqrt = torch.sqrt

    def finer(self) -> TorchBackend:
        return TorchBackend(self.device, precise=True)

    def _tensor(self, array, dtype):
        if isinstance(array, np.ndarray) and not (
            array.flags.writeable and array.flags.c_contiguous
        ):
            array = np.array(array)
        return self.torch.as_tensor(array, dtype=dtype, device=self.device).contiguous()

    def room_for(self, n_bytes: int) -> bool:
        """Whether to load all rows of a file: if twice their size fits into the GPU's memory."""
        if not self.device.startswith("cuda"):
            return False
        return 2 * n_bytes < self.torch.cuda.mem_get_info(self.device)[0]

    @staticmethod
    def block_rows(n: int, columns: int, width: int) -> int:
        return max(1, n)

    def real(self, array):
        return self._tensor(array, self.dtype)

    def float64(self, array):
        return self._tensor(array, self.torch.float64)

    def integer(self, array):
        return self._tensor(array, self.torch.int64)

    def zeros(self, shape):
        return self.torch.zeros(shape, dtype=self.dtype, device=self.device)

    @staticmethod
    def numpy(array) -> np.ndarray:
        return array if isinstance(array, np.ndarray) else array.cpu().numpy()

    @staticmethod
    def exp_(array):
        return array.exp_()

    @staticmethod
    def maximum(array, other: float):
        return array.clamp_min(other)

    @staticmethod
    def amax(array, axis: int):
        return array.amax(dim=axis)

    @staticmethod
    def take(array, flat):
        return array.reshape(-1)[flat]

    @staticmethod
    def put_(array, flat, values) -> None:
        array.view(-1)[flat] = values

    def dot(self, a, b) -> float:
        return float(self.torch.dot(a.reshape(-1), b.reshape(-1)))

    @staticmethod
    def total(array) -> float:
        return float(array.double().sum())

    @contextlib.contextmanager
    def exact_products(self):
        """Context without TF32, whose 10 bits of mantissa are too few; restores the global setting."""
        previous = self.torch.get_float32_matmul_precision()
        self.torch.set_float32_matmul_precision("highest")
        try:
            yield
        finally:
            self.torch.set_float32_matmul_precision(previous)


def make_backend(name: str | None, device: str):
    """The backend called ``name``; by default NumPy on the CPU and torch on anything else."""
    chosen = name or ("numpy" if device == "cpu" else "torch")
    if chosen == "numpy" and device == "cpu":
        return NumpyBackend()
    if chosen == "torch":
        return TorchBackend(device)
    raise PermafrostError(
        f"the linear probe has no backend {chosen!r} for device {device!r}",
        remedy=near_names(chosen, ["numpy (device cpu)", "torch"]),
    )
