"""Predicted and true crowns drawn over their image: what was found, missed and invented."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from permafrost.report.figures.objects import (
    ALARM,
    FOUND,
    HIT,
    MISSED,
    draw_shapes,
    legend_line,
    on_dark_paper,
)
from permafrost.report.figures.style import drawing, plain, put_note, save_figure, shorten

COLOURS = {
    "found crown": FOUND,
    "its prediction": HIT,
    "missed crown": MISSED,
    "false alarm": ALARM,
}
# of a file, in characters; file systems end at 255 bytes
_LONGEST_NAME = 60
LONGEST = 1600  # pixels of a picture; larger images are thinned out on reading


def write_overlays(evaluation, images: Path, folder: Path, *, limit: int) -> tuple[list[Path], int]:
    """Draw the images of an evaluation of crowns.

    Parameters
    ----------
    evaluation : `evaluators.crowns.result.CrownEvaluation`.
    images : folder that image paths are relative to.
    folder : where to write ``{image}.png``.
    limit : draw at most so many, those with the most mistakes.

    Returns
    -------
    The files, and the number of images that were not drawn.
    """
    from permafrost.evaluators.crowns.rasters import image_file, read_small

    counts = evaluation.image_counts
    mistakes = counts["truths"] + counts["predictions"] - 2 * counts["matches"]
    chosen = np.sort(np.argsort(-mistakes, kind="stable")[:limit])
    names = _file_names(evaluation.images)
    paths = []
    folder.mkdir(parents=True, exist_ok=True)
    for index in chosen.tolist():
        pixels, step = read_small(image_file(images, evaluation.images[index]), LONGEST)
        figure = draw_overlay(evaluation, index, pixels, step)
        paths.append(save_figure(figure, folder / names[index], "png"))
    return paths, len(evaluation.images) - len(paths)


def draw_overlay(evaluation, index: int, pixels: np.ndarray, step: float = 1.0):
    """One image of an evaluation, with its crowns.

    Parameters
    ----------
    index : of the image in ``evaluation.images``.
    pixels : (bands, height, width), thinned out by `step`.
    """
    name = evaluation.images[index]
    shapes = _shapes_of(evaluation, name)
    height, width = (side * step for side in pixels.shape[1:])
    with drawing() as Figure:
        side = 7.0
        figure = Figure(figsize=(side, max(2.0, side * height / width) + 0.6))
        axes = figure.add_subplot()
        axes.imshow(_picture(pixels), extent=(0, width, height, 0), cmap="gray", vmin=0, vmax=1)
        for label, found in shapes.items():
            dashed = label == "its prediction"
            draw_shapes(axes, evaluation.kind, found, COLOURS[label], dashed=dashed)
        axes.set(xlim=(0, width), ylim=(height, 0))
        axes.set_axis_off()
        axes.set_title(plain(shorten(name, 70)))
        lines = [
            legend_line(
                evaluation.kind,
                COLOURS[label],
                f"{label} ({len(found)})",
                dashed=label == "its prediction",
            )
            for label, found in shapes.items()
        ]
        legend = axes.legend(
            handles=lines, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=4, frameon=True
        )
        on_dark_paper(legend)
        put_note(figure, _caption(evaluation, index))
    return figure


def _shapes_of(evaluation, name: str) -> dict[str, np.ndarray]:
    truth, predictions = evaluation.truth, evaluation.predictions
    own, found = truth.by_image((name,))[0], predictions.by_image((name,))[0]
    match, hit = evaluation.match[own], evaluation.hit[found]
    groups = {
        "found crown": truth.shape[own[match]],
        "its prediction": predictions.shape[found[hit]],
        "missed crown": truth.shape[own[~match]],
        "false alarm": predictions.shape[found[~hit]],
    }
    return groups


def _caption(evaluation, index: int) -> str:
    counts = {name: int(values[index]) for name, values in evaluation.image_counts.items()}
    sign = "distance <" if evaluation.kind == "point" else "IoU >"
    return (
        f"{counts['matches']} of {counts['truths']} crowns found by {counts['predictions']}"
        f" predictions ({sign} {evaluation.threshold:g}, matched by {evaluation.matching})"
    )


def _picture(pixels: np.ndarray) -> np.ndarray:
    """(bands, h, w) to (h, w, 3) or (h, w) in [0, 1]; bytes as they are, others stretched."""
    bands = pixels[:3] if len(pixels) >= 3 else pixels[:1]
    if bands.dtype == np.uint8:
        shown = bands.astype(np.float32) / 255
        return shown[0] if len(shown) == 1 else np.moveaxis(shown, 0, -1)
    from permafrost.report.material.pictures import stretch_limits, to_picture

    return to_picture(bands, stretch_limits([bands]))


def _file_names(images: tuple[str, ...]) -> list[str]:
    """A file name without folders for each image, all different."""
    names: list[str] = []
    for image in images:
        name = stem = (
            Path(image).with_suffix("").as_posix().strip("/").replace("/", "_")[:_LONGEST_NAME]
        )
        number = 2
        while name in names:
            name, number = f"{stem}_{number}", number + 1
        names.append(name)
    return names
