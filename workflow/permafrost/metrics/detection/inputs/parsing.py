"""Load files, parsed JSON, data frames and arrays as lists of JSON objects or tables."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from permafrost.core.errors import PermafrostError, first_line
from permafrost.core.identity import unique_keys
from permafrost.core.inputs import read_bytes
from permafrost.metrics.detection.inputs.arrays import as_table, detection_table

# pairs of surrogates, halves of them (the group), and all others
_ESCAPES = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)


def load(given, what: str, *, check: Callable[[str, str], None] | None = None) -> tuple[Any, str]:
    """The parsed JSON and a name for messages.

    Parameters
    ----------
    given : path of a JSON file; parsed JSON; a data frame (pandas, polars, pyarrow) with a row per
        entry; a mapping of column names to arrays; an array of N detections by 7 numbers; or a mapping
        whose values are frames or mappings of columns. Frames and arrays become an `arrays.Table`.
    what : ``truth`` or ``predictions``; the name for messages if there is no file.
    check : called with the `beginning` of a file and its name, to refuse a file before it is parsed.

    Raises
    ------
    PermafrostError : a file that cannot be read, is empty, or is not JSON.
    """
    if is_path(given):
        content = read_file(given)
        if check is not None:
            check(beginning(content), str(given))
        return parse(content, given), str(given)
    if isinstance(given, np.ndarray) and what == "predictions":
        return detection_table(given, what), what
    if isinstance(given, Mapping) and "image_id" not in given:
        return {key: _loaded(value, f"{what}: {key}") for key, value in given.items()}, what
    return _loaded(given, what), what


def _loaded(value, where: str):
    table = as_table(value, where)
    return value if table is None else table


def is_path(given) -> bool:
    """Whether it is a path."""
    return isinstance(given, str | os.PathLike)


def read_file(path: str | os.PathLike) -> bytes:
    """The content of a file that is not empty."""
    content = read_bytes(path)
    if not content or content.isspace():
        raise PermafrostError(
            "the file is empty", where=path, remedy="write [] where there are no detections"
        )
    return content


def beginning(content: bytes) -> str:
    """The first two non-space characters of JSON in UTF-8."""
    head = content[:4096].removeprefix(b"\xef\xbb\xbf")
    return "".join(head.decode("ascii", "replace").split())[:2]


def parse(content: bytes | str, path: str | os.PathLike):
    """The parsed JSON; raises `PermafrostError` if it is invalid or repeats a key."""
    try:
        if isinstance(content, bytes):
            # decode strictly; json.loads would let surrogates pass
            content = content.decode(json.detect_encoding(content))
        _check_surrogates(content)
        with pause_collector():
            return json.loads(content, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:
        raise PermafrostError(
            f"not a JSON file ({first_line(error)})", where=path, remedy="write the file again"
        ) from error


def parse_quickly(content: bytes):
    return json.loads(content, object_pairs_hook=unique_keys)


def _check_surrogates(text: str) -> None:
    """ValueError for an escaped half of a surrogate pair, which no file can store."""
    if "\\ud" not in text and "\\uD" not in text:
        return
    for escape in _ESCAPES.finditer(text):
        if escape[1]:
            raise ValueError(f"{escape[0]} is half of a character")


@contextlib.contextmanager
def pause_collector() -> Iterator[None]:
    """Pause garbage collection while many small objects are created, none of them garbage."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()
