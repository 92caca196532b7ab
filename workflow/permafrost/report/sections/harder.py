"""The page's section on harder images: what each backbone loses, and how the images look."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from permafrost.core.store_readers import is_here, open_store
from permafrost.data.derived import OTHER_BANDS
from permafrost.report.figures.examples import ACROSS, draw_examples
from permafrost.report.figures.loss_curves import draw_loss_curves
from permafrost.report.material.dataset import Drawn, Material, save
from permafrost.report.material.pictures import picture_bands, read_alike
from permafrost.report.notation import NONE, interval, number
from permafrost.report.tables.harder import UNCHANGED_WORDS, percent
from permafrost.statistics.leaderboard.harder import Loss
from permafrost.statistics.leaderboard.rows import finite, metric_name


def harder_section(
    losses: list[Loss], material: Material, images: Mapping[tuple[str, str], Path], folder: Path
) -> tuple[list[dict], list[Drawn]]:
    """Template values of the losses on one dataset, and figures: a sheet of pictures, and curves per probe.

    Parameters
    ----------
    losses : of the dataset. images : (dataset, split) -> image store. folder : for the figures.
    """
    if not losses:
        return [], []
    figures = _pictures(losses, material, images, folder)
    for probe in dict.fromkeys(one.probe for one in losses):
        own = [one for one in losses if one.probe == probe]
        panels: dict[str, dict[str, list[dict]]] = {}
        # the best ones first, which are drawn if there are too many
        for one in sorted(own, key=lambda one: (-one.clean, one.backbone)):
            if finite(one.loss):
                curves = panels.setdefault(one.degradation, {})
                curves.setdefault(one.backbone, []).append(asdict(one))
        if not panels:
            continue
        metric = metric_name(own[0].metric)
        figures.append(
            save(
                draw_loss_curves(
                    panels, title=f"{material.name}: {probe}", up=f"relative loss of {metric}"
                ),
                folder,
                "harder",
                material.name,
                probe,
                wide=True,
                alt=f"Relative loss of {metric} against severity with {probe} on {material.name}",
                caption=f"{probe}: relative loss of {metric} on degraded test images, by severity.",
            )
        )
    return [_values(one) for one in losses], figures


def _pictures(
    losses: list[Loss], material: Material, images: Mapping[tuple[str, str], Path], folder: Path
) -> list[Drawn]:
    """A test image as it is and at each severity, a line per degradation; none if stores were deleted."""
    names: dict[str, dict[int, str]] = {}
    for one in losses:
        if one.degradation == OTHER_BANDS:
            continue
        names.setdefault(one.degradation, {})[one.severity] = one.dataset
    wanted = [images.get((name, "test")) for own in names.values() for name in own.values()]
    if not names or material.without_images or not all(path and is_here(path) for path in wanted):
        return []
    bands, shown = picture_bands(material.card, "the clean image")
    clean = open_store(material.images)
    lines = []
    for degradation, own in names.items():
        stores = [clean, *(open_store(images[name, "test"]) for name in own.values())][:ACROSS]
        called = ["clean", *(f"severity {severity}" for severity in own)]
        # an image in the middle: the first ones may be of one class
        pictures = read_alike(stores, len(clean) // 2, bands)
        lines.append((degradation.replace("_", " "), list(zip(called, pictures, strict=False))))
    return [
        save(
            draw_examples(lines, title=f"{material.name}: harder images", note=shown),
            folder,
            "harder-pictures",
            material.name,
            wide=True,
            pixels=True,
            alt=f"A test image of {material.name} under each degradation",
            caption="One test image as it is, and as it was given to the backbones.",
        )
    ]


def _values(one: Loss) -> dict:
    return {
        **asdict(one),
        "degradation": one.degradation.replace("_", " "),
        "clean_score": number(one.clean),
        "score": number(one.value),
        "share": _share(one),
        "interval": interval(one.lower, one.upper, percent),
    }


def _share(one: Loss) -> str:
    if one.unchanged:
        return UNCHANGED_WORDS
    return f"{percent(one.loss)} %" if finite(one.loss) else NONE
