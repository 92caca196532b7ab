"""Which files a process opens for reading: what a job's result depends on, declared or not.

One audit hook of Python sees every file that Python opens, in all threads. Libraries in C open files
that Python does not see: whoever calls one passes the path to `note`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import site
import stat
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from permafrost.core.environment import user_home
from permafrost.core.errors import PermafrostError
from permafrost.core.promised import file_state

_INSTALLED = ("site-packages", "dist-packages")
_SYSTEM = ("/proc", "/dev", "/sys", "/run", "/etc", "/lib", "/lib64", "/usr/lib", "/usr/share")
# folders in a home, and names, that hold settings and secrets but no input of a result
_SETTINGS = (".config", ".cache/matplotlib", ".cache/fontconfig", ".triton", ".nv")
_SECRETS = ("token", "stored_tokens", ".netrc")
_BYPRODUCTS = (".git", ".snakemake")
# folders below the temporary one in which libraries keep compiled code
_COMPILED = re.compile(r"torchinductor_|pymp-|permafrost-\d+-")
_IMPORTING = "<frozen importlib._bootstrap_external>"
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

_active: list[Recording] = []


class Recording:
    """What is opened while it is active.

    Attributes
    ----------
    files : absolute path of a file -> its state when it was first opened.
    folders : absolute paths of folders whose names were listed.
    """

    def __init__(self, ignored: Callable[[str], bool]) -> None:
        self.files: dict[str, list[int]] = {}
        self.folders: set[str] = set()
        self._written: set[str] = set()
        self._seen: set[str] = set()
        self._ignored = ignored

    def opened(self, path: str) -> None:
        """A file was opened for reading."""
        if path in self._seen:
            return
        self._seen.add(path)
        path = _source_of(path)
        if path in self.files or path in self._written or _is_library(path) or self._ignored(path):
            return
        with contextlib.suppress(OSError, ValueError):
            # a link, a pipe or a device is no file; a link to a file is
            if stat.S_ISREG(os.stat(path).st_mode):
                self.files[path] = file_state(path)

    def listed(self, path: str) -> None:
        """The names in a folder were listed."""
        if path not in self.folders and not _is_library(path) and not self._ignored(path):
            self.folders.add(path)

    def written(self, path: str) -> None:
        """A file was opened for writing: what the process makes itself is no input."""
        self._written.add(path)
        self.files.pop(path, None)

    def check(self) -> None:
        """Check that no file changed since it was opened.

        Raises
        ------
        PermafrostError : a file changed or is gone; names it.
        """
        for path, state in sorted(self.files.items()):
            try:
                now = file_state(path)
            except OSError:
                now = None
            if now != state:
                raise PermafrostError(
                    "the file changed while it was read",
                    where=path,
                    remedy="run snakemake again when nothing writes to it",
                )


@contextlib.contextmanager
def recording(ignored: Callable[[str], bool] = lambda path: False) -> Iterator[Recording]:
    """Record which files the process opens for reading, and which folders it lists.

    Files of Python, of installed packages, of this library and of the system do not count; neither
    do files that the process writes itself.

    Parameters
    ----------
    ignored : whether an absolute path does not count, such as one that the job declares.
    """
    _listen()
    made = Recording(ignored)
    _active.append(made)
    try:
        yield made
    finally:
        _active.remove(made)


def note(path: str | os.PathLike) -> None:
    """Say that a library in C opens the file `path`, which Python does not see."""
    for one in tuple(_active):
        one.opened(os.path.abspath(os.fspath(path)))


@cache
def _listen() -> None:
    """Install the hook, once: Python cannot remove it."""
    sys.addaudithook(_hear)


def _hear(event: str, arguments: tuple) -> None:
    if _active and event in _EVENTS:
        _EVENTS[event](arguments)


def _heard_open(arguments: tuple) -> None:
    path = _path_of(arguments[0])
    if path is not None:
        writes = isinstance(arguments[2], int) and arguments[2] & _WRITING
        for one in tuple(_active):
            (one.written if writes else one.opened)(path)


def _heard_import(arguments: tuple) -> None:
    # an extension module: its file is loaded by the system
    _heard_load((arguments[1],))


def _heard_load(arguments: tuple) -> None:
    path = _path_of(arguments[0])
    if path is not None and "/" in str(arguments[0]):
        for one in tuple(_active):
            one.opened(path)


def _heard_list(arguments: tuple) -> None:
    # Python lists the folders of its search path to find modules
    if sys._getframe(2).f_code.co_filename == _IMPORTING:
        return
    folder = "." if arguments[0] is None else arguments[0]
    path = os.readlink(f"/proc/self/fd/{folder}") if type(folder) is int else _path_of(folder)
    if path is not None:
        for one in tuple(_active):
            one.listed(path)


def _heard_rename(arguments: tuple) -> None:
    path = _path_of(arguments[1])
    if path is not None:
        for one in tuple(_active):
            one.written(path)


_EVENTS: dict[str, Callable[[tuple], None]] = {
    "open": _heard_open,
    "import": _heard_import,
    "ctypes.dlopen": _heard_load,
    "sqlite3.connect": _heard_load,
    "os.listdir": _heard_list,
    "os.scandir": _heard_list,
    "os.rename": _heard_rename,
}


def _path_of(given) -> str | None:
    """The absolute path; None for a file that is open already, and for what is no path."""
    if isinstance(given, str | bytes | os.PathLike):
        with contextlib.suppress(OSError, ValueError, TypeError):
            return os.path.abspath(os.fsdecode(given))
    return None


def _source_of(path: str) -> str:
    """The source that compiled code in ``__pycache__`` stands for; any other path itself."""
    if path.endswith(".pyc"):
        with contextlib.suppress(ValueError, NotImplementedError):
            source = importlib.util.source_from_cache(path)
            if os.path.isfile(source):
                return source
    return path


def _is_library(path: str) -> bool:
    """Whether a path belongs to Python, an installed package, this library or the system."""
    parts = path.split("/")
    if any(name in parts for name in (*_INSTALLED, *_BYPRODUCTS)) or parts[-1] in _SECRETS:
        return True
    return path.startswith(_library_folders()) or _is_temporary(path)


@cache
def _library_folders() -> tuple[str, ...]:
    library = Path(__file__).resolve().parents[1]
    named = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    named += [*_SYSTEM, site.getuserbase(), str(library)]
    named += [str(user_home() / name) for name in _SETTINGS]
    real = [os.path.realpath(one) for one in named]
    return tuple(sorted({f"{one.rstrip('/')}/" for one in (*named, *real)}))


def _is_temporary(path: str) -> bool:
    """Whether a path is in a folder of compiled code below the temporary one."""
    folder = f"{tempfile.gettempdir()}/"
    return path.startswith(folder) and _COMPILED.match(path, len(folder)) is not None
