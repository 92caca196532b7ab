"""A thread-safe least-recently-used cache of expensive results."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable


class LeastRecentlyUsed:
    """Calls `make` and caches its most recently used results.

    Concurrent requests for an argument compute it once; failures are not cached.

    Parameters
    ----------
    make : function of one hashable argument.
    keep : number of results to cache.
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
        """The result; the first of several waiting threads computes it."""
        if not maker.done:
            maker.result = self._make(argument)
            maker.done = True
            with self._lock:
                self._made[argument] = maker.result
                while len(self._made) > self._keep:
                    self._made.popitem(last=False)
        return maker.result


class _Maker:
    """One result being computed."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.waiting = 0
        self.done = False
        self.result = None
