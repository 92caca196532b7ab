"""The jobs of a plan in one sorted text file; every job reads only its own line.

The first line identifies the plan and gives number and CRC-32 of the bytes that follow. Each further line is a
fingerprint, a space and a JSON object: ``code`` (hash of the stage's sources), ``places`` (paths of
the job's files, which are not part of the fingerprint) and ``spec``. Lines are sorted, so one job
of a hundred thousand is found by bisection, and its command line stays short.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from permafrost.core.errors import PermafrostError
from permafrost.core.identity import canonical_json, fingerprint
from permafrost.core.inputs import check_file
from permafrost.core.outputs import whole_file

SUFFIX = ".jobs"
_HEADER = "permafrost-jobs"
_HEAD = re.compile(rb"permafrost-jobs ([0-9a-f]{32}) (\d+) [0-9a-f]{8}\n")
_AGAIN = "start snakemake again, which records the plan anew"


@dataclass(frozen=True)
class PlannedJob:
    """One job as a stage reads it.

    Attributes
    ----------
    spec : everything that affects the result, except the code.
    code : hash of the sources of the stage.
    fingerprint : of both.
    places : paths of the files that the spec identifies by content, in the layout of the spec.
    """

    spec: dict
    code: str
    fingerprint: str
    places: dict = field(default_factory=dict)


def jobs_file(plan) -> Path:
    """The path of the file of jobs of a recorded plan."""
    return Path(plan).with_suffix(SUFFIX)


def jobs_are_recorded(path: Path, about: str) -> bool:
    """Whether `path` is a complete file of the jobs of the plan that `about` identifies."""
    try:
        with open(path, "rb") as stream:
            header = stream.readline(200)
            size = os.fstat(stream.fileno()).st_size - len(header)
    except OSError:
        return False
    found = _HEAD.fullmatch(header)
    return found is not None and found[1].decode() == about and int(found[2]) == size


def refuse_damaged(path: Path, about: str) -> None:
    """Raise `PermafrostError` unless `path` has all jobs of the plan `about`, byte for byte."""
    check_file(path)
    header, _, body = path.read_bytes().partition(b"\n")
    if header + b"\n" != _header(about, body):
        raise PermafrostError(
            "not what was written (its bytes do not match its checksum)", where=path, remedy=_AGAIN
        )


def write_jobs(path: Path, jobs: Iterable, about: str) -> None:
    """Write the file atomically.

    Parameters
    ----------
    jobs : with ``fingerprint``, ``code``, ``spec`` (canonical JSON) and ``places``.
    about : identifies the plan.
    """
    lines = {
        job.fingerprint: f'{job.fingerprint} {{"code":"{job.code}",'
        f'"places":{canonical_json(job.places)},"spec":{job.spec}}}\n'
        for job in jobs
    }
    body = "".join(line for _, line in sorted(lines.items())).encode()
    # not exclusive: processes that write at the same time write the same bytes
    with whole_file(path, exclusive=False) as partial:
        partial.write_bytes(_header(about, body) + body)


def find_job(plan, wanted: str) -> PlannedJob:
    """The job with the fingerprint `wanted` of a recorded plan.

    Raises
    ------
    PermafrostError : the file or the job is missing, or its record is damaged.
    """
    path = jobs_file(plan)
    try:
        with open(path, "rb") as stream:
            start = len(stream.readline(200))
            line = _line(stream, wanted.encode(), start, os.fstat(stream.fileno()).st_size)
    except OSError as error:
        raise PermafrostError(
            f"the recorded jobs cannot be read ({error.strerror})", where=path, remedy=_AGAIN
        ) from error
    if line is None:
        raise PermafrostError(f"no job {wanted} is recorded", where=path, remedy=_AGAIN)
    try:
        recorded = json.loads(line[len(wanted) :])
        job = PlannedJob(recorded["spec"], recorded["code"], wanted, recorded["places"])
        whole = fingerprint(canonical_json(job.spec), job.code) == wanted
    except (ValueError, KeyError, TypeError):
        whole = False
    if not whole:
        raise PermafrostError(
            f"the record of the job {wanted} is damaged",
            where=path,
            remedy=f"delete the file and {_AGAIN}",
        )
    return job


def _header(about: str, body: bytes) -> bytes:
    return f"{_HEADER} {about} {len(body)} {zlib.crc32(body):08x}\n".encode()


def _line(stream: BinaryIO, wanted: bytes, low: int, high: int) -> bytes | None:
    """The line that begins with `wanted`, by bisection of the bytes from `low` to `high`."""
    while low < high:
        middle = (low + high) // 2
        stream.seek(low)
        if middle > low:
            # go to the first line that begins at or after the middle
            stream.seek(middle - 1)
            stream.readline()
        if stream.tell() >= high:
            high = middle
            continue
        line = stream.readline()
        name = line[: len(wanted)]
        if name == wanted:
            return line
        if name < wanted:
            low = stream.tell()
        else:
            high = middle
    return None
