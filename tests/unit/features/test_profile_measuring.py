"""Time, memory and energy: what is measured, with clocks and counters that a test can turn."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import numpy as np
import pytest
import torch
from permafrost.features.profiling import energy, memory, timing
from permafrost.features.profiling.energy import GpuMeter, NoMeter, ProcessorMeter, find_meter

CPU = torch.device("cpu")


# --- time ---------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass only when a test says so, and half as fast for the processor."""
    now = [0.0]
    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(timing.time, "process_time", lambda: now[0] / 2)
    return now


def passing(clock, *seconds):
    """Work whose calls take so many seconds, the last of them ever after; and how often it was called."""
    calls = []

    def work():
        clock[0] += seconds[min(len(calls), len(seconds) - 1)]
        calls.append(None)

    return work, calls


def test_warming_up_is_not_among_the_times(clock):
    work, calls = passing(clock, 50, 40, 1, 2, 3, 4)
    times = timing.time_repeats(work, CPU, repeats=4, warm_up=2, most_seconds=1000)
    assert times.wall == [1, 2, 3, 4] and times.cpu == [0.5, 1, 1.5, 2] and len(calls) == 6


@pytest.mark.parametrize(("most", "repeats"), [(0.5, 3), (25, 3), (35, 4), (95, 10), (1e9, 20)])
def test_no_repeat_is_begun_too_late_but_there_are_three(clock, most, repeats):
    work, _ = passing(clock, 10)
    times = timing.time_repeats(work, CPU, repeats=20, warm_up=1, most_seconds=most)
    assert len(times.wall) == repeats


def test_warming_up_ends_in_time_too(clock):
    work, calls = passing(clock, 10)
    timing.time_repeats(work, CPU, repeats=3, warm_up=100, most_seconds=25)
    assert len(calls) == 3 + 3


# --- memory -------------------------------------------------------------------------------------

MEGABYTE = 1_000_000


def test_the_peak_is_what_was_touched_at_once_and_what_was_held():
    def work():
        for _ in range(3):
            np.ones(40 * MEGABYTE, np.uint8)

    found = memory.peak_memory(work, CPU, held=5 * MEGABYTE)
    # the system counts pages of several threads with some slack
    assert 5 + 39 < found.value < 5 + 60


def test_an_earlier_peak_hides_nothing():
    np.ones(300 * MEGABYTE, np.uint8)
    found = memory.peak_memory(lambda: np.ones(40 * MEGABYTE, np.uint8), CPU, held=0)
    if memory._reset_mark():
        assert 39 < found.value < 60
    else:
        assert "undefined" in found.notes


def test_freed_memory_that_cannot_go_back_hides_nothing():
    """In a process of its own, since what it tells the C library stays told."""
    program = """
import ctypes, sys
import numpy as np, torch
from permafrost.core.memory import keep_freed_memory
from permafrost.features.profiling import memory

if not (keep_freed_memory() and memory._reset_mark()):
    sys.exit()
grow = ctypes.CDLL(None).sbrk
grow.argtypes, grow.restype = [ctypes.c_ssize_t], ctypes.c_void_p
for freed in (300_000_000, 90_000_000):
    np.ones(freed, np.uint8)
    grow(4096)
    for _ in range(2):
        found = memory.peak_memory(lambda: np.ones(40_000_000, np.uint8), torch.device("cpu"), held=0)
        assert 39 < found.value < 60, found
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_where_the_mark_cannot_be_reset_an_earlier_peak_leaves_no_value(monkeypatch):
    monkeypatch.setattr(memory, "_reset_mark", lambda: False)
    monkeypatch.setattr(memory, "_highest", lambda: 10 * MEGABYTE)
    assert "more memory before" in memory.peak_memory(lambda: None, CPU, 1).notes["undefined"]
    marks = iter([10 * MEGABYTE, 17 * MEGABYTE])
    monkeypatch.setattr(memory, "_highest", lambda: next(marks))
    assert memory.peak_memory(lambda: None, CPU, MEGABYTE).value == 8


def test_a_system_without_proc_is_noticed(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "_PROCESS", tmp_path / "none")
    assert not memory._reset_mark()


# --- energy -------------------------------------------------------------------------------------


def zone(folder, name: str, what: str, microjoules: int, most: int = 1000_000_000) -> None:
    (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / name / "name").write_text(f"{what}\n")
    (folder / name / "energy_uj").write_text(f"{microjoules}\n")
    (folder / name / "max_energy_range_uj").write_text(f"{most}\n")


def test_packages_of_the_processor_are_added_up_and_their_parts_are_not(tmp_path):
    for name, what in (
        ("intel-rapl:0", "package-0"),
        ("intel-rapl:1", "package-1"),
        ("intel-rapl:2", "psys"),
        ("intel-rapl:0:0", "core"),
    ):
        zone(tmp_path, name, what, 5_000_000)
    meter = ProcessorMeter(tmp_path)
    zone(tmp_path, "intel-rapl:0", "package-0", 7_000_000)
    zone(tmp_path, "intel-rapl:1", "package-1", 6_500_000)
    zone(tmp_path, "intel-rapl:2", "psys", 99_000_000)
    zone(tmp_path, "intel-rapl:0:0", "core", 99_000_000)
    assert meter.read() == pytest.approx(3.5)
    assert meter.read() == 0


def test_a_counter_that_begins_again_at_zero_has_lost_nothing(tmp_path):
    zone(tmp_path, "intel-rapl:0", "package-0", 9_000_000, most=10_000_000)
    meter = ProcessorMeter(tmp_path)
    zone(tmp_path, "intel-rapl:0", "package-0", 2_000_000, most=10_000_000)
    assert meter.read() == pytest.approx(3)


def test_a_processor_without_counters_has_no_meter_and_a_reason(tmp_path, monkeypatch):
    with pytest.raises(NoMeter, match="shows no energy counters"):
        ProcessorMeter(tmp_path)
    zone(tmp_path, "intel-rapl:0", "package-0", 1)
    (tmp_path / "intel-rapl:0/energy_uj").write_text("nothing")
    with pytest.raises(NoMeter, match="give no number"):
        ProcessorMeter(tmp_path)

    def closed(path):
        raise PermissionError(path)

    monkeypatch.setattr(energy, "_number", closed)
    with pytest.raises(NoMeter, match="by root only"):
        ProcessorMeter(tmp_path)


class Driver:
    """NVML as far as a meter asks it; its counter moves by 1500 mJ whenever it is read."""

    def __init__(self, refuses: str = "") -> None:
        self.refuses, self.millijoules, self.asked = refuses, 10_000, []

    def __getattr__(self, function):
        def answer(*arguments):
            self.asked.append((function, arguments))
            if function == self.refuses:
                return 3
            if function == "nvmlDeviceGetTotalEnergyConsumption":
                self.millijoules += 1500
                ctypes.cast(arguments[1], ctypes.POINTER(ctypes.c_ulonglong))[0] = self.millijoules
            return 0

        return answer


def test_the_gpu_is_asked_by_its_own_name_and_in_joules():
    driver = Driver()
    meter = GpuMeter("GPU-1234", lambda: driver)
    assert [meter.read(), meter.read()] == [1.5, 1.5]
    assert driver.asked[1][1][0] == b"GPU-1234"


def test_a_gpu_that_does_not_report_has_no_meter_and_a_reason():
    for function in ("nvmlInit_v2", "nvmlDeviceGetTotalEnergyConsumption"):
        with pytest.raises(NoMeter, match=f"{function}: NVML error 3"):
            GpuMeter("GPU-1234", lambda refused=function: Driver(refused))

    def none():
        raise OSError("libnvidia-ml.so.1: no such file")

    with pytest.raises(NoMeter, match="no management library"):
        GpuMeter("GPU-1234", none)


def test_the_processor_is_what_a_run_on_the_cpu_is_metered_by(tmp_path, monkeypatch):
    zone(tmp_path, "intel-rapl:0", "package-0", 1)
    monkeypatch.setattr(ProcessorMeter.__init__, "__defaults__", (tmp_path,))
    assert isinstance(find_meter(CPU), ProcessorMeter)
