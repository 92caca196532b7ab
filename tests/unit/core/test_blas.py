"""Kernels of FAISS's OpenBLAS: those of numpy's, where they are known."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from permafrost.core import blas
from permafrost.core.blas import CORE_TYPE, numpys_kernels


@pytest.mark.parametrize(
    ("numpys", "expected"),
    [
        ("SapphireRapids", "SkylakeX"),
        ("Zen", "Zen"),
        ("Prescott", None),
        ("neoversev1", None),
        (None, None),
    ],
)
def test_kernels_are_those_of_numpy_while_a_library_is_loaded(monkeypatch, numpys, expected):
    monkeypatch.delenv(CORE_TYPE, raising=False)
    monkeypatch.setattr(blas, "_numpys", lambda: numpys)
    with numpys_kernels():
        assert os.environ.get(CORE_TYPE) == expected
    assert CORE_TYPE not in os.environ
    with pytest.raises(ImportError), numpys_kernels():
        raise ImportError
    assert CORE_TYPE not in os.environ


def test_the_users_choice_stays(monkeypatch):
    monkeypatch.setenv(CORE_TYPE, "Haswell")
    monkeypatch.setattr(blas, "_numpys", lambda: "SkylakeX")
    with numpys_kernels():
        assert os.environ[CORE_TYPE] == "Haswell"
    assert os.environ[CORE_TYPE] == "Haswell"


def test_a_search_loads_faiss_with_the_kernels_of_numpy():
    code = """
import numpy
from permafrost.core.blas import _OF_2021, _numpys
from permafrost.probes.knn.search import NeighbourSearch
NeighbourSearch(numpy.eye(4), 1)
from threadpoolctl import threadpool_info
numpys = _numpys()
theirs = [one["architecture"] for one in threadpool_info() if "faiss" in one["filepath"] and "architecture" in one]
print(theirs in ([], [_OF_2021.get(numpys, numpys)]) or numpys not in _OF_2021)
"""
    environment = {key: value for key, value in os.environ.items() if key != CORE_TYPE}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.split() == ["True"]
