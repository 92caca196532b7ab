"""What is drawn for an augmented view of an image: a window, a turn, flips, a gain and an offset.

A draw depends on the dataset, the sample, the number of the view and the seed, and on nothing else:
all backbones see the same augmented images, however they are batched, and more views are further views.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from permafrost.core.errors import PermafrostError
from permafrost.core.identity import derive_seed

#: how much wider or higher than the image, in proportion, a window may be
ASPECT = (3 / 4, 4 / 3)


@dataclass(frozen=True)
class View:
    """How a view is made of an image, in this order.

    Attributes
    ----------
    top, left, height, width : the window, in whole pixels, that is enlarged to the size of the image.
    turns : quarter turns, counterclockwise; two or none where the image is not square.
    upside_down, mirrored : flips of rows and of columns.
    gain : factor of a value's distance from its band's mean.
    offset : what is added, in standard deviations of the band.
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
    """View number `view` of a sample whose image has the `size` (height, width).

    Parameters
    ----------
    options : ``crop_scale``: least and largest share of the image's area in the window, drawn evenly,
        its proportions relative to the image's drawn evenly in their logarithm from those of `ASPECT`
        at which it fits; ``flips`` and ``rotations``: all equally likely; ``photometric``: ``gain`` g
        and ``offset`` o, drawn evenly from [1 - g, 1 + g] and [-o, o], or None; ``seed``.
    """
    drawn = random.Random(derive_seed("view", dataset, sample_id, view, options["seed"]))
    # as many numbers whatever is switched on, so that a switch changes nothing else
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
    """Height and width; `area` and `shape` in [0, 1) say where between their limits."""
    low, high = scale
    share = min(high, low + area * (high - low))
    flattest, widest = (
        math.log(limit) for limit in (max(ASPECT[0], share), min(ASPECT[1], 1.0 / share))
    )
    stretch = math.exp(0.5 * (flattest + shape * (widest - flattest)))
    root = math.sqrt(share)
    return tuple(
        min(side, max(1, round(side * part)))
        for side, part in zip(size, (root / stretch, root * stretch), strict=True)
    )


def check_augmentations(options: dict, *, where: object) -> None:
    """Refuse options that no view can be drawn from; NaN is none of the numbers asked for."""
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
