"""Draw matched, missed and false crowns over their images, which are read by window."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.core.extras import need
from permafrost.core.inputs import check_folder
from permafrost.data.files.opening import UnreadableImage
from permafrost.evaluators.raster.files import opened
from permafrost.report.figures.objects import (
    ALARM,
    FOUND,
    HIT,
    MISSED,
    draw_shapes,
    legend_line,
    on_dark_paper,
)
from permafrost.report.figures.sheet import Panel
from permafrost.report.figures.style import drawing, plain, put_note, save_figure, shorten
from permafrost.report.material.pictures import stretch_limits, to_picture


def image_size(path) -> tuple[int, int]:
    """Width and height in pixels, from the file's header."""
    with opened(path) as dataset:
        return dataset.width, dataset.height


def image_sizes(folder, names: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Width and height of the images `names` in `folder`.

    Raises
    ------
    PermafrostError : an image is missing; the message names it.
    """
    sizes = {}
    for name in names:
        sizes[name] = image_size(image_file(folder, name))
    return sizes


def image_file(folder, name: str, *, option: str = "--images", column: str = "image_path") -> Path:
    """The file of the image `name` in `folder`; `option` names the folder, `column` the image.

    Raises
    ------
    PermafrostError : the file does not exist or is outside the folder. The second check keeps a
        table from another source from choosing which files are read.
    """
    path = Path(folder) / name
    if not Path(os.path.abspath(path)).is_relative_to(os.path.abspath(folder)):
        raise PermafrostError(
            f"the {column} {name!r} leads out of the folder {folder}",
            where=option,
            remedy="give the folder that holds all images",
        )
    check_folder(folder)
    try:
        known = path.is_file()
    except OSError:  # the name is too long for the file system
        known = False
    if not known:
        raise PermafrostError(
            "the image does not exist",
            where=path,
            remedy=f"name the folder that {column} is relative to with {option}",
        )
    return path


def read_small(path, longest: int) -> tuple[np.ndarray, float]:
    """The whole image (bands, height, width), subsampled to at most `longest` pixels per side.

    Returns
    -------
    The pixels, and the number of file pixels per returned pixel along a side.
    """
    with opened(path) as dataset:
        step = max(1.0, max(dataset.width, dataset.height) / longest)
        shape = (dataset.count, round(dataset.height / step), round(dataset.width / step))
        try:
            return dataset.read(out_shape=tuple(max(1, side) for side in shape)), step
        except UnreadableImage as error:
            raise PermafrostError(str(error), where=path, remedy=error.remedy) from error


COLOURS = {
    "found crown": FOUND,
    "its prediction": HIT,
    "missed crown": MISSED,
    "false alarm": ALARM,
}
# characters of a file name; file systems allow 255 bytes
_LONGEST_NAME = 60
LONGEST = 1600  # pixels per side of a picture; larger images are subsampled on reading


def write_overlays(evaluation, images: Path, folder: Path, *, limit: int) -> tuple[list[Path], int]:
    """Draw the images of an evaluation of crowns.

    Parameters
    ----------
    evaluation : `evaluators.crowns.result.CrownEvaluation`.
    images : folder that image paths are relative to.
    folder : output folder for ``{image}.png``.
    limit : largest number of images to draw; those with the most errors come first.

    Returns
    -------
    The files, and the number of images that were not drawn.

    Raises
    ------
    PermafrostError : matplotlib or rasterio is not installed.
    """
    need("matplotlib", "rasterio")
    counts = evaluation.image_counts
    mistakes = counts["truths"] + counts["predictions"] - 2 * counts["matches"]
    chosen = np.sort(np.argsort(-mistakes, kind="stable")[:limit])
    names = _file_names(evaluation.images)
    paths = []
    folder.mkdir(parents=True, exist_ok=True)
    for index in chosen.tolist():
        pixels, step = read_small(image_file(images, evaluation.images[index]), LONGEST)
        figure = draw_overlay(evaluation, index, pixels, step)
        paths.append(save_figure(figure, folder / names[index]))
    return paths, len(evaluation.images) - len(paths)


def draw_overlay(evaluation, index: int, pixels: np.ndarray, step: float = 1.0):
    """Draw one image of an evaluation with its crowns.

    Parameters
    ----------
    index : position of the image in ``evaluation.images``.
    pixels : (bands, height, width), subsampled by `step`.
    """
    name = evaluation.images[index]
    shapes = _shapes_of(evaluation, name)
    height, width = (side * step for side in pixels.shape[1:])
    with drawing() as Figure:
        side = 7.0
        figure = Figure(figsize=(side, max(2.0, side * height / width) + 0.6))
        axes = figure.add_subplot()
        axes.imshow(as_picture(pixels), extent=(0, width, height, 0), cmap="gray", vmin=0, vmax=1)
        for label, found in shapes.items():
            dashed = label == "its prediction"
            draw_shapes(Panel(axes), evaluation.kind, found, COLOURS[label], dashed=dashed)
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


def as_picture(pixels: np.ndarray) -> np.ndarray:
    """(bands, h, w) to (h, w, 3) or (h, w) in [0, 1]; types other than uint8 are stretched."""
    bands = pixels[:3] if len(pixels) >= 3 else pixels[:1]
    if bands.dtype == np.uint8:
        shown = bands.astype(np.float32) / 255
        return shown[0] if len(shown) == 1 else np.moveaxis(shown, 0, -1)

    return to_picture(bands, stretch_limits([bands]))


def _file_names(images: tuple[str, ...]) -> list[str]:
    """A distinct file name without folders for each image."""
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
