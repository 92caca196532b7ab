"""Write the features of a backbone's blocks into a feature store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from permafrost.features.maps import MapWriter
from permafrost.features.writing import feature_rows


class DepthWriter(MapWriter):
    """Collects the features (n, C) of each block and writes them as embeddings are written.

    Parameters
    ----------
    blocks : layer to the number of its block, from 1, and the number of all. The arrays are named
        by these numbers: block1, block2, …
    given, named : as for `MapWriter`.
    """

    OPTION = "extraction.dtype"

    def __init__(self, *given, blocks: Mapping[str, tuple[int, int]], **named) -> None:
        super().__init__(*given, **named)
        self._blocks = blocks

    def _begin(self, shapes: Sequence[tuple[int, ...]], compress: Sequence[bool]) -> None:
        self.shapes = tuple(tuple(map(int, shape)) for shape in shapes)
        self.arrays = [
            feature_rows(
                self._writer,
                one["array"],
                (self._count, *shape),
                self._dtype,
                span=self._span,
                compress=shrinks,
            )
            for one, shape, shrinks in zip(self.described(), self.shapes, compress, strict=True)
        ]

    def described(self) -> list[dict]:
        """Attribute ``depths`` of the store."""
        return [
            {
                "name": name,
                "array": f"block{number}",
                "block": number,
                "of": count,
                "features": shape[-1],
            }
            for (name, (number, count)), shape in zip(
                self._blocks.items(), self.shapes, strict=True
            )
        ]
