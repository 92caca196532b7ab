"""Making pruned image stores again, from inside the job that misses them."""

from __future__ import annotations

import contextlib
import fcntl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.specification import SPLITS


def ensure_images(card: Path, *, job: list[str], data: str, workers: int) -> dict[str, Path]:
    """Paths of the image stores beside `card`; those that were deleted are prepared again first.

    Jobs of several backbones may find them missing at once: one prepares, the others wait.

    Parameters
    ----------
    job : the arguments that tell ``permafrost prepare`` what to do; empty where that is not known.
    """
    stores = {split: card.with_name(f"{split}.zarr") for split in SPLITS}
    if all(path.is_dir() for path in stores.values()):
        return stores
    with _alone(card.with_name(".prepare.lock")):
        if not all(path.is_dir() for path in stores.values()):
            _prepare(stores, card, job, data, workers)
    return stores


def _prepare(stores: dict[str, Path], card: Path, job: list[str], data: str, workers: int) -> None:
    # a process of its own, since dataset libraries have no place in extraction
    program = "from permafrost.stages.cli import main; raise SystemExit(main())"
    command = [sys.executable, "-c", program, "prepare", *job]
    command += ["--data", data, "--workers", str(workers)]
    command += ["--output", *map(str, stores.values()), "--card", str(card)]
    if not job or subprocess.run(command).returncode:
        raise PermafrostError(
            "the image stores were deleted and could not be made again (the reason is above)",
            where=card.parent,
            remedy="correct that, or bring the stores back",
        )


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)  # the whole folder may have been deleted
    with open(path, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)
