"""Which files a process opens for reading: what a job's result depends on, declared or not.

One audit hook of Python sees every file that Python opens, in all threads. Libraries in C open files
that Python does not see: whoever calls one passes the path to `note`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import stat
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from permafrost.core.environment import user_home
from permafrost.core.errors import PermafrostError
from permafrost.core.promised import file_state

_INSTALLED = ("site-packages", "dist-packages")
_SYSTEM = ("/proc", "/sys", "/etc", "/lib", "/lib64", "/usr/lib", "/usr/share")
# folders in a home, and names, that hold settings and secrets but no input of a result
_SETTINGS = (".config", ".cache/matplotlib", ".cache/fontconfig", ".triton", ".nv")
_SECRETS = ("token", "stored_tokens", ".netrc")
_BYPRODUCTS = (".git", ".snakemake")
# folders below the temporary one in which libraries keep compiled code
_COMPILED = re.compile(r"torchinductor_|pymp-|permafrost-\d+-")
_IMPORTING = "<frozen importlib."
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

_CODE = (".py", *EXTENSION_SUFFIXES)

_active: list[Recording] = []
# files of earlier recordings that loaded modules of the user
_ended: list[dict[str, list[int]]] = []


class Recording:
    """What is opened while it is active, in the order of the first opening.

    Attributes
    ----------
    files : absolute path of a file -> its state when it was first opened.
    folders : absolute paths of folders whose names were listed.
    job : what keeps the recording for the job that runs.
    """

    def __init__(self) -> None:
        self.files: dict[str, list[int]] = {}
        self.folders: dict[str, None] = {}
        self.job: object = None
        self._written: set[str] = set()
        self._seen: set[str] = set()
        self._ignored: list[Callable[[str], bool]] = []

    def ignore(self, ignored: Callable[[str], bool]) -> None:
        """Leave out absolute paths for which `ignored` is true, also those that were opened before."""
        self._ignored.append(ignored)
        self.files = {path: state for path, state in self.files.items() if not ignored(path)}
        self.folders = {path: None for path in self.folders if not ignored(path)}

    def opened(self, path: str) -> None:
        """A file was opened for reading."""
        if path in self._seen:
            return
        self._seen.add(path)
        path = _source_of(path)
        if path in self.files or path in self._written or self._left_out(path):
            return
        with contextlib.suppress(OSError, ValueError):
            # a missing file, a pipe or a device is no input; what a link points to is
            if stat.S_ISREG(os.stat(path).st_mode):
                self.files[path] = file_state(path)

    def listed(self, path: str) -> None:
        """The names in a folder were listed."""
        if path not in self.folders and not self._left_out(path):
            self.folders[path] = None

    def written(self, path: str) -> None:
        """A file was opened for writing: what the process makes itself is no input."""
        self._written.add(path)
        self.files.pop(path, None)

    def include(self, other: Recording) -> None:
        """Count what another recording holds, too."""
        for path in other._written:
            self.written(path)
        for path, state in other.files.items():
            if path not in self._written and not self._left_out(path):
                self.files.setdefault(path, state)
        for path in other.folders:
            self.listed(path)

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

    def _left_out(self, path: str) -> bool:
        return is_library(path) or any(ignored(path) for ignored in self._ignored)


@contextlib.contextmanager
def recording() -> Iterator[Recording]:
    """Record which files the process opens for reading, and which folders it lists.

    Files of Python, of installed packages, of this library and of the system do not count; neither
    do files that the process writes itself. What an earlier recording of this process read together
    with a module that is still loaded counts again, since Python loads a module once.
    """
    _listen()
    made = Recording()
    modules = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    for before in _ended:
        if not modules.isdisjoint(before):
            made.files.update(before)
    _active.append(made)
    try:
        yield made
    finally:
        _active.remove(made)
        if any(path.endswith(_CODE) for path in made.files):
            _ended.append(dict(made.files))


@contextlib.contextmanager
def recording_apart() -> Iterator[Recording]:
    """Record as `recording` does; the recordings that are active see nothing of it."""
    _listen()
    made = Recording()
    paused, _active[:] = _active[:], [made]
    try:
        yield made
    finally:
        _active[:] = paused


def active() -> Recording | None:
    """The innermost recording of this process."""
    return _active[-1] if _active else None


def declare(path: str | os.PathLike, counts: Callable[[str], bool] | None = None) -> None:
    """Say that the identity of the job covers `path`, so that recordings leave it out.

    Parameters
    ----------
    path : a file, or a folder with all files below it.
    counts : of a folder, whether the file with a relative name is covered; None: every one is.
    """
    spelled = os.path.abspath(os.fspath(path))
    places = {spelled, os.path.realpath(spelled)}

    def ignored(opened: str) -> bool:
        if opened in places:
            return True
        for place in places:
            if opened.startswith(f"{place}/"):
                # a folder inside matters by the files that are found in it
                name = opened[len(place) + 1 :]
                return counts is None or counts(name) or os.path.isdir(opened)
        return False

    for one in tuple(_active):
        one.ignore(ignored)


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
    # Python lists the folders of its search path to find modules and packages
    caller = sys._getframe(2).f_code.co_filename
    if caller.startswith(_IMPORTING) or "/importlib/" in caller:
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


def is_library(path: str) -> bool:
    """Whether a path belongs to Python, an installed package, this library or the system."""
    parts = path.split("/")
    if any(name in parts for name in (*_INSTALLED, *_BYPRODUCTS)) or parts[-1] in _SECRETS:
        return True
    return f"{path}/".startswith(_library_folders()) or _is_temporary(path)


@cache
def _library_folders() -> tuple[str, ...]:
    library = Path(__file__).resolve().parents[1]
    named = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    named += [*_SYSTEM, str(library)]
    # of a Python of the system it would be /usr
    named += [one for one in (sys.prefix, sys.base_prefix) if one.count("/") > 1]
    named += [str(user_home() / name) for name in _SETTINGS]
    real = [os.path.realpath(one) for one in named]
    return tuple(sorted({f"{one.rstrip('/')}/" for one in (*named, *real)}))


def _is_temporary(path: str) -> bool:
    """Whether a path is in a folder of compiled code below the temporary one."""
    folder = f"{tempfile.gettempdir()}/"
    return path.startswith(folder) and _COMPILED.match(path, len(folder)) is not None
