"""Reading files from the user: regular files, and pipes if a file is read once from start to end.

Folders, devices (``/dev/zero`` never ends) and pipes without a writer are errors, also behind
links.
"""

from __future__ import annotations

import hashlib
import os
import select
import stat
import time
from pathlib import Path

from permafrost.core.errors import PermafrostError, first_line
from permafrost.core.identity import file_digest

# seconds to wait for the first byte of a pipe
PATIENCE = 10.0
_CHUNK = 1 << 20
_REMEDY = "give a regular file"
# SHA-256 of pipes by device and inode, since a pipe cannot be read twice
_digests: dict[tuple[int, int], str] = {}


def is_pipe(path) -> bool:
    """Whether `path` is a pipe; False for a regular or missing file.

    Raises
    ------
    PermafrostError : a folder, a device or a socket.
    """
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    if stat.S_ISREG(mode):
        return False
    if stat.S_ISFIFO(mode):
        return True
    if stat.S_ISDIR(mode):
        raise PermafrostError("is a folder, not a file", where=path, remedy="name a file in it")
    what = "a socket" if stat.S_ISSOCK(mode) else "a device"
    raise PermafrostError(f"is {what}, not a file", where=path, remedy=_REMEDY)


def check_regular(path) -> None:
    """Check that `path` is a regular file or missing, for readers that seek.

    Raises
    ------
    PermafrostError : a pipe, a folder, a device or a socket.
    """
    if is_pipe(path):
        raise PermafrostError(
            "is a pipe, and this kind of file cannot be read from a pipe",
            where=path,
            remedy=_REMEDY,
        )


def check_file(path) -> None:
    """Raise `PermafrostError` for a folder, a device or a socket; files and pipes pass."""
    is_pipe(path)


def check_folder(path) -> None:
    """Raise `PermafrostError` if `path` exists and is not a folder."""
    if os.path.exists(path) and not os.path.isdir(path):
        raise PermafrostError(
            "is a file, not a folder", where=path, remedy="name the folder that contains it"
        )


def read_bytes(path) -> bytes:
    """The content of a file or a pipe.

    Raises
    ------
    PermafrostError : it is missing, unreadable, not a file, or a pipe without a writer.
    """
    try:
        return _read_pipe(path) if is_pipe(path) else Path(path).read_bytes()
    except FileNotFoundError as error:
        remedy = "standard input is /dev/stdin" if str(path) == "-" else "correct its name"
        raise PermafrostError(
            "cannot be read: the file does not exist", where=path, remedy=remedy
        ) from error
    except (OSError, ValueError) as error:
        raise PermafrostError(f"cannot be read ({first_line(error)})", where=path) from error


def read_text(path) -> str:
    """The text of a UTF-8 file, without a byte order mark, with ``\\n`` line ends.

    Raises
    ------
    PermafrostError : as `read_bytes`, or it is not UTF-8.
    """
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PermafrostError(
            f"cannot be read ({first_line(error)})", where=path, remedy="write it as UTF-8"
        ) from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def input_digest(path) -> str:
    """SHA-256 of a file, of the bytes already read from a pipe, or of a folder's text files with their names, in
    hexadecimal."""
    if os.path.isdir(path):
        return _folder_digest(Path(path))
    if not is_pipe(path):
        return file_digest(path)
    try:
        return _digests[_identity(path)]
    except KeyError as error:
        raise PermafrostError("the pipe was not read", where=path, remedy=_REMEDY) from error


def _folder_digest(folder: Path) -> str:
    total = hashlib.sha256()
    for file in sorted(each for each in folder.iterdir() if each.suffix.lower() == ".txt"):
        total.update(f"{file.name}\0{file_digest(file)}\0".encode())
    return total.hexdigest()


def _identity(path) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def _read_pipe(path) -> bytes:
    # without blocking, an empty read means that no writer has opened the pipe
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        content = b"".join(_chunks(descriptor, path))
    finally:
        os.close(descriptor)
    _digests[_identity(path)] = hashlib.sha256(content).hexdigest()
    return content


def _chunks(descriptor: int, path):
    deadline, begun = time.monotonic() + PATIENCE, False
    while True:
        try:
            chunk = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            # a writer has opened the pipe, so wait for its data
            begun = True
            select.select([descriptor], [], [])
            continue
        if chunk:
            begun = True
            yield chunk
        elif begun:
            return
        elif time.monotonic() > deadline:
            raise PermafrostError(
                f"no data arrived in this pipe for {PATIENCE:g} seconds", where=path, remedy=_REMEDY
            )
        else:
            time.sleep(0.01)
