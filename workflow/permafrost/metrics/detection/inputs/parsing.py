"""Files, parsed JSON and data frames, all as lists of JSON objects."""

from __future__ import annotations

import contextlib
import gc
import json
import math
import os
import re
from collections.abc import Iterator, Mapping

from permafrost.core.errors import PermafrostError, first_line
from permafrost.core.identity import unique_keys
from permafrost.core.inputs import read_bytes

# pairs of surrogates, halves of them (the group), and all others
_ESCAPES = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)
# values of a data frame that stand for "not given"; NaN elsewhere is a wrong value
_OPTIONAL = (
    "iscrowd",
    "ignore",
    "segmentation",
    "keypoints",
    "num_keypoints",
    "bbox",
    "width",
    "height",
)


def load(given, what: str, *, check=None) -> tuple[object, str]:
    """The parsed JSON and a name for messages.

    Parameters
    ----------
    given : path of a JSON file, parsed JSON, a data frame (pandas, polars, pyarrow) with a row per
        entry, or a mapping whose values are such frames.
    what : ``truth`` or ``predictions``, the name where there is no file.
    check : called with the `beginning` of a file and its name, to refuse at once what need not be parsed.
    """
    if is_path(given):
        content = read_file(given)
        if check is not None:
            check(beginning(content), str(given))
        return parse(content, given), str(given)
    if isinstance(given, Mapping):
        return {key: _entries(value) for key, value in given.items()}, what
    return _entries(given), what


def is_path(given) -> bool:
    """Whether a file is meant."""
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
    """The first two characters of JSON that are no space, where it is in UTF-8."""
    head = content[:4096].removeprefix(b"\xef\xbb\xbf")
    return "".join(head.decode("ascii", "replace").split())[:2]


def parse(content: bytes | str, path: str | os.PathLike):
    """What JSON says."""
    try:
        if isinstance(content, bytes):
            # strictly, unlike the parser
            content = content.decode(json.detect_encoding(content))
        _check_surrogates(content)
        with pause_collector():
            return json.loads(content, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:
        raise PermafrostError(
            f"not a JSON file ({first_line(error)})", where=path, remedy="write the file again"
        ) from error


def _check_surrogates(text: str) -> None:
    """ValueError for an escaped half of a surrogate pair: no character, so that no file can hold it."""
    if "\\ud" not in text and "\\uD" not in text:
        return
    for escape in _ESCAPES.finditer(text):
        if escape[1]:
            raise ValueError(f"{escape[0]} is half of a character")


@contextlib.contextmanager
def pause_collector() -> Iterator[None]:
    """No garbage collection while many small objects are made, which all stay."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


def _entries(value):
    """Rows of a data frame as objects; anything else as it is."""
    # pandas, polars and pyarrow, none of which is imported here
    if hasattr(value, "to_pylist"):
        rows = value.to_pylist()
    elif hasattr(value, "to_dicts"):
        rows = value.to_dicts()
    elif hasattr(value, "to_dict") and hasattr(value, "columns"):
        rows = value.to_dict("records")
    else:
        return value
    return [_given(row) for row in rows]


def _given(row: dict) -> dict:
    return {k: v for k, v in row.items() if not (k in _OPTIONAL and _missing(v))}


def _missing(value) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))
