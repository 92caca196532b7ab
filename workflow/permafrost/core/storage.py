"""A zarr storage that can stop all writes."""

from __future__ import annotations

import threading
import zlib

from zarr.storage import LocalStore


class StoppableStorage(LocalStore):
    """A local zarr storage that can be closed for writes.

    Zarr writes chunks as tasks on its own thread. If one fails (a full disk) or the writer is
    interrupted, the others go on and would recreate the folder after its removal.

    Attributes
    ----------
    written : key -> [size in bytes, CRC-32] of the value written last.
    """

    def __init__(self, root, *, read_only: bool = False) -> None:
        super().__init__(root, read_only=read_only)
        self._state = threading.Condition()
        self._writing = 0
        self._stopped = False
        self.written: dict[str, list[int]] = {}

    async def set(self, key, value) -> None:
        with self._state:
            if self._stopped:
                raise RuntimeError("writing this store was aborted")
            self._writing += 1
        try:
            await super().set(key, value)
            content = value.as_numpy_array()
            self.written[key] = [content.nbytes, zlib.crc32(content)]
        finally:
            with self._state:
                self._writing -= 1
                self._state.notify_all()

    def stop(self) -> None:
        """Refuse further writes, and wait for those that have begun."""
        with self._state:
            self._stopped = True
            self._state.wait_for(lambda: not self._writing)
