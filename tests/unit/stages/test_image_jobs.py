"""What commands that run a backbone on images pass on."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from permafrost.plan.resources import reading_threads
from permafrost.stages import image_jobs


def test_all_cores_of_a_job_read_and_compute(monkeypatch):
    monkeypatch.setattr(image_jobs, "images_of", lambda arguments: {})
    monkeypatch.setattr(image_jobs, "located_job", lambda arguments: ({"stage": "extract"}, "f"))
    monkeypatch.setattr(image_jobs, "read", lambda kind, spec, where: spec)
    given = SimpleNamespace(device="cpu", batch_size=4, threads=5, card="card.json")
    found = []
    image_jobs.run(given, lambda spec, running, **rest: found.append(running), dict)
    assert (found[0].workers, found[0].threads) == (5, 5)


@pytest.mark.parametrize(
    ("workers", "cores", "expected"),
    [(None, 0, 2), (None, 1, 2), (None, 8, 4), (None, 128, 8), (1, 128, 1), (16, 0, 16)],
)
def test_readers_by_default_and_as_told(workers, cores, expected):
    assert reading_threads(workers, cores) == expected
