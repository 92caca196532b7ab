"""Test images of a run's datasets that are images of its other datasets."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import permutations

import numpy as np
import pyarrow as pa

from permafrost.core.errors import PermafrostError, look_up
from permafrost.core.leakage import LEAK
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
from permafrost.report.notation import number
from permafrost.report.tables.blocks import Block
from permafrost.report.tables.recorded_features import RecordedFeatures
from permafrost.statistics.measures.near_features import near_features

COLUMNS = ("dataset", "sample_id", "other_dataset", "other_split", "other_sample_id", "kind")
#: of suspects by features; ``by_chance`` is of the pair of datasets
SUSPECT_COLUMNS = (*COLUMNS[:-1], "backbone", "ratio", "by_chance")
_LISTED = 15  # suspects in a terminal


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
class CopyResults(RecordedFeatures):
    """The images of a folder of results, to be compared between datasets."""

    _hashes: dict = field(default_factory=dict)

    def copied(self, dataset: str | None = None) -> Copied:
        """All pairs of datasets, or those of one. Derived datasets have the images of others and are left out.

        Raises
        ------
        PermafrostError : an unknown dataset, fewer than two datasets, or an image store that was deleted.
        """
        names = self._datasets(dataset)
        cards = {name: self._card(name) for name in names}
        rows, pairs = [], []
        for name, other in permutations(names, 2):
            if dataset in (None, name, other):
                found, pair = self._pair(cards[name], cards[other])
                rows += found
                pairs.append(pair)
        return Copied(rows, pairs)

    def suspected(self, backbone: str, dataset: str | None = None) -> list[dict]:
        """Rows of `SUSPECT_COLUMNS`: possible changed copies by the features of a backbone, see `near_features`.

        Raises
        ------
        PermafrostError : an unknown name, fewer than two datasets with its features, or deleted features.
        """
        names = self._datasets(dataset)
        known = {name for name in names if backbone in self.backbones(name)}
        pairs = [pair for pair in permutations(sorted(known), 2) if dataset in (None, *pair)]
        if not pairs:
            raise PermafrostError(
                f"{backbone} has features of {len(known)} of the datasets that are compared",
                where=self.plan["results"],
                remedy="name a backbone that was run on two datasets",
            )
        rows = []
        with terminal_progress(total=len(pairs), label=backbone, unit="pair") as bar:
            for name, other in pairs:
                rows += self._near(backbone, name, other)
                bar.update()
        return rows

    def _near(self, backbone: str, name: str, other: str) -> list[dict]:
        own, theirs = (
            {split: self.features(one, backbone, split) for split in SPLITS}
            for one in (name, other)
        )
        test, places = (
            own["test"],
            [(split, one) for split in SPLITS for one in theirs[split].sample_ids],
        )
        width = {one.features.shape[1] for each in (own, theirs) for one in each.values()}
        if len(width) > 1:
            return []
        samples = self._store(name, "test").samples
        leaks = samples[LEAK].to_pylist() if LEAK in samples.column_names else [None] * len(test)
        found = near_features(
            test.features,
            np.concatenate([theirs[split].features for split in SPLITS]),
            np.concatenate([own[split].features for split in ("train", "val")]),
            clean=np.array([one is None for one in leaks]),
        )
        return [
            dict(
                zip(
                    SUSPECT_COLUMNS,
                    (name, test.sample_ids[row], other, *places[near], backbone, ratio)
                    + (found.by_chance,),
                    strict=True,
                )
            )
            for row, near, ratio in zip(
                *(one.tolist() for one in (found.rows, found.others, found.ratios)), strict=True
            )
        ]

    def _datasets(self, dataset: str | None) -> list[str]:
        """Datasets with images of their own: two or more, among them `dataset`."""
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
        return names

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


def suspect_table(rows: list[dict]) -> pa.Table:
    """`SUSPECT_COLUMNS`, also without rows."""
    kinds = [
        pa.float64() if name in ("ratio", "by_chance") else pa.string() for name in SUSPECT_COLUMNS
    ]
    return pa.Table.from_pylist(rows, pa.schema([*zip(SUSPECT_COLUMNS, kinds, strict=True)]))


def suspect_block(rows: list[dict], backbone: str) -> Block:
    """The suspects with the smallest ratios, and how many are expected by chance."""
    head = f"Test images that may be changed copies of images of another dataset, by features of {backbone}"
    if not rows:
        return Block(f"{head}\n  none", [])
    header = ["test image of", "sample", "is near", "split", "sample there", "ratio of distances"]
    first = sorted(rows, key=lambda row: row["ratio"])[:_LISTED]
    keys = ("dataset", "sample_id", "other_dataset", "other_split", "other_sample_id")
    lines = [[*(row[key] for key in keys), number(row["ratio"])] for row in first]
    pairs = {(row["dataset"], row["other_dataset"]): row["by_chance"] for row in rows}
    said = [
        f"  {name} in {other}: {sum((row['dataset'], row['other_dataset']) == (name, other) for row in rows)}"
        f" suspects; about {number(chance, 1)} without any copy"
        for (name, other), chance in pairs.items()
    ]
    said += ["  --output FILE.csv has all"] if len(rows) > len(first) else []
    return Block(head, [header, *lines], frozenset(header[-1:]), "\n".join(said))
