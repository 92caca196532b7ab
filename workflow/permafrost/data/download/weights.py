"""Getting the file of published weights. Jobs run it as a process of its own."""

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
    """The first of the files that its server has, with its size and, from the hub, its checksum.

    Raises
    ------
    PermafrostError : there is none, or there is no network.
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
    """Bring the first of the files that can be had to its place, unless one is there.

    Parameters
    ----------
    digests : first digits of each file's SHA-256, where its name tells them.
    """
    folder = gets[0].path.parent
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f".{gets[0].path.name}.lock", "w") as lock:
        # jobs of several datasets may want them at once: one gets them, the others wait
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
    """With size and SHA-256 as the hub tells them of large files; as it was where it is not the hub."""
    from huggingface_hub import get_hf_file_metadata, get_token

    if "/resolve/" not in get.url:
        return get
    get = replace(get, token=get_token())
    try:
        told = get_hf_file_metadata(get.url)
    # whatever is wrong, asking for the file itself says it better
    except Exception:
        return get
    sha256 = told.etag if told.etag and _SHA256.fullmatch(told.etag) else None
    return replace(get, size=told.size, checksum=("sha256", sha256) if sha256 else None)


def main() -> int:
    """Get what the argument, JSON, names: [address, place, first digits of the SHA-256] each; errors go to stdout."""
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
