"""Download published weights. Jobs run it as a separate process."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.data.download.hub import mirrored
from permafrost.data.download.steps import Get
from permafrost.data.download.transfer import fetch_file, remote_size

_SHA256 = re.compile(r"[0-9a-f]{64}")
_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")


def first_to_be_had(gets: Sequence[Get]) -> Get:
    """The first of the files that is available, with its size and, on the hub, its checksum.

    Raises
    ------
    PermafrostError : none is available, or there is no network.
    """
    for name in _OFFLINE:
        if os.environ.get(name, "").lower() in ("1", "true", "yes", "on"):
            raise PermafrostError(f"{name} forbids it", where=gets[0].url)
    for number, get in enumerate(gets):
        known = _told_by_hub(replace(get, url=mirrored(get.url)))
        try:
            return replace(known, size=remote_size(known))
        except PermafrostError:
            if number == len(gets) - 1:
                raise
    raise AssertionError("no file is named")


def get_weights(gets: Sequence[Get], digests: Sequence[str | None]) -> None:
    """Download the first available file, unless one of them exists already.

    Parameters
    ----------
    digests : first digits of each file's SHA-256; None if its name does not contain them.

    Raises
    ------
    PermafrostError : none is available, no network, or a wrong checksum.
    """
    folder = gets[0].path.parent
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f".{gets[0].path.name}.lock", "w") as lock:
        # jobs of several datasets may need them at once: one downloads, the others wait
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        if any(get.path.exists() for get in gets):
            return
        chosen = first_to_be_had(gets)
        expected = next(d for get, d in zip(gets, digests, strict=True) if get.path == chosen.path)
        if chosen.checksum is None and expected is not None and len(expected) == 64:
            chosen = replace(chosen, checksum=("sha256", expected))
        fetch_file(chosen)
    Path(lock.name).unlink(missing_ok=True)


def _told_by_hub(get: Get) -> Get:
    """With the hub's size and SHA-256 for a large file; unchanged if the file is not on the hub."""
    from huggingface_hub import get_hf_file_metadata, get_token

    if "/resolve/" not in get.url:
        return get
    get = replace(get, token=get_token())
    try:
        told = get_hf_file_metadata(get.url)
    # whatever the error, the download itself reports it better
    except Exception:
        return get
    sha256 = told.etag if told.etag and _SHA256.fullmatch(told.etag) else None
    return replace(get, size=told.size, checksum=("sha256", sha256) if sha256 else None)


def main() -> int:
    """Download the files of the argument, JSON of [URL, path, first digits of the SHA-256] each;
    errors go to stdout."""
    wanted = json.loads(sys.argv[1])
    try:
        get_weights([Get(url, Path(place)) for url, place, _ in wanted], [one[2] for one in wanted])
    except PermafrostError as error:
        print(error.problem)
        return 1
    except OSError as error:
        print(f"{error.filename}: {error.strerror}")
        return 1
    return 0
