"""OlmoEarth v1 to v1.3: the encoder of the authors' minimal package, with input as in their evaluation.

A modality is used if the dataset has any of its bands. Its missing bands are filled as the authors
do: v1 copies the band nearest in wavelength, later versions use zeros, which they saw in training
(band dropout). Missing modalities and dates are left out.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Literal, cast

import torch
from torch import Tensor, nn

from permafrost.backbones.backbone import Backbone, Resources, isolated_seed
from permafrost.backbones.entry import Encoded
from permafrost.backbones.input.acquired import by_dates, month_and_day
from permafrost.backbones.input.contract import InputPlan
from permafrost.backbones.olmoearth.bands import MODALITIES, Band, nearest
from permafrost.backbones.olmoearth.bands import wants as wants_modalities
from permafrost.backbones.outputs.block_maps import BlockMaps
from permafrost.backbones.outputs.layers import Dense
from permafrost.backbones.weights.checkpoint import check_finite, load_into, read_state_dict
from permafrost.core.errors import PermafrostError
from permafrost.core.options import Different

#: sizes of each version in the package
SIZES = {
    "v1": ("nano", "tiny", "base", "large"),
    "v1.1": ("nano", "tiny", "base"),
    "v1.2": ("nano", "tiny", "small", "base"),
    "v1.3": ("base",),
}
# (day, month from 0, year) that the authors' evaluation uses for an unknown date
_UNKNOWN_DATE = (1, 6, 2020)
_METRES = 10.0
# key of v1.3's grid of location tokens among the maps by block
_LOCATION = -1


@dataclass(frozen=True, kw_only=True)
class OlmoEarthOptions(Encoded):
    """OlmoEarth."""

    model: Literal["nano", "tiny", "small", "base", "large"]
    """Size of the encoder."""
    version: Literal[tuple(SIZES)]  # type: ignore[valid-type]  # mypy cannot compute tuple(...)
    """Version. Missing bands are copies of the nearest one in v1, and zeros in later versions."""
    modalities: Different[Literal[tuple(MODALITIES)]] = field(  # type: ignore[valid-type]  # mypy cannot compute tuple(...)
        default_factory=lambda: ["sentinel2_l2a", "sentinel1"]
    )
    """Modalities to use, if the dataset has any of their bands."""


def wants(options: OlmoEarthOptions, where: str) -> dict:
    """Fields of `InputContract`; the module fills missing bands."""
    return wants_modalities(options.modalities)


def build(options: OlmoEarthOptions, plan: InputPlan, resources: Resources) -> Backbone:
    """Build an OlmoEarth encoder.

    Raises
    ------
    PermafrostError : the version lacks this size, or weights or bands do not fit.
    """
    where, digest = resources.where, None
    if options.model not in SIZES[options.version]:
        raise PermafrostError(
            f"OlmoEarth {options.version} has no size {options.model}",
            where=f"{where}: model",
            remedy=f"choose {', '.join(SIZES[options.version])}",
        )
    fills = filling(plan, options, where)
    with isolated_seed(options.seed):
        encoder = _encoder(options)
    if options.weights is not None:
        path = options.weights.path
        state, digest = read_state_dict(path, where=where)
        state = {
            name.removeprefix("encoder."): tensor
            for name, tensor in state.items()
            if name.startswith("encoder.")
        } or state
        # older files contain this tensor, which the model now computes
        load_into(
            encoder, state, ignore=("composite_encodings.pos_embed",), where=f"{where}: {path}"
        )
    check_finite(encoder.state_dict(), where=where)
    module = OlmoEarth(encoder, fills, options.patch_size)
    return Backbone(
        module,
        plan,
        where,
        weights_sha256=digest,
        notes={
            "model": f"olmoearth {options.version} {options.model}",
            "modalities": list(fills),
            "filled": {
                name: source.name if source else "zeros"
                for fill in fills.values()
                for name, source in fill.items()
                if source is None or source.name != name
            },
            "patch_size": options.patch_size,
            "where_unknown": {"date": "2020-07-01", "ground_distance_m": _METRES},
        },
        packages=("torch", "olmoearth-pretrain-minimal"),
        dense=module.dense,
        takes=frozenset({"dates", "present"}),
    )


@dataclass(frozen=True)
class Source:
    """The source of a band: ``input[channel] * factor + shift``, where the channel holds band `name`."""

    name: str
    channel: int
    factor: float = 1.0
    shift: float = 0.0


def filling(
    plan: InputPlan, options: OlmoEarthOptions, where: str
) -> dict[str, dict[str, Source | None]]:
    """Modality -> band in the authors' order -> its source; None: zeros.

    Raises
    ------
    PermafrostError : OlmoEarth has no band of this name.
    """
    channels = {channel.wanted: at for at, channel in enumerate(plan.channels)}
    known = {name for one in options.modalities for name in MODALITIES[one].bands}
    if strangers := set(channels) - known:
        raise PermafrostError(
            f"OlmoEarth has no band {', '.join(map(repr, sorted(map(str, strangers))))}",
            where=where,
            remedy="leave input.bands out and choose `modalities`; the bands are "
            + ", ".join(sorted(known)),
        )
    # substitutes are renormalized only if the input uses the published statistics
    published = plan.normalization == "two_sigma" and "rescaled" not in plan.done
    fills = {}
    for modality in options.modalities:
        bands = MODALITIES[modality].bands
        present = [name for name in bands if name in channels]
        if not present:
            continue
        fill: dict[str, Source | None] = {}
        for name in bands:
            from_band = name if name in channels else None
            if from_band is None and options.version == "v1":
                from_band = nearest(name, present, modality)
            fill[name] = cast(
                "Source | None",
                from_band
                and Source(
                    from_band,
                    channels[from_band],
                    *(_renormalised(bands[from_band], bands[name]) if published else ()),
                ),
            )
        fills[modality] = fill
    return fills


def _renormalised(source: Band, wanted: Band) -> tuple[float, float]:
    """(factor, shift) from values normalized by `source` to the same values normalized by `wanted`."""
    if source is wanted:
        return 1.0, 0.0
    shift = source.mean - 2 * source.std - (wanted.mean - 2 * wanted.std)
    return source.std / wanted.std, shift / (4 * wanted.std)


def _encoder(options: OlmoEarthOptions) -> nn.Module:
    import olmoearth_pretrain_minimal as package
    from olmoearth_pretrain_minimal.olmoearth_pretrain_v1.nn import flexi_vit

    # the package iterates over a set, so the order of tokens would differ between processes
    flexi_vit.get_modalities_to_process = _in_order
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = package.OlmoEarthPretrain_v1(options.model, options.version)
    encoder = whole.model.encoder
    encoder.restrict_input_modalities(list(MODALITIES))
    return encoder


def _in_order(available: list[str], supported: list[str]) -> list[str]:
    return [name for name in supported if name in available]


class OlmoEarth(nn.Module):
    """The authors' encoder as a module of image tensors.

    Parameters
    ----------
    fills : see `filling`.
    """

    def __init__(
        self, encoder: nn.Module, fills: dict[str, dict[str, Source | None]], patch_size: int
    ) -> None:
        super().__init__()
        self.encoder, self.maps = encoder, BlockMaps(encoder.blocks)
        self._fills, self._patch = fills, patch_size
        if encoder.use_attention_pooler:
            self.location = nn.Identity()

    def dense(self) -> Dense:
        """Layers for maps: four evenly spaced blocks; in v1.3, ``location`` replaces the last one."""
        blocks = self.maps.dense(self, "maps")
        if not self.encoder.use_attention_pooler:
            return blocks
        return replace(blocks, layers=("location", *blocks.layers[1:]))

    def forward(
        self, images: Tensor, dates: Tensor | None = None, present: Tensor | None = None
    ) -> Tensor:
        """(B, C, H, W) or (B, T, C, H, W) -> (B, K): mean of all tokens; in v1.3, of the location tokens
        from its attention pooler.

        In evaluation mode, the package does not exclude masked tokens from attention. So samples
        are grouped by their dates, and features do not depend on the batch.
        """
        series = images if images.ndim == 5 else images[:, None]
        dates = None if dates is None else dates.reshape(*series.shape[:2], 2)
        features, maps = by_dates(self._run, present, series, dates)
        if _LOCATION in maps:
            self.location(maps.pop(_LOCATION))
        self.maps.give(maps)
        return features

    def _run(self, series: Tensor, dates: Tensor | None) -> tuple[Tensor, dict[int, Tensor]]:
        """Features, and maps by block, of samples without missing dates."""
        with self.maps.caught(self.encoder.blocks) as caught:
            whole = self.encoder(self.sample(series, dates), patch_size=self._patch, fast_pass=True)
        output = whole["tokens_and_masks"]
        maps = {index: self._map(tokens, output) for index, tokens in caught.items()}
        if "location_tokens" in whole:
            grid = whole["location_tokens"]
            return grid.mean(dim=(1, 2)), {**maps, _LOCATION: grid.permute(0, 3, 1, 2)}
        return output.pool_unmasked_tokens("mean"), maps

    def sample(self, series: Tensor, dates: Tensor | None):
        """(B, T, C, H, W) -> the authors' sample object, without masked input.

        Raises
        ------
        PermafrostError : images are not squares of a multiple of the patch size.
        """
        from olmoearth_pretrain_minimal.olmoearth_pretrain_v1.utils.datatypes import (
            MaskedOlmoEarthSample,
        )

        count, times, _, height, width = series.shape
        if height % self._patch or width % self._patch or height != width:
            raise PermafrostError(
                f"OlmoEarth takes squares of a multiple of {self._patch} pixels, not {height} x {width}",
                remedy="set patch_size to a divisor of the side, or input.size to a multiple of it",
            )
        values = series.permute(0, 3, 4, 1, 2)
        fields = {}
        for modality, fill in self._fills.items():
            bands = [
                torch.zeros_like(values[..., 0])
                if source is None
                else values[..., source.channel]
                if (source.factor, source.shift) == (1.0, 0.0)
                else values[..., source.channel] * source.factor + source.shift
                for source in fill.values()
            ]
            groups = self.encoder.patch_embeddings.tokenization_config.get_num_bandsets(modality)
            fields[modality] = torch.stack(bands, dim=-1)
            fields[f"{modality}_mask"] = series.new_zeros(count, height, width, times, groups)
        return MaskedOlmoEarthSample(timestamps=_timestamps(series, dates), **fields)

    def _map(self, tokens: Tensor, output) -> Tensor:
        """(B, K, rows, columns): mean over dates, band sets and modalities, after the encoder's norm."""
        fields = output.as_dict(return_none=False)
        _, masks, shapes = self.encoder.split_tokens_masks_and_dims(fields)
        parts = self.encoder.split_and_expand_per_modality(self.encoder.norm(tokens), shapes)
        patches = type(output)(**parts, **masks)
        return patches.pool_unmasked_tokens("mean", spatial_pooling=True).permute(0, 3, 1, 2)


def _timestamps(series: Tensor, dates: Tensor | None) -> Tensor:
    """(B, T, 3) int64: day, month from 0, year."""
    unknown = torch.tensor(_UNKNOWN_DATE, device=series.device).expand(*series.shape[:2], 3)
    if dates is None:
        return unknown
    month, day = month_and_day(dates)
    known = torch.stack([day, month, dates[..., 0]], dim=-1)
    return torch.where(dates[..., :1] > 0, known, unknown)
