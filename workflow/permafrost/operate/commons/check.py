"""Check a submission: compute every score again, and compare every test set with the suite's."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from permafrost.core.errors import PermafrostError, first_line
from permafrost.core.identity import file_digest
from permafrost.core.options import build
from permafrost.core.parquet_files import check_expansion
from permafrost.core.tables import read_metadata, read_table
from permafrost.core.text import printable_name
from permafrost.data.store.card import read_card
from permafrost.operate.commons.facts import (
    bands_differ,
    card_facts,
    labels_of,
    split_differs,
    suite_config,
    test_set_of,
)
from permafrost.operate.commons.submission import Evaluation, Submission, read_submission
from permafrost.plan.options import is_seeded
from permafrost.plan.plan import calibration_of
from permafrost.plan.suites import digest
from permafrost.statistics.options import ScoringOptions
from permafrost.statistics.predictions.reading import read_predictions
from permafrost.statistics.scores.score_table import (
    BootstrapSpec,
    FromPredictions,
    score_predictions,
)

# numbers of other machines and versions differ in their last digits
_TOLERANCE = 1e-9
_KINDS = {"predictions": "prediction", "scores": "score", "cards": "card"}
_AS_REFERENCE = "a maintainer adds it with --as-reference"
# options that plans omit for datasets with one date, or for tasks that do not use them
_MAY_LACK = {"temporal", "pair", "shuffle_dates", "ltae"}


@dataclass(frozen=True)
class Refusal:
    """A reason not to accept a submission.

    Attributes
    ----------
    kind : what was changed: ``score``, ``prediction``, ``label``, ``test set``, ``split``, ``band order``,
        ``card``, ``options``, ``suite``, ``dataset``, ``name`` or ``file``.
    where : file or entry. reason : in one line.
    """

    kind: str
    where: str
    reason: str

    def __str__(self) -> str:
        return printable_name(f"{self.kind}: {self.where}: {self.reason}", 1000)


def check_submission(
    folder: Path, reference: dict, *, add: bool, tick: Callable[[str], object] = lambda name: None
) -> tuple[Submission | None, list[Refusal]]:
    """Check every file of a submission; returns its manifest (None if unreadable) and all refusals.

    Parameters
    ----------
    reference : ``suite`` (content of the suite's file) and ``datasets`` (name to `facts.card_facts`).
    add : take datasets that the reference lacks from the submission, into `reference`; else they are refused.
    tick : called with the name of each evaluation.
    """
    try:
        submission = read_submission(folder)
    except PermafrostError as error:
        return None, [Refusal("file", error.where or str(folder), error.problem)]
    refused = list(_before(submission, folder, reference))
    if refused:
        return submission, refused
    config = suite_config(reference["suite"])
    refused += _seeds(submission, config)
    for name in sorted(submission.datasets):
        refused += _dataset(name, submission, folder, reference, add=add)
    for one in submission.evaluations():
        tick(" ".join(map(str, one)))
        facts = reference["datasets"].get(one.dataset)
        if facts is not None:
            refused += _evaluation(one, folder, facts, config, add=add)
    return submission, refused


def _before(submission: Submission, folder: Path, reference: dict) -> Iterator[Refusal]:
    """Refusals that end the check: another suite, another name, other bytes than were submitted."""
    suite, named = submission.suite, reference["suite"]["suite"]
    if (suite.name, suite.version, suite.digest) != (
        named["name"],
        named["version"],
        digest(reference["suite"]),
    ):
        yield Refusal(
            "suite",
            f"{suite.name}, version {suite.version}",
            f"the run's suite is not {named['name']}, version {named['version']}, with the content here",
        )
    if submission.name != folder.name:
        yield Refusal("name", folder.name, f"submission.json has the name {submission.name}")
    for name, expected in submission.files.items():
        if file_digest(folder / name) != expected:
            kind = _KINDS[name.partition("/")[0]]
            yield Refusal(kind, name, "its bytes are not those that were submitted")


def _seeds(submission: Submission, config: dict) -> Iterator[Refusal]:
    """Refuse an evaluation without all seeds of the suite, which may be a choice of the best."""
    by_evaluation: dict[tuple[str, str, str], set[int]] = {}
    for one in submission.evaluations():
        by_evaluation.setdefault((one.dataset, one.backbone, one.probe), set()).add(one.seed)
    for of, seeds in by_evaluation.items():
        options = config["probes"].get(of[2])
        if options and (lacks := _seeds_of(options, config) - seeds):
            listed = ", ".join(map(str, sorted(lacks)))
            yield Refusal("options", " ".join(of), f"it lacks the seeds {listed} of the suite")


def _seeds_of(options: dict, config: dict) -> set[int]:
    return {*config["seeds"]} if is_seeded(options) else {0}


def _dataset(
    name: str, submission: Submission, folder: Path, reference: dict, *, add: bool
) -> Iterator[Refusal]:
    """Compare a card with the reference's facts, or `add` it to them."""
    where = f"cards/{name}.json"
    stated = submission.datasets[name]
    try:
        card = read_card(folder / where)
        found = card_facts(card, stated)
        if card.dataset != name:
            yield Refusal("card", where, f"it is of {card.dataset}")
        known = reference["datasets"].get(name)
        if known is None:
            if name not in reference["suite"]["datasets"]:
                yield Refusal("dataset", name, "it is not a dataset of the suite")
            elif not add:
                yield Refusal("dataset", name, f"no accepted submission has it: {_AS_REFERENCE}")
            else:
                reference["datasets"][name] = found
            return
        if known["retired"]:
            yield Refusal("dataset", name, f"it is retired: {known['retired']}")
        if found["task"] != known["task"] or found["classes"] != known["classes"]:
            yield Refusal("label", where, "task or classes, or their order, are not the suite's")
        for kind, differ in (("split", split_differs), ("band order", bands_differ)):
            if said := differ(known, found):
                yield Refusal(kind, where, said)
    except Exception as error:  # unchecked content can raise any error
        yield Refusal("card", where, f"it cannot be used ({first_line(error, named=True)})")


def _evaluation(
    one: Evaluation, folder: Path, facts: dict, config: dict, *, add: bool
) -> Iterator[Refusal]:
    """Compare test items and labels with the facts, and the score with one that is computed again."""
    where = one.file("predictions")
    try:
        metadata = read_metadata(folder / where)
        check_expansion(folder / where)
        named = {name: metadata[name] for name in one._fields}
        if named != one._asdict():
            yield Refusal("prediction", where, f"it is of {' '.join(map(str, named.values()))}")
            return
        if said := other_options(one, metadata, config):
            yield Refusal("options", where, said)
            return
        with TemporaryDirectory(prefix="permafrost-") as scratch:
            predictions, _, _ = read_predictions(folder / where, scratch=Path(scratch))
            if facts["test_set"] is None and add:
                facts["test_set"] = test_set_of(predictions)
            if test_set_of(predictions) != facts["test_set"]:
                yield Refusal(
                    "test set", where, "other test items, or other groups of them, than the suite's"
                )
                return
            labels = labels_of(predictions)
            known = (
                facts["labels"].setdefault(one.probe, labels)
                if add
                else facts["labels"].get(one.probe)
            )
            if known is None:
                yield Refusal(
                    "dataset",
                    where,
                    f"no accepted submission has {one.probe} on it: {_AS_REFERENCE}",
                )
                return
            if known != labels:
                yield Refusal("label", where, "true labels of test items are not the suite's")
                return
            again = Path(scratch) / "scores.parquet"
            del predictions
            _score(one, folder, again, metadata, facts["task"], config)
            if said := _scores_differ(folder / one.file("scores"), again):
                yield Refusal("score", one.file("scores"), said)
    except Exception as error:
        kind = (
            "score"
            if isinstance(error, PermafrostError) and "scores" in (error.where or "")
            else "prediction"
        )
        yield Refusal(kind, where, f"it cannot be scored ({first_line(error, named=True)})")


def other_options(one: Evaluation, metadata: dict, config: dict) -> str | None:
    """How a probe's options differ from the suite's, in words; None if they do not."""
    meant = config["probes"].get(one.probe)
    if meant is None:
        return f"the suite has no probe {one.probe}"
    if one.seed not in _seeds_of(meant, config):
        return f"the suite has no seed {one.seed}"
    used = metadata["options"]
    names = [
        *(name for name in used if name not in meant or used[name] != meant[name]),
        *(name for name in meant if name not in used and name not in _MAY_LACK),
    ]
    said = [f"{name} {used.get(name)} instead of {meant.get(name)}" for name in names]
    return "; ".join(said) or None


def _score(
    one: Evaluation, folder: Path, output: Path, metadata: dict, task: str, config: dict
) -> None:
    """Compute the table of scores of an evaluation again."""
    given = read_metadata(folder / one.file("scores"))
    judged = calibration_of(config["calibration"], config["probes"][one.probe]["kind"], task)
    spec = BootstrapSpec(
        **one._asdict(),
        task=metadata["task"],
        options=build(ScoringOptions, {**config["bootstrap"], **judged}),
        inputs=FromPredictions(predictions=metadata["fingerprint"]),
    )
    score_predictions(
        folder / one.file("predictions"), output, spec=spec, fingerprint=given["fingerprint"]
    )


def _scores_differ(given: Path, again: Path) -> str | None:
    """The first difference of two tables of scores, in words; None if there is none."""
    check_expansion(given)
    (one, about), (other, meant) = (read_table(path) for path in (given, again))
    if one.schema.remove_metadata() != other.schema.remove_metadata():
        return "its columns are not those of scores"
    rows, computed = one.to_pylist(), other.to_pylist()
    for row, own in zip(rows, computed, strict=False):
        for column in own:
            if not alike(row[column], own[column]):
                of = " ".join(
                    str(own[key]) for key in ("metric", "class", "setting") if own[key] is not None
                )
                return f"{column} of {of} is {row[column]}, but {own[column]} follows from the predictions"
    if len(rows) != len(computed):
        return f"it has {len(rows)} rows, but {len(computed)} follow from the predictions"
    for key in sorted({*about, *meant} - {"versions"}):
        if not alike(about.get(key), meant.get(key)):
            return f"its record of {key} does not follow from the predictions"
    return None


def alike(one, other) -> bool:
    """Whether two JSON values are equal; numbers up to their last digits, and NaN to itself."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    numbers = all(
        isinstance(each, float | int) and not isinstance(each, bool) for each in (one, other)
    )
    if not numbers:
        return type(one) is type(other) and one == other
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return math.isclose(one, other, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
