"""Checks of the folders that a run writes: results, and the cache that projects share."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.home import HOME
from permafrost.core.names import is_reserved, results_refusal
from permafrost.plan.mistakes import Mistakes

_REMEDY = "name another folder, such as `results`"


def check_folders(config: dict, root: Path, where: str, mistakes: Mistakes) -> None:
    """Add to `mistakes` results, or a cache, in a folder that holds something else.

    Parameters
    ----------
    config : the validated configuration.
    root : the project; its folder and those above it are refused, and what it uses itself (`names.RESERVED`).
    where : the files of the configuration, for error messages.
    """
    results, data = root / config["results"], root / config["data"]
    if reason := _results_reason(config["results"], root) or _reason(results, root, data):
        mistakes.add(PermafrostError(reason, where=f"{where}: results", remedy=_REMEDY))
    if config["runtime"]["cache"]:
        cache = root / Path(config["runtime"]["cache"]).expanduser()
        reason = _text_reason(str(cache)) or _reason(cache, root, data)
        if not reason and (_holds(cache, results) or _holds(results, cache)):
            reason = f"{cache} and the folder of the results lie in each other"
        if reason:
            mistakes.add(PermafrostError(reason, where=f"{where}: runtime.cache", remedy=_REMEDY))


def _results_reason(results: str, root: Path) -> str | None:
    """Why the text in the configuration names no folder of results."""
    if not os.path.isabs(results) and ".." not in Path(results).parts:
        plain = Path(results).as_posix()
        return "it is the project itself" if plain == "." else results_refusal(plain)
    return _text_reason(results)


def _text_reason(path: str) -> str | None:
    """Why a path cannot be an output of Snakemake, where braces are wildcards."""
    if any(char in "{}*" or unicodedata.category(char) in ("Cc", "Cs") for char in path):
        return f"{path!r} has a character that no folder of outputs may have ({{}}, *, a control character)"
    if any(len(part.encode(errors="replace")) > 255 for part in Path(path).parts):
        return f"a name in {path!r} is longer than 255 bytes"
    return None


def _reason(folder: Path, root: Path, data: Path) -> str | None:
    """Why no outputs may be written to `folder`: what lies there, links followed."""
    if _holds(folder, root):
        return f"{folder} is the project, or holds it"
    if _holds(folder, data):
        return f"{folder} is the data folder, or holds it"
    for owner in (root, HOME):
        inside = _inside(folder, owner)
        if inside and is_reserved(inside) and not (owner == HOME and _inside(root, HOME)):
            return f"{folder} lies in {owner / inside.partition('/')[0]}, which the workflow uses"
    return None


def _holds(folder: Path, other: Path) -> bool:
    """Whether `folder` is `other` or a folder above it."""
    return _inside(other, folder) is not None


def _inside(path: Path, folder: Path) -> str | None:
    """`path` relative to `folder`, links followed; None if it lies elsewhere."""
    real, above = Path(os.path.realpath(path)), Path(os.path.realpath(folder))
    return real.relative_to(above).as_posix() if real.is_relative_to(above) else None
