"""Which layers of a backbone have their maps stored. Light to import: planning and probes use it, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class KeptLayers:
    """Layers that probes read.

    Attributes
    ----------
    names : of layers.
    strides : for each, the layer with patches closest to so many pixels of the input.
    """

    names: tuple[str, ...] = ()
    strides: tuple[float, ...] = ()

    def chosen(self, heights: Mapping[str, int], height: int) -> set[str]:
        """The names of the layers to keep: all if none of them is known, which the probes then refuse.

        Parameters
        ----------
        heights : layer, coarse to fine, to the height of its map.
        height : of the input in pixels.
        """
        names = list(heights)
        closest = {names[closest_to(each, [*heights.values()], height)] for each in self.strides}
        return (closest | {*names}.intersection(self.names)) or {*names}


def closest_to(stride: float, heights: Sequence[int], height: int) -> int:
    """Position of the map with patches closest to `stride` pixels of an input of this height; the first of equals."""
    return min(range(len(heights)), key=lambda place: abs(height / heights[place] - stride))
