"""What a reader may do with any bytes: give a value or refuse them, within bounds of time, memory and place."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.data.files.decode import UnreadableImage

#: CPU seconds of one input, and bytes by which it may raise the memory: three times what an image may take by default
SECONDS, BYTES = 10, 3 << 30
_REFUSED = (PermafrostError, UnreadableImage)
_NO_MEMORY = ("MemoryError", "not enough memory", "can't allocate memory")
_FORBIDDEN = (
    "os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen", "pickle.find_class",
    "socket.connect", "socket.getaddrinfo", "urllib.Request",
)  # fmt: skip
_CHANGES = (
    "os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.symlink", "os.link", "os.truncate",
    "os.chmod", "os.chown", "os.utime", "shutil.rmtree",
)  # fmt: skip
_TWO_PATHS = ("os.rename", "os.link", "os.symlink")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Finding(BaseException):
    """What a reader must not do; no reader catches it.

    Parameters
    ----------
    kind : ``exception``, ``hang``, ``memory`` or ``escape``.
    place : type of the error and the innermost line of the library; the same for the same fault.
    """

    def __init__(self, kind: str, place: str, text: str) -> None:
        super().__init__(f"{kind}: {place}\n{text}")
        self.kind, self.place = kind, place


class _Watch:
    """Sees what this process opens, changes and starts while a reader runs."""

    def __init__(self) -> None:
        self.folder: str | None = None
        self.escaped = ""
        sys.addaudithook(self._event)

    def _event(self, event: str, arguments: tuple) -> None:
        if self.folder is None:
            return
        if event in _FORBIDDEN:
            self._refuse(f"{event} {arguments!r:.200}")
        elif event == "open":
            path, _, flags = arguments
            # flags are None or 0 where another library opens for reading
            if isinstance(flags, int) and flags & _WRITING and not self._allowed(path):
                self._refuse(f"writes {path!r:.200}")
        elif event in _CHANGES:
            # the first path of a symbolic link is no file that is changed
            paths = arguments[event == "os.symlink" : 2 if event in _TWO_PATHS else 1]
            for path in paths:
                if not self._allowed(path, arguments[-1] if event != "os.truncate" else -1):
                    self._refuse(f"{event} {path!r:.200}")

    def _allowed(self, path: object, folder: object = -1) -> bool:
        """Whether it lies in the sandbox; `folder` is the descriptor that a relative path starts from."""
        # descriptors were opened before; byte code is written by imports
        if not isinstance(path, str | bytes | os.PathLike):
            return True
        name = os.fsdecode(path)
        if isinstance(folder, int) and folder >= 0:
            name = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), name)
        name = os.path.realpath(name)
        # what importing a library writes
        own = "__pycache__" in name or "/torchinductor_" in name
        return own or name.startswith((self.folder, "/dev/"))

    def _refuse(self, what: str) -> None:
        self.escaped = self.escaped or what
        raise Finding("escape", what.split()[0], what)


_watch: _Watch | None = None
_folder: Path | None = None


def sandbox() -> Path:
    """The only folder in which a reader may write, of this process."""
    global _folder
    if _folder is None or not _folder.name.endswith(f"-{os.getpid()}"):
        top = Path(tempfile.gettempdir()).resolve()
        # deep, so that names with a few .. stay in sight
        _folder = top / f"permafrost-fuzz-{os.getpid()}" / "a" / "b" / f"c-{os.getpid()}"
        _folder.mkdir(parents=True, exist_ok=True)
    return _folder


def written(data: bytes, name: str) -> Path:
    """A file of the sandbox with these bytes."""
    path = sandbox() / name
    path.write_bytes(data)
    return path


def attempt(read: Callable[[bytes], object], data: bytes, accepted: tuple = ()) -> None:
    """Let a reader read `data`.

    Parameters
    ----------
    accepted : further exceptions that the reader documents.

    Raises
    ------
    Finding : it did not give a value or refuse, within the bounds.
    """
    folder, before = sandbox(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    above = folder.parents[1]
    with _watching(str(folder)) as watch, _limited(SECONDS):
        try:
            read(data)
        except (*_REFUSED, *accepted) as error:
            _check_memory(error)
        except Finding:
            raise
        except Exception as error:
            raise Finding("exception", _place(error), traceback.format_exc()) from error
    if watch.escaped:
        raise Finding("escape", watch.escaped.split()[0], watch.escaped)
    if [one.name for one in above.iterdir()] != ["b"] or len(list(folder.parent.iterdir())) > 1:
        raise Finding("escape", "a file beside the folder", "\n".join(map(str, above.rglob("*"))))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    if grown > BYTES:
        raise Finding("memory", "resident", f"{grown >> 20} MB more than before")


@contextlib.contextmanager
def _watching(folder: str) -> Iterator[_Watch]:
    global _watch
    _watch = _watch or _Watch()
    _watch.folder, _watch.escaped = folder, ""
    try:
        yield _watch
    finally:
        _watch.folder = None


@contextlib.contextmanager
def _limited(seconds: int) -> Iterator[None]:
    """Raise `Finding` in the main thread after so many CPU seconds of this process."""

    def late(_signal, frame) -> None:
        where = "".join(traceback.format_stack(frame)[-12:])
        raise Finding("hang", _line(traceback.extract_stack(frame)), where)

    earlier = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, earlier)


def limit_memory() -> None:
    """Let this process have little more than twice `BYTES` of addresses beyond what it has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + 2 * BYTES
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))


def _check_memory(error: BaseException | None) -> None:
    """A refusal for a lack of memory is none: the reader had asked for it before it looked."""
    while error is not None:
        if isinstance(error, MemoryError) or any(words in str(error) for words in _NO_MEMORY):
            raise Finding("memory", _place(error), "".join(traceback.format_exception(error)))
        error = error.__cause__ or error.__context__


def _place(error: BaseException) -> str:
    return f"{type(error).__name__} {_line(traceback.extract_tb(error.__traceback__))}"


def _line(stack: traceback.StackSummary) -> str:
    """The innermost function of the library in a stack."""
    own = [frame for frame in stack if "/permafrost/" in frame.filename] or list(stack)[-1:]
    return " ".join(
        f"{Path(frame.filename).stem}.{frame.name}:{frame.lineno}" for frame in own[-1:]
    )
