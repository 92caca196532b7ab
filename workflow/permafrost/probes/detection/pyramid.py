"""The levels on which a detection head predicts, and their cells; no torch.

Maps of one size form one level. Levels are enlarged in steps of two up to the finest stride, as in
the simple pyramid of ViTDet (Li et al. 2022), which makes its levels from the one map of a transformer.
Finer maps are pooled.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from permafrost.probes.dense.map_splits import Layer

# a level of stride s is for boxes that extend more than 4 s, up to 8 s, from the cell (FCOS)
REACH = 8


@dataclass(frozen=True)
class Level:
    """One map of cells.

    ``size`` (height, width); ``stride`` (x, y) in working pixels; ``maps``: the layers that are summed
    on this level, none for a level that is only enlarged from the one before.
    """

    size: tuple[int, int]
    stride: tuple[float, float]
    maps: tuple[int, ...]

    @property
    def step(self) -> float:
        """One number for both strides, in working pixels."""
        return math.sqrt(self.stride[0] * self.stride[1])

    @property
    def cells(self) -> int:
        return self.size[0] * self.size[1]


@dataclass(frozen=True)
class Pyramid:
    """All levels, coarse to fine.

    Attributes
    ----------
    working_size : (height, width) of the input tensor in pixels.
    first : the first level with predictions. Boxes are predicted on all levels, by their size; points
        have no size, and are predicted on the finest.
    """

    levels: tuple[Level, ...]
    working_size: tuple[int, int]
    first: int = 0

    @property
    def predicted(self) -> tuple[Level, ...]:
        return self.levels[self.first :]

    @cached_property
    def starts(self) -> np.ndarray:
        """(number of predicted levels + 1,) first cell of each level, row by row; and the number of cells."""
        return np.cumsum([0, *(level.cells for level in self.predicted)])

    @property
    def cells(self) -> int:
        """L, number of cells of all predicted levels."""
        return int(self.starts[-1])

    @cached_property
    def strides(self) -> np.ndarray:
        """(L, 2) strides in x and y, in working pixels."""
        return np.repeat(
            [level.stride for level in self.predicted],
            [level.cells for level in self.predicted],
            axis=0,
        )

    @cached_property
    def centres(self) -> np.ndarray:
        """(L, 2) x and y of the cells' centres, in working pixels."""
        grids = [np.indices(level.size)[::-1].reshape(2, -1).T for level in self.predicted]
        return (np.concatenate(grids) + 0.5) * self.strides

    @cached_property
    def reaches(self) -> list[tuple[float, float]]:
        """Range (low, high] of the largest distance to a box's sides for each predicted level, in working pixels.

        The finest begins at 0, the coarsest has no end. If strides double, a level of stride s has
        (4 s, 8 s]. Ranges have no gaps, also if strides do not double.
        """
        ends = [REACH * level.step for level in self.predicted]
        return list(zip([*ends[1:], 0.0], [math.inf, *ends[1:]], strict=True))


def plan_pyramid(
    layers: list[Layer], working_size: tuple[int, int], finest: float, *, sized: bool
) -> Pyramid:
    """The levels for these layers; steps of two bring the finest stride as close to `finest` as possible.

    Objects that are not `sized` are predicted on the finest level only.
    """
    sizes: dict[tuple[int, int], list[int]] = {}
    for i, layer in enumerate(layers):
        size = layer.size
        while _step(size, working_size) * math.sqrt(2) <= finest and min(size) > 1:
            size = (-(-size[0] // 2), -(-size[1] // 2))
        sizes.setdefault(size, []).append(i)
    ordered = sorted(sizes, key=lambda size: (size[0] * size[1], size))
    planned = [(size, tuple(sizes[size])) for size in ordered]
    while _step(planned[-1][0], working_size) > finest * math.sqrt(2):
        height, width = planned[-1][0]
        planned.append(((2 * height, 2 * width), ()))
    levels = tuple(
        Level(size, (working_size[1] / size[1], working_size[0] / size[0]), maps)
        for size, maps in planned
    )
    return Pyramid(levels, working_size, 0 if sized else len(levels) - 1)


def _step(size: tuple[int, int], working_size: tuple[int, int]) -> float:
    return math.sqrt(working_size[0] * working_size[1] / (size[0] * size[1]))
