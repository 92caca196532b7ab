"""The files under a zarr group that is being written, with a way to stop the writing for good."""

from __future__ import annotations

import threading

from zarr.storage import LocalStore


class StoppableStorage(LocalStore):
    """A zarr store on the local disk that can be closed for further writes.

    Zarr writes chunks as tasks on a thread of its own. When one fails (a full disk), or the writer is
    interrupted, the others go on: they would fill a folder that has just been removed once more.
    """

    def __init__(self, root, *, read_only: bool = False) -> None:
        super().__init__(root, read_only=read_only)
        self._state = threading.Condition()
        self._writing = 0
        self._stopped = False

    async def set(self, key, value) -> None:
        with self._state:
            if self._stopped:
                raise RuntimeError("writing this store was aborted")
            self._writing += 1
        try:
            await super().set(key, value)
        finally:
            with self._state:
                self._writing -= 1
                self._state.notify_all()

    def stop(self) -> None:
        """Refuse all further writes, and wait until those that are under way are done."""
        with self._state:
            self._stopped = True
            self._state.wait_for(lambda: not self._writing)
