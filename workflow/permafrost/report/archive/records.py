"""Snakemake's memory of finished jobs: one JSON file per output under ``.snakemake/metadata``.

Snakemake (9.x, its default "file" persistence) names the record of an output by the URL-safe base64
of the output's path as the rule writes it. Names that are too long for a file are cut into pieces,
each but the last a folder whose name begins with ``@``.
"""

from __future__ import annotations

import os
from base64 import urlsafe_b64encode
from collections.abc import Iterable
from pathlib import Path

METADATA = Path(".snakemake") / "metadata"


def record_path(output: str, *, longest: int = 255) -> Path:
    """Where Snakemake keeps the record of `output`, relative to the working directory.

    Parameters
    ----------
    longest : longest file name of the file system (``PC_NAME_MAX``).
    """
    coded = urlsafe_b64encode(output.encode()).decode()
    step = longest - 1
    pieces = [coded[start : start + step] for start in range(0, len(coded), step)]
    return METADATA.joinpath(*(f"@{piece}" for piece in pieces[:-1]), pieces[-1])


def longest_name(folder: Path) -> int:
    """``PC_NAME_MAX`` of the file system that `folder` is on, as Snakemake asks for it."""
    try:
        return os.pathconf(folder, "PC_NAME_MAX") or 255
    except (OSError, ValueError, AttributeError):
        return 255


def find_records(root: Path, outputs: Iterable[str]) -> tuple[dict[str, Path], list[str]]:
    """Records of `outputs` (relative paths), and the outputs that have none.

    Returns
    -------
    ({output: path of its record relative to `root`}, [outputs without a record]).
    """
    longest = longest_name(root / METADATA) if (root / METADATA).is_dir() else 255
    records, lacking = {}, []
    for output in sorted(set(outputs)):
        path = record_path(output, longest=longest)
        if (root / path).is_file():
            records[output] = path
        else:
            lacking.append(output)
    return records, lacking
