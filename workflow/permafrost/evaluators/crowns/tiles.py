"""The same predictions scored per tile and per whole image, and how the two differ."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permafrost.data.deepforest.annotations import Annotations
from permafrost.data.windows import OVERLAP, SIZE
from permafrost.evaluators.crowns.evaluate import evaluate
from permafrost.evaluators.crowns.result import CrownEvaluation
from permafrost.evaluators.crowns.windows import cut_annotations


@dataclass(frozen=True)
class TileComparison:
    """Two evaluations of the same predictions.

    Attributes
    ----------
    whole, tiles : evaluated on whole images, and on windows of them as images of their own.
    repeated : crowns that count in several windows; `repeats`: how often more than once, in all.
    lost : crowns that count in none, as no window shows more than half of them.
    """

    whole: CrownEvaluation
    tiles: CrownEvaluation
    repeated: int
    repeats: int
    lost: int

    def sentence(self) -> str:
        """How the two differ, in words."""
        whole, tiles = self.whole.values, self.tiles.values
        crowns = len(self.whole.truth)
        differences = ", ".join(
            f"{name} {tiles[name, None]:.3f} instead of {whole[name, None]:.3f}"
            for name in ("recall", "precision")
        )
        return (
            f"Scored on {len(self.tiles.images)} tiles instead of {len(self.whole.images)} whole"
            f" images: {differences}. {self.repeated} of {crowns} crowns lie in several tiles and"
            f" count {self.repeats} times too often, {self.lost} lie in none, and crowns are cut at"
            " the edges of tiles: the two figures measure different things and must not be compared."
        )


def compare_tiles(
    truth: Annotations,
    predictions: Annotations,
    sizes: dict[str, tuple[int, int]],
    *,
    size: int = SIZE,
    overlap: float = OVERLAP,
    tile_predictions: Annotations | None = None,
    **options,
) -> TileComparison:
    """Evaluate on whole images and on windows of them.

    Parameters
    ----------
    truth, predictions : of whole images.
    sizes : width and height of every image.
    size, overlap : see `windows.cut_windows`.
    tile_predictions : what was predicted in each window, in its coordinates, on images named as
        `windows.cut_annotations` names them; without, `predictions` are cut by the rule for truth.
    options : of `evaluate`.
    """
    whole = evaluate(truth, predictions, **options)
    cut_truth, sources = cut_annotations(truth, sizes, size=size, overlap=overlap)
    if tile_predictions is None:
        tile_predictions, _ = cut_annotations(predictions, sizes, size=size, overlap=overlap)
    tiles = evaluate(cut_truth, tile_predictions, **options)
    times = np.bincount(sources, minlength=len(truth))
    return TileComparison(
        whole,
        tiles,
        repeated=int(np.count_nonzero(times > 1)),
        repeats=int((times[times > 1] - 1).sum()),
        lost=int(np.count_nonzero(times == 0)),
    )
