"""What ``device: auto`` means: one rule for all that compute.

A GPU is used where the driver shows one to this process and the library that computes can use it. torch
(extraction, heads, fine-tuning, linear probes) and FAISS (nearest neighbours) are asked separately: with the CPU
environment on a machine with a GPU, FAISS has no part for GPUs and searches on the CPU, and torch uses the GPU
if it is a CUDA build.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

# NVIDIA's driver, AMD's, and NVIDIA's below Windows
DRIVERS = ("/dev/nvidiactl", "/dev/kfd", "/usr/lib/wsl/lib/libcuda.so.1")
NO_GPU = "device is {}, and no driver shows a GPU to this machine"
NO_GPU_REMEDY = (
    "use auto or cpu, or run on a machine with a GPU; `permafrost doctor` says what is seen"
)


def resolve_device(device: str, library: str) -> str:
    """``auto`` becomes ``cuda`` where `library` ("torch" or "faiss") can use a GPU, else ``cpu``.

    A named device is returned unchanged; its user refuses it if it does not exist. A library is imported only
    if there is a GPU that it could use.
    """
    if device != "auto":
        return device
    usable = {"torch": torch_sees_gpu, "faiss": faiss_sees_gpu}[library]
    return "cuda" if gpu_is_visible() and usable() else "cpu"


def takes_gpu(device: str) -> bool:
    """Whether a job of torch on `device` will use a GPU of this machine, as far as can be said without torch."""
    if device == "auto":
        return gpu_is_visible() and torch_is_built_for_gpu()
    return device.startswith("cuda")


def gpu_is_visible() -> bool:
    """Whether a driver shows this process a GPU."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    return not hidden and any(Path(driver).exists() for driver in DRIVERS)


def torch_is_built_for_gpu() -> bool:
    """Read from torch's version file, since importing torch takes seconds."""
    torch = importlib.util.find_spec("torch")
    if torch is None:
        return False
    build = Path(torch.origin).with_name("version.py").read_text(encoding="utf-8")
    return re.search(r"^(cuda|hip)\b[^=\n]*= *['\"]", build, re.MULTILINE) is not None


def torch_sees_gpu() -> bool:
    if not torch_is_built_for_gpu():
        return False
    import torch

    return torch.cuda.is_available()


def faiss_sees_gpu(number: int = 0) -> bool:
    """Whether FAISS has a part for GPUs, sees GPU `number`, and can compute on it."""
    # by name: every stage has this module, and those that search with FAISS import it themselves
    faiss = importlib.import_module("faiss")
    if not hasattr(faiss, "StandardGpuResources") or number >= faiss.get_num_gpus():
        return False
    return faiss_fails_on_gpu(number) is None


@functools.cache
def faiss_fails_on_gpu(number: int) -> str | None:
    """The last line of the error of a small search on GPU `number`, or None if it succeeds.

    FAISS aborts the process if its build has no kernels for this GPU (CUDA error 209, as the wheel of 1.14 on an
    H100), so the search runs in a process of its own.
    """
    search = subprocess.run(
        [sys.executable, "-c", _SMALL_SEARCH, str(number)], capture_output=True, text=True
    )
    if search.returncode == 0:
        return None
    return (search.stderr.strip().splitlines() or [f"exit status {search.returncode}"])[-1]


_SMALL_SEARCH = """
import sys, faiss, numpy
rows = numpy.ones((64, 8), numpy.float32)
for kind in (faiss.IndexFlatL2, faiss.IndexFlatIP):
    index = faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), int(sys.argv[1]), kind(8))
    index.add(rows)
    index.search(rows, 2)
"""
