"""A draft of an entry, while it is made: keys, and what a person has to check or fill in."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

IMAGE_ENDINGS = ("jpg", "jpeg", "png", "tif", "tiff")
_SPLITS = {
    "train": ("train", "training", "trn"),
    "val": ("val", "valid", "validation", "dev"),
    "test": ("test", "testing", "tst"),
}
# how many classes are named one by one in a comment
_MOST = 200
# the value that masks of 8 bits give to pixels without a label
_UNLABELLED = 255


@dataclass
class Draft:
    """What is known of a dataset so far.

    Attributes
    ----------
    images : names of the images, of which some are looked at.
    fields : of the entry, beside task and source.
    places : longitude and latitude of the images, where a table lists them.
    splits : its `splits`, where the files name them; None where they do not.
    notes : key of the entry -> sentences about it; the key is ``""`` for the whole entry.
    """

    task: str
    source: dict
    images: list[str]
    fields: dict = field(default_factory=dict)
    splits: dict | None = None
    places: list[tuple[float, float]] | None = None
    notes: dict[str, list[str]] = field(default_factory=dict)

    def note(self, key: str, *sentences: str) -> None:
        self.notes.setdefault(key, []).extend(sentences)


def is_image(name: str) -> bool:
    return name.lower().endswith(tuple(f".{ending}" for ending in IMAGE_ENDINGS))


def stem_of(name: str) -> str:
    return name.rpartition("/")[2].rpartition(".")[0]


def split_of(name: str) -> str | None:
    """train, val or test, if a folder or file of that name is one."""
    words = re.split(r"[^a-z]+", name.lower())
    return next((ours for ours, theirs in _SPLITS.items() if set(theirs) & set(words)), None)


def is_split(name: str) -> bool:
    """Whether the whole name is that of a split."""
    return any(name.lower() in theirs for theirs in _SPLITS.values())


def given_splits(names: Iterable[str], draft: Draft) -> dict:
    """`splits` of an entry whose files name them, and a note where something is missing."""
    ours: dict[str, list[str]] = {}
    names = sorted(set(names))
    for name in names:
        if is_split(name):
            ours.setdefault(split_of(name), []).append(name)
    others = [name for name in names if not is_split(name)]
    if not {"train", "test"} <= set(ours):
        draft.note(
            "splits",
            f"the files name {' and '.join(names)}, and so no train and test: these are drawn anew",
        )
        return {"method": "random"}
    splits: dict = {"method": "given"}
    if any(found != [key] for key, found in ours.items()):
        splits["map"] = ours
    if others:
        splits["leave_out"] = others
    if "val" not in ours:
        splits["val_from_train"] = 0.2
        draft.note("splits", "the files name no validation split: a fifth of train is set aside")
    return splits


def class_codes(values: Iterable[int], draft: Draft) -> None:
    """Set classes, and what mask values mean, from the values that were found in masks.

    255 beside two or more other values means pixels without a label, as in most published sets; beside one other
    value it is a class, as in masks of black and white.
    """
    values = sorted(set(values))
    codes = [value for value in values if value != _UNLABELLED]
    if len(codes) < 2:
        codes = values
    unlabelled = len(codes) < len(values)
    if unlabelled:
        draft.fields["ignore_index"] = _UNLABELLED
        draft.note(
            "ignore_index",
            "255 occurs in masks and is taken for pixels without a label, which are never learned nor scored;"
            " if it is a class, remove this and name it in mask_values and classes",
        )
    if codes and codes[-1] < _MOST and codes[0] == 0 and codes[-1] <= 2 * len(codes):
        codes = list(range(codes[-1] + 1))
    else:
        draft.fields["mask_values"] = {str(value): f"class {value}" for value in codes}
        if unlabelled:
            draft.fields["mask_values"][str(_UNLABELLED)] = None
        draft.note("mask_values", "give null to values of pixels without a label")
    draft.fields["classes"] = [f"class {code}" for code in codes]
    if len(codes) < 2:
        draft.fields["classes"] = ["class 0", "class 1"]
    draft.note("classes", f"name the classes; found in a sample of the masks: {_few(values)}")


def _few(values: list) -> str:
    shown = ", ".join(map(str, values[:20]))
    return f"{shown} and {len(values) - 20} more" if len(values) > 20 else shown or "none"
