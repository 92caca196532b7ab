"""Show on a terminal that a command is running, and for how long."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import TextIO

# shorter work shows nothing
DELAY_S = 1.0
EVERY_S = 0.5


@contextlib.contextmanager
def working(label: str) -> Iterator[None]:
    """Show ``label (00:14)`` on standard error while the block runs, if that is a terminal; removed at the end.

    For work of unknown length; `core.progress` counts. Bars that the block shows take lines of their own.
    """
    if not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    # the block may redirect standard error
    thread = threading.Thread(target=_show, args=(label, done, sys.stderr), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _show(label: str, done: threading.Event, terminal: TextIO) -> None:
    if done.wait(DELAY_S):
        return
    from tqdm import tqdm

    form = "{desc} ({elapsed})"
    with tqdm(desc=label, bar_format=form, file=terminal, leave=False, dynamic_ncols=True) as line:
        line.start_t -= DELAY_S
        while not done.wait(EVERY_S):
            line.refresh()
