"""Evaluations of parts of the images, written by many processes and merged into exactly the whole.

A part is evaluated against the whole truth, restricted to some of its images. Its file holds the
inputs and matches, so that merging matches nothing again and can still produce every table:

| bytes       | content                                                        |
|-------------|----------------------------------------------------------------|
| 8           | magic                                                          |
| 4, 4        | length of the head, and its CRC-32 (little-endian)             |
| head        | JSON: version, identity, size and CRC-32 of the body, notes    |
| body        | NumPy's npz, without pickled objects                           |
"""

from __future__ import annotations

import contextlib
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from permafrost.core.errors import PermafrostError, first_line
from permafrost.core.inputs import check_regular, read_bytes
from permafrost.core.outputs import whole_file
from permafrost.data.files.opening import UnreadableImage, load_npz
from permafrost.evaluators.detection.joining import join
from permafrost.evaluators.detection.packing import arrays_of, describe, restore
from permafrost.metrics.detection.evaluation import Evaluation

MAGIC = b"PFDETEC\n"
VERSION = 2
_HEAD = struct.Struct("<II")


def save_partial(evaluation: Evaluation, path) -> None:
    """Write an evaluation that can be merged with those of other images of the same truth."""
    body = io.BytesIO()
    np.savez_compressed(body, allow_pickle=False, **arrays_of(evaluation))
    content = body.getvalue()
    head = {
        "version": VERSION,
        "size": len(content),
        "crc": zlib.crc32(content),
        **describe(evaluation),
    }
    text = json.dumps(head).encode()
    with whole_file(path) as partial, open(partial, "wb") as stream:
        stream.write(MAGIC + _HEAD.pack(len(text), zlib.crc32(text)) + text + content)


def merge(paths, *, incomplete: bool = False) -> Evaluation:
    """The evaluation of all images of all parts, as if they had been evaluated together.

    Detections keep the order of their file if all parts read one file; otherwise they follow part
    by part. Duplicate ids are renumbered.

    Parameters
    ----------
    incomplete : allow images of the truth that are in no part; `warnings` reports them.

    Raises
    ------
    PermafrostError : a damaged file, parts that do not belong together (the message names the
        field), an image in two parts, images in none.
    """
    if not paths:
        raise PermafrostError("no parts are given", where="merge")
    heads: list[dict]
    parts: list[Evaluation]
    heads, parts = [], []
    for path in paths:
        with _naming(path):
            head, content = _read(Path(path))
            if heads:
                _check_same(heads[0], head, paths[0], path)
            heads.append(head)
            parts.append(restore(head, content))
    with _naming(", ".join(map(str, paths))):
        _check_overlap(parts, paths)
        merged = join(parts)
        missing = heads[0]["whole_images"] - len(merged.truths.images)
    if missing and not incomplete:
        raise PermafrostError(
            f"{missing} of {heads[0]['whole_images']} images are in no part",
            where="merge",
            remedy="merge the missing parts too, or accept an incomplete result",
        )
    return merged


@contextlib.contextmanager
def _naming(where) -> Iterator[None]:
    """Name the file in errors from content that another program wrote with valid checksums."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, MemoryError) as error:
        raise _damaged(
            where, f"not written by this program ({first_line(error, named=True)})"
        ) from error


def _read(path: Path) -> tuple[dict, dict[str, np.ndarray]]:
    """Head and arrays of a file, after checking its length and checksums."""
    check_regular(path)
    content = read_bytes(path)
    begin = len(MAGIC) + _HEAD.size
    if not content.startswith(MAGIC):
        raise PermafrostError("not a part of an evaluation (magic)", where=path)
    if len(content) < begin:
        raise _damaged(path, "truncated in its head")
    length, crc = _HEAD.unpack_from(content, len(MAGIC))
    text, body = content[begin : begin + length], content[begin + length :]
    if len(text) < length or zlib.crc32(text) != crc:
        raise _damaged(path, "the head is truncated or changed (CRC)")
    head = json.loads(text)
    if head["version"] != VERSION:
        raise PermafrostError(
            f"written in version {head['version']} of the format, this program reads {VERSION}"
            " (version)",
            where=path,
            remedy="evaluate the part again",
        )
    if len(body) != head["size"]:
        raise _damaged(path, f"truncated: {len(body)} of {head['size']} bytes (size)")
    if zlib.crc32(body) != head["crc"]:
        raise _damaged(path, "its content was changed (CRC)")
    try:
        return head, load_npz(body)
    except UnreadableImage as error:
        raise PermafrostError(str(error), where=path, remedy=error.remedy) from error
    except (ValueError, OSError, zipfile.BadZipFile) as error:
        raise _damaged(path, first_line(error)) from error


def _damaged(path, problem: str) -> PermafrostError:
    return PermafrostError(problem, where=path, remedy="evaluate the part again")


def _check_same(first: dict, other: dict, path, other_path) -> None:
    for field, value in first["identity"].items():
        found = other["identity"].get(field)
        if found != value:
            raise PermafrostError(
                f"was written with another {field} ({_short(found)}) than {path} ({_short(value)})",
                where=other_path,
                remedy="merge parts of one truth that were evaluated with the same options",
            )


def _short(value) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _check_overlap(parts: list[Evaluation], paths) -> None:
    owner: dict = {}
    for part, path in zip(parts, paths, strict=True):
        for image in part.truths.images.ids.tolist():
            if image in owner:
                raise PermafrostError(
                    f"the image {image} is in {owner[image]} too (images)",
                    where=path,
                    remedy="give every image to one part",
                )
            owner[image] = path
