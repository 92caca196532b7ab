"""The card of a dataset: what its image stores hold, written beside them as plain JSON."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.outputs import Group, whole_file
from permafrost.core.tables import check_fingerprint
from permafrost.core.tasks import targets_of

# key of the SHA-256 of all the others
DIGEST = "sha256"


@dataclass(frozen=True, kw_only=True)
class Card:
    """What is known of a prepared dataset.

    ``modalities`` is None where a sample is one image of one sensor. ``dates`` is ``one``, ``pair`` or ``series``.
    ``target`` is there exactly where images or pixels have a number, ``detection`` is None where the labels
    are no objects. ``choice`` is what of a sample of several sensors and dates its image is, see
    `sources.tortilla`; None where a sample is one image. ``published`` and ``size_bytes`` are what the
    entry says of the data as published and of the download: pages have them, files of cards never.
    ``unmatched`` counts, by backbone and split, samples that were left out since it has no embedding of them;
    None where no backbone asks for that. ``skipped`` names the images that `on_error` of the entry left out, with what
    is wrong with each; None where it left out none.
    """

    dataset: str
    title: str
    task: str
    fingerprint: str
    bands: list[dict]
    selected: list[str]
    classes: list[str]
    ignore_index: int | None
    dead_classes: list[int]
    splits: dict[str, dict]
    split_method: str
    split_seed: int
    spatially_random: bool
    detection: dict | None
    audit: dict
    image_size: dict[str, list[int]]
    gsd_m: float | None
    licence: str | None
    citation: str | None
    target: dict | None = None
    size_bytes: int | None = None
    choice: dict | None = None
    published: str | None = None
    modalities: list[dict] | None = None
    dates: str = "one"
    unmatched: dict[str, dict[str, int]] | None = None
    skipped: dict[str, str] | None = None

    def __post_init__(self) -> None:
        if (self.target is not None) != targets_of(self.task).numbers:
            raise TypeError(f"a card of the task {self.task} with target {self.target}")

    def as_json(self) -> dict:
        """The mapping that the file holds, in its order, without the digest."""
        content = {field.name: getattr(self, field.name) for field in fields(self)}
        for key in (
            "target",
            "choice",
            "published",
            "size_bytes",
            "modalities",
            "unmatched",
            "skipped",
        ):
            if content[key] is None:
                del content[key]
        if self.dates == "one":
            del content["dates"]
        return content


def write_card(path, card: Card, *, group: Group | None = None) -> None:
    """Write the card whole, with its digest.

    With a `group` of `outputs.together`, it appears with the others of the group.
    """
    content = card.as_json()
    with whole_file(path, group=group) as partial:
        text = json.dumps(
            {**content, DIGEST: _digest(content)}, indent=2, ensure_ascii=False, allow_nan=False
        )
        partial.write_text(text + "\n", encoding="utf-8")


def read_card(path, *, expect: str | None = None) -> Card:
    """The card; one that is missing, damaged, edited or of another plan is refused by name."""
    path = Path(path)
    remedy = "delete the folder and run snakemake again"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise PermafrostError(
            "the card does not exist", where=path, remedy="run snakemake"
        ) from error
    except ValueError as error:
        raise PermafrostError(
            f"not a readable card ({error})", where=path, remedy=remedy
        ) from error
    try:
        digest = content.pop(DIGEST)
        card = Card(**content)
    except (TypeError, KeyError, AttributeError) as error:
        raise PermafrostError("not a complete card", where=path, remedy=remedy) from error
    if digest != _digest(content):
        raise PermafrostError("it is not what was written", where=path, remedy=remedy)
    if expect is not None:
        check_fingerprint(path, card.fingerprint, expect)
    return card


def _digest(content: dict) -> str:
    """SHA-256 of what the card holds beside its digest."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
