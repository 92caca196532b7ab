"""The commons: accepted submissions of suites, with the facts that all submissions of a suite share.

Layout::

    suites/NAME-vVERSION.json    content of the suite's file, and facts of its datasets
    submissions/NAME/            as submitted
    accepted.json                the digest of each accepted submission, in order of acceptance
"""

from __future__ import annotations

import contextlib
import copy
import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from permafrost.core.errors import PermafrostError, first_line
from permafrost.core.identity import file_digest
from permafrost.core.outputs import together, whole_directory, whole_file
from permafrost.operate.commons.check import Refusal, check_submission
from permafrost.operate.commons.facts import same_predictions
from permafrost.operate.commons.submission import (
    MANIFEST,
    Evaluation,
    Submission,
    list_files,
    read_submission,
)
from permafrost.operate.commons.submit import json_text
from permafrost.plan.suites import find_suite, read_suite

REGISTER = "accepted.json"


@dataclass(frozen=True)
class Entry:
    """An evaluation of an accepted submission, or of somebody's own run.

    Attributes
    ----------
    label : of its row: the backbone's name, with the submission's where two submissions differ on it.
    folder : in which its tables are.
    """

    of: Evaluation
    label: str
    folder: Path

    @property
    def predictions(self) -> Path:
        return self.folder / self.of.file("predictions")

    @property
    def scores(self) -> Path:
        return self.folder / self.of.file("scores")


class Commons:
    """A folder of accepted submissions; every file of theirs is checked against the register.

    Attributes
    ----------
    suites : ``NAME-vVERSION`` to the suite's reference.
    submissions : name to manifest, in order of acceptance.

    Raises
    ------
    PermafrostError : a submission was changed after it was accepted, or a file cannot be read; there is no
        commons here, unless it may be `new`.
    """

    def __init__(self, folder: Path, *, new: bool = False) -> None:
        self.folder = folder
        if not new and not (folder / REGISTER).exists():
            raise PermafrostError(
                f"is not a commons: it has no {REGISTER}",
                where=folder,
                remedy="`permafrost accept` makes one",
            )
        self.register: dict[str, str] = (
            _read(folder / REGISTER) if (folder / REGISTER).exists() else {}
        )
        self.suites = {
            path.stem: _read(path) for path in sorted((folder / "suites").glob("*.json"))
        }
        self.submissions: dict[str, Submission] = {}
        for name, accepted in self.register.items():
            own = folder / "submissions" / name
            submission = read_submission(own)
            files = {MANIFEST: accepted, **submission.files}
            for file, expected in files.items():
                if file_digest(own / file) != expected:
                    raise PermafrostError(
                        "was changed after it was accepted",
                        where=own / file,
                        remedy="restore the file, or submit under another name",
                    )
            self.submissions[name] = submission

    def of_suite(self, key: str) -> dict[str, Submission]:
        """The accepted submissions of a suite's version."""
        return {name: one for name, one in self.submissions.items() if key_of(one) == key}

    def entries(self, key: str) -> tuple[list[Entry], dict[str, list[str]]]:
        """All evaluations of a suite's version on datasets that are not retired.

        Returns
        -------
        The evaluations, and label to the later submissions that have the same predictions, or a part of them. A
        later submission of a backbone with other predictions, or on other datasets, has a row of its own.
        """
        datasets = self.suites[key]["datasets"]
        firsts: dict[str, tuple[str, dict[Evaluation, Entry]]] = {}
        again: dict[str, list[str]] = {}
        entries: list[Entry] = []
        for name, submission in self.of_suite(key).items():
            folder = self.folder / "submissions" / name
            by_backbone: dict[str, dict[Evaluation, Entry]] = {}
            for one in submission.evaluations():
                if not datasets[one.dataset]["retired"]:
                    by_backbone.setdefault(one.backbone, {})[one] = Entry(one, one.backbone, folder)
            for backbone, own in by_backbone.items():
                if backbone not in firsts:
                    firsts[backbone] = name, own
                    entries += own.values()
                elif own.keys() <= (known := firsts[backbone][1]).keys() and all(
                    same_predictions(known[one].predictions, entry.predictions)
                    for one, entry in own.items()
                ):
                    part = (
                        "" if len(own) == len(known) else f" ({len(own)} of {len(known)} results)"
                    )
                    again.setdefault(backbone, []).append(name + part)
                else:
                    label = f"{backbone} ({name})"
                    entries += [Entry(one, label, folder) for one in own]
        return entries, again


def key_of(submission: Submission) -> str:
    """Name of the reference of a submission's suite."""
    return suite_key(submission.suite.name, submission.suite.version)


def suite_key(name: str, version: int) -> str:
    return f"{name}-v{version}"


def verify_submission(
    folder: Path, root: Path, tick: Callable[[str], object] = lambda name: None
) -> tuple[Submission | None, list[Refusal]]:
    """Check a submission alone: its suite is that of the project `root`, its test sets need only agree among
    themselves."""
    try:
        suite = read_suite(find_suite(read_submission(folder).suite.name, root))
    except PermafrostError as error:
        return None, [Refusal("file", error.where or str(folder), error.problem)]
    return check_submission(folder, {"suite": suite, "datasets": {}}, add=True, tick=tick)


def accept(
    folder: Path,
    commons: Path,
    root: Path,
    *,
    as_reference: bool = False,
    dry: bool = False,
    tick: Callable[[str], object] = lambda name: None,
) -> tuple[Submission | None, list[Refusal]]:
    """Check a submission against the commons and add it, unless it is refused.

    A copy is checked, so what is added is what was checked.

    Parameters
    ----------
    root : project whose catalogue has the suite, if the commons does not have it yet.
    as_reference : take the suite and datasets that the commons lacks as they are here.
    dry : only check.
    """
    held = Commons(commons, new=True)
    # a link stays one, and is refused
    folder = Path(os.path.abspath(folder))
    place = commons / "submissions" / folder.name
    if held.register.get(folder.name) or (place.exists() and not place.samefile(folder)):
        return None, [Refusal("name", folder.name, "the commons has a submission of this name")]
    with TemporaryDirectory(prefix="permafrost-") as scratch:
        copied = Path(scratch) / folder.name
        try:
            _copy(folder, copied)
            submission = read_submission(copied)
        except PermafrostError as error:
            return None, [_unreadable(error, copied, folder)]
        key, reference = _reference(submission, held, root, as_reference)
        if reference is None:
            said = f"the commons has no suite {key}: a maintainer adds it with --as-reference"
            return submission, [Refusal("suite", key, said)]
        checked, refused = check_submission(copied, reference, add=as_reference, tick=tick)
        if refused or dry:
            return checked, refused
        with _alone(commons, held), together() as group:
            if not place.exists():
                with whole_directory(place, group=group) as partial:
                    shutil.copytree(copied, partial, dirs_exist_ok=True)
            if reference != held.suites.get(key):
                _write(commons / "suites" / f"{key}.json", reference, group)
            register = {**held.register, folder.name: file_digest(copied / MANIFEST)}
            _write(commons / REGISTER, register, group)
    return submission, []


@contextlib.contextmanager
def _alone(commons: Path, held: Commons) -> Iterator[None]:
    """Let no other submission be accepted meanwhile; refuse if one was since `held` was read."""
    commons.mkdir(parents=True, exist_ok=True)
    # the folder itself is locked, so nothing is left in it; released when it is closed
    opened = os.open(commons, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(opened, fcntl.LOCK_EX)
        path = commons / REGISTER
        if (_read(path) if path.exists() else {}) != held.register:
            raise PermafrostError(
                "another submission was accepted meanwhile",
                where=commons,
                remedy="accept this one again",
            )
        yield
    finally:
        os.close(opened)


def _copy(folder: Path, output: Path) -> None:
    """Copy the files of a submission, none through a link."""
    for name in list_files(folder):
        (output / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / name, output / name, follow_symlinks=False)


def _unreadable(error: PermafrostError, copied: Path, folder: Path) -> Refusal:
    where = (error.where or str(folder)).replace(str(copied), str(folder))
    return Refusal("file", where, error.problem)


def _reference(
    submission: Submission, held: Commons, root: Path, as_reference: bool
) -> tuple[str, dict | None]:
    """Name of a suite's reference and a copy of it; None if there is none and it may not be added."""
    key = key_of(submission)
    if key in held.suites:
        return key, copy.deepcopy(held.suites[key])
    if not as_reference:
        return key, None
    return key, {"suite": read_suite(find_suite(submission.suite.name, root)), "datasets": {}}


def _write(path: Path, content: dict, group) -> None:
    with whole_file(path, group=group) as partial:
        partial.write_text(json_text(content), encoding="utf-8")


def _read(path: Path) -> dict:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise PermafrostError(f"cannot be read ({first_line(error)})", where=path) from error
