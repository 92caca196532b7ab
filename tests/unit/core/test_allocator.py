"""Freed memory is kept for the next block of the same size."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest
from permafrost.plan.sources import ROOT

PROGRAM = """
import ctypes, resource, sys
import numpy as np
from permafrost.core.memory import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
PR_SET_THP_DISABLE = 41  # huge pages would hide how many are asked for
assert ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    np.ones(40 << 20, np.uint8).sum()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(what: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, what],
        env={"PYTHONPATH": str(ROOT.parent), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told so")
def test_blocks_are_used_again_without_new_pages():
    assert page_faults("keep") * 5 < page_faults("leave")
