"""Extract features of augmented views of images of a split."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from permafrost.core.errors import PermafrostError
from permafrost.core.identity import derive_seed
from permafrost.core.progress import progress
from permafrost.features.augmentations import ASPECT, View, check_augmentations, draw_view
from permafrost.features.devices import exact_numerics
from permafrost.features.extract import Opened, open_backbone
from permafrost.features.reading import Batch, ahead, read_batches
from permafrost.features.running import Outputs, batch_outputs, fetch, moved
from permafrost.features.specification import Running, ViewsSpec
from permafrost.features.writing import FeatureWriter, feature_store, write_labels


def extract_views(
    spec: ViewsSpec,
    *,
    images: dict[str, Path],
    card: Path,
    output: Path,
    fingerprint: str,
    running: Running,
) -> None:
    """Run the backbone of `spec` over augmented views and write a store with array ``views`` (N, q, d).

    A view has the size and unit of the original image, and is prepared like any image. With options
    that change nothing, its features equal those of `extract`.

    Parameters
    ----------
    images : image stores by split.
    card, fingerprint : as for `extract`.
    output : path of the store.

    Raises
    ------
    PermafrostError : anything that the user can correct; no partial store is left.
    """
    options, where = spec.augmentations, f"backbone {spec.backbone}"
    check_augmentations(options, where=f"{where}: augmentations")
    with exact_numerics(running.threads):
        ready = open_backbone(
            spec,
            images=images,
            card=card,
            device=running.device,
            batch_size=running.batch_size,
            maps=False,
        )
        store = ready.stores[spec.split]
        if not len(store):
            raise PermafrostError(
                f"the split {spec.split} has no images to augment",
                where=store.path,
                remedy="choose another `measures: {split: …}`",
            )
        rows = _drawn(len(store), options["images"], dataset=spec.dataset, seed=options["seed"])
        _write(_Maker(ready, spec, rows), output, fingerprint, running)


def _drawn(count: int, wanted: int, *, dataset: str, seed: int) -> np.ndarray:
    """Ascending positions of `wanted` random images out of `count`, or of all if there are fewer."""
    if count <= wanted:
        return np.arange(count)
    generator = np.random.Generator(np.random.PCG64(derive_seed("views", dataset, seed)))
    return np.sort(generator.choice(count, wanted, replace=False))


class _Maker:
    """Creates views of the images at `rows`, on the CPU, so that they do not depend on the device."""

    def __init__(self, ready: Opened, spec: ViewsSpec, rows: np.ndarray) -> None:
        self.ready, self.spec, self.rows = ready, spec, rows
        self.store = ready.stores[spec.split]
        self.bands = [ready.card.bands[index] for index in ready.run.prepare.stored]
        self._means, self._spreads = (
            torch.tensor([band[name] for band in self.bands], dtype=torch.float32).view(-1, 1, 1)
            for name in ("mean", "std")
        )
        self.samples = self.store.samples.take(rows)
        self._names = self.samples["sample_id"].to_pylist()

    def batch(self, batch: Batch, view: int) -> Batch:
        """View number `view` of each image, as float32 in the unit of the images."""
        pixels = torch.zeros(batch.pixels.shape, dtype=torch.float32)
        told = {name: values.copy() for name, values in batch.told.items()}
        for number, image in enumerate(batch.pixels):
            size = int(batch.heights[number]), int(batch.widths[number])
            sample = self._names[batch.start + number]
            drawn = draw_view(
                self.spec.augmentations,
                size,
                dataset=self.spec.dataset,
                sample_id=sample,
                view=view,
            )
            true = image[:, : size[0], : size[1]].to(torch.float32)
            made = apply_view(drawn, true, self._means, self._spreads)
            pixels[number, :, : size[0], : size[1]] = made
            if "ground_distance_m" in told:
                # resizing the crop to the image's size reduces the ground sampling distance
                share = drawn.height * drawn.width / (size[0] * size[1])
                told["ground_distance_m"][number] *= share**0.5
        return Batch(batch.start, pixels, batch.heights, batch.widths, told=told)


def apply_view(
    view: View, image: torch.Tensor, means: torch.Tensor, spreads: torch.Tensor
) -> torch.Tensor:
    """Apply a view to an image (C, H, W) float32; returns the same shape.

    `means` and `spreads` (C, 1, 1) are mean and standard deviation of the bands in the dataset.
    Each band is processed separately, so the result does not depend on the selection of bands.
    """
    size = image.shape[1:]
    made = image[:, view.top : view.top + view.height, view.left : view.left + view.width]
    if made.shape[1:] != size:
        made = F.interpolate(made[:, None], size=size, mode="bilinear", align_corners=False)[:, 0]
    made = torch.rot90(made, view.turns, (1, 2))
    flipped = [axis for axis, flip in ((1, view.upside_down), (2, view.mirrored)) if flip]
    made = made.flip(flipped) if flipped else made
    if view.gain != 1.0 or view.offset != 0.0:
        made = (made - means) * view.gain + (means + view.offset * spreads)
    return made


def _write(maker: _Maker, output: Path, fingerprint: str, running: Running) -> None:
    ready, spec, rows, store = maker.ready, maker.spec, maker.rows, maker.store
    run, options = ready.run, spec.augmentations
    names, where = maker.samples["sample_id"], f"{run.backbone.where} on views of {spec.dataset}"
    with feature_store(output, fingerprint=fingerprint) as writer:
        sink = FeatureWriter(writer, names, ready.extraction.dtype, where, name="views")
        label = f"views: {spec.backbone} on {spec.dataset}/{spec.split}"
        with progress(total=len(rows), label=label, unit="image") as bar:
            try:
                for batch in read_batches(
                    store,
                    run.prepare.stored,
                    batch_size=running.batch_size,
                    workers=running.workers,
                    rows=rows,
                    telling=run.telling,
                ):
                    # one view of all images at a time, so batches have the size that extraction uses
                    made = ahead(lambda v, b=batch: maker.batch(b, v), range(options["views"]), 1)
                    outputs = [
                        fetch(*batch_outputs(run, view, where=where))
                        for view in moved(made, run.device)
                    ]
                    sink.put(_stacked(outputs))
                    bar.update(len(batch))
                gates = sink.finish()
            finally:
                sink.close()
        labels = store.labels()
        write_labels(writer, None if labels is None else labels[rows])
        writer.samples(maker.samples)
        writer.attributes.update(
            {
                **ready.attributes,
                "split": spec.split,
                "feature_dim": sink.dimension,
                "gates": sorted({*ready.attributes["gates"], *gates}),
                "augmentations": {**options, "aspect": list(ASPECT)},
                "augmented_bands": [
                    {n: b[n] for n in ("name", "mean", "std")} for b in maker.bands
                ],
                "drawn_from": len(store),
            }
        )
        ready.promised.check()


def _stacked(views):
    """A function that waits for all views of a batch and returns their features (n, q, K)."""
    return lambda: Outputs(np.stack([view().features for view in views], axis=1))
