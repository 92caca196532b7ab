"""Test images of a run's datasets that are images of its other datasets."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import permutations

from permafrost.core.errors import PermafrostError, look_up
from permafrost.core.progress import terminal_progress
from permafrost.core.specification import SPLITS
from permafrost.data.store.between import (
    common_bands,
    hashes_of,
    shared_images,
    spread_of_all,
)
from permafrost.data.store.card import Card, read_card
from permafrost.data.store.image_hashes import ImageHashes
from permafrost.data.store.image_store import ImageStore
from permafrost.report.tables.blocks import Block
from permafrost.report.tables.recorded import Recorded

COLUMNS = ("dataset", "sample_id", "other_dataset", "other_split", "other_sample_id", "kind")


@dataclass(frozen=True)
class Copied:
    """The shared images of a run.

    Attributes
    ----------
    rows : `COLUMNS` of each test image and split of another dataset that has it; ``kind`` is exact or near.
    pairs : one per ordered pair of datasets: ``dataset, other_dataset, test_images``, and how many of these are in
        ``train, val, test`` of the other; None if the two have no band in common.
    """

    rows: list[dict]
    pairs: list[dict]

    def block(self) -> Block:
        header = ["test images of", "number", "are also images of", "train", "val", "test"]
        some = [
            one for one in self.pairs if one["train"] is None or any(one[split] for split in SPLITS)
        ]
        lines = [
            [one["dataset"], str(one["test_images"]), one["other_dataset"]]
            + ["no common band" if one[split] is None else str(one[split]) for split in SPLITS]
            for one in some
        ]
        none = len(self.pairs) - len(some)
        foot = f"  {none} of {len(self.pairs)} ordered pairs of datasets share no image"
        head = "Test images that are images of another dataset: equal pixels, or similar ones"
        right = frozenset({"number", *SPLITS})
        return Block(head, [header, *lines], right, foot) if lines else Block(f"{head}\n{foot}", [])


@dataclass(frozen=True)
class CopyResults(Recorded):
    """The images of a folder of results, to be compared between datasets."""

    _hashes: dict = field(default_factory=dict)

    def copied(self, dataset: str | None = None) -> Copied:
        """All pairs of datasets, or those of one. Derived datasets have the images of others and are left out.

        Raises
        ------
        PermafrostError : an unknown dataset, fewer than two datasets, or an image store that was deleted.
        """
        entries = self.plan["datasets"]
        names = sorted(name for name, one in entries.items() if "derived" not in one)
        if dataset is not None:
            look_up(names, dataset, "the run has no images of its own of the dataset")
        if len(names) < 2:
            raise PermafrostError(
                "images are compared between datasets, and the run has only one with images of its own",
                where=self.plan["results"],
                remedy="add the other dataset to the configuration, and run snakemake",
            )
        cards = {name: self._card(name) for name in names}
        rows, pairs = [], []
        for name, other in permutations(names, 2):
            if dataset in (None, name, other):
                found, pair = self._pair(cards[name], cards[other])
                rows += found
                pairs.append(pair)
        return Copied(rows, pairs)

    def _pair(self, card: Card, other: Card) -> tuple[list[dict], dict]:
        names = {"dataset": card.dataset, "other_dataset": other.dataset}
        own, theirs = common_bands(card, other)
        pair = {**names, "test_images": card.splits["test"]["count"]}
        if not own:
            return [], pair | dict.fromkeys(SPLITS)
        images, others = self._hashed(card, own), self._hashed(other, theirs)
        found = shared_images(images["test"], others, spread_of_all(images), spread_of_all(others))
        tested = self._names(card, "test")
        names_of = {split: self._names(other, split) for split in SPLITS}
        values = (
            (card.dataset, tested[one.row], other.dataset)
            + (one.split, names_of[one.split][one.other], one.kind)
            for one in found
        )
        rows = [dict(zip(COLUMNS, one, strict=True)) for one in values]
        counts = {split: sum(one.split == split for one in found) for split in SPLITS}
        return rows, pair | counts

    def _hashed(self, card: Card, bands: list[int]) -> dict[str, ImageHashes]:
        """Split -> hashes by some bands; kept, since a dataset is in several pairs."""
        key = (card.dataset, tuple(bands))
        if key not in self._hashes:
            total = sum(one["count"] for one in card.splits.values())
            with terminal_progress(total=total, label=card.dataset, unit="image") as bar:
                self._hashes[key] = {
                    split: hashes_of(self._store(card.dataset, split), bands, bar.update)
                    for split in SPLITS
                }
        return self._hashes[key]

    def _names(self, card: Card, split: str) -> list[str]:
        return self._store(card.dataset, split).samples["sample_id"].to_pylist()

    def _card(self, dataset: str) -> Card:
        (row,) = self.planned("card", dataset=dataset)
        return read_card(self.place(row), expect=row["fingerprint"])

    def _store(self, dataset: str, split: str) -> ImageStore:
        (row,) = self.planned("prepare", dataset=dataset, split=split)
        path = self.place(row)
        if not path.exists():
            raise PermafrostError(
                "the image store was deleted, and copies are found in its pixels",
                where=path,
                remedy=f"run `snakemake {row['path']}`, which prepares the dataset again",
            )
        return ImageStore(path, expect=row["fingerprint"], split=split)
