"""Load files, parsed JSON, data frames and arrays as lists of JSON objects or tables."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
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
        with pause_collector():
            return parse_unique(content)
    except (ValueError, RecursionError) as error:
        raise PermafrostError(
            f"not a JSON file ({first_line(error)})", where=path, remedy="write the file again"
        ) from error


def parse_unique(content: bytes | str):
    """The parsed JSON; ValueError or RecursionError if it is invalid or repeats a key.

    The standard library's parser is several times slower, but takes all that Python writes (NaN, UTF-16), notices
    repeated keys, and its errors are what messages say: it parses what the other refuses or may have misread.
    """
    if isinstance(content, bytes):
        # loaded only for files, since it takes as long as reading a small one
        import msgspec

        try:
            value = msgspec.json.decode(content)
        except (ValueError, RecursionError, msgspec.MsgspecError):
            pass
        else:
            if _repeats_no_key(content, value):
                return value
        # decode strictly; json.loads would let surrogates pass
        content = content.decode(json.detect_encoding(content))
    _check_surrogates(content)
    return json.loads(content, object_pairs_hook=unique_keys)


def _repeats_no_key(content: bytes, value) -> bool:
    """Whether `value` has all keys of the text; False also if that is uncertain."""
    if not isinstance(value, dict | list):
        return False
    keys = _count_keys(value, content.count(b"{"))
    # each key of the text has a colon
    if content.count(b":") == keys:
        return True
    if b'\\"' in content:
        return False
    codes = np.frombuffer(content, np.uint8)
    # without escaped ones, every other quote ends a string
    ends = np.flatnonzero(codes == ord('"'))[1::2]
    colons = np.flatnonzero(codes == ord(":"))
    if (codes[colons - 1] <= ord(" ")).any():
        return False
    return np.count_nonzero(codes[ends + 1] == ord(":")) == keys


def _count_keys(value: dict | list, objects: int) -> int:
    """How many keys the objects of a value have, of which there are `objects` at most."""
    level, found, keys = [value], 0, 0
    while level and found < objects:
        dicts = [item for item in level if type(item) is dict]
        lists = [item for item in level if type(item) is list]
        found += len(dicts)
        keys += sum(map(len, dicts))
        level = [*chain.from_iterable(map(dict.values, dicts)), *chain.from_iterable(lists)]
    return keys


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
