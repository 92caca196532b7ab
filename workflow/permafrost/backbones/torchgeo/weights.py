"""Translate the metadata of torchgeo's weights to fields of an input contract.

Weights have ``meta`` (bands, channels) and ``transforms`` (Resize, CenterCrop, Normalize). The
transforms are not run; they are translated to size, crop, mean and std of the contract. A
CenterCrop without a Resize, which crops large scenes in training, becomes the size that images are
resized to.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import nn
from torchvision import transforms as v1
from torchvision.transforms import v2

from permafrost.backbones.torchgeo.layouts import Laid, as_published
from permafrost.backbones.weights.checkpoint import read_content, select, unwrapped
from permafrost.core.errors import PermafrostError, look_up


def find_weights(name: str, where: str):
    """(weights, name of their model) for a name such as ``ResNet50_Weights.SENTINEL2_RGB_MOCO``.

    Raises
    ------
    PermafrostError : torchgeo has no such weights.
    """
    from torchgeo.models.api import _model_weights

    known = {
        str(weights): (weights, model)
        for model, group in _model_weights.items()
        if isinstance(model, str)
        for weights in group
    }
    return look_up(known, name, "torchgeo has no weights", where=f"{where}: weights")


class LocalWeights:
    """Weights from a file, with the interface of torchgeo's weights enums.

    Parameters
    ----------
    like : torchgeo's weights of the same model, for metadata and transforms.
    model : name of torchgeo's function.
    path : weights file.
    where : the backbone's name in errors.
    drop, prefix : see `permafrost.backbones.weights.checkpoint.select`.

    Attributes
    ----------
    notes : dropped tensors; set when the file is read.
    laid : tensors in the published layout; set when the file is read.
    """

    def __init__(
        self,
        like,
        model: str,
        path,
        where: str,
        drop: list[str] | None = None,
        prefix: str | None = None,
    ) -> None:
        self.meta, self.transforms, self.path = like.meta, like.transforms, Path(path)
        self._name, self._model, self._where = str(like), model, where
        self._drop, self._prefix = drop, prefix
        self.notes: dict = {}
        self.laid: Laid | None = None

    def __str__(self) -> str:
        return self._name

    def __eq__(self, other) -> bool:
        # some model functions compare their argument with torchgeo's weights
        return str(self) == str(other)

    def __hash__(self) -> int:
        return hash(self._name)

    def get_state_dict(self, *args, **kwargs):
        """Read the file without running its code; tensors in the layout of torchgeo's function."""
        if self.laid is None:
            place = f"{self._where}: {self.path}"
            content = unwrapped(read_content(self.path, where=self._where))
            content, notes = select(content, self._drop, self._prefix, where=place)
            self.laid = as_published(content, self._model, where=place)
            names = [*notes.get("dropped", {}).get("names", ()), *self.laid.left_out]
            self.notes = {"dropped": {"count": len(names), "names": names}} if names else {}
        # a copy, since model functions remove tensors from it
        return dict(self.laid.state)


@contextlib.contextmanager
def offered(path: Path) -> Iterator[None]:
    """Context in which torchgeo finds this file in torch's download cache."""
    before = torch.hub.get_dir()
    if path.parent == Path(before, "checkpoints"):
        yield
        return
    with tempfile.TemporaryDirectory() as folder:
        link = Path(folder, "checkpoints", path.name)
        link.parent.mkdir()
        link.symlink_to(path.resolve())
        torch.hub.set_dir(folder)
        try:
            yield
        finally:
            torch.hub.set_dir(before)


def contract_of(weights, where: str) -> dict:
    """Fields of `InputContract` defined by torchgeo's weights; errors as of `read_transforms`."""
    fields = {**_bands(weights), **read_transforms(weights.transforms, where)}
    if "size" not in fields:
        size = weights.meta.get("img_size", weights.meta.get("image_size"))
        fields.update({"size": size} if size else {})
    if "mean" in fields:
        fields["normalization"] = "weights"
        fields["unit"] = unit_of(fields["mean"], fields["std"], fields.get("sensor"))
    elif str(weights) in _AS_STORED:
        fields |= {"normalization": "weights", "mean": (0.0,), "std": (1.0,), "unit": "uint8"}
    if (table := _DIGITAL_NUMBERS.get(str(weights))) is not None:
        fields |= _two_tables(fields, *table)
    return fields


def _two_tables(fields: dict, means: tuple[float, ...], stds: tuple[float, ...]) -> dict:
    """Combine torchgeo's statistics, for pictures in [0, 1], with the authors' for digital numbers."""
    count = len(means)
    of_pictures = list(zip(fields["mean"][:count], fields["std"][:count], strict=True))
    return {
        "mean": (*means, *fields["mean"][count:]),
        "std": (*stds, *fields["std"][count:]),
        "unit": "digital_number",
        "pictures": (*of_pictures, *[None] * (len(fields["mean"]) - count)),
    }


def read_transforms(transforms: nn.Module, where: str) -> dict:
    """``size``, ``crop``, ``antialias``, ``mean``, ``std`` from Resize, CenterCrop and Normalize steps.

    Several Normalize steps are combined. The order of normalization and resizing does not matter,
    because interpolation weights sum to one.

    Raises
    ------
    PermafrostError : there is another kind of step, or a size that is not square.
    """
    steps = list(transforms) if isinstance(transforms, nn.Sequential) else [transforms]
    resize = crop = mean = std = None
    antialias = False
    for step in steps:
        if isinstance(step, nn.Identity):
            continue
        if isinstance(step, v1.Resize | v2.Resize):
            resize, antialias = _side(step.size, where), bool(step.antialias)
        elif isinstance(step, v1.CenterCrop | v2.CenterCrop):
            crop = _side(step.size, where)
        elif isinstance(step, v1.Normalize | v2.Normalize):
            mean, std = _compose(mean, std, step.mean, step.std)
        else:
            raise PermafrostError(
                f"the transform {type(step).__name__} of these weights is not understood",
                where=where,
                remedy="wrap the model in an entry point of your own (config/backbones/template.py)",
            )
    fields: dict = {}
    if resize:
        fields.update(size=resize, antialias=antialias, crop=crop if crop != resize else None)
    elif crop:
        fields["size"] = crop
    if mean is not None:
        fields.update(mean=tuple(mean), std=tuple(std))
    return fields


def unit_of(mean, std, sensor: str | None) -> str | tuple[str, ...] | None:
    """The unit of the statistics of weights, one or per channel; None if it cannot be inferred.

    torchgeo does not record it. It follows from the numbers: 8-bit values (divided by 255), digital
    numbers of Sentinel-2 (divided by 10,000, or with statistics far above 255), radar in dB
    (negative means), or values in [0, 1].
    """
    if sensor == "sentinel1":
        return "db" if min(mean) < 0 else ("uint8" if set(std) == {255} else None)
    if max(std) <= 1 and max(mean) <= 1:
        return "unit_interval"
    if max(std) <= 255:
        return "uint8"
    if sensor != "sentinel2":
        return None
    if max(mean) > 255 and min(std) > 1:
        return "digital_number"
    units = {
        s: "uint8" if s == 255 else "unit_interval" if s <= 1 else "digital_number" for s in std
    }
    return tuple(units[s] for s in std)


def _bands(weights) -> dict:
    bands = weights.meta.get("bands")
    if bands is None:
        return {"bands": "rgb"} if weights.meta.get("in_chans") == 3 else {}
    sensor = next((s for key, s in _SENSORS.items() if key in str(weights)), None)
    # makes `dates` a key that entries may set
    dates = {"dates": "each"} if dates_of(weights) > 1 else {}
    return {"bands": tuple(bands[: channels_of(weights)]), "sensor": sensor, **dates}


def dates_of(weights) -> int:
    """Number of dates in the input: 2 if the list of bands of the weights is repeated, else 1."""
    bands = list(weights.meta.get("bands") or ())
    half = bands[: len(bands) // 2]
    return 2 if half and bands == half * 2 else 1


def channels_of(weights) -> int | None:
    """Number of channels per date that the weights were trained with; None if unknown."""
    channels = weights.meta.get("in_chans")
    return None if channels is None else channels // dates_of(weights)


#: weights -> (means, stds) of the first channels in digital numbers of Sentinel-2, which torchgeo lacks.
#: DEO was trained on red, green and blue of aerial pictures and of Sentinel-2, with a table for each
#: (`normalize_hr` and `normalize_s2` in DEO/utils/augmentations.py of wolfilip/DEO-FM at 55c7ae1)
_DIGITAL_NUMBERS = {
    "DEO_Weights.DEO_SWIN": (
        (1136.26026392, 1120.77120066, 1184.3824625),
        (965.23119807, 712.12507725, 650.2842772),
    ),
}

#: weights without statistics whose authors use 8-bit values without normalization, according to torchgeo
_AS_STORED = ("Unet_Weights.OAM_RGB_RESNET50_TCD", "Unet_Weights.OAM_RGB_RESNET34_TCD")

_SENSORS = {
    "SENTINEL2": "sentinel2",
    "DEO": "sentinel2",
    "SENTINEL1": "sentinel1",
    "LANDSAT_TM": "landsat5",
    "LANDSAT_ETM": "landsat7",
    "LANDSAT": "landsat8",
}


def _compose(mean, std, then_mean, then_std):
    """Mean and std of one Normalize that is equivalent to two in sequence."""
    if mean is None:
        return list(map(float, then_mean)), list(map(float, then_std))
    count = max(len(mean), len(then_mean))
    mean, std, then_mean, then_std = (
        list(values) * (count if len(values) == 1 else 1)
        for values in (mean, std, then_mean, then_std)
    )
    return (
        [m + tm * s for m, s, tm in zip(mean, std, then_mean, strict=True)],
        [s * ts for s, ts in zip(std, then_std, strict=True)],
    )


def _side(size, where: str) -> int:
    sides = {size} if isinstance(size, int) else set(size)
    if len(sides) != 1:
        raise PermafrostError(f"the weights want images of {size} pixels, not squares", where=where)
    return sides.pop()
