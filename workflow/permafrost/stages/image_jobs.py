"""Shared by commands that run a backbone on images: arguments, the job, and its image stores."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from permafrost.core.environment import MAIN_PYTHON, ROLE, check_environment
from permafrost.core.errors import PermafrostError
from permafrost.core.memory import keep_freed_memory
from permafrost.core.option_models import read
from permafrost.core.specification import SPLITS, merged, substitute
from permafrost.features.kept_layers import KeptLayers
from permafrost.features.specification import Running
from permafrost.stages.arguments import add_compute, add_job, planned_job


def add_arguments(parser) -> None:
    add_job(parser)
    parser.add_argument("--data", default="data", help="replaces {data} in the entry's paths")
    parser.add_argument(
        "--card", type=Path, required=True, help="the dataset's card, next to its image stores"
    )
    parser.add_argument(
        "--prepare-job", help="fingerprint of the job that recomputes image stores, with --job"
    )
    parser.add_argument("--prepare-spec", help="canonical JSON of that job, with --spec")
    parser.add_argument("--prepare-code", help="hash of the sources of that job, with --spec")
    add_compute(parser)


def add_batch_size(parser) -> None:
    parser.add_argument("--batch-size", type=int, default=64, help="images per forward pass")


def images_of(arguments) -> dict[str, Path]:
    """Image stores by split; deleted ones are recomputed."""
    return ensure_images(
        arguments.card,
        job=_prepare_job(arguments),
        data=arguments.data,
        workers=arguments.threads,
    )


def _prepare_job(arguments) -> list[str]:
    """Arguments of ``permafrost prepare`` for the job that recomputes image stores."""
    if arguments.prepare_job is not None:
        return ["--job", arguments.prepare_job, "--plan", str(arguments.plan)]
    if arguments.prepare_spec is not None:
        return ["--spec", arguments.prepare_spec, "--code", str(arguments.prepare_code)]
    return []


def located_job(arguments) -> tuple[dict, str]:
    """The job's spec, with real paths in its entry and its files, and its fingerprint.

    Raises
    ------
    PermafrostError : the job belongs to another environment.
    """
    job = planned_job(arguments)
    entry = merged(job.spec["entry"], job.places.get("entry", {}))
    paths = job.places.get("files", {})
    promised = job.spec.get("files") or {}
    # environments of conda and apptainer are checked by Snakemake
    if paths.get(ROLE, "").endswith(".lock"):
        check_environment(promised[ROLE])
    files = {
        substitute(paths.get(role, role), arguments.data): digest
        for role, digest in promised.items()
    }
    entry = {**substitute(entry, arguments.data), "weights_folder": f"{arguments.data}/weights"}
    spec = {**job.spec, "entry": entry, "files": files}
    return spec, job.fingerprint


def run(arguments, extract, kind: type, kept: KeptLayers | None = None, **outputs) -> None:
    """Call `extract` for the job, after recomputing image stores if they were deleted.

    Parameters
    ----------
    extract : called with the spec, ``images``, ``card``, ``fingerprint``, ``running``, `outputs`.
    kind : dataclass of the spec.
    kept : the layers whose maps are stored; None: all.
    """
    images = images_of(arguments)
    keep_freed_memory()
    spec, fingerprint = located_job(arguments)
    extract(
        read(kind, spec, where=f"spec of the {spec['stage']} job"),
        images=images,
        card=arguments.card,
        fingerprint=fingerprint,
        running=Running(
            device=arguments.device,
            batch_size=arguments.batch_size,
            workers=arguments.threads,
            threads=arguments.threads,
            kept=kept,
        ),
        **outputs,
    )


def ensure_images(card: Path, *, job: list[str], data: str, workers: int) -> dict[str, Path]:
    """Paths of the image stores next to `card`, by split; deleted ones are recomputed first.

    If several jobs find them missing at the same time, one recomputes them and the others wait.

    Parameters
    ----------
    job : arguments of ``permafrost prepare`` for the job; empty: unknown.
    data : replaces {data} in the entry's paths.
    workers : threads that decode images.

    Raises
    ------
    PermafrostError : the stores cannot be recomputed.
    """
    stores = {split: card.with_name(f"{split}.zarr") for split in SPLITS}
    if all(path.is_dir() for path in stores.values()):
        return stores
    with _alone(card.with_name(".prepare.lock")):
        if not all(path.is_dir() for path in stores.values()):
            _prepare(stores, card, job, data, workers)
    return stores


def _prepare(stores: dict[str, Path], card: Path, job: list[str], data: str, workers: int) -> None:
    # a process in the main environment: that of a backbone may lack libraries of datasets
    program = "from permafrost.stages.cli import main; raise SystemExit(main())"
    command = [os.environ.get(MAIN_PYTHON, sys.executable), "-c", program, "prepare", *job]
    command += ["--data", data, "--workers", str(workers)]
    command += ["--output", *map(str, stores.values()), "--card", str(card)]
    if not job or subprocess.run(command).returncode:
        raise PermafrostError(
            "the image stores were deleted and could not be recomputed (the reason is above)",
            where=card.parent,
            remedy="correct that, or restore the image stores",
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
