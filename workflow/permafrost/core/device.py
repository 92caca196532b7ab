"""The meaning of ``device: auto``, for all stages.

A GPU is used if the driver shows one to this process and the library can use it. torch (extraction,
heads, fine-tuning, linear probes) and FAISS (nearest neighbours) are checked separately: in the CPU
environment on a machine with a GPU, FAISS searches on the CPU, and torch uses the GPU if it is a
CUDA build.
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

# the drivers of NVIDIA, of AMD, and of NVIDIA in Windows' subsystem for Linux
DRIVERS = ("/dev/nvidiactl", "/dev/kfd", "/usr/lib/wsl/lib/libcuda.so.1")
NO_GPU = "device is {}, and no driver shows a GPU to this machine"
NO_GPU_REMEDY = (
    "use auto or cpu, or run on a machine with a GPU; `permafrost doctor` says what is seen"
)


def resolve_device(device: str, library: str) -> str:
    """Replace ``auto`` by ``cuda`` if `library` ("torch" or "faiss") can use a GPU, else by ``cpu``.

    Any other device is returned unchanged; whoever uses it refuses it if it does not exist. The
    library is imported only if there is a GPU that it could use.
    """
    if device != "auto":
        return device
    usable = {"torch": torch_sees_gpu, "faiss": faiss_sees_gpu}[library]
    return "cuda" if gpu_is_visible() and usable() else "cpu"


def takes_gpu(device: str) -> bool:
    """Whether torch will use a GPU of this machine for `device`, judged without importing torch."""
    if device == "auto":
        return gpu_is_visible() and torch_is_built_for_gpu()
    return device.startswith("cuda")


def gpu_is_visible() -> bool:
    """Whether a driver shows this process a GPU."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    return not hidden and any(Path(driver).exists() for driver in DRIVERS)


def torch_is_built_for_gpu() -> bool:
    """Whether torch is a CUDA or ROCm build, by its version file, since its import takes seconds."""
    torch = importlib.util.find_spec("torch")
    if torch is None:
        return False
    build = Path(torch.origin).with_name("version.py").read_text(encoding="utf-8")
    return re.search(r"^(cuda|hip)\b[^=\n]*= *['\"]", build, re.MULTILINE) is not None


def torch_sees_gpu() -> bool:
    """Whether torch is built for GPUs and sees one; imports torch only in the first case."""
    if not torch_is_built_for_gpu():
        return False
    import torch

    return torch.cuda.is_available()


def faiss_sees_gpu(number: int = 0) -> bool:
    """Whether FAISS is a GPU build, sees GPU `number`, and can compute on it."""
    from permafrost.core.blas import numpys_kernels

    with numpys_kernels():
        # imported by name, so that FAISS counts only as a library of the stages that search with it
        faiss = importlib.import_module("faiss")
    if not hasattr(faiss, "StandardGpuResources") or number >= faiss.get_num_gpus():
        return False
    return faiss_fails_on_gpu(number) is None


@functools.cache
def faiss_fails_on_gpu(number: int) -> str | None:
    """Run a small search on GPU `number`; the last line of its error, or None if it succeeds.

    FAISS aborts the process if its build has no kernels for this GPU (CUDA error 209: the wheel of
    version 1.14 on an H100), so the search runs in a separate process.
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
