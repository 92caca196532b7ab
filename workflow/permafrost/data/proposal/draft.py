"""A draft of an entry: its keys, and notes on what to check or complete."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

IMAGE_ENDINGS = ("jpg", "jpeg", "png", "tif", "tiff", "bmp")
_SPLITS = {
    "train": ("train", "training", "trn"),
    "val": ("val", "valid", "validation", "dev"),
    "test": ("test", "testing", "tst"),
}
# most classes to list in a comment
_MOST = 200
# usual value of unlabelled pixels in 8-bit masks
_UNLABELLED = 255


@dataclass
class Draft:
    """What the inspection has found out about a dataset so far.

    Attributes
    ----------
    images : names of the images; a sample of them is read.
    fields : of the entry, except task and source.
    places : longitude and latitude of the images, if a table lists them.
    splits : `splits` of the entry if the files name them; else None.
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
    """train, val or test if a folder or file with that name usually means one; else None."""
    words = re.split(r"[^a-z]+", name.lower())
    return next((ours for ours, theirs in _SPLITS.items() if set(theirs) & set(words)), None)


def is_split(name: str) -> bool:
    """Whether the whole name is that of a split."""
    return any(name.lower() in theirs for theirs in _SPLITS.values())


def given_splits(names: Iterable[str], draft: Draft) -> dict:
    """`splits` of an entry whose files name them; adds a note if one is missing."""
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
    """Set the classes and the meaning of mask values, from the values in the masks.

    255 means unlabelled if there are two or more other values, as in most published datasets. With
    one other value it is a class, as in black and white masks.
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
