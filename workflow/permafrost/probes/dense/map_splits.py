"""A feature store with maps, opened for a probe and checked; no torch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa

from permafrost.core.errors import PermafrostError, near_names
from permafrost.core.stores import Store
from permafrost.probes.dense.interpolate import resize_mask
from permafrost.probes.job import ProbeJob


@dataclass(frozen=True)
class Layer:
    """The map of one layer: its name, its array in the store, and (C, H, W)."""

    name: str
    array: str
    channels: int
    height: int
    width: int

    @property
    def size(self) -> tuple[int, int]:
        return self.height, self.width


class MapSplit:
    """One split: maps, samples and, where every pixel has an answer, these.

    Parameters
    ----------
    path : the feature store.
    expect, split : fingerprint of the plan, and name of the split; a store of another one is refused.
    """

    # said where the store is not of the kind that a probe needs
    needs: ClassVar[tuple[str, str]] = (
        "the store holds no maps of layers",
        "this probe needs a dataset with maps; extract it again",
    )

    # the array of what is known of every pixel
    truth_array: ClassVar[str]

    def __init__(self, path: Path, *, expect: str | None = None, split: str | None = None) -> None:
        self.store = Store(path, expect=expect, split=split)
        self.attributes: dict = self.store.attributes
        self.samples: pa.Table = self.store.samples()
        if not self.fits():
            problem, remedy = self.needs
            raise PermafrostError(problem, where=path, remedy=remedy)

    def fits(self) -> bool:
        """Whether the store holds what the probe needs."""
        return "layers" in self.attributes

    def __len__(self) -> int:
        return len(self.store)

    @property
    def path(self) -> Path:
        return self.store.path

    @property
    def classes(self) -> list[str]:
        return self.attributes["classes"]

    @property
    def working_size(self) -> tuple[int, int]:
        height, width = self.attributes["working_size"]
        return int(height), int(width)

    @cached_property
    def layers(self) -> list[Layer]:
        """All layers of the store, coarse to fine."""
        keys = ("name", "array", "channels", "height", "width")
        return [Layer(*(entry[key] for key in keys)) for entry in self.attributes["layers"]]

    @cached_property
    def sizes(self) -> np.ndarray:
        """(N, 2) true height and width of every sample; what lies beyond is padding."""
        columns = [self.samples[name].to_numpy() for name in ("height", "width")]
        return np.stack(columns, axis=1).astype(np.int64)

    def truths(self, start: int, stop: int, resolution: str = "native") -> list[np.ndarray]:
        """What is known of the pixels of rows [start, stop), (h, w) each.

        Of their true size, or for ``resolution: working`` resized by nearest.
        """
        stored = self.store.read(self.truth_array, start, stop)
        native = [
            truth[:height, :width]
            for truth, (height, width) in zip(stored, self.sizes[start:stop], strict=True)
        ]
        if resolution == "native":
            return native
        return [resize_mask(truth, self.working_size) for truth in native]

    def scored_sizes(self, resolution: str) -> np.ndarray:
        """(N, 2) height and width at which every image is scored."""
        if resolution == "native":
            return self.sizes
        return np.broadcast_to(np.array(self.working_size), self.sizes.shape)

    def choose_layers(self, names: list[str] | None, *, where: object) -> list[Layer]:
        """The layers of these names in the order given; all of them for None."""
        if names is None:
            return self.layers
        known = {layer.name: layer for layer in self.layers}
        for name in names:
            if name not in known:
                raise PermafrostError(
                    f"there is no map of layer {name!r}",
                    where=where,
                    remedy=f"name layers that were extracted: {near_names(name, known)}",
                )
        return [known[name] for name in names]


def nearest_stride(split: MapSplit, layers: list[Layer], stride: float) -> Layer:
    """The layer whose patches are closest to `stride` working pixels, the first of equals."""
    height = split.working_size[0]
    return min(layers, key=lambda layer: abs(height / layer.height - stride))


def open_splits[Split: MapSplit](kind: type[Split], job: ProbeJob) -> dict[str, Split]:
    """The feature stores of a job; refuses damaged ones and those of another plan."""
    return {name: kind(path, expect=job.features, split=name) for name, path in job.stores.items()}
