"""Colours of the classes of a mask: fixed by the dataset, distinct with any colour vision."""

from __future__ import annotations

import re

import numpy as np

# The first seven are from Okabe and Ito (2008). Each further colour maximises the smallest CIELAB
# distance to all previous ones and to the greys below, over common, protanopic and deuteranopic
# vision (as simulated by Machado et al., 2009): no two are closer than the closest two of Okabe
# and Ito's.
CLASS_COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#0000FF",
    "#0F0F96", "#B4F096", "#6969FF", "#871E00", "#4B0F5A", "#5AB45A", "#6996FF", "#784B78",
    "#5A5A3C", "#2D2DD2", "#2D4BB4", "#87E1FF", "#78D296", "#D2E169", "#5A0F0F", "#B45A2D",
)  # fmt: skip
IGNORED = ("#c4c4c4", "#9a9a9a")  # the two greys of the hatching
CORRECT = "#3d3d3d"
BLANK = "#ffffff"

# conventional colours; a class with such a name gets the colour first
_EXPECTED = (
    ("#0072B2", r"water|sea|ocean|lakes?|rivers?|ponds?"),
    ("#009E73", r"vegetation|forests?|trees?|woods?|woodland|plants?"),
    ("#D55E00", r"buildings?|built|urban|houses?|roofs?|settlements?"),
    ("#F0E442", r"land|bare|soil|sand|desert|barren"),
    ("#CC79A7", r"roads?|streets?|paved"),
)


def class_colours(classes: list[str]) -> list[str]:
    """A colour for each class, in the classes' order; the same list always gives the same colours.

    With more than 24 classes, colours repeat from the start: see `shared_colours`.
    """
    free = list(CLASS_COLOURS)
    colours: dict[int, str] = {}
    for colour, words in _EXPECTED:
        named = re.compile(rf"(?<![a-z])({words})(?![a-z])")
        fitting = [i for i, name in enumerate(classes) if named.search(name.lower())]
        claim = next((i for i in fitting if i not in colours), None)
        if claim is not None:
            colours[claim] = colour
            free.remove(colour)
    rest = [i for i in range(len(classes)) if i not in colours]
    for place, index in enumerate(rest):
        colours[index] = (
            free[place] if place < len(free) else CLASS_COLOURS[place % len(CLASS_COLOURS)]
        )
    return [colours[index] for index in range(len(classes))]


def shared_colours(classes: list[str]) -> bool:
    """Whether there are more classes than colours, so that some share a colour."""
    return len(classes) > len(CLASS_COLOURS)


def paint_mask(mask: np.ndarray, colours: list[str]) -> np.ndarray:
    """(H, W) class ids to (H, W, 3) in [0, 1]; pixels without a class are hatched in grey."""
    picture = hatching(mask.shape)
    known = (mask >= 0) & (mask < len(colours))
    picture[known] = _rgb(colours)[mask[known].astype(np.int64)]
    return picture


def paint_errors(truth: np.ndarray, prediction: np.ndarray, colours: list[str]) -> np.ndarray:
    """(H, W, 3) picture of errors: wrong pixels in the colour of the predicted class, right ones
    dark, pixels without a true class blank.
    """
    known = (truth >= 0) & (truth < len(colours))
    right = _rgb([CORRECT])[0]
    picture = np.where((truth == prediction)[..., None], right, paint_mask(prediction, colours))
    picture[~known] = _rgb([BLANK])[0]
    return picture


def hatching(shape: tuple[int, int]) -> np.ndarray:
    """(H, W, 3) diagonal stripes in two greys, wide enough to be visible at the picture's size."""
    width = max(2, max(shape) // 32)
    y, x = np.indices(shape)
    return _rgb(IGNORED)[(x + y) // width % 2]


def _rgb(colours) -> np.ndarray:
    """(n, 3) in [0, 1] of hexadecimal colours."""
    return np.array([[int(c[i : i + 2], 16) / 255 for i in (1, 3, 5)] for c in colours])
