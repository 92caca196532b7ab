"""Read the energy counters of an NVIDIA GPU or of the processor (RAPL)."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import torch

POWERCAP = Path("/sys/class/powercap")


class Meter(Protocol):
    """Measures the energy between calls of `read`."""

    name: str

    def read(self) -> float:
        """Energy in joules since the previous call, or since creation."""


class NoMeter(Exception):
    """The device does not report its energy; the message gives the reason."""


def find_meter(device: torch.device) -> Meter:
    """The energy meter of a device.

    A meter counts everything on its device, including idle power and other programs. That of a GPU
    excludes the processor, and that of a processor excludes main memory.

    Raises
    ------
    NoMeter : the device does not report its energy.
    """
    return GpuMeter(_uuid(device)) if device.type == "cuda" else ProcessorMeter()


class ProcessorMeter:
    """RAPL (running average power limit) counters of Intel and AMD, summed over processor packages.

    Source: the kernel's Documentation/power/powercap/powercap.rst. Only ``package`` zones are read,
    since their subzones, and ``psys``, which contains them, would count energy twice.
    """

    name = "processor packages (RAPL), all that runs on them"

    def __init__(self, folder: Path = POWERCAP) -> None:
        self._zones = [zone for zone in sorted(folder.glob("intel-rapl:*")) if _is_package(zone)]
        if not self._zones:
            raise NoMeter("the system shows no energy counters of the processor")
        try:
            self._ranges = [_number(zone / "max_energy_range_uj") for zone in self._zones]
            self._last = self._counters()
        except PermissionError as error:
            raise NoMeter(
                "the energy counters of the processor may be read by root only"
            ) from error
        except (OSError, ValueError) as error:
            raise NoMeter(
                f"the energy counters of the processor give no number ({error})"
            ) from error

    def read(self) -> float:
        now = self._counters()
        # a counter wraps around to 0
        used = [
            new - old if new >= old else new - old + most
            for new, old, most in zip(now, self._last, self._ranges, strict=True)
        ]
        self._last = now
        return sum(used) / 1e6

    def _counters(self) -> list[int]:
        return [_number(zone / "energy_uj") for zone in self._zones]


def _is_package(zone: Path) -> bool:
    if not re.fullmatch(r"intel-rapl:\d+", zone.name):
        return False
    try:
        return (zone / "name").read_text().startswith("package")
    except OSError:
        return False


def _number(path: Path) -> int:
    return int(path.read_text())


class GpuMeter:
    """Total energy counter of an NVIDIA GPU (Volta or newer), read by the driver's library NVML.

    Parameters
    ----------
    uuid : ``GPU-…``; device numbers differ between torch and the driver.
    library : opens the driver's library.

    Raises
    ------
    NoMeter : the library is missing, or the GPU does not report its energy.
    """

    name = "GPU (NVML), all that runs on it"

    def __init__(
        self, uuid: str, library: Callable[[], object] = lambda: ctypes.CDLL("libnvidia-ml.so.1")
    ) -> None:
        try:
            self._nvml = library()
        except OSError as error:
            raise NoMeter(f"the GPU's driver has no management library ({error})") from error
        self._handle = ctypes.c_void_p()
        self._ask("nvmlInit_v2")
        self._ask("nvmlDeviceGetHandleByUUID", uuid.encode(), ctypes.byref(self._handle))
        self._last = self._counter()

    def read(self) -> float:
        now, before = self._counter(), self._last
        self._last = now
        return (now - before) / 1e3

    def _counter(self) -> int:
        millijoules = ctypes.c_ulonglong()
        self._ask("nvmlDeviceGetTotalEnergyConsumption", self._handle, ctypes.byref(millijoules))
        return millijoules.value

    def _ask(self, function: str, *arguments) -> None:
        status = getattr(self._nvml, function)(*arguments)
        if status:
            raise NoMeter(f"the GPU does not report its energy ({function}: NVML error {status})")


def _uuid(device: torch.device) -> str:
    found = str(torch.cuda.get_device_properties(device).uuid)
    return found if found.startswith(("GPU-", "MIG-")) else f"GPU-{found}"
