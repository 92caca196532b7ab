"""What jobs read and did not declare: each job keeps it, and the next plan compares it.

A job writes ``RESULTS/read/STAGE/….json`` before its outputs appear: digests of the files that it
opened and of the names in the folders that it listed, as far as its specification does not cover
them. While they are unchanged, the next plan gives the job its fingerprint again; else its
specification gets their digests of now, under ``read``, and so another fingerprint. A job without
such a file has read nothing else.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from permafrost.core.errors import PermafrostError
from permafrost.core.identity import canonical_json, fingerprint
from permafrost.core.opened import Recording, active
from permafrost.core.outputs import whole_file
from permafrost.core.shared_cache import RECORD
from permafrost.core.text import shortened
from permafrost.data.files.folders import Read, content_digest
from permafrost.plan.digests import DIGESTS, DigestCache
from permafrost.plan.recorded import READ

#: key of all files below the folder of a dataset's source; other keys are ``file PATH``, ``names PATH``
DATA = "data"
_LABELS = ("stage", "dataset", "backbone", "probe", "seed")
_GONE = "missing"
# jobs that are listed, and letters of the files of each
_SHOWN, _LONGEST = 20, 200
_AGAIN = "delete the folder of the parts and run snakemake again"
_DAMAGED = "the record of what was read"

type Digest = Callable[[Path, Read | None], str]


def place_of(spec: Mapping[str, Any]) -> str:
    """The path of a job's record below the folder of the records."""
    return "/".join(str(spec[name]) for name in _LABELS if name in spec) + ".json"


def base_of(spec: Mapping[str, Any], code: str) -> str:
    """The fingerprint of a job without what it has read."""
    return fingerprint(canonical_json({k: v for k, v in spec.items() if k != "read"}), code)


@dataclass(frozen=True)
class ReadFiles:
    """What a job has read and did not declare.

    Attributes
    ----------
    base : fingerprint of the job without it.
    planned : ``read`` of its specification; None without.
    found : key -> digest.
    """

    base: str
    planned: dict[str, str] | None
    found: dict[str, str]

    @classmethod
    def load(cls, path: Path) -> ReadFiles:
        """Read a record; one that is damaged gives a digest that nothing has."""
        raw = path.read_bytes()
        try:
            content = json.loads(raw)
            sealed = content.pop("sha256")
            if sealed == _sealed(content):
                return cls(**content)
        except (ValueError, TypeError, KeyError, AttributeError):
            pass
        return cls("", None, {_DAMAGED: hashlib.sha256(raw).hexdigest()})

    def save(self, path: Path) -> None:
        content = asdict(self)
        with whole_file(path, exclusive=False) as partial:
            text = json.dumps({**content, "sha256": _sealed(content)}, indent=1, sort_keys=True)
            partial.write_text(f"{text}\n")


def _sealed(content: dict) -> str:
    return hashlib.sha256(canonical_json(content).encode()).hexdigest()


@dataclass(frozen=True)
class Here:
    """Digests of what is on this machine now.

    Attributes
    ----------
    root : folder that relative paths refer to.
    digest : of the content of a file, or of a folder's files that are read.
    hidden : absolute paths that do not count as names in a folder, such as that of the results.
    """

    root: Path
    digest: Digest = content_digest
    hidden: frozenset[str] = frozenset()
    _known: dict[tuple, str | None] = field(default_factory=dict, compare=False)

    def of(self, key: str, data: tuple[Path, Read] | None = None) -> str | None:
        """The digest that belongs to a key now; None: unknown, because its folder was moved away.

        `data` is the folder of the dataset's source, with the files of it that count.
        """
        known = (key, data if key == DATA else None)
        if known not in self._known:
            self._known[known] = self._of(key, data)
        return self._known[known]

    def _of(self, key: str, data: tuple[Path, Read] | None) -> str | None:
        if key == DATA:
            return self.digest(*data) if data is not None and data[0].is_dir() else None
        what, _, name = key.partition(" ")
        path = self.root / name
        if what == "names":
            return self.names(path) if path.is_dir() else None
        if what == "file" and path.is_file():
            return self.digest(path, None)
        return _GONE if path.parent.is_dir() else None

    def names(self, folder: Path) -> str:
        """SHA-256 of the sorted names in a folder, without hidden ones and compiled code."""
        names = sorted(
            name
            for name in os.listdir(folder)
            if name[0] != "."
            and name != "__pycache__"
            and os.path.abspath(folder / name) not in self.hidden
        )
        return hashlib.sha256("\0".join(names).encode("utf-8", "surrogateescape")).hexdigest()


def changed(record: ReadFiles, here: Here, data: tuple[Path, Read] | None = None) -> dict[str, str]:
    """Key -> its digest now, of all that differs from a record."""
    now = {key: here.of(key, data) for key in record.found}
    return {key: one for key, one in now.items() if one is not None and one != record.found[key]}


def shown(keys: Iterable[str]) -> str:
    """What the keys of a record stand for, in words."""
    words = {"names": "the files in", DATA: "the dataset's files", "file": ""}
    told = []
    for key in keys:
        what, _, name = key.partition(" ")
        told.append(f"{words.get(what, what)} {name}".strip())
    return ", ".join(told)


# --- in a plan ------------------------------------------------------------------------------------


class ReadBefore:
    """What the existing outputs of a folder of results were made from, as far as it is not declared.

    Parameters
    ----------
    results : folder of the results.
    here : digests of now.
    data : path of a record -> folder of the dataset's source, with the files of it that count.
    """

    def __init__(self, results: Path, here: Here, data: dict[str, tuple[Path, Read]]) -> None:
        self._records = dict(records(results))
        # all files are looked at here, so that a plan reads none later
        self._changed = {
            place: changed(record, here, data.get(place)) for place, record in self._records.items()
        }
        self.changes: dict[str, list[str]] = {}

    def __bool__(self) -> bool:
        return bool(self._records)

    def planned(self, spec: Mapping[str, Any], base: str) -> dict[str, str] | None:
        """``read`` of a job's specification; None: it has none.

        Parameters
        ----------
        base : fingerprint of the job without it.
        """
        place = place_of(spec)
        record = self._records.get(place)
        if record is None or record.base not in (base, ""):
            return None
        if different := self._changed[place]:
            self.changes[place] = sorted(different)
            return {**record.found, **different}
        return record.planned if record.base else record.found


def change_lines(changes: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Lines for a terminal: which jobs run again, and which files they had read.

    Parameters
    ----------
    changes : from `ReadBefore`.
    """
    if changes:
        yield f"Run again: {len(changes)} job{'s' * (len(changes) > 1)} whose files have changed"
    for number, (place, keys) in enumerate(sorted(changes.items())):
        if number == _SHOWN:
            yield f"  and {len(changes) - _SHOWN} more"
            return
        yield f"  {place.removesuffix('.json')}: {shortened(shown(keys), _LONGEST)}"


def records(results: Path) -> Iterator[tuple[str, ReadFiles]]:
    """Path of each record below its folder, and the record."""
    folder = results / READ
    for place, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".json") and name[0] != ".":
                path = Path(place, name)
                yield path.relative_to(folder).as_posix(), ReadFiles.load(path)


# --- in a job -------------------------------------------------------------------------------------


class KeptReading:
    """Keeps what a job reads and did not declare, before its outputs appear.

    Parameters
    ----------
    opened : what the process opens.
    spec, code : of the job.
    results : folder of the results.
    part : folder of the part that the job writes; its record lies there.
    parts : folders of the parts that the job joins; their records count, too.

    Attributes
    ----------
    data : folder of the dataset's source, all files of which count by content, with those that do.
    """

    def __init__(
        self,
        opened: Recording,
        spec: Mapping[str, Any],
        code: str,
        results: Path,
        *,
        part: Path | None = None,
        parts: Iterable[Path] = (),
    ) -> None:
        self._opened, self._results, self._parts = opened, Path(os.path.abspath(results)), parts
        self._base, self._planned = base_of(spec, code), spec.get("read")
        self._kept = results / READ / place_of(spec)
        self.path = self._kept if part is None else part / RECORD
        self._taken: ReadFiles | None = None
        self._saving = False
        self.data: tuple[Path, Read] | None = None
        # what the job has read is not read again by the next plan
        self._digests = DigestCache(Path(DIGESTS))
        opened.ignore(lambda path: f"{path}/".startswith(f"{self._results}/"))

    def before_placing(self, paths: Iterable[Path]) -> None:
        """Write the record if an output in the results is about to appear.

        Raises
        ------
        PermafrostError : something that was read has changed since the plan, or while it was read.
        """
        inside = any(Path(os.path.abspath(path)).is_relative_to(self._results) for path in paths)
        if self._saving or not inside or active() is not self._opened:
            return
        self._saving = True
        try:
            self._save()
        finally:
            self._saving = False
        self._digests.save()

    def fits(self, record: Path) -> bool:
        """Whether what another job read, by its record, is the same here; no record: it read nothing."""
        self._taken = ReadFiles.load(record) if record.is_file() else None
        if self._taken is None:
            return True
        here = self._here()
        return all(here.of(key, self.data) == one for key, one in self._taken.found.items())

    def _save(self) -> None:
        self._opened.check()
        found = self._found()
        self._check(found)
        if found or self._planned:
            ReadFiles(self._base, self._planned, found).save(self.path)
        else:
            self.path.unlink(missing_ok=True)

    def _found(self) -> dict[str, str]:
        here = self._here()
        keys = [f"file {_relative(path)}" for path in self._opened.files]
        keys += [f"names {_relative(path)}" for path in self._opened.folders if os.path.isdir(path)]
        keys += [DATA] if self.data is not None else []
        found = dict(self._taken.found) if self._taken is not None else {}
        for part in self._parts:
            if (part / RECORD).is_file():
                for key, digest in ReadFiles.load(part / RECORD).found.items():
                    if found.setdefault(key, digest) != digest:
                        raise PermafrostError(
                            f"parts that read different contents of {shown([key])} cannot be joined",
                            where=part,
                            remedy=_AGAIN,
                        )
        return found | {key: one for key in keys if (one := here.of(key, self.data)) is not None}

    def _check(self, found: dict[str, str]) -> None:
        expected = dict(self._planned or {})
        if self._kept.is_file():
            before = ReadFiles.load(self._kept)
            if (before.base, before.planned) == (self._base, self._planned):
                expected = {**before.found, **expected}
        for key, digest in found.items():
            if expected.get(key, digest) != digest:
                raise PermafrostError(
                    "it changed since this run was planned",
                    where=shown([key]),
                    remedy="start snakemake again",
                )

    def _here(self) -> Here:
        return Here(Path.cwd(), self._digests.content, frozenset([str(self._results)]))


def _relative(path: str) -> str:
    """A path relative to the working directory if it is inside."""
    here = os.getcwd()
    return os.path.relpath(path, here) if path == here or path.startswith(f"{here}/") else path
