"""Batches on their way to a GPU: each is copied while the one before it is worked on."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from permafrost.features.reading import Batch
from permafrost.features.running import moved


@dataclass
class Pixels:
    """Stands for a tensor, and writes down what is done with it."""

    name: str
    log: list
    pinned: bool = False
    used_by: list = field(default_factory=list)

    def pin_memory(self) -> Pixels:
        return Pixels(self.name, self.log, pinned=True, used_by=self.used_by)

    def to(self, device, *, non_blocking: bool) -> Pixels:
        assert self.pinned and non_blocking and device.type == "cuda"
        self.log.append(f"copy {self.name} in {self.log.stream}")
        return self

    def record_stream(self, stream) -> None:
        self.used_by.append(stream.name)


class Log(list):
    stream = "working"


@dataclass
class Stream:
    name: str
    log: Log

    def record_event(self) -> str:
        return f"event {len(self.log)}"

    def wait_event(self, event: str) -> None:
        self.log.append(f"wait for {event}")


@pytest.fixture
def log(monkeypatch) -> Log:
    """What happens in the two streams of a GPU that is not there."""
    log = Log()

    class Module:
        @staticmethod
        def Stream(device):
            return Stream("copies", log)

        @staticmethod
        @contextlib.contextmanager
        def stream(stream):
            log.stream = stream.name
            yield
            log.stream = "working"

        @staticmethod
        def current_stream(device):
            return Stream("working", log)

    monkeypatch.setattr(torch, "get_device_module", lambda device: Module)
    return log


def batches(log, count: int) -> list[Batch]:
    size = np.array([8])
    return [
        Batch(n, Pixels(f"{n}a", log), size, size, (Pixels(f"{n}b", log),)) for n in range(count)
    ]


def test_a_batch_is_copied_before_the_one_before_it_is_worked_on(log):
    for batch in moved(batches(log, 3), torch.device("cuda")):
        log.append(f"work on {batch.start}")
        assert batch.pixels.used_by == batch.further[0].used_by == ["working"]
    assert log == [
        "copy 0a in copies",
        "copy 0b in copies",
        "copy 1a in copies",
        "copy 1b in copies",
        "wait for event 2",
        "work on 0",
        "copy 2a in copies",
        "copy 2b in copies",
        "wait for event 4",
        "work on 1",
        "wait for event 8",
        "work on 2",
    ]


@pytest.mark.parametrize("count", [0, 1])
def test_few_batches(log, count):
    assert [one.start for one in moved(batches(log, count), torch.device("cuda"))] == [0][:count]


def test_on_a_cpu_nothing_is_copied(log):
    given = batches(log, 2)
    assert [a is b for a, b in zip(moved(given, torch.device("cpu")), given, strict=True)] == [
        True,
        True,
    ]
    assert log == []


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_on_a_gpu_pixels_are_those_of_the_batches():
    size = np.array([4, 4])
    given = [Batch(n, torch.full((2, 3, 4, 4), n, dtype=torch.uint8), size, size) for n in range(5)]
    for number, batch in enumerate(moved(given, torch.device("cuda"))):
        assert batch.pixels.device.type == "cuda" and (batch.pixels == number).all()
