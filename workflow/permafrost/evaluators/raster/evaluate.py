"""Evaluate a classified raster against a reference raster: the entry point of this package."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence

import numpy as np

from permafrost.core.errors import PermafrostError, look_up
from permafrost.evaluators.raster.assessment import (
    BINARY_WEIGHTS,
    check_weights,
    smooth_of,
)
from permafrost.evaluators.raster.blocks import BLOCK, Block, BlockReading, raster_blocks
from permafrost.evaluators.raster.counting import MISSING, MOST_CLASSES, PairCounts
from permafrost.evaluators.raster.files import opened
from permafrost.evaluators.raster.pixel_areas import PixelAreas, pixel_areas
from permafrost.evaluators.raster.result import RasterEvaluation

MODES = ("multiclass", "binary")
# bytes of the pair counts of all blocks
_MOST_BYTES = 4 * 10**9


def evaluate(
    reference,
    prediction=None,
    *,
    logits=None,
    block: int = BLOCK,
    reference_band: int | None = None,
    prediction_band: int | None = None,
    keep_nodata: bool = False,
    by_pixel: bool = False,
    **options,
) -> RasterEvaluation:
    """Evaluate raster files, block by block.

    Parameters
    ----------
    reference : raster of class codes; pixels without data have no reference.
    prediction : raster of class codes; alternatively
    logits : raster with one band per class, or one band for class 1 of two.
    block, reference_band, prediction_band, keep_nodata, by_pixel : see `blocks.BlockReading`.
    options : of `evaluate_blocks`, except ``scores``.

    Raises
    ------
    PermafrostError : both or neither of `prediction` and `logits`; logits with a band; see also
        `raster_blocks` and `evaluate_blocks`.
    """
    if (prediction is None) == (logits is None):
        raise PermafrostError(
            "give either a prediction or logits",
            remedy="a raster of classes is the prediction, one of scores the logits",
        )
    scores = logits is not None
    areas = _areas(reference, logits if scores else prediction, by_pixel)
    if scores and prediction_band is not None:
        raise PermafrostError("logits are read from all bands", remedy="leave prediction_band out")
    blocks = raster_blocks(
        reference,
        logits if scores else prediction,
        BlockReading(block, reference_band, prediction_band, keep_nodata, by_pixel),
        scores=scores,
        areas=areas,
    )
    # on an error, close the files at once: GDAL's environment ends with the last of them
    with contextlib.closing(blocks):
        return evaluate_blocks(blocks, scores=scores, areas=areas, **options)


def _areas(reference, prediction, by_pixel: bool) -> PixelAreas:
    """The areas of the reference's pixels; without its coordinate system, the prediction's."""
    found = PixelAreas()
    for path in (reference, prediction) if by_pixel else (reference,):
        with opened(path) as dataset:
            found = pixel_areas(dataset)
            if dataset.crs is not None:
                break
    return found


def evaluate_blocks(
    blocks: Iterable[Block],
    *,
    scores: bool = False,
    mode: str | None = None,
    classes: int | Sequence[str] | None = None,
    class_weights: Sequence[float] | None = None,
    smooth: float | None = None,
    like: str | None = None,
    threshold: float = 0.5,
    zero_based: bool = True,
    ignore: Iterable[int] = (),
    missing: str = "error",
    areas: PixelAreas | None = None,
) -> RasterEvaluation:
    """Evaluate blocks from files or from memory.

    Parameters
    ----------
    scores : predictions are logits.
    mode : ``binary`` scores class 1 of two (geodl's binary mode, the same as class weights 0, 1);
        ``multiclass`` all classes. None: binary for logits of one band.
    classes : number or names of the classes; None: those that occur in either raster, or one per
        band.
    class_weights, smooth, like : see `assessment`; weights in the order of the codes.
    threshold : of the sigmoid of a single logit.
    zero_based : codes start at 0 (geodl's ``zeroStart``), else at 1.
    ignore, missing : see `counting.PairCounts`.
    areas : description of the pixel areas, for remarks; the blocks hold the areas themselves.

    Raises
    ------
    PermafrostError : codes outside the classes; rasters without a common pixel; options that
        conflict. See also `blocks` and `counting`.
    """
    _check_choice("mode", mode, (*MODES, None))
    _check_choice("missing", missing, MISSING)
    smooth = smooth_of(smooth, like)
    counter = PairCounts(
        ignore=ignore,
        missing=missing,
        first_code=0 if zero_based else 1,
        scores=scores,
        threshold=threshold,
    )
    for block in blocks:
        counter.add(block)
    if not counter.blocks:
        raise PermafrostError(
            "no pixel has a reference class and a prediction",
            remedy="check the nodata values of both rasters and the ignored codes",
        )
    if mode is None:
        mode = "binary" if counter.bands == 1 else "multiclass"
    codes, names = _classes(counter, classes, mode)
    if mode == "binary":
        if class_weights is not None or len(codes) != 2:
            raise PermafrostError(
                f"the binary mode has two classes and fixed weights, not {len(codes)} classes",
                remedy="use the mode multiclass with class weights",
            )
        class_weights = BINARY_WEIGHTS
    weights = check_weights(class_weights, len(codes))
    means = {"class_weights": weights, "smooth": smooth, "like": like}
    return _result(counter, codes, names, means, areas or PixelAreas())


def _classes(counter: PairCounts, declared, mode: str) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Codes and names of the classes; they must include every code that occurs."""
    found = set(counter.mapped).union(*({pair[0] for pair in block} for block in counter.blocks))
    width = max(counter.bands, 2) if counter.bands else None
    if declared is None:
        declared = 2 if mode == "binary" else width
    if declared is None:
        codes = tuple(sorted(found))
        return codes, tuple(map(str, codes))
    named = not isinstance(declared, int)
    count = len(declared) if named else declared
    if width is not None and count != width:
        raise PermafrostError(
            f"{count} classes are declared, but the logits have {counter.bands} bands",
            remedy="declare one class per band, or two for one band",
        )
    if count > MOST_CLASSES:
        raise PermafrostError(
            f"{count} classes are declared, at most {MOST_CLASSES} can be", where="classes"
        )
    first = counter.first_code
    codes = tuple(range(first, first + count))
    outside = sorted(found - set(codes))
    if outside:
        raise PermafrostError(
            f"the rasters hold the codes {outside[:5]}, but the classes are {first} to {codes[-1]}",
            remedy="name them with ignore (--ignore), or declare more classes (--classes)",
        )
    names = tuple(map(str, declared)) if named else tuple(map(str, codes))
    if len(set(names)) < len(names):
        raise PermafrostError("two classes have one name", remedy="give every class its own")
    return codes, names


def _result(counter: PairCounts, codes, names, means: dict, areas: PixelAreas) -> RasterEvaluation:
    place = {code: number for number, code in enumerate(codes)}
    pairs = sorted(set().union(*counter.blocks))
    row = {pair: number for number, pair in enumerate(pairs)}
    if (size := 8 * len(pairs) * len(counter.blocks)) > _MOST_BYTES:
        raise PermafrostError(
            f"{len(pairs)} pairs of classes in {len(counter.blocks)} blocks would take {size / 1e9:.1f} GB"
            " of memory",
            remedy="read larger blocks (--block), or give rasters of fewer classes",
        )
    block_counts = np.zeros((len(pairs), len(counter.blocks)), np.int64)
    for number, block in enumerate(counter.blocks):
        for pair, count in block.items():
            block_counts[row[pair], number] = count
    area_sums = mapped_area = None
    if counter.weighted:
        area_sums = np.zeros((2, len(codes), len(codes)))
        for (a, b), sums in counter.areas.items():
            area_sums[:, place[a], place[b]] = sums
        mapped_area = np.array([counter.mapped_areas.get(code, 0.0) for code in codes])
    return RasterEvaluation(
        codes=codes,
        names=names,
        cells=np.array([(place[a], place[b]) for a, b in pairs], np.intp),
        block_counts=block_counts,
        mapped=np.array([counter.mapped.get(code, 0) for code in codes], np.int64),
        pixels=counter.pixels,
        ignored=counter.ignored,
        unpredicted=counter.unpredicted,
        **means,
        pixel_areas=areas,
        area_sums=area_sums,
        mapped_area=mapped_area,
    )


def _check_choice(what: str, value, known) -> None:
    if value is not None or None not in known:
        look_up([name for name in known if name is not None], value, f"no {what} is")
