"""Feature maps of transformers whose tokens are not a plain grid (several bands and dates, masks)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from torch import Tensor, nn

from permafrost.backbones.outputs.layers import Dense, evenly_spaced


class BlockMaps(nn.ModuleList):
    """One identity layer per block; the map of the block passes through it, where a hook can catch it.

    Maps are computed only for the layers selected by `dense`.
    """

    def __init__(self, blocks: nn.ModuleList) -> None:
        super().__init__(nn.Identity() for _ in blocks)
        self._wanted: tuple[int, ...] = ()

    def dense(self, model: nn.Module, name: str) -> Dense:
        """Layers of `model`, whose attribute `name` is this object; default: four evenly spaced blocks."""
        known = {f"{name}.{index}": index for index in range(len(self))}

        def make(names) -> None:
            self._wanted = tuple(known[one] for one in names if one in known)

        layers = [list(known)[index] for index in evenly_spaced(len(self))]
        return Dense(model, tuple(layers), make=make, blocks=tuple(known))

    @contextlib.contextmanager
    def caught(self, blocks: nn.ModuleList) -> Iterator[dict[int, Tensor]]:
        """Context that collects the outputs of the selected blocks, by index."""
        found: dict[int, Tensor] = {}
        hooks = [
            blocks[index].register_forward_hook(
                lambda _, inputs, output, index=index: found.update({index: output})
            )
            for index in self._wanted
        ]
        try:
            yield found
        finally:
            for hook in hooks:
                hook.remove()

    def give(self, maps: dict[int, Tensor]) -> None:
        """Pass the map (B, C, H, W) of each block through its layer."""
        for index, values in maps.items():
            self[index](values)
