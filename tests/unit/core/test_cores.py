"""Cores that a process may use, also on systems that do not report it."""

from __future__ import annotations

import os

from permafrost.core.cores import usable_cores


def test_cores_are_those_that_this_process_may_use_else_all(monkeypatch):
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert usable_cores() == 1
    finally:
        os.sched_setaffinity(0, allowed)
    monkeypatch.delattr(os, "sched_getaffinity")
    assert usable_cores() == os.cpu_count()
