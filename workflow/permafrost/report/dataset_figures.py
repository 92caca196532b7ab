"""All figures of one dataset: which evaluations are drawn, and what is said under each picture."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from permafrost.core.stores import Store
from permafrost.core.tables import read_metadata, read_table
from permafrost.statistics.gates import chance_level

from . import pictures
from .figures import c_curve, confusion, dataset, dotplot, per_class, strip
from .figures.style import save_figure
from .rows import better_first, finite, metric_name, overall


@dataclass
class Material:
    """What a dataset's figures are drawn from.

    Attributes
    ----------
    name : of the dataset.
    card : its card.
    rows : its leaderboard rows.
    predictions : (backbone, seed, probe) -> path of a predictions table.
    images : path of the test image store, or None where it is not at hand.
    expect : path -> fingerprint that the file must carry.
    examples : how many test images to show; picture_seed : chooses them.
    """

    name: str
    card: dict
    rows: list[dict]
    predictions: Mapping[tuple[str, int, str], Path]
    images: Path | None
    expect: Mapping[str, str] = field(default_factory=dict)
    examples: int = 12
    picture_seed: int = 0


@dataclass(frozen=True)
class Drawn:
    """A figure on disk: its stem, what it shows in words, if it needs a line of its own, its width."""

    stem: Path
    alt: str
    caption: str
    wide: bool = False
    inches: float = 0.0


def draw_dataset(material: Material, folder: Path) -> tuple[list[Drawn], list[str]]:
    """Draw everything about a dataset into `folder`; return the figures and notes on what is missing."""
    best = best_evaluation(material)
    truth = None if best is None else _read(material, best)
    figures = [_dotplot(material, truth, folder)] if overall(material.rows) else []
    figures += _curves(material, folder)
    notes: list[str] = []
    if best is not None and truth is not None:
        picture, note = _strip(material, best, truth, folder)
        figures += [picture] if picture else []
        notes += [note] if note else []
        figures += _confusion(material, best, truth, folder)
        figures += _per_class(material, best, truth, folder)
    figures += [
        _save(dataset.draw_balance(material.card), folder, "balance", material.name,
              alt=f"Share of each class in the splits of {material.name}",
              caption="Classes: the share of each class in train, validation and test."),
        _save(dataset.draw_bands(material.card), folder, "bands", material.name,
              alt=f"Mean, standard deviation and range of each band of {material.name}",
              caption="Bands: statistics of the train split."),
    ]  # fmt: skip
    return figures, notes


def best_evaluation(material: Material) -> tuple[str, int, str] | None:
    """(backbone, seed, probe) of the best primary score that has predictions at hand."""
    known = [
        row
        for row in overall(material.rows)
        if finite(row["value"])
        and (row["backbone"], row["seed"], row["probe"]) in material.predictions
    ]
    if not known:
        return None
    row = min(known, key=lambda row: (*better_first(row), row["probe"], row["seed"]))
    return row["backbone"], row["seed"], row["probe"]


def slug(name: str) -> str:
    """`name` as a part of a file name: one that needed changes gets a hash, so that none collide."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")[:60]
    return safe if safe == name else f"{safe}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def _save(
    figure, folder: Path, kind: str, *names: str, alt: str, caption: str, wide=False
) -> Drawn:
    stem = folder / "__".join([kind, *map(slug, names)])
    save_figure(figure, stem)
    return Drawn(stem, alt, caption, wide, figure.get_figwidth())


def _read(material: Material, key: tuple[str, int, str]):
    path = material.predictions[key]
    table, metadata = read_table(path, expect=material.expect.get(str(path)))
    columns = {name: _array(table[name]) for name in ("target", "prediction")}
    return {**columns, "sample_id": table["sample_id"].to_pylist(), "metadata": metadata}


def _array(column) -> np.ndarray:
    column = column.combine_chunks()
    if hasattr(column.type, "list_size"):
        return column.flatten().to_numpy().reshape(-1, column.type.list_size)
    return column.to_numpy()


def _dotplot(material: Material, truth, folder: Path) -> Drawn:
    chance = None if truth is None else chance_level(truth["target"], material.card["task"])
    figure = dotplot.draw_dotplot(material.rows, dataset=material.name, chance=chance)
    metric = metric_name(overall(material.rows)[0]["metric"])
    return _save(figure, folder, "dotplot", material.name, wide=True,
                 alt=f"Dot plot of {metric} with intervals of every backbone on {material.name}",
                 caption=f"{metric.capitalize()} of every backbone with its interval, best on top.")  # fmt: skip


def _curves(material: Material, folder: Path) -> list[Drawn]:
    """A C curve per probe that chose C on validation, at its first seed."""
    found: dict[str, dict[str, dict]] = {}
    for backbone, seed, probe in sorted(material.predictions):
        if seed != min(s for _, s, p in material.predictions if p == probe):
            continue
        path = material.predictions[backbone, seed, probe]
        settings = read_metadata(path, expect=material.expect.get(str(path)))["settings"]
        if settings.get("c_grid") and settings.get("val_scores"):
            curve = {
                "c": settings["c_grid"],
                "score": settings["val_scores"],
                "best": settings["best_c"],
            }
            found.setdefault(probe, {})[backbone] = curve
    score = "micro-AP" if material.card["task"] == "multilabel" else "accuracy"
    return [
        _save(c_curve.draw_c_curve(curves, dataset=material.name, probe=probe, score=score), folder,
              "c_curve", material.name, probe, wide=True,
              alt=f"Validation {score} against C for every backbone on {material.name}",
              caption=f"How {probe} chose C: validation {score} for every C that was tried, "
              "the chosen one marked.")
        for probe, curves in sorted(found.items())
    ]  # fmt: skip


def _strip(material: Material, best, truth, folder: Path) -> tuple[Drawn | None, str | None]:
    if material.images is None or not Path(material.images).exists():
        return None, (
            f"No test images are shown: the image store of {material.name} is not here. An archive leaves "
            "stores out unless they are asked for; snakemake makes them again."
        )
    store = Store(material.images, expect=material.expect.get(str(material.images)))
    places = {
        name: i for i, name in enumerate(store.samples(["sample_id"])["sample_id"].to_pylist())
    }
    correct = truth["target"] == truth["prediction"]
    correct = correct.all(axis=1) if correct.ndim == 2 else correct
    right, wrong = strip.choose_samples(
        correct,
        count=material.examples // 2,
        identity=(material.name, *best),
        seed=material.picture_seed,
    )
    bands, how = pictures.picture_bands(material.card)
    at = {index: places[truth["sample_id"][index]] for index in right + wrong}
    shown = pictures.read_pictures(store, list(at.values()), bands)
    figure = strip.draw_strip(
        lambda index: shown[at[index]], right, wrong, _words(material.card["classes"], truth),
        title=f"{material.name}: {best[0]}, {best[2]}", bands=how,
    )  # fmt: skip
    return _save(figure, folder, "strip", material.name, wide=True,
                 alt=f"Test images of {material.name} that {best[0]} got right and wrong",
                 caption=f"Test images drawn at random: right above, wrong below, by {best[0]} with "
                 f"{best[2]}, the best evaluation here."), None  # fmt: skip


def _words(classes: list[str], truth):
    def names(labels) -> str:
        if np.ndim(labels) == 0:
            return classes[int(labels)]
        return ", ".join(classes[i] for i in np.flatnonzero(labels)) or "nothing"

    def words(index: int) -> str:
        true, said = names(truth["target"][index]), names(truth["prediction"][index])
        return true if true == said else f"is {true}\nsaid {said}"

    return words


def _confusion(material: Material, best, truth, folder: Path) -> list[Drawn]:
    if material.card["task"] != "classification":
        return []
    classes = material.card["classes"]
    counts = confusion.confusion_counts(truth["target"], truth["prediction"], len(classes))
    title = f"{material.name}: {best[0]}, {best[2]}"
    return [
        _save(confusion.draw_confusion(counts, classes, title=title), folder, "confusion", material.name,
              alt=f"Confusion matrix of {best[0]} with {best[2]} on {material.name}",
              caption="Confusion matrix of the best evaluation: colours are shares of the true class, "
              "numbers are counts.")
    ]  # fmt: skip


def _per_class(material: Material, best, truth, folder: Path) -> list[Drawn]:
    backbone, seed, probe = best
    metric = "average_precision" if material.card["task"] == "multilabel" else "recall"
    rows = [
        row
        for row in material.rows
        if row["metric"] == metric
        and row["class"] is not None
        and (row["backbone"], row["seed"], row["probe"]) == (backbone, seed, probe)
    ]
    if not rows:
        return []
    target = truth["target"]
    counts = (
        target.sum(axis=0)
        if target.ndim == 2
        else np.bincount(target, minlength=len(material.card["classes"]))
    )
    support = {
        name: int(count) for name, count in zip(material.card["classes"], counts, strict=True)
    }
    title = f"{material.name}: {backbone}, {probe}"
    return [
        _save(per_class.draw_per_class(rows, title=title, support=support), folder, "per_class", material.name,
              alt=f"{metric_name(metric)} of every class, {backbone} with {probe} on {material.name}",
              caption=f"{metric_name(metric).capitalize()} of every class (number of test samples), "
              "best evaluation.")
    ]  # fmt: skip
