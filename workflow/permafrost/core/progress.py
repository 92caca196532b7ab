"""Progress on standard error: a bar on a terminal, a line every 10 s in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable

from permafrost.core.text import bytes_words

LOG_EVERY_S = 10.0
# shorter work shows no bar
DELAY_S = 3.0


def progress(
    iterable: Iterable | None = None, *, total: int | None = None, label: str, unit: str = "it"
):
    """Progress of `iterable`, or of ``update(n)`` calls on the result, which is a context manager."""
    if sys.stderr.isatty():
        from tqdm import tqdm

        return tqdm(iterable, total=total, desc=label, unit=unit, dynamic_ncols=True)
    return LogProgress(iterable, total, label, unit)


def terminal_progress(*, total: int, label: str, unit: str):
    """A bar on a terminal if the work takes longer than 3 s; nothing in a log or a pipe.

    Call ``update(n)`` on the result, which is also a context manager.
    """
    if not sys.stderr.isatty():
        return _Silent()
    from tqdm import tqdm

    return tqdm(total=total, desc=label, unit=unit, delay=DELAY_S, leave=False, dynamic_ncols=True)


def byte_progress(*, total: int | None, done: int = 0, label: str):
    """Progress in bytes, of which `done` existed before; call ``update(n)`` on the result."""
    if sys.stderr.isatty():
        from tqdm import tqdm

        return tqdm(
            total=total, initial=done, desc=label, unit="B", unit_scale=True, dynamic_ncols=True
        )
    return _ByteLogProgress(total, done, label)


class _Silent:
    def update(self, count: int = 1) -> None:
        pass

    def __enter__(self) -> _Silent:
        return self

    def __exit__(self, *_) -> None:
        pass


class LogProgress:
    """Lines such as ``demo/train: 192/480 images, 64.1/s``, at most one every 10 s and one at the end.

    A bar redraws itself with carriage returns, which a log file keeps as one endless line.
    """

    def __init__(self, iterable, total: int | None, label: str, unit: str) -> None:
        self._iterable, self._label, self._unit = iterable, label, unit
        self._total = len(iterable) if total is None and hasattr(iterable, "__len__") else total
        self._done, self._before, self._start = 0, 0, time.monotonic()
        self._next_line = self._start + LOG_EVERY_S

    def update(self, count: int = 1) -> None:
        self._done += count
        if time.monotonic() >= self._next_line:
            self._print()
            self._next_line = time.monotonic() + LOG_EVERY_S

    def close(self) -> None:
        if self._done:
            self._print()
            self._done = 0

    def __iter__(self):
        for item in self._iterable:
            yield item
            self.update()
        self.close()

    def __enter__(self) -> LogProgress:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def _print(self) -> None:
        rate = (self._done - self._before) / max(time.monotonic() - self._start, 1e-9)
        print(f"{self._label}: {self._words(rate)}", file=sys.stderr, flush=True)

    def _words(self, rate: float) -> str:
        total = f"/{self._total}" if self._total is not None else ""
        # the report reads rates: a slow one needs more digits
        return f"{self._done}{total} {self._unit}s, {rate:.{1 if rate >= 10 else 4}f}/s"


class _ByteLogProgress(LogProgress):
    """Lines such as ``EuroSAT.zip: 1.2 GB of 2.1 GB, 34 MB/s``."""

    def __init__(self, total: int | None, done: int, label: str) -> None:
        super().__init__(None, total, label, "byte")
        self._done = self._before = done

    def _words(self, rate: float) -> str:
        total = f" of {bytes_words(self._total)}" if self._total is not None else ""
        return f"{bytes_words(self._done)}{total}, {bytes_words(rate)}/s"
