"""Download one file over HTTP: resumed after a lost connection, verified, and moved into place when complete."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import http.client
import json
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from permafrost import __version__
from permafrost.core.errors import PermafrostError
from permafrost.core.progress import byte_progress
from permafrost.core.text import bytes_words
from permafrost.data.download.steps import Get

#: seconds before each retry of a connection that sent nothing; any progress restarts the count
PAUSES_S = (1.0, 2.0, 4.0, 8.0, 16.0)
TIMEOUT_S = 60.0
_LONGEST_PAUSE_S = 60.0
_CHUNK = 1 << 20
_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_NO_HEAD = frozenset({403, 405, 501})  # status of servers that do not support HEAD
_WEB = ("http", "https")
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class _WebOnly(urllib.request.HTTPRedirectHandler):
    """Follows redirects to web addresses only; Python's own handler also follows those to ftp."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        if urlsplit(newurl).scheme not in _WEB:
            reason = f"redirection to {newurl} is not allowed"
            raise urllib.error.HTTPError(req.full_url, code, reason, headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class _BrokenOff(Exception):
    """An error that a retry may solve."""

    def __init__(self, reason: object, pause: float = 0.0) -> None:
        super().__init__(str(reason))
        self.pause = pause


def remote_size(get: Get) -> int | None:
    """Size in bytes by the server; None if the server does not report it.

    Raises
    ------
    PermafrostError : no such file, access denied, or the server cannot be reached.
    """

    def ask() -> int | None:
        with _opened(get, {}, method="HEAD") as response:
            return None if response is None else _number(response.headers.get("Content-Length"))

    if get.size is not None:
        return get.size
    return _persist(get, ask, lambda: 0, PAUSES_S[:2])


def fetch_file(get: Get) -> None:
    """Download the file to its path; an existing file is only verified.

    A partial download is kept next to the target, also after an interruption, and the next call
    resumes it. If the server cannot resume, or its file has changed, the download starts again.

    Raises
    ------
    PermafrostError : not available, wrong checksum or size, disk full, or another process is
        downloading it.
    """
    if get.path.exists():
        _check(get, get.path, "delete the file and fetch again")
        return
    get.path.parent.mkdir(parents=True, exist_ok=True)
    with _Partial(get) as partial:
        if get.path.exists():
            return
        resumed = partial.size > 0
        while True:
            _persist(get, lambda: _transfer(get, partial), lambda: partial.size, PAUSES_S)
            try:
                _check(
                    get, partial.path, "fetch again; if that does not help, upstream's file changed"
                )
                break
            except PermafrostError:
                partial.restart()
                if not resumed:
                    raise
                # the two parts may belong to different versions
                resumed = False
        partial.finish()


class _Partial:
    """The partial download next to the target, and the server's identifier of its version."""

    def __init__(self, get: Get) -> None:
        self._target, self._url = get.path, get.url
        self.path = get.path.with_name(f".{get.path.name}.download")
        self._note = get.path.with_name(f".{get.path.name}.download.json")
        self.version: str | None = None

    def __enter__(self) -> _Partial:
        try:
            self._file = open(self.path, "ab", buffering=0)
        except OSError as error:
            raise PermafrostError(
                f"cannot be written ({error.strerror})",
                where=self._target,
                remedy="choose another folder with --data, or correct its permissions",
            ) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._file.close()
            raise PermafrostError(
                "another process is fetching this file", where=self._target, remedy="wait for it"
            ) from error
        except OSError:
            pass  # a file system without locks
        with contextlib.suppress(OSError, ValueError, AttributeError):
            note = json.loads(self._note.read_text(encoding="utf-8"))
            self.version = note.get("version") if note.get("url") == self._url else None
        return self

    def __exit__(self, *_) -> None:
        if not self._file.closed:
            empty = self.size == 0
            self._file.close()
            if empty:
                self._discard()

    @property
    def size(self) -> int:
        return os.fstat(self._file.fileno()).st_size

    def write(self, chunk: bytes) -> None:
        try:
            view = memoryview(chunk)
            while view:
                view = view[self._file.write(view) :]
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            raise PermafrostError(
                f"the disk is full after {bytes_words(self.size)}",
                where=self._target,
                remedy="make room and fetch again: it resumes",
            ) from error

    def restart(self) -> None:
        self._file.truncate(0)

    def remember(self, version: str | None) -> None:
        if version != self.version:
            self.version = version
            self._note.write_text(json.dumps({"url": self._url, "version": version}))

    def finish(self) -> None:
        os.fsync(self._file.fileno())
        os.replace(self.path, self._target)
        self._file.close()
        self._discard()

    def _discard(self) -> None:
        self.path.unlink(missing_ok=True)
        self._note.unlink(missing_ok=True)


def _transfer(get: Get, partial: _Partial) -> None:
    """Download the rest of the file in one connection."""
    if partial.size and partial.version is None and get.checksum is None:
        partial.restart()  # no identifier proves that the rest belongs to it
    if get.size is not None and partial.size >= get.size:
        if partial.size == get.size:
            return
        partial.restart()
    start, headers = partial.size, {}
    if start:
        headers["Range"] = f"bytes={start}-"
        if partial.version is not None:
            headers["If-Range"] = partial.version
    with _opened(get, headers) as response:
        if response.status == 416:
            if response.headers.get("Content-Range") == f"bytes */{start}":
                return
            partial.restart()
            raise _BrokenOff("what is here is not a part of the server's file")
        version = _version(response.headers)
        if response.status != 206:
            partial.restart()
            start = 0
        elif not _goes_on(response.headers, start) or version != (partial.version or version):
            partial.restart()
            raise _BrokenOff("the server sent another part than was asked for")
        partial.remember(version)
        rest = _number(response.headers.get("Content-Length"))
        total = None if rest is None else start + rest
        if None not in (total, get.size) and total != get.size:
            partial.restart()
            raise PermafrostError(
                f"the server's file has {total} bytes, and not {get.size}",
                where=get.url,
                remedy="upstream's file changed: correct the entry, or get the right file by hand",
            )
        _receive(response, partial, total)
    if total is not None and partial.size < total:
        raise _BrokenOff(f"it ended after {partial.size} of {total} bytes")


def _receive(response, partial: _Partial, total: int | None) -> None:
    name = partial.path.name.removeprefix(".").removesuffix(".download")
    with byte_progress(total=total, done=partial.size, label=name) as bar:
        while True:
            try:
                chunk = response.read(_CHUNK)
            except (OSError, http.client.HTTPException) as error:
                raise _BrokenOff(error) from error
            if not chunk:
                return
            partial.write(chunk)
            bar.update(len(chunk))


@contextlib.contextmanager
def _opened(get: Get, headers: dict[str, str], method: str = "GET") -> Iterator:
    """The server's answer; None if the server does not support HEAD."""
    if urlsplit(get.url).scheme not in _WEB:
        raise PermafrostError("is no web address", where=get.url, remedy="correct the entry")
    request = urllib.request.Request(get.url, headers=headers, method=method)
    request.add_header("User-Agent", f"permafrost/{__version__}")
    if get.token is not None:
        # not forwarded on redirects
        request.add_unredirected_header("Authorization", f"Bearer {get.token}")
    try:
        response = urllib.request.build_opener(_WebOnly).open(request, timeout=TIMEOUT_S)
    except urllib.error.HTTPError as error:
        with error:
            if error.code in _TRANSIENT:
                pause = _number(error.headers.get("Retry-After")) or 0
                raise _BrokenOff(f"HTTP {error.code} {error.reason}", pause) from error
            if error.code == 416:
                yield error
                return
            if method == "HEAD" and error.code in _NO_HEAD:
                yield None
                return
            raise _refused(get, error) from error
    except (OSError, http.client.HTTPException) as error:
        raise _BrokenOff(getattr(error, "reason", None) or error) from error
    with response:
        yield response


def _refused(get: Get, error: urllib.error.HTTPError) -> PermafrostError:
    by_hand = f"or get the file by hand and put it to {get.path}"
    if error.code in (401, 403):
        return PermafrostError(
            f"the server denies access (HTTP {error.code} {error.reason})",
            where=get.url,
            remedy="agree to the terms on the data's page; for the Hugging Face hub then name your token in"
            f" HF_TOKEN or run `hf auth login`; {by_hand}",
        )
    if error.code in _REDIRECTS:
        return PermafrostError(
            f"the server redirects to where nothing is fetched from ({' '.join(str(error.reason).split())})",
            where=get.url,
            remedy=f"find the https address, and correct the entry; {by_hand}",
        )
    return PermafrostError(
        f"the server has no such file (HTTP {error.code} {error.reason})",
        where=get.url,
        remedy=f"find the new address, and correct the entry; {by_hand}",
    )


def _persist[T](
    get: Get, attempt: Callable[[], T], reached: Callable[[], int], pauses: tuple[float, ...]
) -> T:
    """The result of `attempt`, which is retried if the connection fails or is cut off."""
    failures, furthest = 0, reached()
    while True:
        try:
            return attempt()
        except _BrokenOff as error:
            failures = 1 if reached() > furthest else failures + 1
            furthest = max(furthest, reached())
            if failures > len(pauses):
                kept = f"; {bytes_words(reached())} are kept" if reached() else ""
                raise PermafrostError(
                    f"{urlsplit(get.url).netloc} cannot be reached, or breaks off ({error}){kept}",
                    where=get.url,
                    remedy="run the command again on a machine with a network: it resumes",
                ) from error
            pause = max(pauses[failures - 1], min(error.pause, _LONGEST_PAUSE_S))
            said = f"permafrost: {get.path.name}: {error}; trying again in {pause:g} s"
            print(said, file=sys.stderr, flush=True)
            time.sleep(pause)


def _check(get: Get, path: Path, remedy: str) -> None:
    """Raise `PermafrostError` if the file's size or checksum is not the expected one."""
    size = path.stat().st_size
    if get.size is not None and size != get.size:
        raise PermafrostError(
            f"has {size} bytes, and not {get.size}", where=get.path, remedy=remedy
        )
    if get.checksum is None:
        return
    algorithm, expected = get.checksum
    with open(path, "rb") as file:
        found = hashlib.file_digest(file, algorithm).hexdigest()
    if found != expected.lower():
        raise PermafrostError(
            f"its {algorithm} is {found}, and not {expected}", where=get.path, remedy=remedy
        )


def _version(headers) -> str | None:
    """Identifier of the file's version for If-Range, which does not allow weak tags."""
    tag = headers.get("ETag")
    return tag if tag and not tag.startswith("W/") else headers.get("Last-Modified")


def _goes_on(headers, start: int) -> bool:
    return (headers.get("Content-Range") or "").startswith(f"bytes {start}-")


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None
