"""The dataset card: describes the content of image stores, in a plain JSON file next to them."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.identity import content_digest
from permafrost.core.outputs import Group, whole_file
from permafrost.core.tables import check_fingerprint
from permafrost.core.tasks import targets_of

# key of the SHA-256 of all other keys
DIGEST = "sha256"


@dataclass(frozen=True, kw_only=True)
class Card:
    """Description of a prepared dataset.

    ``modalities`` is None if a sample is one image of one sensor. ``dates`` is ``one``, ``pair`` or
    ``series``. ``target`` exists only if images or pixels have a number; ``detection`` is None if
    the labels are not objects. ``choice`` states which parts of a sample with several sensors and
    dates are its image, see `sources.tortilla`; None if a sample is one image. ``published`` and
    ``size_bytes`` are the entry's numbers of the published data and the download; report pages show
    them, card files omit them. ``unmatched`` counts, by backbone and split, samples that were
    excluded because the backbone has no embedding of them; None if no backbone requires embeddings.
    ``skipped`` lists images that `on_error` of the entry skipped, with the reason; None if there
    are none. ``derived`` has the options of a derived dataset, the names of its folds, and the number
    of images left out by dataset; None for all others.
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
    derived: dict | None = None

    def __post_init__(self) -> None:
        if (self.target is not None) != targets_of(self.task).numbers:
            raise TypeError(f"a card of the task {self.task} with target {self.target}")

    def as_json(self) -> dict:
        """Content of the card file, in order and without the digest."""
        content = {field.name: getattr(self, field.name) for field in fields(self)}
        for key in (
            "target",
            "choice",
            "published",
            "size_bytes",
            "modalities",
            "unmatched",
            "skipped",
            "derived",
        ):
            if content[key] is None:
                del content[key]
        if self.dates == "one":
            del content["dates"]
        return content


def write_card(path, card: Card, *, group: Group | None = None) -> None:
    """Write the complete card with its digest.

    With a `group` of `outputs.together`, it appears together with the group's other outputs.
    """
    content = card.as_json()
    with whole_file(path, group=group) as partial:
        sealed = {**content, DIGEST: content_digest(content, DIGEST)}
        partial.write_text(_text(sealed), encoding="utf-8")


def read_card(path, *, expect: str | None = None) -> Card:
    """Read the card; raises `PermafrostError` if it is missing, damaged, edited or of another plan."""
    path = Path(path)
    remedy = "delete the folder and run snakemake again"
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text)
    except FileNotFoundError as error:
        raise PermafrostError(
            "the card does not exist", where=path, remedy="run snakemake"
        ) from error
    except ValueError as error:
        raise PermafrostError(
            f"not a readable card ({error})", where=path, remedy=remedy
        ) from error
    try:
        whole = text == _text(content)
        digest = content.pop(DIGEST)
        card = Card(**content)
    # a ValueError: NaN, which JSON does not have but its parser takes
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise PermafrostError("not a complete card", where=path, remedy=remedy) from error
    if not whole or digest != content_digest(content, DIGEST):
        raise PermafrostError("it is not what was written", where=path, remedy=remedy)
    if expect is not None:
        check_fingerprint(path, card.fingerprint, expect)
    return card


def _text(sealed: dict) -> str:
    return json.dumps(sealed, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
