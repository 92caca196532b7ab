"""Check that this machine and this project have what a run needs, with remedies."""

from __future__ import annotations

import copy
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from permafrost.core import extras
from permafrost.core.cores import usable_cores
from permafrost.core.device import gpu_is_visible, torch_is_built_for_gpu
from permafrost.core.environment import user_home
from permafrost.core.errors import PermafrostError
from permafrost.core.memory import available_bytes
from permafrost.core.text import bytes_words
from permafrost.operate.chosen import HERE, weights_state
from permafrost.operate.offers import Offers, state_of
from permafrost.operate.run_environment import WHICH, cache_can_be_written, cache_folder
from permafrost.operate.snakemake_plugins import PLUGINS, USES, lacking, remedy
from permafrost.plan.catalogue import EVERY
from permafrost.plan.checks import check_entries, check_options
from permafrost.plan.misfits import refuses
from permafrost.plan.mistakes import Mistakes
from permafrost.plan.validation import validate

OK, MISSING, ABSENT = "ok", "missing", "not here"
_OLDEST = (3, 12)
# bytes; with less, a run of the demo fails
_LEAST_DISK, _LEAST_MEMORY = 2 << 30, 2 << 30
# seconds for all questions to other programs at once
_PATIENCE_S = 3.0
_SLURM_QUESTIONS = (
    ("sinfo", "--noheader", "--format", "%P"),
    ("squeue", "--noheader", "--me"),
)
_WORDS = {"none": "none are needed", "random": "drawn from the seed"}
_PINNED = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*==[^\\\n]+)", re.MULTILINE)


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes
    ----------
    state : ``ok``; ``missing``: a run needs it; ``not here``: a run works without it.
    found : what was found, or the problem.
    remedy : how to fix the problem.
    """

    name: str
    state: str
    found: str
    remedy: str | None = None


def examine(offers: Callable[[], Offers], root: Path) -> list[Finding]:
    """All findings, from the interpreter to the data.

    Parameters
    ----------
    offers : reads the catalogues and the configuration; may raise a `PermafrostError`.
    root : the project's folder.
    """
    try:
        known, problem = offers(), None
    except PermafrostError as error:
        known, problem = None, error
    config = {} if known is None else known.config
    found = [_python(), _packages(root), _gpu(config), _cores(), _memory()]
    found += [
        _disk(root, config),
        _cache(),
        _which(),
        _libraries(),
        _slurm(),
        *_plugins(),
        _configuration(known, problem, root),
    ]
    if known is not None:
        found += [*_named(known, "dataset"), *_named(known, "backbone"), *_caches(known)]
    return found


def _python() -> Finding:
    number = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < _OLDEST:
        return Finding("python", MISSING, number, "use Python 3.12 or newer: envs/run finds one")
    return Finding("python", OK, f"{number} ({sys.executable})")


def _packages(root: Path) -> Finding:
    # first the lock that envs/run installed from, because the project's may be newer
    candidates = (Path(sys.prefix) / "permafrost.lock", root / "envs/cpu.lock")
    lock = next((path for path in candidates if path.is_file()), None)
    if lock is None:
        return Finding("packages", ABSENT, "no lock to compare with", "install with envs/run")
    total, wrong = _compared(lock.read_text(encoding="utf-8"))
    if not wrong:
        return Finding("packages", OK, f"{total} as {lock} pins them")
    shown = ", ".join(wrong[:5]) + (f" and {len(wrong) - 5} more" if len(wrong) > 5 else "")
    said = f"{len(wrong)} of {total} are not as {lock} pins them: {shown}"
    return Finding("packages", MISSING, said, "install with envs/run, which follows the lock")


def _compared(lock: str) -> tuple[int, list[str]]:
    """The number of packages a lock pins for this machine, and descriptions of mismatches."""
    from packaging.requirements import Requirement

    pinned = [Requirement(line.strip()) for line in _PINNED.findall(lock)]
    pinned = [one for one in pinned if one.marker is None or one.marker.evaluate()]
    wrong = []
    for one in pinned:
        try:
            here = version(one.name)
        except PackageNotFoundError:
            wrong.append(f"{one.name} (not installed)")
            continue
        if not one.specifier.contains(here, prereleases=True):
            wrong.append(f"{one.name} ({here}, not {str(one.specifier).removeprefix('==')})")
    return len(pinned), wrong


def _gpu(config: dict) -> Finding:
    wanted = str((config.get("runtime") or {}).get("device", "auto"))
    needed = MISSING if wanted.startswith("cuda") else ABSENT
    without = "set runtime.device to auto or cpu" if needed == MISSING else "a run uses the CPU"
    if not gpu_is_visible():
        return Finding("gpu", needed, "no driver shows a GPU to this process", without)
    if not torch_is_built_for_gpu():
        remedy = "install the CUDA environment: PERMAFROST_ENV=cuda envs/run true"
        return Finding("gpu", needed, "there is a GPU, and torch is built for the CPU", remedy)
    return Finding(
        "gpu", OK, "; ".join(_answers(("nvidia-smi", "-L"))[0] or ()) or "a driver shows one"
    )


def _answers(*commands: Sequence[str]) -> list[list[str] | None]:
    """The lines that each command prints, all asked at once; None: it fails, or takes too long."""
    begun = [_begun(command) for command in commands]
    until = time.monotonic() + _PATIENCE_S
    return [None if one is None else _answer(one, until) for one in begun]


def _begun(command: Sequence[str]) -> subprocess.Popen | None:
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            errors="replace",
            # a command may be a script, whose children would keep the pipe open
            start_new_session=True,
        )
    except OSError:
        return None


def _answer(asked: subprocess.Popen, until: float) -> list[str] | None:
    try:
        said, _ = asked.communicate(timeout=max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        os.killpg(asked.pid, signal.SIGKILL)
        asked.communicate()
        return None
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return None if asked.returncode else lines


def _cores() -> Finding:
    return Finding("cores", OK, f"{usable_cores()} that this process may use, of {os.cpu_count()}")


def _memory() -> Finding:
    free = available_bytes()
    if free is None:
        return Finding("memory", ABSENT, "the free memory is unknown", "monitor it yourself")
    if free < _LEAST_MEMORY:
        remedy = "end other programs, or lower runtime.batch_size and the cores of the run"
        return Finding("memory", MISSING, f"{bytes_words(free)} free", remedy)
    return Finding("memory", OK, f"{bytes_words(free)} free")


def _disk(root: Path, config: dict) -> Finding:
    place = root / str(config.get("results", "results"))
    while not place.exists():
        place = place.parent
    if not os.access(place, os.W_OK):
        return Finding("disk", MISSING, f"{place} cannot be written to", "set results elsewhere")
    free = shutil.disk_usage(place).free
    if free < _LEAST_DISK:
        remedy = "make room (permafrost stale lists what can go), or set results elsewhere"
        return Finding("disk", MISSING, f"{bytes_words(free)} free in {place}", remedy)
    return Finding("disk", OK, f"{bytes_words(free)} free in {place}")


def _cache() -> Finding:
    folder = cache_folder()
    if cache_can_be_written():
        return Finding("cache", OK, str(folder))
    remedy = (
        "set XDG_CACHE_HOME to a folder that can be (`permafrost run` takes one of the project)"
    )
    return Finding("cache", MISSING, f"{folder} cannot be written to", remedy)


def _which() -> Finding:
    if place := shutil.which(WHICH):
        return Finding(WHICH, OK, place)
    remedy = "install it: snakemake needs it (`permafrost run` stands in for it)"
    return Finding(WHICH, MISSING, f"no {WHICH} on the PATH", remedy)


def _slurm() -> Finding:
    lacking = [name for name in ("sbatch", "squeue", "sinfo") if shutil.which(name) is None]
    if lacking:
        remedy = "needed only for --profile slurm: run it on a login node of the cluster"
        return Finding("slurm", ABSENT, f"no {' and no '.join(lacking)} on the PATH", remedy)
    partitions, queue = _answers(*_SLURM_QUESTIONS)
    silent = [
        command[0]
        for command, said in zip(_SLURM_QUESTIONS, (partitions, queue), strict=True)
        if said is None
    ]
    if silent or not partitions:
        said = f"{' and '.join(silent)} failed, or gave no answer in {_PATIENCE_S:g} s"
        remedy = "is its controller running? Ask the cluster's administrators"
        return Finding("slurm", ABSENT, said if silent else "sinfo names no partition", remedy)
    return Finding("slurm", OK, f"partitions {', '.join(partitions)}")


def _libraries() -> Finding:
    """Libraries of the pipeline; an installation of the evaluators alone lacks them."""
    if lacking := extras.absent("workflow"):
        said = f"no {' and no '.join(lacking[:3])}" + (", …" if lacking[3:] else "")
        return Finding("pipeline", MISSING, said, extras.remedy("workflow"))
    return Finding("pipeline", OK, "all libraries of a run are installed")


def _plugins() -> list[Finding]:
    """Snakemake plugins for profiles and object stores."""
    found = []
    for extra, names in PLUGINS.items():
        if absent := lacking(extra):
            said, advice = (
                f"no {' and no '.join(absent)}",
                f"needed only for {USES[extra]}: {remedy(extra)}",
            )
            found.append(Finding(extra, ABSENT, said, advice))
        else:
            found.append(Finding(extra, OK, " and ".join(names)))
    return found


def _configuration(known: Offers | None, problem: PermafrostError | None, root: Path) -> Finding:
    if known is None:
        return _broken(problem)
    where, mistakes = str(root / "config"), Mistakes()
    config = copy.deepcopy(known.config)
    with mistakes.gathered():
        validate(config, "config", where=where)
        _check(known, config, where, mistakes)
    try:
        mistakes.refuse(where)
    except PermafrostError as error:
        return _broken(error)
    counts = [
        f"{len(known.config.get(f'{kind}s', []))} {kind}s" for kind in ("dataset", "backbone")
    ]
    if not any(known.config.get(key) for key in ("datasets", "backbones")):
        return Finding("configuration", OK, "names no backbone or dataset, so the demo runs")
    return Finding("configuration", OK, f"{' and '.join(counts)} are named, and can be read")


def _broken(error: PermafrostError) -> Finding:
    remedy = error.remedy or "correct what is listed"
    return Finding("configuration", MISSING, f"{error.where}: {error.problem}", remedy)


def _check(known: Offers, config: dict, where: str, mistakes: Mistakes) -> None:
    """Add errors of the configuration's entries and options to `mistakes`."""
    chosen: dict[str, dict[str, dict]] = {"dataset": {}, "backbone": {}}
    for kind, catalogue in (("dataset", known.datasets), ("backbone", known.backbones)):
        for name in catalogue.names(config.get(f"{kind}s", [])):
            with mistakes.gathered():
                chosen[kind][name] = catalogue.entry(name)
    places: dict[str, Callable[[str], str]] = {
        "dataset": known.datasets.where,
        "backbone": known.backbones.where,
    }
    config.setdefault("probes", {})
    check_options(config, where, mistakes)
    found = check_entries(
        chosen["backbone"], chosen["dataset"], places, config, known.root, mistakes
    )
    if refuses(config.get("unfit"), found, chosen["backbone"], chosen["dataset"]):
        mistakes.add(*found.values())


def _named(known: Offers, kind: str) -> Iterator[Finding]:
    """Whether the data or weights of the configuration's entries are on this machine."""
    catalogue = known.datasets if kind == "dataset" else known.backbones
    what, good = {
        "dataset": ("data", ("here", "generated")),
        "backbone": ("weights", HERE),
    }[kind]
    names = known.config.get(f"{kind}s") or []
    for name in catalogue.names(names) if names != [EVERY] else []:
        try:
            entry = known.dataset(name) if kind == "dataset" else catalogue.entry(name)
            state = state_of(entry) if kind == "dataset" else weights_state(known, entry)
        except PermafrostError:
            continue  # reported by the check of the configuration
        if state in good:
            yield Finding(f"{what} of {name}", OK, _WORDS.get(state, state))
            continue
        fetched = state.startswith("to fetch") or state == "to download"
        remedy = (
            f"permafrost fetch {name if kind == 'dataset' else 'FILE.yaml (your configuration)'}"
        )
        by_hand = f"get them by hand; permafrost info {name} says where they belong"
        yield Finding(f"{what} of {name}", MISSING, state, remedy if fetched else by_hand)


def _caches(known: Offers) -> Iterator[Finding]:
    """Folders that are searched for data and published weights."""
    home = user_home() / ".cache"
    hub = Path(os.environ.get("HF_HOME", home / "huggingface"))
    places = {
        "data folder": (known.data, "*"),
        "torch hub cache": (
            Path(os.environ.get("TORCH_HOME", home / "torch")) / "hub/checkpoints",
            "*",
        ),
        "Hugging Face cache": (Path(os.environ.get("HF_HUB_CACHE", hub / "hub")), "models--*"),
    }
    for name, (folder, pattern) in places.items():
        if folder.is_dir():
            count = sum(1 for _ in folder.glob(pattern))
            yield Finding(name, OK, f"{folder}: {count} items")
        else:
            remedy = "made where it is needed"
            yield Finding(name, ABSENT, f"{folder} does not exist", remedy)
