"""A least-recently-used cache for threads, of results that are costly to make."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable


class LeastRecentlyUsed:
    """Calls `make`, and remembers what the last few arguments gave.

    What several threads ask for at the same time is made once; what fails is made anew next time.

    Parameters
    ----------
    make : function of one hashable argument.
    keep : how many results to remember.
    """

    def __init__(self, make: Callable, keep: int) -> None:
        self._make, self._keep = make, keep
        self._made: OrderedDict = OrderedDict()
        self._makers: dict[Hashable, _Maker] = {}
        self._lock = threading.Lock()

    def __call__(self, argument: Hashable):
        with self._lock:
            if argument in self._made:
                self._made.move_to_end(argument)
                return self._made[argument]
            maker = self._makers.setdefault(argument, _Maker())
            maker.waiting += 1
        try:
            with maker.lock:
                return self._made_by(maker, argument)
        finally:
            with self._lock:
                maker.waiting -= 1
                if not maker.waiting:
                    self._makers.pop(argument, None)

    def _made_by(self, maker: _Maker, argument: Hashable):
        """The result; of those who wait for the same, only the first makes it."""
        if not maker.done:
            maker.result = self._make(argument)
            maker.done = True
            with self._lock:
                self._made[argument] = maker.result
                while len(self._made) > self._keep:
                    self._made.popitem(last=False)
        return maker.result


class _Maker:
    """One result in the making."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.waiting = 0
        self.done = False
        self.result = None
