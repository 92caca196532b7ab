"""What the check of a submission found, as lines and as a comment on a pull request."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from permafrost.core.text import printable_name
from permafrost.operate.commons.check import Refusal
from permafrost.operate.commons.commons import Commons, Entry, key_of
from permafrost.operate.commons.standing import standing_in
from permafrost.operate.commons.submission import Submission


def lines(folder: Path, submission: Submission | None, refused: list[Refusal]) -> list[str]:
    """What was found, for a terminal."""
    if refused or submission is None:
        return [f"{printable_name(folder, 1000)}: refused", *(f"  {one}" for one in refused)]
    count = len(submission.evaluations())
    return [
        printable_name(
            f"{folder}: {count} evaluations of {', '.join(submission.backbones)} by {submission.author}; every score"
            " and interval follows from the predictions",
            1000,
        )
    ]


def as_json(refused: list[Refusal]) -> str:
    found = {"accepted": not refused, "refused": [asdict(one) for one in refused]}
    # names of files need not be text
    return json.dumps(found, indent=1)


def comment(
    folder: Path, submission: Submission | None, refused: list[Refusal], commons: Path
) -> str:
    """Markdown: the findings, and how the backbones would rank. Words of the submission are in a block of code."""
    said = lines(Path(folder.name), submission, refused)
    if submission is not None and not refused:
        held = Commons(commons)
        own = [Entry(one, one.backbone, folder) for one in submission.evaluations()]
        known = (
            held.suites.get(key_of(submission)) if submission.name not in held.register else None
        )
        said += ["", *standing_in(key_of(submission), held, own)] if known else []
        said += ["", *_claims(submission)]
    block = "\n".join(printable_name(line, 1000) if line else "" for line in said).replace("`", "'")
    head = (
        "Refused" if refused or submission is None else "Every score follows from its predictions"
    )
    return f"### {head}\n\n```text\n{block}\n```\n"


def _claims(submission: Submission) -> list[str]:
    """What a person has to check, since no program can."""
    claims = []
    for name, one in submission.backbones.items():
        claims.append(
            f"{name}: confirmed by its authors: {one.confirmed or 'no'}; overlap: {one.overlap or 'not stated'}"
        )
    return claims
