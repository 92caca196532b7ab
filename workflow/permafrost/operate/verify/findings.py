"""What a verification finds: files that are damaged, missing or unexpected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from permafrost.core.text import bytes_words

#: kinds of findings that are no damage
FOREIGN, ABSENT, OTHER_PLAN = "foreign", "absent", "other plan"
_NOTES = (FOREIGN, ABSENT, OTHER_PLAN)
_AGAIN = "run `permafrost stale --deep --delete`, then snakemake again"
REMEDIES = {
    "missing": "run snakemake, which makes it again",
    "truncated": _AGAIN,
    "changed": _AGAIN,
    "stale": _AGAIN,
    "unexpected": "delete it, or move it out of the results",
    FOREIGN: "nothing: no run reads it",
    ABSENT: "nothing: snakemake makes it again when a job needs it",
    OTHER_PLAN: "nothing: it is whole, and the recorded plan does not name it",
}


@dataclass(frozen=True)
class Finding:
    """A file that is not as a run of the plan leaves it.

    Attributes
    ----------
    path : the file; a folder for a whole store that is missing.
    kind : ``missing``; ``truncated``; ``changed``: its bytes are not what was written; ``stale``:
        made from another plan; ``unexpected``: it is in a folder of outputs, and no run wrote it.
        No damage: ``foreign``: no run wrote or reads it; ``absent``: a store that may be deleted;
        ``other plan``: a whole output that the recorded plan does not name.
    reason : in one line.
    output : what to delete so that the next run makes it again.
    """

    path: Path
    kind: str
    reason: str
    output: Path

    @property
    def is_damage(self) -> bool:
        return self.kind not in _NOTES

    @property
    def remedy(self) -> str:
        return REMEDIES[self.kind]

    def as_json(self) -> dict[str, str]:
        return {key: str(value) for key, value in {**asdict(self), "remedy": self.remedy}.items()}

    def __str__(self) -> str:
        return f"{self.kind}: {self.path} ({self.reason}). Remedy: {self.remedy}"


@dataclass(frozen=True)
class Check:
    """Files to read, with the function that does it, to be called in any thread.

    Attributes
    ----------
    files, bytes : how many the function reads.
    run : returns its findings.
    """

    files: int
    bytes: int
    run: Callable[[], list[Finding]]


@dataclass
class Verification:
    """The result of `verify`.

    Attributes
    ----------
    plan : hash of the plan.
    findings : sorted by path, damage first.
    files, bytes : how many were read.
    unchecked : number of files without a promise, such as logs.
    seconds : wall time.
    """

    results: Path
    plan: str
    findings: list[Finding] = field(default_factory=list)
    files: int = 0
    bytes: int = 0
    unchecked: int = 0
    seconds: float = 0.0

    @property
    def damage(self) -> list[Finding]:
        return [one for one in self.findings if one.is_damage]

    def lines(self) -> list[str]:
        """A line per finding; absent stores are counted by folder. Last, the `summary`."""
        folders = Counter(
            one.path.relative_to(self.results).parts[0]
            for one in self.findings
            if one.kind == ABSENT
        )
        absent = ", ".join(f"{count} in {folder}" for folder, count in folders.items())
        return [
            *(str(one) for one in self.findings if one.kind != ABSENT),
            *([f"absent: {absent}. They were deleted, or not archived."] if absent else []),
            self.summary(),
        ]

    def summary(self) -> str:
        """The closing line."""
        kinds = Counter(one.kind for one in self.findings)
        found = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        return (
            f"{self.results}: {len(self.damage)} damaged or missing; {self.files} files,"
            f" {bytes_words(self.bytes)} read in {self.seconds:.1f} s"
            + (f" ({found})" if found else "")
            + (f"; {self.unchecked} logs not checked" if self.unchecked else "")
        )

    def as_json(self) -> dict:
        return {
            "results": str(self.results),
            "plan": self.plan,
            "damaged": [one.as_json() for one in self.damage],
            "notes": [one.as_json() for one in self.findings if not one.is_damage],
            "files": self.files,
            "bytes": self.bytes,
            "unchecked": self.unchecked,
            "seconds": round(self.seconds, 3),
        }
