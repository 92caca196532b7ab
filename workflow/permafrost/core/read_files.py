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
from permafrost.core.identity import canonical_json, code_digest, file_digest, fingerprint
from permafrost.core.opened import Recording, active
from permafrost.core.outputs import whole_file
from permafrost.core.promised import file_state

#: folder of the records below the results; the record in a folder of a part or of the shared cache
READ, RECORD = "read", "read.json"
#: environment variable of jobs: folder of the shared cache
CACHE = "PERMAFROST_CACHE"
#: key of all files below the folder of a dataset's source; other keys are ``file PATH``, ``names PATH``
DATA = "data"
#: what names a job in its specification, in this order
LABELS = ("stage", "dataset", "backbone", "probe", "seed")
_GONE = "missing"
_AGAIN = "delete the folder of the parts and run snakemake again"
_DAMAGED = "the record of what was read"

#: gives the digest of the files of a dataset's source; None: their folder is gone
type Data = Callable[[], str | None]


def place_of(spec: Mapping[str, Any]) -> str:
    """The path of a job's record below the folder of the records."""
    return "/".join(str(spec[name]) for name in LABELS if name in spec) + ".json"


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


def content_of(path: Path) -> str:
    """Digest of a file's content; a Python file counts by its code."""
    return code_digest(path) if path.suffix == ".py" else file_digest(path)


@dataclass(frozen=True)
class Here:
    """Digests of what is on this machine now.

    Attributes
    ----------
    root : folder that relative paths refer to.
    digest : of the content of a file.
    hidden : absolute paths that do not count as names in a folder, such as that of the results.
    """

    root: Path
    digest: Callable[[Path], str] = content_of
    hidden: frozenset[str] = frozenset()
    _known: dict[str, str | None] = field(default_factory=dict, compare=False)

    def of(self, key: str, data: Data | None = None) -> str | None:
        """The digest that belongs to a key now; None: unknown, because its folder was moved away."""
        if key == DATA:
            return None if data is None else data()
        if key not in self._known:
            self._known[key] = self._of(key)
        return self._known[key]

    def _of(self, key: str) -> str | None:
        what, _, name = key.partition(" ")
        path = self.root / name
        if what == "names":
            return self.names(path) if path.is_dir() else None
        if what == "file" and path.is_file():
            return self.digest(path)
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


def changed(record: ReadFiles, here: Here, data: Data | None = None) -> dict[str, str]:
    """Key -> its digest now, of all that differs from a record."""
    now = {key: here.of(key, data) for key in record.found}
    return {key: one for key, one in now.items() if one is not None and one != record.found[key]}


def shown(keys: Iterable[str]) -> str:
    """The files that the keys of a record stand for, in words."""
    return ", ".join(map(_in_words, keys))


def _in_words(key: str) -> str:
    what, _, name = key.partition(" ")
    words = {DATA: "the dataset's files", "names": f"the files in {name}", "file": name}
    return words.get(what, key)


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
    data : gives the digest of files that count although Python may not see them opened.
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
        self.data: Data | None = None
        self._digests: dict[Path, tuple[list[int], str]] = {}
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
                            f"parts that read different contents of {_in_words(key)} cannot be joined",
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
                    where=_in_words(key),
                    remedy="start snakemake again",
                )

    def _here(self) -> Here:
        return Here(Path.cwd(), self._digest, frozenset([str(self._results)]))

    def _digest(self, path: Path) -> str:
        """The digest of a file; one that is unchanged since an earlier output is not read again."""
        state = file_state(path)
        if self._digests.get(path, ([], ""))[0] != state:
            self._digests[path] = state, content_of(path)
        return self._digests[path][1]


def _relative(path: str) -> str:
    """A path relative to the working directory if it is inside."""
    here = os.getcwd()
    return os.path.relpath(path, here) if path == here or path.startswith(f"{here}/") else path
