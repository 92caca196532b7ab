"""Galileo (Tseng et al. 2025, arXiv:2502.09356), run by the authors' model file and weights file.

Their code is a single Python file, loaded unchanged. This module prepares its input: bands in
groups, NDVI, months, and masks for missing input.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import ModuleType
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from permafrost.backbones.backbone import Backbone, Resources, isolated_seed
from permafrost.backbones.entry import Encoded
from permafrost.backbones.galileo.bands import BANDS, GROUPS, NDVI_MEAN, NDVI_STD
from permafrost.backbones.galileo.bands import wants as wants_groups
from permafrost.backbones.input.acquired import month_and_day
from permafrost.backbones.input.contract import InputPlan
from permafrost.backbones.outputs.block_maps import BlockMaps
from permafrost.backbones.weights.checkpoint import check_finite, load_into, read_state_dict
from permafrost.core.errors import PermafrostError, first_line
from permafrost.core.options import Different, Matches
from permafrost.core.plugins import load_module

#: arguments of the authors' encoder for the published sizes
SIZES = {
    "nano": {"embedding_size": 128, "depth": 4, "num_heads": 8},
    "tiny": {"embedding_size": 192, "depth": 12, "num_heads": 3},
    "base": {"embedding_size": 768, "depth": 12, "num_heads": 12},
}
_NAMES = ("Encoder", "SPACE_BANDS", "TIME_BANDS", "STATIC_BANDS", "SPACE_TIME_BANDS_GROUPS_IDX")
# month from 0 that the authors' evaluation uses if it is unknown: July
_UNKNOWN_MONTH = 6
_METRES = 10.0


@dataclass(frozen=True, kw_only=True)
class GalileoOptions(Encoded):
    """Galileo."""

    model: Literal["nano", "tiny", "base"]
    """Size of the encoder."""
    model_file: Annotated[str, Matches("a file that ends in .py", r"\.py$(?!\n)")]
    """The authors' single_file_galileo.py. Its code is executed, like that of an entry point."""
    groups: Different[Literal[tuple(GROUPS)]] = field(  # type: ignore[valid-type]  # mypy cannot compute tuple(...)
        default_factory=lambda: list(GROUPS)
    )
    """Groups of bands to use if the dataset has all bands of the group. All other groups are masked."""


def wants(options: GalileoOptions, where: str) -> dict:
    """Fields of `InputContract`; bands that a dataset lacks are left out."""
    return wants_groups(options.groups)


def build(options: GalileoOptions, plan: InputPlan, resources: Resources) -> Backbone:
    """Build a Galileo encoder.

    Raises
    ------
    PermafrostError : the model file, the weights or the bands do not fit.
    """
    where, digest = resources.where, None
    code = load_module(options.model_file, where)
    lacking = [name for name in _NAMES if not hasattr(code, name)]
    if lacking or tuple(code.SPACE_TIME_BANDS_GROUPS_IDX) != tuple(GROUPS):
        raise PermafrostError(
            f"the file is not Galileo's model ({', '.join(lacking) or 'its groups of bands differ'})",
            where=f"{where}: model_file {options.model_file}",
            remedy="give single_file_galileo.py of the authors' repository, nasaharvest/galileo",
        )
    with isolated_seed(options.seed):
        encoder = _encoder(code, options, where)
    if options.weights is not None:
        path = options.weights.path
        state, digest = read_state_dict(path, where=where)
        # as the authors do: some of their checkpoints contain this in tensor names
        state = {name.replace(".backbone", ""): tensor for name, tensor in state.items()}
        load_into(encoder, state, where=f"{where}: {path}")
    check_finite(encoder.state_dict(), where=where)
    fed = fed_groups(plan, options.groups, where)
    module = Galileo(code, encoder, plan, fed, _reflectance(plan, resources.card), options)
    return Backbone(
        module,
        plan,
        where,
        weights_sha256=digest,
        notes={
            "model": f"galileo {options.model}",
            "groups": list(fed),
            "patch_size": options.patch_size,
            "where_unknown": {"month": _UNKNOWN_MONTH + 1, "ground_distance_m": _METRES},
        },
        packages=("torch",),
        dense=lambda: module.maps.dense(module, "maps"),
        takes=frozenset({"dates", "present", "ground_distance_m"}),
    )


def fed_groups(plan: InputPlan, groups: list[str], where: str) -> tuple[str, ...]:
    """Those of `groups` whose bands are all input channels, in the authors' order.

    The NDVI also needs the dataset to have its bands.

    Raises
    ------
    PermafrostError : Galileo has no band of this name, or no group is complete.
    """
    given = [channel.wanted for channel in plan.channels]
    strangers = [name for name in given if name not in BANDS]
    there = [channel.wanted for channel in plan.channels if channel.index is not None]
    fed = tuple(
        name
        for name in GROUPS
        if name in groups and set(GROUPS[name]) <= set(there if name == "NDVI" else given)
    )
    if strangers or not fed:
        raise PermafrostError(
            f"Galileo has no band {', '.join(map(repr, strangers))}"
            if strangers
            else f"the bands {', '.join(map(str, given))} fill none of the groups {', '.join(groups)}",
            where=where,
            remedy="leave input.bands out and choose `groups`; the bands are " + ", ".join(BANDS),
        )
    return fed


def _encoder(code: ModuleType, options: GalileoOptions, where: str) -> nn.Module:
    try:
        return code.Encoder(
            **SIZES[options.model], mlp_ratio=4, max_sequence_length=24, max_patch_size=8
        )
    except Exception as error:
        raise PermafrostError(
            f"the encoder cannot be built ({first_line(error)})",
            where=f"{where}: model_file {options.model_file}",
        ) from error


def _reflectance(plan: InputPlan, card) -> dict[str, tuple[float, float]]:
    """Band to (factor, shift) that convert input values back to reflectance, or brightness."""
    found = {}
    for channel in plan.channels:
        if channel.index is not None:
            band = card.bands[channel.index]
            scale, offset = float(band["scale"] or 1.0), float(band["offset"] or 0.0)
            found[channel.wanted] = scale / channel.gain, channel.center * scale + offset
    return found


class Galileo(nn.Module):
    """The authors' encoder as a module of image tensors.

    Parameters
    ----------
    code : the authors' module.
    encoder : of their class `Encoder`.
    groups : groups of bands in the input; all others are masked.
    reflectance : band to (factor, shift), for the NDVI.
    """

    def __init__(
        self,
        code: ModuleType,
        encoder: nn.Module,
        plan: InputPlan,
        groups: tuple[str, ...],
        reflectance: dict[str, tuple[float, float]],
        options: GalileoOptions,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.maps = BlockMaps(encoder.blocks)
        self._patch = options.patch_size
        self._code, self._reflectance = code, reflectance
        self._masked = [float(name not in groups) for name in GROUPS]
        self._channel = {channel.wanted: at for at, channel in enumerate(plan.channels)}
        used = {name for group in groups if group != "NDVI" for name in GROUPS[group]}
        self._names = [name for name in BANDS if name in used]
        self._ndvi = "NDVI" in groups

    def forward(
        self,
        images: Tensor,
        dates: Tensor | None = None,
        present: Tensor | None = None,
        ground_distance_m: Tensor | None = None,
    ) -> Tensor:
        """(B, C, H, W) or (B, T, C, H, W) -> (B, K): mean of all unmasked tokens."""
        series = images if images.ndim == 5 else images[:, None]
        fed, months = self.inputs(series, dates, present), self._months(series, dates)
        metres = _METRES if ground_distance_m is None else ground_distance_m
        with self.maps.caught(self.encoder.blocks) as caught:
            output = self.encoder(*fed, months, patch_size=self._patch, input_resolution_m=metres)
        self.maps.give({index: self._map(tokens, output) for index, tokens in caught.items()})
        return self.encoder.average_tokens(*output[:8])

    def inputs(
        self, series: Tensor, dates: Tensor | None = None, present: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """(B, T, C, H, W) -> the authors' four tensors and their masks (1: missing)."""
        count, times, _, height, width = series.shape
        self._check(times, height, width)
        values = series.permute(0, 3, 4, 1, 2)
        new, code = series.new_zeros, self._code
        space_time = new(count, height, width, times, len(BANDS) + 1)
        for name in self._names:
            space_time[..., list(BANDS).index(name)] = values[..., self._channel[name]]
        if self._ndvi:
            space_time[..., -1] = self._normal_ndvi(values)
        mask = series.new_tensor(self._masked).expand(count, height, width, times, -1)
        if present is not None:
            mask = torch.maximum(mask, 1 - present.to(mask.dtype)[:, None, None, :, None])
        return (
            space_time,
            new(count, height, width, len(code.SPACE_BANDS)),
            new(count, times, len(code.TIME_BANDS)),
            new(count, len(code.STATIC_BANDS)),
            mask,
            new(count, height, width, len(self.encoder.space_groups)) + 1,
            new(count, times, len(self.encoder.time_groups)) + 1,
            new(count, len(self.encoder.static_groups)) + 1,
        )

    def _map(self, tokens: Tensor, output: tuple) -> Tensor:
        """(B, K, rows, columns): mean of the unmasked tokens of each patch, after the encoder's norm."""
        rows, columns, times, groups = output[0].shape[1:5]
        others = [output[place].shape[-2] for place in (1, 2, 3)]
        _, mask = self.encoder.collapse_and_combine_hwtc(*output[:8])
        there = mask < 1
        # the unmasked tokens of a sample come first, in order
        kept = torch.arange(tokens.shape[1], device=tokens.device) < there.sum(1, keepdim=True)
        every = tokens.new_zeros(*mask.shape, tokens.shape[-1])
        every[there] = tokens[kept]
        parts = self.encoder.split_and_expand_hwtc(every, rows, columns, times, groups, *others)
        parts = [self.encoder.norm(part) for part in parts]
        patches = self.encoder.apply_mask_and_average_tokens_per_patch(*parts, *output[4:8])
        return patches.transpose(1, 2).unflatten(2, (rows, columns))

    def _months(self, series: Tensor, dates: Tensor | None) -> Tensor:
        shape = series.shape[:2]
        if dates is None:
            return torch.full(shape, _UNKNOWN_MONTH, device=series.device)
        dates = dates.reshape(*shape, 2)
        return month_and_day(dates)[0].where(dates[..., 0] > 0, _UNKNOWN_MONTH)

    def _normal_ndvi(self, values: Tensor) -> Tensor:
        nir, red = (
            values[..., self._channel[name]] * self._reflectance[name][0]
            + self._reflectance[name][1]
            for name in GROUPS["NDVI"]
        )
        both = nir + red
        # 0 if both bands are 0, as the authors do
        ndvi = torch.where(both > 0, (nir - red) / both, torch.zeros_like(both))
        return (ndvi - (NDVI_MEAN - 2 * NDVI_STD)) / (4 * NDVI_STD)

    def _check(self, times: int, height: int, width: int) -> None:
        if height != width or height % self._patch:
            raise PermafrostError(
                f"Galileo takes squares of a multiple of {self._patch} pixels, not {height} x {width}",
                remedy="set patch_size to a divisor of the side, or input.size to a multiple of it",
            )
        if times > self.encoder.max_sequence_length:
            raise PermafrostError(
                f"Galileo takes {self.encoder.max_sequence_length} dates at most, not {times}",
                remedy="set most_dates in the dataset's entry",
            )
