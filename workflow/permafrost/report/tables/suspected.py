"""Suspected wrong labels of a run's datasets: the images, and backbones with and without them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from permafrost.core.errors import PermafrostError, look_up
from permafrost.core.tables import read_table
from permafrost.core.tasks import targets_of
from permafrost.data.derived import harder_of
from permafrost.report.notation import number
from permafrost.report.tables.blocks import Block
from permafrost.report.tables.recorded import Recorded
from permafrost.statistics.leaderboard.rows import distinct
from permafrost.statistics.predictions.columns import array_of, need_columns
from permafrost.statistics.slices.sliced import image_names
from permafrost.statistics.wrong_labels.judged import Judged, judge_labels, judge_several

#: kinds of backbones that read no images; the page must not depend on the code of all kinds
KINDS_WITHOUT_IMAGES = frozenset({"coordinates", "embeddings", "derived"})
_PREFERRED = "linear"
_LISTED = 15  # suspects in a terminal


@dataclass(frozen=True)
class JudgedDataset:
    """The labels of a dataset, judged by the backbones that one probe was run with.

    Attributes
    ----------
    sample_ids : N names, of the images of `judged`.
    labels : of images with several labels, the names that an item of `judged` may be about, all images for the first
        one, then for the second, …; else empty.
    of_folds : whether all images of a dataset are judged, not its test split alone.
    """

    dataset: str
    probe: str
    seed: int
    sample_ids: list[str]
    classes: list[str]
    of_folds: bool
    judged: Judged
    labels: list[str] = field(default_factory=list)

    def label_of(self, row: int) -> str | None:
        """The label that an item is about; None if an image has one class."""
        return self.labels[row * len(self.labels) // len(self.sample_ids)] if self.labels else None

    def images(self) -> list[dict]:
        """One row per image, or per image and label: suspects first, then those with the lowest margin."""
        found = self.judged
        rest = np.flatnonzero(~found.suspects)
        rest = rest[np.argsort(found.margin[rest], kind="stable")]
        wrong = (~found.right).sum(axis=0)
        return [
            {
                "dataset": self.dataset,
                "probe": self.probe,
                "sample_id": self.sample_ids[row],
                "label": self.label_of(row),
                "suspect": bool(found.suspects[row]),
                "given": self.classes[found.given[row]],
                "proposed": self.classes[found.proposed[row]] if found.proposed[row] >= 0 else None,
                "votes": int(found.votes[row]),
                "backbones": len(found.backbones),
                "given_probability": float(found.own[row]),
                "margin": float(found.margin[row]),
                "wrong": int(wrong[row]),
                "difficulty": float(found.difficulty.difficulty[row]),
                "discrimination": float(found.discrimination[row]),
                "decides_for": found.backbones[found.decides[row]]
                if found.decides[row] >= 0
                else None,
            }
            for row in [*found.order.tolist(), *rest.tolist()]
        ]

    def backbones(self) -> list[dict]:
        """One row per backbone, the best first: accuracy and rank on all images, and without suspects."""
        found = self.judged
        columns = zip(
            found.backbones,
            *found.accuracy.tolist(),
            *found.ranks.tolist(),
            found.difficulty.ability.tolist(),
            found.alone.tolist(),
            strict=True,
        )
        names = (
            *("backbone", "accuracy", "accuracy_without", "rank", "rank_without"),
            *("ability", "contradicted"),
        )
        about = {"dataset": self.dataset, "probe": self.probe}
        return [about | dict(zip(names, one, strict=True)) for one in columns]

    def summary(self) -> dict:
        """What holds for all images; shares are in [0, 1]."""
        found = self.judged
        decides = found.decides
        return {
            "dataset": self.dataset,
            "probe": self.probe,
            "seed": self.seed,
            "images": len(found.given) // max(len(self.labels), 1),
            "labels": len(found.given),
            "of_folds": self.of_folds,
            "suspects": int(found.suspects.sum()),
            "found_if_wrong": found.found_if_wrong,
            "all_wrong": found.all_wrong,
            "same_wrong": found.same_wrong,
            "best_choice": 1 - found.all_wrong,
            "decide_for_first": int((decides == 0).sum()),
            "decide_for_second": int((decides == 1).sum()),
            "suspects_that_decide": int((found.suspects & (decides >= 0)).sum()),
        }


@dataclass(frozen=True)
class LabelResults(Recorded):
    """The predictions in a folder of results by which labels are judged."""

    def judged(
        self,
        dataset: str,
        *,
        probe: str | None = None,
        seed: int | None = None,
        backbones: Sequence[str] | None = None,
    ) -> JudgedDataset:
        """The labels of a dataset, by all backbones that read its images, or by some of them.

        Parameters
        ----------
        probe : by default ``linear`` if it was run, else the first. seed : by default the lowest.

        Raises
        ------
        PermafrostError : an unknown name; a dataset whose images have no classes; no predictions, or no probabilities;
            a backbone that reads no images.
        """
        self.check_task(dataset)
        for name in backbones or ():
            if name in reading_none(self.plan["backbones"]):
                raise PermafrostError(
                    f"{name} reads no images, so it says nothing about what they show",
                    where=dataset,
                    remedy="name other backbones",
                )
        rows = [row for row in self._predicted() if row["dataset"] == dataset]
        probes = distinct(rows, "probe")
        if not rows:
            raise PermafrostError(
                "no predictions of backbones that read images are here",
                where=dataset,
                remedy="run snakemake again",
            )
        probe = probe or (_PREFERRED if _PREFERRED in probes else probes[0])
        look_up(probes, probe, f"there are no predictions on {dataset} of the probe")
        rows = [row for row in rows if row["probe"] == probe]
        seeds = distinct(rows, "seed")
        seed = seeds[0] if seed is None else seed
        said = f"there are no predictions of {probe} on {dataset} with"
        look_up(seeds, seed, f"{said} the seed")
        rows = [row for row in rows if row["seed"] == seed]
        for name in backbones or ():
            look_up(distinct(rows, "backbone"), name, f"{said} seed {seed} of the backbone")
        tables = {
            row["backbone"]: read_table(self.place(row), expect=row["fingerprint"])
            for row in rows
            if not backbones or row["backbone"] in backbones
        }
        of_folds = "folds" in self.plan["datasets"][dataset].get("derived", {})
        return judge_tables(tables, dataset=dataset, probe=probe, seed=seed, of_folds=of_folds)

    def datasets(self) -> list[str]:
        """Those with predictions that `check_task` accepts."""
        entries = self.plan["datasets"]
        names = distinct(self._predicted(), "dataset")
        return [
            name
            for name in names
            if _has_classes(entries[name]["task"]) and not harder_of(entries[name])
        ]

    def check_task(self, dataset: str) -> None:
        """Refuse a dataset that is unknown, has degraded images, or whose images have no classes."""
        entries = self.plan["datasets"]
        look_up(entries, dataset, "the run has no dataset")
        entry, problem = entries[dataset], None
        if harder_of(entry):
            problem = "its images are degraded, so errors of backbones say little about labels"
        elif not _has_classes(entry["task"]):
            problem = f"labels are judged if images have classes, and the task is {entry['task']}"
        if problem:
            names = ", ".join(self.datasets())
            raise PermafrostError(
                problem,
                where=dataset,
                remedy=f"name one of {names}" if names else "add a classification dataset",
            )

    def _predicted(self) -> list[dict]:
        """Planned predictions of backbones that read images."""
        others = reading_none(self.plan["backbones"])
        return [
            row
            for row in self.planned("probe")
            if row["backbone"] not in others and self.place(row).exists()
        ]


def reading_none(backbones: Mapping[str, Mapping]) -> set[str]:
    """Entries that read no images: they know the place alone, or are derived and would vote twice."""
    return {name for name, one in backbones.items() if one.get("kind") in KINDS_WITHOUT_IMAGES}


def _has_classes(task: str) -> bool:
    targets = targets_of(task)
    return targets.one_class or targets.several


def judge_tables(
    tables: Mapping[str, tuple[pa.Table, dict]],
    *,
    dataset: str,
    probe: str,
    seed: int,
    of_folds: bool,
) -> JudgedDataset:
    """Judge the labels of a test set.

    Parameters
    ----------
    tables : backbone -> table of predictions and its metadata, as `core.tables.read_table` returns them. Of
        repetitions of folds the first counts.

    Raises
    ------
    PermafrostError : backbones answer other images, or a table holds no probabilities.
    """
    answers, names, given, classes = {}, [], None, []
    for backbone, (table, metadata) in sorted(tables.items()):
        need_columns(table, ("sample_id", "target", "prediction", "scores"))
        every = table["sample_id"].to_pylist()
        first = [
            row
            for row, (name, image) in enumerate(zip(every, image_names(every), strict=True))
            if name == image
        ]
        order = np.array(sorted(first, key=lambda row: every[row]), np.int64)
        own = [every[row] for row in order]
        target = array_of(table, "target")[order]
        if given is None:
            names, given, classes = own, target, list(metadata["classes"])
        elif own != names or (target != given).any():
            raise PermafrostError(
                f"{backbone} answered other images, or images with other labels, than {min(tables)}",
                where=f"{dataset}, {probe}",
                remedy="run snakemake again",
            )
        answers[backbone] = (array_of(table, "prediction")[order], array_of(table, "scores")[order])
    try:
        judged = (judge_labels if given.ndim == 1 else judge_several)(given, answers)
    except PermafrostError as error:
        raise PermafrostError(
            f"no probabilities to judge labels by: {error.problem}",
            where=f"{dataset}, {probe}, {error.where}",
            remedy="name a probe that gives probabilities, such as linear or knn, or leave the backbone out",
        ) from error
    if given.ndim == 1:
        return JudgedDataset(dataset, probe, seed, names, classes, of_folds, judged)
    every, told = names * len(classes), ["absent", "present"]
    return JudgedDataset(dataset, probe, seed, every, told, of_folds, judged, classes)


def suspect_block(found: JudgedDataset, rows: list[dict]) -> Block:
    """The first suspects, of `JudgedDataset.images`."""
    suspects = [row for row in rows if row["suspect"]]
    of_label = ["label"] if found.labels else []
    header = ["sample", *of_label, "given", "proposed", "votes", "p(given)", "difficulty"]
    lines = [
        [
            row["sample_id"],
            *(row[key] for key in of_label),
            row["given"],
            row["proposed"],
            f"{row['votes']} of {row['backbones']}",
            number(row["given_probability"]),
            number(row["difficulty"], 1),
        ]
        for row in suspects[:_LISTED]
    ]
    head = f"{found.dataset} · {found.probe}: {counted_words(found)}"
    more = len(suspects) - len(lines)
    said = [f"{more} more: --output FILE.csv has all images"] if more > 0 else []
    said += suspect_words(found)
    right = frozenset({"votes", "p(given)", "difficulty"})
    foot = "\n".join(f"  {words}" for words in said)
    return (
        Block(head, [header, *lines] if lines else [], right, foot)
        if lines
        else Block(f"{head}\n{foot}", [])
    )


def backbone_block(found: JudgedDataset) -> Block:
    """Accuracy and rank of each backbone on all images, and without suspects."""
    header = [
        "backbone",
        "accuracy",
        "without suspects",
        "rank",
        "rank without",
        "labels contradicted",
    ]
    lines = [
        [
            row["backbone"],
            number(row["accuracy"]),
            number(row["accuracy_without"]),
            f"{row['rank']:g}",
            f"{row['rank_without']:g}",
            str(row["contradicted"]),
        ]
        for row in found.backbones()
    ]
    return Block(
        f"{found.dataset} · {found.probe} · without suspected labels",
        [header, *lines],
        frozenset(header[1:]),
    )


def counted_words(found: JudgedDataset) -> str:
    """How many labels are suspected, and by what rule."""
    about, count = found.summary(), len(found.judged.backbones)
    share = about["suspects"] / about["labels"]
    rule = f"more than half of {count} backbones" if count > 1 else "the only backbone"
    return f"{about['suspects']} of {about['labels']} labels suspected ({100 * share:.1f} %), by {rule}"


def suspect_words(found: JudgedDataset) -> list[str]:
    """What the judgement says and cannot say, in sentences without a capital or a full stop."""
    about, names = found.summary(), found.judged.backbones
    items, doubtful = (
        ("labels", "in doubt") if found.labels else ("images", "images of two classes")
    )
    said = []
    if not found.of_folds:
        said.append(
            "only test images are judged; a derived dataset with folds judges all images of a dataset"
        )
    found_share = f"{100 * about['found_if_wrong']:.0f} %"
    said.append(
        f"of labels that are wrong at random, about {found_share} would be suspected; suspects may also be"
        f" {doubtful}, and images that these backbones cannot classify"
    )
    if len(names) == 1:
        said.append("one backbone takes its own errors for wrong labels: run several")
        return said
    said.append(
        f"wrong for all {len(names)} backbones: {100 * about['all_wrong']:.1f} % of {items}, for all in the same way"
        f" {100 * about['same_wrong']:.1f} %; the best backbone for each {items[:-1]}: {number(about['best_choice'])}"
    )
    moved = [row["backbone"] for row in found.backbones() if row["rank"] != row["rank_without"]]
    said.append(
        f"ranks that change without suspects: {', '.join(moved)}"
        if moved
        else "no rank changes without suspects"
    )
    said[-1] += "; these scores are too high, and favour backbones that err like most others"
    first, second = about["decide_for_first"], about["decide_for_second"]
    said.append(
        f"{first + second} {items} decide between {names[0]} ({first}) and {names[1]} ({second});"
        f" {about['suspects_that_decide']} of them are suspects"
    )
    return said
