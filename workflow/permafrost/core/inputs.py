"""Files from the user: regular files, and pipes if a file is read once from beginning to end.

A device such as ``/dev/zero`` never ends, a folder has no bytes, and a named pipe without a writer
would be waited for without end: each is refused by name, also behind a link.
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

# seconds until a writer must have opened a pipe
PATIENCE = 10.0
_CHUNK = 1 << 20
_REMEDY = "give a regular file"
# digests of pipes that were read, by device and inode: they can't be read again
_digests: dict[tuple[int, int], str] = {}


def is_pipe(path) -> bool:
    """Whether `path` is a pipe, and not a regular file; anything else that exists is refused.

    A missing file is not an error here; opening it is.

    Raises
    ------
    PermafrostError : a folder, a device, a socket.
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
    """Refuse what is there and no regular file, for a reader that must be able to go back in it.

    Raises
    ------
    PermafrostError : also a pipe.
    """
    if is_pipe(path):
        raise PermafrostError(
            "is a pipe, and this kind of file cannot be read from a pipe",
            where=path,
            remedy=_REMEDY,
        )


def check_file(path) -> None:
    """Refuse a folder or a device, for a reader of files and pipes."""
    is_pipe(path)


def check_folder(path) -> None:
    """Refuse a file in the place of a folder; a missing folder is not an error here."""
    if os.path.exists(path) and not os.path.isdir(path):
        raise PermafrostError(
            "is a file, not a folder", where=path, remedy="name the folder that contains it"
        )


def read_bytes(path) -> bytes:
    """The content of a file or a pipe.

    Raises
    ------
    PermafrostError : it is missing, not readable or not a file; a pipe without a writer.
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
    """The text of a UTF-8 file, without a byte order mark and with plain ends of lines; errors as of `read_bytes`."""
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PermafrostError(
            f"cannot be read ({first_line(error)})", where=path, remedy="write it as UTF-8"
        ) from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def input_digest(path) -> str:
    """SHA-256 of an input's bytes, in hexadecimal; of a pipe, of what was read from it."""
    if not is_pipe(path):
        return file_digest(path)
    try:
        return _digests[_identity(path)]
    except KeyError as error:
        raise PermafrostError("the pipe was not read", where=path, remedy=_REMEDY) from error


def _identity(path) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def _read_pipe(path) -> bytes:
    # a pipe that is opened without waiting says whether anybody has it open to write
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
            # there is a writer, however slow
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
