"""Submissions: folders of predictions, scores and cards, which may come from anybody.

Layout::

    submission.json                                         who, what, with what, and a digest of every other file
    cards/DATASET.json                                      the dataset's card
    predictions/DATASET/BACKBONE/seedN/PROBE.parquet        as the run wrote it
    scores/DATASET/BACKBONE/seedN/PROBE.parquet             as the run wrote it

Nothing in a folder is executed or unpickled. Its files are JSON and parquet of bounded size, and no name in it
becomes a path unless it is one of these.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from permafrost.core.errors import PermafrostError, first_line
from permafrost.core.identity import unique_keys
from permafrost.core.names import is_name
from permafrost.core.option_models import read
from permafrost.core.options import Name, Natural, Options, Text
from permafrost.core.text import bytes_words

MANIFEST = "submission.json"
_MOST_FILES, _LARGEST, _LARGEST_MANIFEST, _MOST_BYTES = 50_000, 64 << 20, 16 << 20, 1 << 30
_TABLE = re.compile(r"(predictions|scores)/([^/]+)/([^/]+)/seed(0|[1-9]\d{0,9})/([^/]+)\.parquet")
_CARD = re.compile(r"cards/([^/]+)\.json")


@dataclass(frozen=True, kw_only=True)
class SuiteName(Options):
    """The suite that was run."""

    name: Name
    version: Natural
    digest: Text


@dataclass(frozen=True, kw_only=True)
class OfBackbone(Options):
    """What the catalogue says of a backbone, and what its authors and the submitter say of these results."""

    title: str = ""
    citation: str | None = None
    licence: str | None = None
    url: str | None = None
    parameters: int | None = None
    trained_on: list[str] = field(default_factory=list)
    confirmed: str | None = None
    """Where the model's authors confirm weights, input and results: a URL. None: nobody has."""
    overlap: str | None = None
    """What is known of test images among those of pre-training, in the submitter's words."""


@dataclass(frozen=True, kw_only=True)
class OfDataset(Options):
    """What the catalogue says of a dataset, and what its card does not hold."""

    split: Text
    """SHA-256 of the names of the training and the validation images."""
    images_of: list[str] = field(default_factory=list)
    title: str | None = None
    licence: str | None = None
    citation: str | None = None


@dataclass(frozen=True, kw_only=True)
class Submission(Options):
    """Content of ``submission.json``."""

    format: Literal[1] = 1
    name: Name
    author: Text
    licence: Text
    suite: SuiteName
    fit: Text
    left_out: list[dict[str, Any]] = field(default_factory=list)
    versions: dict[str, list[str]]
    hardware: list[str]
    backbones: dict[Name, OfBackbone]
    datasets: dict[Name, OfDataset]
    files: dict[str, Annotated[str, "sha256"]]

    def evaluations(self) -> list[Evaluation]:
        """Those whose predictions the files name, in order."""
        found = [_TABLE.fullmatch(name) for name in sorted(self.files)]
        return [
            Evaluation(one[2], one[3], int(one[4]), one[5])
            for one in found
            if one and one[1] == "predictions"
        ]


class Evaluation(NamedTuple):
    """A backbone on a dataset under a probe with a seed."""

    dataset: str
    backbone: str
    seed: int
    probe: str

    def file(self, kind: str) -> str:
        """Its table in a folder of results, or of a submission; kind: ``predictions`` or ``scores``."""
        return f"{kind}/{self.dataset}/{self.backbone}/seed{self.seed}/{self.probe}.parquet"


def read_submission(folder: Path) -> Submission:
    """Read ``submission.json`` of a folder whose files are those of a submission, and no others.

    Raises
    ------
    PermafrostError : it is not a folder; a link, a device, a foreign name, too many or too large files; the
        manifest is missing or invalid, or lists other files than are there.
    """
    sizes = list_files(folder)
    path = folder / MANIFEST
    if MANIFEST not in sizes:
        raise _refused("is not a submission: it has no submission.json", folder)
    if sizes.pop(MANIFEST) > _LARGEST_MANIFEST:
        raise _refused(f"is larger than {bytes_words(_LARGEST_MANIFEST)}", path)
    try:
        content = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=unique_keys)
    except (OSError, ValueError, RecursionError) as error:
        raise _refused(f"cannot be read ({first_line(error)})", path) from error
    submission = read(Submission, content, where=str(path))
    _check_names(submission, sizes, folder)
    return submission


def list_files(folder: Path) -> dict[str, int]:
    """Path in the folder -> bytes, of every file.

    Raises
    ------
    PermafrostError : see `read_submission`.
    """
    if folder.is_symlink() or not folder.is_dir():
        raise _refused("is not a folder (unpack an archive first)", folder)
    sizes: dict[str, int] = {}
    waiting = [folder]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                path = Path(entry.path)
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(path)
                elif entry.is_file(follow_symlinks=False):
                    sizes[path.relative_to(folder).as_posix()] = size = entry.stat().st_size
                    if size > _LARGEST:
                        raise _refused(f"is larger than {bytes_words(_LARGEST)}", path)
                else:
                    raise _refused("is a link or a device, not a file", path)
                if len(sizes) + len(waiting) > _MOST_FILES:
                    raise _refused(f"has more than {_MOST_FILES} files", folder)
    if sum(sizes.values()) > _MOST_BYTES:
        raise _refused(f"is larger than {bytes_words(_MOST_BYTES)}", folder)
    return sizes


def _check_names(submission: Submission, sizes: dict[str, int], folder: Path) -> None:
    """Check that files, manifest, backbones and datasets name the same."""
    listed, there = set(submission.files), set(sizes)
    for problem, names in (
        ("is not in the manifest", there - listed),
        ("is missing", listed - there),
    ):
        for name in sorted(names):
            raise _refused(problem, folder / name)
    named: dict[str, set] = {"predictions": set(), "scores": set(), "cards": set()}
    for name in sorted(there):
        table, card = _TABLE.fullmatch(name), _CARD.fullmatch(name)
        parts = table.groups() if table else ("cards", card[1]) if card else ()
        if not parts or not all(is_name(part) for part in parts[1:]):
            raise _refused("is not a file of a submission", folder / name)
        named[parts[0]].add(parts[1:])
    for one in sorted(named["predictions"] ^ named["scores"]):
        raise _refused(
            "predictions and scores are not of the same evaluations", folder / "/".join(one)
        )
    for what, known, there in (
        ("datasets", set(submission.datasets), {one[0] for one in named["predictions"]}),
        ("backbones", set(submission.backbones), {one[1] for one in named["predictions"]}),
        ("cards", {one[0] for one in named["cards"]}, {one[0] for one in named["predictions"]}),
    ):
        if known != there:
            raise _refused(
                f"the {what} are not those of the predictions ({', '.join(sorted(known ^ there))})",
                folder / MANIFEST,
            )
    if not named["predictions"]:
        raise _refused("has no predictions", folder)


def _refused(problem: str, where: Path) -> PermafrostError:
    return PermafrostError(problem, where=where, remedy="make the folder with `permafrost submit`")
