"""Pictures of the test images that every backbone gets wrong, for any task."""

from __future__ import annotations

from pathlib import Path

from permafrost.core.store_readers import open_store
from permafrost.core.tables import read_table
from permafrost.core.tasks import targets_of
from permafrost.report.figures import strip
from permafrost.report.figures.detections import LONGEST
from permafrost.report.material import pictures
from permafrost.report.material.dataset import Drawn, Evaluation, Material, best_of_each, save
from permafrost.report.material.hardest import Hardest, error_of, hardest_images
from permafrost.report.notation import class_words
from permafrost.statistics.predictions.columns import array_of

_MOST = 8  # pictures


def draw_hardest(material: Material, folder: Path) -> tuple[list[Drawn], list[str]]:
    """The images with the largest smallest error over all backbones; nothing for a single backbone.

    If images cannot be shown, a sentence gives the number of images wrong for all and names the
    first.
    """
    best = best_of_each(material)
    if len(best) < 2 or error_of(material) is None:
        return [], []
    found = hardest_images(material, best)
    if not found.sample_ids:
        return [], ["Every test image is answered without an error by some backbone."]
    error = error_of(material)
    said = _counted(material, found, len(best), error.by)
    if material.without_images is not None:
        return [], [said]
    shown = found.sample_ids[:_MOST]
    images, how = _pictures(material, shown)
    truth = _true_words(material, best[0])
    figure = strip.draw_hardest(
        lambda place: images[shown[place]],
        list(range(len(shown))),
        lambda place: f"{truth.get(shown[place], '')}{error.least(found.least[place])}",
        title=f"{material.name}: what no backbone gets",
        bands=how,
    )
    return [
        save(
            figure,
            folder,
            "hardest",
            material.name,
            wide=True,
            pixels=True,
            alt=f"The test images of {material.name} that are hardest for all {len(best)} backbones",
            caption=said,
        )
    ], []


def _counted(material: Material, found: Hardest, backbones: int, by: str) -> str:
    """How many images every backbone gets wrong, and the names of the hardest."""
    names = ", ".join(found.sample_ids[:_MOST])
    many = f"{len(found.sample_ids)} of {found.count} test images"
    if targets_of(material.card.task).one_class:
        head = f"Hardest test images: {many} are wrong for all {backbones} backbones."
    else:
        head = (
            f"Hardest test images: those on which the closest of {backbones} backbones is farthest off, {by}. "
            f"On {many} each of them has an error."
        )
    return (
        f"{head} The best evaluation of each backbone counts. Look here for wrong labels and for what no backbone "
        f"can see. Hardest first: {names}."
    )


def _pictures(material: Material, names: list[str]) -> tuple[dict, str]:
    """Sample id -> picture, and how it was made."""
    store = open_store(material.images, expect=material.expected(material.images), split="test")
    bands, how = pictures.picture_bands(material.card)
    targets = targets_of(material.card.task)
    if targets.objects:
        wholes = pictures.read_wholes(store, names, bands, LONGEST)
        return {name: picture for name, (picture, _) in wholes.items()}, how
    places = pictures.places_of(store)
    at = [places[name] for name in names]
    if targets.of_pairs:
        pairs = pictures.read_pairs(store, at, bands)
        return {name: pairs[place][1] for name, place in zip(names, at, strict=True)}, how
    read = pictures.read_pictures(store, at, bands)
    return {name: read[place] for name, place in zip(names, at, strict=True)}, how


def _true_words(material: Material, best: Evaluation) -> dict[str, str]:
    """Sample id -> true classes or number, as lines; empty for masks and objects."""
    card, path = material.card, material.predictions[best]
    targets = targets_of(card.task)
    if targets.stored is None:
        return {}
    wanted = ["sample_id", "target", "prediction"]
    table, _ = read_table(path, expect=material.expected(path), columns=wanted)
    rows = zip(
        table["sample_id"].to_pylist(), *(array_of(table, name) for name in wanted[1:]), strict=True
    )
    if targets.numbers:
        return {name: f"is {true:.3g}\n" for name, true, _ in rows}
    lines = {}
    for name, true, answer in rows:
        said = f"best says {class_words(card.classes, answer)}" if targets.one_class else ""
        lines[name] = f"is {class_words(card.classes, true)}\n{said}"
    return lines
