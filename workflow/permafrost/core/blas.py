"""Kernels of the OpenBLAS that FAISS's wheel contains."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager

#: variable that OpenBLAS reads when it is loaded
CORE_TYPE = "OPENBLAS_CORETYPE"
#: kernels that the newer OpenBLAS in numpy's wheel chose for this processor -> those of 2021 for it
_OF_2021 = {
    "Haswell": "Haswell",
    "Zen": "Zen",
    "SkylakeX": "SkylakeX",
    "Cooperlake": "SkylakeX",
    "SapphireRapids": "SkylakeX",
}


@contextmanager
def numpys_kernels() -> Iterator[None]:
    """Let an OpenBLAS that is loaded inside use the kernels that numpy's OpenBLAS uses.

    FAISS's wheel has OpenBLAS 0.3.15 of 2021. It takes a processor that it does not know for one of 2004, and its
    products then take five times as long. Nothing changes if the user has set the variable, or numpy has another BLAS.
    """
    kernels = None if CORE_TYPE in os.environ else _OF_2021.get(_numpys() or "")
    if kernels is None:
        yield
        return
    os.environ[CORE_TYPE] = kernels
    try:
        yield
    finally:
        del os.environ[CORE_TYPE]


def _numpys() -> str | None:
    """The kernels of numpy's OpenBLAS; None: it has another BLAS."""
    # imported by name: stages that run without FAISS need neither. Only a loaded numpy is listed
    importlib.import_module("numpy")
    info = importlib.import_module("threadpoolctl").threadpool_info()
    found = (one for one in info if one["internal_api"] == "openblas")
    return next((one.get("architecture") for one in found if "numpy" in one["filepath"]), None)
