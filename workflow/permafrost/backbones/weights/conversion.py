"""Convert pickled checkpoints to safetensors in a process that cannot run their code."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.inputs import check_regular
from permafrost.core.outputs import whole_file
from permafrost.core.text import printable

_SCRIPT = Path(__file__).with_name("unpickling.py")
_PATIENCE_S = 3600


@dataclass(frozen=True)
class Converted:
    """Number and total bytes of the converted tensors, and left-out objects: name to type."""

    tensors: int
    bytes: int
    left_out: dict[str, str]


def convert_checkpoint(source: Path, target: Path, key: str | None = None) -> Converted:
    """Write the tensors of the checkpoint `source` to `target`, atomically.

    Parameters
    ----------
    key : key in the checkpoint whose tensors to convert; None: the trainer's usual key, else all
        tensors.

    Raises
    ------
    PermafrostError : the file is not a checkpoint, is malicious or damaged, or `target` exists.
    """
    if target.suffix != ".safetensors":
        raise PermafrostError(
            "the converted file is a safetensors file",
            where=target,
            remedy=f"write {target.with_suffix('.safetensors')}",
        )
    if target.exists():
        raise PermafrostError("exists already", where=target, remedy="choose another name")
    check_regular(source)
    try:
        given = source.open("rb")
    except OSError as error:
        raise PermafrostError(
            f"cannot be read ({error.strerror})", where=source, remedy="correct its name"
        ) from error
    with given, whole_file(target) as partial:
        with partial.open("wb") as out:
            report = _isolated(given, out, source, key)
        _check(partial, report["tensors"], source)
    return Converted(**report)


def _isolated(given, out, source: Path, key: str | None) -> dict:
    command = [sys.executable, "-I", "-S", "-B", str(_SCRIPT), *([key] if key is not None else [])]
    try:
        done = subprocess.run(
            command,
            stdin=given,
            stdout=out,
            stderr=subprocess.PIPE,
            env={},
            cwd="/",
            timeout=_PATIENCE_S,
            check=False,
        )
        report = json.loads(done.stdout or done.stderr)
    except subprocess.TimeoutExpired:
        report = {"refused": "it takes more time than a checkpoint of its size needs"}
    except ValueError:
        report = {"refused": f"reading it ended with status {done.returncode}"}
    if "refused" in report:
        raise PermafrostError(
            f"it cannot be converted: {printable(report['refused'])}",
            where=source,
            remedy="ask its authors for a state dict or safetensors",
        )
    return report


def _check(path: Path, count: int, source: Path) -> None:
    """Check that safetensors can read the written file and finds `count` tensors."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            found = len(file.keys())
    except SafetensorError as error:
        raise PermafrostError(
            f"it cannot be converted ({printable(str(error))})", where=source
        ) from error
    if found != count:
        raise PermafrostError("it cannot be converted: tensors were lost", where=source)
