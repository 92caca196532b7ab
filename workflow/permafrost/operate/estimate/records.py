"""What finished jobs took, as Snakemake recorded it: no job measures itself for that."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from dataclasses import dataclass
from pathlib import Path

#: where Snakemake keeps a record for each output, below the working directory
RECORDS = Path(".snakemake/metadata")


@dataclass(frozen=True)
class Record:
    """A job that was finished, by one of its outputs.

    Attributes
    ----------
    fingerprints : strings among its parameters; that of the job is one of them.
    start, end : seconds since 1970, on the clock of the machine that ran Snakemake.
    """

    fingerprints: frozenset[str]
    start: float
    end: float


def read_records(folder: Path) -> dict[str, Record]:
    """Output, as rules name it, to the record of its last job; empty where nothing was run.

    Records that cannot be read are left out: they are Snakemake's, and only estimates are made of them.
    """
    found = {}
    for path in (folder / RECORDS).rglob("*"):
        try:
            # a long name stands in folders that begin with @
            name = "".join(
                part.removeprefix("@") for part in path.relative_to(folder / RECORDS).parts
            )
            output = urlsafe_b64decode(name.encode()).decode()
            content = json.loads(path.read_bytes())
            strings = frozenset(str(one).strip("'") for one in content["params"])
            found[output] = Record(strings, float(content["starttime"]), float(content["endtime"]))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return found
