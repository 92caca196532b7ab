"""How far features of two datasets, or of two backbones, agree on the places that both show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from permafrost.core.errors import PermafrostError, look_up
from permafrost.core.progress import terminal_progress
from permafrost.core.specification import SPLITS
from permafrost.report.notation import NONE, interval_of, number
from permafrost.report.tables.blocks import Block
from permafrost.report.tables.recorded_features import RecordedFeatures
from permafrost.statistics.leaderboard.rows import finite
from permafrost.statistics.measures.agreement import agreement
from permafrost.statistics.resampling.units import find_units

COLUMNS = (
    *("dataset", "other_dataset", "backbone", "other_backbone", "measure", "direction"),
    *("value", "lower", "upper", "by_chance", "places", "unit", "n_units"),
)
#: pairs of features that are compared take memory that grows with the square of this
MOST_PLACES = 5000


@dataclass(frozen=True)
class AgreementResults(RecordedFeatures):
    """The features in a folder of results, to be compared between sensors."""

    def agreeing(
        self,
        dataset: str,
        other: str,
        backbones: Sequence[tuple[str, str]] = (),
        *,
        split: str = "test",
        centred: bool = True,
    ) -> list[dict]:
        """Rows of `COLUMNS`, those of a pair of backbones together.

        Samples of both datasets with the same name in the same split show the same place. If there are more than 5000,
        5000 are drawn.

        Parameters
        ----------
        backbones : pairs, of `dataset` and of `other`; by default each backbone with itself.
        split : or ``all``. centred : as in `statistics.measures.agreement.agreement`.

        Raises
        ------
        PermafrostError : an unknown name, deleted features, the same features twice, or no place in common.
        """
        look_up([*SPLITS, "all"], split, "there is no split")
        known = [self.backbones(one) for one in (dataset, other)]
        if not backbones:
            backbones = [(one, one) for one in known[0] if one in known[1]]
        for pair in backbones:
            for name, names, of in zip(pair, known, (dataset, other), strict=True):
                look_up(names, name, f"there are no features on {of} of the backbone")
            if dataset == other and pair[0] == pair[1]:
                raise PermafrostError(
                    "features agree with themselves",
                    where=f"{dataset}, {pair[0]}",
                    remedy="name two datasets, or two backbones: --backbones A B",
                )
        if not backbones:
            raise PermafrostError(
                f"no backbone has features on both {dataset} and {other}",
                where=self.plan["results"],
                remedy="name one of each: --backbones A B",
            )
        rows = []
        with terminal_progress(total=len(backbones), label="agreement", unit="pair") as bar:
            for one, another in backbones:
                about = dict(zip(COLUMNS, (dataset, other, one, another), strict=False))
                rows += self._rows(about, split, centred)
                bar.update()
        return rows

    def _rows(self, about: dict, split: str, centred: bool) -> list[dict]:
        splits = SPLITS if split == "all" else (split,)
        first, second = (
            [self.features(about[f"{key}dataset"], about[f"{key}backbone"], one) for one in splits]
            for key in ("", "other_")
        )
        names: list[str] = []
        groups: list[str] = []
        of_first: list[np.ndarray] = []
        of_second: list[np.ndarray] = []
        for part, own, theirs in zip(splits, first, second, strict=True):
            place = {name: row for row, name in enumerate(theirs.sample_ids)}
            kept = [row for row, name in enumerate(own.sample_ids) if name in place]
            names += [own.sample_ids[row] for row in kept]
            groups += [f"{part} {own.units.index[row]}" for row in kept]
            of_first.append(own.features[kept])
            of_second.append(theirs.features[[place[own.sample_ids[row]] for row in kept]])
        if len(names) < 2:
            raise PermafrostError(
                f"{len(names)} samples of both have the same name",
                where=f"{about['dataset']} and {about['other_dataset']}, {split}",
                remedy="name datasets whose samples are named by their place, such as two sensors of one dataset",
            )
        drawn = np.sort(np.random.default_rng(0).permutation(len(names))[:MOST_PLACES])
        kind = {one.units.kind for one in first}
        units = find_units(
            len(drawn),
            sample_ids=[names[row] for row in drawn],
            groups=None if kind == {"image"} else [groups[row] for row in drawn],
        )
        found = agreement(
            np.concatenate(of_first)[drawn],
            np.concatenate(of_second)[drawn],
            units,
            centred=centred,
        )
        counted = {"places": len(drawn), "unit": units.kind, "n_units": units.count}
        return [{**about, **asdict(one), **counted} for one in found]


def agreement_block(rows: list[dict]) -> Block:
    """A line per pair of backbones: recall of 1 and 10 in both directions, and CKA."""
    header = ["backbone"]
    shown = [(f"recall@{k}", way) for k in (1, 10) for way in ("a to b", "b to a")] + [
        ("cka", None)
    ]
    header += [f"{measure} {way}" if way else "CKA" for measure, way in shown] + ["CKA shuffled"]
    lines: dict[tuple[str, str], dict] = {}
    for row in rows:
        pair = row["backbone"], row["other_backbone"]
        lines.setdefault(pair, {})[row["measure"], row["direction"]] = row
    table = [
        [
            pair[0] if pair[0] == pair[1] else f"{pair[0]} and {pair[1]}",
            *(_cell(own.get(one)) for one in shown),
            number(own["cka", None]["by_chance"]),
        ]
        for pair, own in lines.items()
    ]
    first = rows[0]
    head = (
        f"a: {first['dataset']}, b: {first['other_dataset']} · {first['places']} places, "
        f"{first['n_units']} {first['unit']}s · by chance, recall@1 is {number(1 / first['places'], 4)}"
    )
    lacking = any(("recall@1", "a to b") not in own for own in lines.values())
    foot = "  no recall: the two have features of different lengths" if lacking else ""
    return Block(head, [header, *table], frozenset(header[1:]), foot)


def _cell(row: dict | None) -> str:
    if row is None or not finite(row["value"]):
        return NONE
    return f"{number(row['value'])} {interval_of(row)}".rstrip()
