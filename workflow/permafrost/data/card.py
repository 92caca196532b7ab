"""The card of a dataset: what its image stores hold, written beside them as plain JSON."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.outputs import Group, whole_file
from permafrost.core.tables import check_fingerprint
from permafrost.core.tasks import TASKS

# key of the SHA-256 of all the others
DIGEST = "sha256"
KEYS = frozenset(
    [
        "dataset",
        "title",
        "task",
        "fingerprint",
        "bands",
        "selected",
        "classes",
        "ignore_index",
        "dead_classes",
        "splits",
        "split_method",
        "split_seed",
        "spatially_random",
        "audit",
        "detection",
        "image_size",
        "gsd_m",
        "licence",
        "citation",
    ]
)


def write_card(path, card: dict, *, group: Group | None = None) -> None:
    """Write the card whole, with its digest; refuses one with missing or unknown keys (a programming error).

    With a `group` of `outputs.together`, it appears with the others of the group.
    """
    wrong = set(card) ^ _keys(card)
    if wrong:
        raise TypeError(f"card keys: {sorted(wrong)}")
    with whole_file(path, group=group) as partial:
        text = json.dumps(
            {**card, DIGEST: _digest(card)}, indent=2, ensure_ascii=False, allow_nan=False
        )
        partial.write_text(text + "\n", encoding="utf-8")


def read_card(path, *, expect: str | None = None) -> dict:
    """The card; one that is missing, damaged, edited or of another plan is refused by name."""
    path = Path(path)
    remedy = "delete the folder and run snakemake again"
    try:
        card = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise PermafrostError(
            "the card does not exist", where=path, remedy="run snakemake"
        ) from error
    except ValueError as error:
        raise PermafrostError(
            f"not a readable card ({error})", where=path, remedy=remedy
        ) from error
    if not isinstance(card, dict) or set(card) != _keys(card) | {DIGEST}:
        raise PermafrostError("not a complete card", where=path, remedy=remedy)
    if card.pop(DIGEST) != _digest(card):
        raise PermafrostError("it is not what was written", where=path, remedy=remedy)
    if expect is not None:
        check_fingerprint(path, card["fingerprint"], expect)
    return card


def _digest(card: dict) -> str:
    """SHA-256 of what the card holds beside its digest."""
    return hashlib.sha256(json.dumps(card, sort_keys=True).encode()).hexdigest()


def _keys(card: dict) -> frozenset[str]:
    numbers = card.get("task") in TASKS and TASKS[card["task"]].numbers
    return KEYS | ({"target"} if numbers else set())
