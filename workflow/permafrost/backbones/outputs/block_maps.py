"""Maps of the blocks of transformers whose tokens lie on no grid: several bands and dates, some of them masked."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from torch import Tensor, nn

from permafrost.backbones.outputs.layers import Dense, evenly_spaced


class BlockMaps(nn.ModuleList):
    """A layer for each block, which the map of that block passes through, so that it can be caught there.

    Of the blocks `blocks`; maps are only made of those that were asked for (`dense`).
    """

    def __init__(self, blocks: nn.ModuleList) -> None:
        super().__init__(nn.Identity() for _ in blocks)
        self._wanted: tuple[int, ...] = ()

    def dense(self, model: nn.Module, name: str) -> Dense:
        """How `model`, which has these layers under `name`, gives maps: by default of four evenly spaced blocks."""
        known = {f"{name}.{index}": index for index in range(len(self))}

        def make(names) -> None:
            self._wanted = tuple(known[one] for one in names if one in known)

        layers = [list(known)[index] for index in evenly_spaced(len(self))]
        return Dense(model, tuple(layers), make=make)

    @contextlib.contextmanager
    def caught(self, blocks: nn.ModuleList) -> Iterator[dict[int, Tensor]]:
        """What the wanted blocks return inside, by index."""
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
        """Let the map (B, C, H, W) of each block pass through its layer."""
        for index, values in maps.items():
            self[index](values)
