"""Names of entries, and of folders that a run writes: what is safe in paths on every system and in Snakemake."""

from __future__ import annotations

import re
import unicodedata

#: a text that can be part of a file name: single '_' only, not at either end, since '__' joins names in the file
#: names of figures; none of Windows' devices; no end that Snakemake takes for a wildcard without an end
NAME = r"^(?=.{1,80}$)(?!(?:con|prn|aux|nul|com[0-9]|lpt[0-9])$)(?!.*?(.+)\1{19,}$)[a-z0-9](_?[a-z0-9-])*$(?!\n)"
NAME_WORDS = (
    "lower-case letters, digits, - and single _ inside; at most 80; no device of Windows;"
    " not 20 repeats at the end"
)
#: the parts of the workflow; everything else in a clone is data, results or the user's files
SOURCES = ("Snakefile", "pyproject.toml", "config", "envs", "profiles", "workflow")
#: names at the top of a project that are no folder of results; ``run`` belongs to the archive
RESERVED = frozenset(
    {name.casefold() for name in SOURCES}
    | {"tests", "docs", "benchmarks", "local", "slurm", "build", "run", "data"}
    | {".git", ".snakemake"}
)
_NAME = re.compile(NAME, re.ASCII)
_RESULTS = re.compile(r"\w[\w. -]*(?:/\w[\w. -]*)*")
_DEVICES = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)
_LONGEST_PART = 255  # bytes; of most file systems


def is_name(name: object) -> bool:
    """Whether `name` can be the name of an entry."""
    return isinstance(name, str) and _NAME.search(name) is not None


def results_refusal(results: object) -> str | None:
    """Why `results`, relative to the project, cannot be the folder of results; None if it can."""
    if not isinstance(results, str) or not _RESULTS.fullmatch(results):
        return f"the folder of the results is {results!r}, not a plain folder below the working directory"
    if is_reserved(results) or part_refusal(results):
        return f"the folder of the results is {results!r}, where sources, data or settings lie"
    return None


def is_reserved(folder: str) -> bool:
    """Whether a folder, relative to the project, is one that the project itself uses, or lies in one."""
    return folder.partition("/")[0].casefold() in RESERVED


def part_refusal(path: str, *, hidden: tuple[str, ...] = ()) -> str | None:
    """Why a part of a path is unsafe: hidden, not portable, or ambiguous on another system.

    Parameters
    ----------
    hidden : names that begin with a dot and are allowed.
    """
    for part in path.split("/"):
        if part in ("", ".", "..") or (part.startswith(".") and part not in hidden):
            return "a hidden name" if len(part) > 2 else "not a plain path"
        if part[-1] in " ." or _DEVICES.fullmatch(part) or len(part.encode()) > _LONGEST_PART:
            return f"the name {part!r} is not usable on every system"
        if any(unicodedata.category(char) in ("Cc", "Cs") or char in '\\:*?"<>|' for char in part):
            return f"the name {part!r} is not usable on every system"
    return None
