"""Random parameters of an augmented view: crop, rotation, flips, gain and offset.

They depend only on the dataset, the sample, the number of the view and the seed. So all backbones
get the same augmented images in any batches, and raising the number of views keeps the earlier
ones.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import cast

from permafrost.core.errors import PermafrostError
from permafrost.core.identity import derive_seed

#: limits of the crop's aspect ratio, relative to that of the image
ASPECT = (3 / 4, 4 / 3)


@dataclass(frozen=True)
class View:
    """Parameters of an augmented view, applied in this order.

    Attributes
    ----------
    top, left, height, width : crop in pixels, which is resized to the size of the image.
    turns : quarter turns, counterclockwise; 0 or 2 if the image is not square.
    upside_down, mirrored : flips of rows and of columns.
    gain : factor for the deviation from the band's mean.
    offset : added value, in standard deviations of the band.
    """

    top: int
    left: int
    height: int
    width: int
    turns: int = 0
    upside_down: bool = False
    mirrored: bool = False
    gain: float = 1.0
    offset: float = 0.0


def draw_view(
    options: dict, size: tuple[int, int], *, dataset: str, sample_id: str, view: int
) -> View:
    """Draw view number `view` of a sample.

    Parameters
    ----------
    options : ``crop_scale``: [least, largest] share of the image's area in the crop, uniform, with
        a log-uniform aspect ratio within `ASPECT` as far as the crop fits; ``flips``,
        ``rotations``: whether to draw them, all equally likely; ``photometric``: None, or ``gain``
        g and ``offset`` o for uniform draws from [1 - g, 1 + g] and [-o, o]; ``seed``.
    size : (height, width) of the image in pixels.
    """
    drawn = random.Random(derive_seed("view", dataset, sample_id, view, options["seed"]))
    # always draws the same random numbers, so that one option does not change the others
    area, shape, down, across, turn, upside, mirror, gain, offset = (
        drawn.random() for _ in range(9)
    )
    height, width = _window(options["crop_scale"], size, area, shape)
    turns = int(4 * turn) if options["rotations"] else 0
    photometric = options["photometric"] or {"gain": 0.0, "offset": 0.0}
    return View(
        top=int(down * (size[0] - height + 1)),
        left=int(across * (size[1] - width + 1)),
        height=height,
        width=width,
        turns=turns if size[0] == size[1] else turns // 2 * 2,
        upside_down=options["flips"] and upside < 0.5,
        mirrored=options["flips"] and mirror < 0.5,
        gain=1.0 + photometric["gain"] * (2.0 * gain - 1.0),
        offset=photometric["offset"] * (2.0 * offset - 1.0),
    )


def _window(scale, size: tuple[int, int], area: float, shape: float) -> tuple[int, int]:
    """(height, width) of a crop; `area` and `shape` in [0, 1) are the uniform draws."""
    low, high = scale
    share = min(high, low + area * (high - low))
    flattest, widest = (
        math.log(limit) for limit in (max(ASPECT[0], share), min(ASPECT[1], 1.0 / share))
    )
    stretch = math.exp(0.5 * (flattest + shape * (widest - flattest)))
    root = math.sqrt(share)
    return cast(
        tuple[int, int],
        tuple(
            min(side, max(1, round(side * part)))
            for side, part in zip(size, (root / stretch, root * stretch), strict=True)
        ),
    )


def check_augmentations(options: dict, *, where: object) -> None:
    """Raise `PermafrostError` if options are out of range (or NaN); names `where`."""
    low, high = options["crop_scale"]
    photometric = options["photometric"] or {"gain": 0.0, "offset": 0.0}
    wrong = {
        f"views: {options['views']}": not options["views"] >= 2,
        f"images: {options['images']}": not options["images"] >= 2,
        f"crop_scale: [{low}, {high}]": not 0.0 < low <= high <= 1.0,
        f"photometric.gain: {photometric['gain']}": not 0.0 <= photometric["gain"] < 1.0,
        f"photometric.offset: {photometric['offset']}": not 0.0 <= photometric["offset"] < math.inf,
    }
    found = [name for name, is_wrong in wrong.items() if is_wrong]
    if found:
        raise PermafrostError(
            f"no views can be generated with {', '.join(found)}",
            where=where,
            remedy="give two views and images or more, a crop_scale of [least, largest] share of the area"
            " between 0 and 1, a gain from 0 to below 1, and an offset of 0 or more",
        )
