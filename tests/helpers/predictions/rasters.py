"""Rasters of classes and their counts."""

from __future__ import annotations

import argparse

import numpy as np
import rasterio
from permafrost.evaluators.raster.blocks import Block
from permafrost.stages import evaluate_raster
from rasterio.transform import from_origin

HERE = from_origin(500_000, 4_000_000, 10, 10)


def write(path, pixels, *, nodata=None, crs="EPSG:32633", transform=HERE):
    pixels = np.asarray(pixels)
    pixels = pixels[None] if pixels.ndim == 2 else pixels
    count, height, width = pixels.shape
    with rasterio.open(
        path,
        "w",
        driver="GTiff",
        width=width,
        height=height,
        count=count,
        dtype=pixels.dtype,
        crs=crs,
        transform=transform,
        nodata=nodata,
    ) as file:
        file.write(pixels)
    return path


def two(seed=0, shape=(70, 90), classes=4, skill=0.7):
    rng = np.random.default_rng(seed)
    reference = rng.integers(0, classes, shape).astype(np.uint8)
    wrong = rng.integers(0, classes, shape).astype(np.uint8)
    return reference, np.where(rng.random(shape) < skill, reference, wrong)


def crossed(reference, prediction, classes: int) -> np.ndarray:
    counts = np.zeros((classes, classes), int)
    np.add.at(counts, (reference, prediction), 1)
    return counts


def block(reference, prediction, *, valid=None, predicted=None) -> Block:
    reference = np.asarray(reference)
    full = np.ones(reference.shape, bool)
    return Block(
        reference,
        np.asarray(prediction),
        full if valid is None else np.asarray(valid),
        full if predicted is None else np.asarray(predicted),
    )


def command(*options) -> None:
    parser = argparse.ArgumentParser()
    evaluate_raster.add_arguments(parser)
    evaluate_raster.run(parser.parse_args([str(option) for option in options]))
