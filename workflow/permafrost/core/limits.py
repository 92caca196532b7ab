"""Name the limit of this process that an error is about: threads, processes, address space."""

from __future__ import annotations

import contextlib
import errno
import resource
from collections.abc import Iterator

from permafrost.core.errors import PermafrostError
from permafrost.core.text import bytes_words

_NO_THREAD = "can't start new thread"


@contextlib.contextmanager
def limits_named() -> Iterator[None]:
    """Turn the refusal of a thread or process into a `PermafrostError`; also a decorator."""
    try:
        yield
    except (RuntimeError, BlockingIOError) as error:
        refused = isinstance(error, BlockingIOError) and error.errno == errno.EAGAIN
        if not refused and str(error) != _NO_THREAD:
            raise
        raise PermafrostError(
            f"the system starts no more threads or processes for it ({_limits()})",
            remedy="raise the limit, or give fewer cores and runtime.workers",
        ) from error


def _limits() -> str:
    """The limits of this process that are set."""
    processes, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    space, _ = resource.getrlimit(resource.RLIMIT_AS)
    said = []
    if processes != resource.RLIM_INFINITY:
        said.append(f"ulimit -u: {processes} processes and threads of this user")
    if space != resource.RLIM_INFINITY:
        said.append(f"ulimit -v: {bytes_words(space)} of addresses")
    return "; ".join(said) or "the limit of the container or the system: pids.max"
