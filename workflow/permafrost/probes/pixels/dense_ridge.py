"""Ridge regression of numbers per pixel from the patches of frozen maps, streamed; no torch."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.core.progress import progress
from permafrost.probes.pixels.ridge import Moments, PatchRidge
from permafrost.probes.pixels.rows import Patches
from permafrost.probes.pixels.shown import ShownRasters
from permafrost.probes.pixels.splits import TargetSplit, open_splits
from permafrost.probes.pixels.table import TestRows, write_pixels
from permafrost.probes.segmentation.masks import masks_writer


def run_dense_ridge(
    stores: dict[str, Path],
    output: Path,
    *,
    spec: dict,
    fingerprint: str,
    device: str = "auto",
    second_output: Path | None = None,
) -> None:
    """Choose alpha, fit the mean targets of patches and write the predictions of the test split.

    Alpha is chosen by the mean squared error of patches, weighted by the shares of their pixels that have
    data: on validation, or with ``choose: leave_one_image_out`` on the patches of each training image in the
    fit without that image; validation then only adds images (``merge_val``). Of equals the largest alpha is
    taken. What is predicted for patches is enlarged bilinearly and scored pixel by pixel.

    Parameters as `segmentation.run.run_segmentation`; `device` is not used. Splits are read from the store
    as they are needed: memory holds some images, and a few squares of the number of features.

    Raises
    ------
    PermafrostError : anything the user can put right; nothing half-written is left.
    """
    splits = open_splits(stores, expect=spec["inputs"]["features"])
    test, options = splits["test"], spec["options"]
    where = f"{spec['probe']} on {spec['dataset']}, backbone {spec['backbone']}"
    patches = Patches.of(splits["train"], options["layers"], options["stride"], where=where)
    alphas = np.logspace(
        np.log10(options["alpha_min"]), np.log10(options["alpha_max"]), options["alpha_count"]
    )
    fit, scores = _fit(splits, patches, alphas, options, where)
    best = len(alphas) - 1 - int(np.argmin(scores[::-1]))
    settings = {
        "alpha": float(alphas[best]),
        "alphas": alphas.tolist(),
        "val_metric": "rmse of patches",
        "val_scores": scores.tolist(),
        **{name: options[name] for name in ("choose", "merge_val", "standardize")},
        "layers": [layer.name for layer in patches.layers],
        "grid": list(patches.grid),
        "working_size": list(test.working_size),
        "directions": fit.directions,
    }
    gates = ["best_alpha_on_edge"] if len(alphas) > 1 and best in (0, len(alphas) - 1) else []
    gates += ["collapsed_features"] if not fit.directions else []
    shown = ShownRasters(len(test), options["pictures"], spec["dataset"])
    with masks_writer(
        options["masks"],
        second_output,
        test=test,
        resolution=options["resolution"],
        fingerprint=fingerprint,
    ) as put:
        rows = TestRows(test, options, shown, put)
        with progress(total=len(test), label=where, unit="image") as bar:
            for start, features in patches.images(test):
                said = fit.predict(features.reshape(-1, patches.width), alphas[[best]])
                rows.add(start, said.reshape(len(features), *patches.grid))
                bar.update(len(features))
        write_pixels(
            output,
            rows,
            layers=patches.layers,
            settings=settings,
            gates=gates,
            splits=splits,
            spec=spec,
            fingerprint=fingerprint,
        )


def _fit(
    splits: dict[str, TargetSplit], patches: Patches, alphas: np.ndarray, options: dict, where: str
) -> tuple[PatchRidge, np.ndarray]:
    """The fit that is used, and (A,) root mean squared errors by which alpha is chosen."""
    train, val = splits["train"], splits["val"]
    moments, images = Moments(patches.width), 0
    joined = [train]
    if options["merge_val"] and options["choose"] == "leave_one_image_out":
        joined.append(val)
    for split in joined:
        images += _gather(moments, patches, split)
    if images < 2:
        raise PermafrostError(
            f"a fit needs two images with data, train has {images}",
            where=where,
            remedy="give the dataset a larger train split",
        )
    fit = PatchRidge.of(moments, standardize=options["standardize"])
    if options["choose"] == "leave_one_image_out":
        errors = (
            (fit.left_out(x, y, w, alphas), w)
            for split in joined
            for x, y, w in patches.with_targets(split)
        )
        return fit, _root_mean_square(errors, len(alphas), where)
    errors = ((fit.predict(x, alphas) - y[:, None], w) for x, y, w in patches.with_targets(val))
    scores = _root_mean_square(errors, len(alphas), where)
    if options["merge_val"]:
        _gather(moments, patches, val)
        fit = PatchRidge.of(moments, standardize=options["standardize"])
    return fit, scores


def _gather(moments: Moments, patches: Patches, split: TargetSplit) -> int:
    """Add the patches of a split; returns the number of its images with data."""
    images = 0
    for features, targets, weights in patches.with_targets(split):
        moments.add(features, targets, weights)
        images += 1
    return images


def _root_mean_square(errors, count: int, where: str) -> np.ndarray:
    """(A,) from pairs of errors (p, A) and weights (p,)."""
    squares, total = np.zeros(count), 0.0
    for error, weights in errors:
        squares += weights @ error**2
        total += float(weights.sum())
    if not total:
        raise PermafrostError(
            "alpha is to be chosen on validation, which has no pixel with data",
            where=f"{where}: choose",
            remedy="use choose: leave_one_image_out, or a dataset with validation",
        )
    return np.sqrt(squares / total)
