"""Options that several stages share, and the reading of them."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.identity import fingerprint
from permafrost.core.splits import SPLITS


def add_job(parser: argparse.ArgumentParser) -> None:
    """``--spec`` and ``--code``: what is to be done, and the version of the sources that do it."""
    parser.add_argument(
        "--spec", required=True, help="canonical JSON of the job, or a file that holds it"
    )
    parser.add_argument("--code", required=True, help="hash of the sources of this stage")


def read_job(arguments) -> tuple[dict, str]:
    """The job's spec and its fingerprint."""
    text = arguments.spec
    if not text.lstrip().startswith("{"):
        try:
            text = Path(text).read_text()
        except OSError as error:
            raise PermafrostError(
                f"cannot be read ({error.strerror})", where=arguments.spec
            ) from error
    return json.loads(text), fingerprint(text.strip(), arguments.code)


def add_splits(parser: argparse.ArgumentParser, option: str, what: str) -> None:
    """An option that takes three paths: train, validation, test."""
    parser.add_argument(
        option, nargs=3, type=Path, required=True, metavar=("TRAIN", "VAL", "TEST"), help=what
    )


def by_split(paths) -> dict[str, Path]:
    return dict(zip(SPLITS, paths, strict=True))


def add_compute(parser: argparse.ArgumentParser) -> None:
    """``--device`` and ``--threads``, which never change what counts as up to date."""
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    parser.add_argument("--threads", type=int, default=1)
