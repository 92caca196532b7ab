"""Suspected wrong labels on a dataset's page: pictures by class, and the words of ``permafrost labels``."""

from __future__ import annotations

from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.store_readers import open_store
from permafrost.core.tables import read_table
from permafrost.core.tasks import targets_of
from permafrost.report.figures import strip
from permafrost.report.material import pictures
from permafrost.report.material.dataset import Drawn, Evaluation, Material, best_evaluation, save
from permafrost.report.tables.suspected import (
    JudgedDataset,
    counted_words,
    judge_tables,
    suspect_words,
)

# fewer backbones take their own errors for wrong labels
_LEAST = 3
# probabilities of more images, classes and backbones take seconds: the command has them
_MOST = 5_000_000
_CLASSES = 12  # lines of pictures


def draw_suspected(material: Material, folder: Path) -> tuple[list[Drawn], list[str]]:
    """Pictures and sentences, by the probe of the best evaluation; nothing if labels cannot be judged."""
    found = _judged(material)
    if found is None:
        return [], []
    said = [f"{words[0].upper()}{words[1:]}." for words in suspect_words(found)]
    said.insert(0, f"{counted_words(found)} with {found.probe}.")
    if material.without_images is not None or not found.judged.suspects.any():
        return [], said
    return [_pictures(material, found, folder)], said


def _judged(material: Material) -> JudgedDataset | None:
    best, card = best_evaluation(material), material.card
    of_harder = "harder" in (card.derived or {})
    targets = targets_of(card.task)
    if best is None or of_harder or not (targets.one_class or targets.several):
        return None
    judges = _judges(material, best)
    images = sum(split["count"] for split in card.splits.values())
    if len(judges) < _LEAST or images * len(card.classes) * len(judges) > _MOST:
        return None
    paths = {key[0]: material.predictions[key] for key in judges}
    tables = {
        name: read_table(path, expect=material.expected(path)) for name, path in paths.items()
    }
    of_folds = "folds" in (card.derived or {})
    try:
        return judge_tables(
            tables, dataset=material.name, probe=best[2], seed=best[1], of_folds=of_folds
        )
    except PermafrostError:  # no probabilities, which the command says
        return None


def _judges(material: Material, best: Evaluation) -> list[Evaluation]:
    """The evaluations by the probe and seed of the best one, of backbones that are ranked and read images."""
    ranked = {row["backbone"] for row in material.rows} - {*material.reading_none}
    return sorted(key for key in material.predictions if key[1:] == best[1:] and key[0] in ranked)


def _pictures(material: Material, found: JudgedDataset, folder: Path) -> Drawn:
    store = open_store(material.images, expect=material.expected(material.images), split="test")
    judged, classes = found.judged, found.classes
    lines: dict[str, list[int]] = {}
    for row in judged.order.tolist():
        lines.setdefault(found.label_of(row) or classes[judged.given[row]], []).append(row)
    most = sorted(lines, key=lambda name: -len(lines[name]))[:_CLASSES]
    lines = {name: lines[name] for name in found.labels or classes if name in most}
    places = pictures.places_of(store)
    shown = {row: places[found.sample_ids[row]] for each in lines.values() for row in each[:8]}
    bands, how = pictures.picture_bands(material.card)
    read = pictures.read_pictures(store, [*shown.values()], bands)
    count = len(judged.backbones)
    figure = strip.draw_suspects(
        lambda row: read[shown[row]],
        lines,
        lambda row: f"{classes[judged.proposed[row]]}?\n{judged.votes[row]} of {count}",
        title=f"{material.name}: suspected labels by given class",
        bands=how,
    )
    return save(
        figure,
        folder,
        "suspects",
        material.name,
        wide=True,
        pixels=True,
        alt=f"Images of {material.name} whose labels are suspected, by given class",
        caption="Suspected labels: a line for each class; below each image what the backbones propose"
        " and how many of them do, most votes first.",
    )
