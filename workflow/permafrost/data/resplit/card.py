"""The card of a derived dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from permafrost.core.specification import SPLITS
from permafrost.core.tasks import targets_of
from permafrost.data.derived import DerivedDataset
from permafrost.data.entry import DatasetEntry
from permafrost.data.labels.classes import class_counts, dead_classes
from permafrost.data.labels.detection import detection_card
from permafrost.data.labels.objects import Objects
from permafrost.data.labels.targets import TargetStatistics, raster_card, target_card
from permafrost.data.records import Record
from permafrost.data.resplit.division import Division
from permafrost.data.resplit.pool import Pool, rasters
from permafrost.data.store.card import Card


def card_of(
    pool: Pool, division: Division, parent: Card, entry: DatasetEntry, options: DerivedDataset
) -> Card:
    """The card, still with the parent's name and fingerprint; its ``derived`` has what the division found."""
    targets = targets_of(entry.task)
    records = {split: pool.take(rows) for split, rows in division.counted.items()}
    ignored = dict.fromkeys(SPLITS)
    if targets.masks:
        found = {
            split: _pixels(pool, rows, len(pool.classes), parent.ignore_index)
            for split, rows in division.counted.items()
        }
        counts = {split: one[:-1] for split, one in found.items()}
        ignored = {split: int(one[-1]) for split, one in found.items()}
    else:
        counts = {
            split: class_counts(
                _whole(own) if targets.objects else own, entry.task, len(pool.classes)
            )
            for split, own in records.items()
        }
    same = options.of is not None
    return replace(
        parent,
        classes=pool.classes,
        dead_classes=dead_classes(counts, parent.dead_classes if same else ())
        if pool.classes
        else [],
        splits={
            split: {
                "count": len(records[split]),
                "class_counts": counts[split].tolist(),
                "ignored_pixels": ignored[split],
                "groups": len({one.group_id for one in records[split]} - {None}) or None,
                "without_place": sum(one.lon is None for one in records[split]),
            }
            for split in SPLITS
        },
        image_size=_sizes(pool),
        split_method="derived",
        split_seed=options.folds.seed if options.folds else options.seed,
        spatially_random=division.spatially_random,
        detection=detection_card(entry, {split: _whole(own) for split, own in records.items()})
        if targets.objects
        else None,
        audit={**division.audit, "bands": parent.audit.get("bands", []) if same else []},
        target=_target(entry, pool, division, records),
        derived={
            **({"folds_tested": [one.name for one in division.folds]} if division.folds else {}),
            **({"left_out": pool.left_out} if pool.left_out else {}),
        },
    )


def _sizes(pool: Pool) -> dict[str, list[int]]:
    """The smallest and the largest height and width of the images of the stores."""
    sizes = np.stack([pool.samples[name].to_numpy() for name in ("height", "width")], axis=1)
    return {"min": sizes.min(axis=0).tolist(), "max": sizes.max(axis=0).tolist()}


def _target(
    entry: DatasetEntry, pool: Pool, division: Division, records: Mapping[str, list[Record]]
) -> dict | None:
    targets = targets_of(entry.task)
    if not targets.numbers:
        return None
    if not targets.pixels:
        return target_card(entry, records)
    found = {}
    for split, rows in division.counted.items():
        total = TargetStatistics()
        for raster in rasters(pool, rows, "targets"):
            total += TargetStatistics.of(raster)
        found[split] = total
    arrays = {split: _Read(pool, rows) for split, rows in division.counted.items()}
    return raster_card(entry, found, arrays)


class _Read:
    """Targets of some images, as `raster_card` reads an array."""

    chunks = (1,)

    def __init__(self, pool: Pool, rows: np.ndarray) -> None:
        self.pool, self.rows, self.shape = pool, rows, (len(rows),)

    def __getitem__(self, part: slice) -> np.ndarray:
        return np.stack(list(rasters(self.pool, self.rows[part], "targets")))


def _pixels(pool: Pool, rows: np.ndarray, classes: int, ignored: int | None) -> np.ndarray:
    """(K + 1,) pixels of each class, and of none."""
    counts = np.zeros(classes + 1, np.int64)
    for mask in rasters(pool, rows, "masks"):
        found = np.bincount(mask.reshape(-1), minlength=classes)
        of_none = 0 if ignored is None or ignored >= len(found) else int(found[ignored])
        own = found[:classes].copy()
        if ignored is not None and ignored < classes:
            own[ignored] = 0
        counts += np.append(own, of_none)
    return counts


def _whole(records: Sequence[Record]) -> list[Record]:
    """One record per image, with the objects of its windows."""
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(record.image_id or record.sample_id, []).append(record)
    return [_united(own) if len(own) > 1 else own[0] for own in found.values()]


def _united(windows: list[Record]) -> Record:
    joint = Objects.joined([one.objects for one in windows if one.objects is not None])
    _, first = np.unique(joint.numbers, return_index=True)
    return replace(windows[0], objects=joint.take(first))
