"""Models whose authors publish code and weights, and no package: MMEarth, AnySat, TerraFM, SpectralGPT.

Their code is loaded as it is from a folder of yours, which an entry names as the option `code`, and whose files it
lists under `files`, so that a change of theirs runs the jobs again. ``config/backbones/authors.yaml`` has the entries,
``config/backbones/template.py`` the contract of such a file. Checkpoints are read as weights only, and fit whole or are
refused, which the authors' own scripts do not ask for.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from permafrost.backbones.outputs.layers import evenly_spaced
from permafrost.backbones.weights.checkpoint import load_into, read_state_dict
from permafrost.core.errors import PermafrostError
from torch import Tensor, nn

#: what AnySat is told where the dataset knows no date: the middle of July, counted from 0
UNKNOWN_DAY = 195
#: side of a pixel that AnySat assumes of Sentinel-2
_METRES = 10


def mmearth(
    inputs, *, code: str, model: str = "convnextv2_atto", patch_size: int = 16, weights=None
):
    """MP-MAE (arXiv:2405.02771): their ConvNeXt V2, with the stem for small images; `code` is MMEarth-train."""
    with _imported(code, "models.convnextv2") as authors:
        network = getattr(authors, model)(
            patch_size=patch_size,
            img_size=inputs.side,
            in_chans=len(inputs),
            num_classes=1,
            use_orig_stem=False,
        )
    network.head = nn.Identity()
    if weights is not None:
        state, _ = read_state_dict(weights, where=weights)
        left_out = ("decoder", "mask_token", "proj", "pred", "loss_fn", "log_vars", "head")
        state = {key: one for key, one in state.items() if not any(map(key.count, left_out))}
        load_into(network, _dense(state), where=weights)
    network.layers = tuple(f"stages.{at}" for at in reversed(range(len(network.stages))))
    return network


def terrafm(inputs, *, code: str, model: str = "terrafm_base", weights=None) -> nn.Module:
    """TerraFM (arXiv:2506.06281): the class token, of 12 bands or of VV and VH; `code` holds their terrafm.py."""
    with _imported(code, "terrafm") as authors:
        network = getattr(authors, model)()
    if weights is not None:
        state, _ = read_state_dict(weights, where=weights)
        load_into(network, state, ignore=("head.",), where=weights)
    blocks = [f"blocks.{at}" for at in evenly_spaced(len(network.blocks))]
    network.layers = tuple(reversed(blocks))
    network.layer_layouts = dict.fromkeys(blocks, "tokens")
    network.num_prefix_tokens = 1
    network.grid = lambda height, width: (height // 16, width // 16)
    return network


def spectralgpt(
    inputs, *, code: str, model: str = "vit_base_patch8_128", weights=None
) -> nn.Module:
    """SpectralGPT (doi:10.1109/TPAMI.2024.3362475): mean of the tokens; `code` holds models_vit_tensor.py and util."""
    state = None if weights is None else read_state_dict(weights, where=weights)[0]
    # pre-training and fine-tuning write position embeddings in two ways
    apart = state is not None and "pos_embed_spatial" in state
    with _imported(code, "models_vit_tensor") as authors:
        network = getattr(authors, model)(
            sep_pos_embed=apart, cls_embed=state is not None and "cls_token" in state
        )
    network.head = nn.Identity()
    if state is not None:
        state = {k: v for k, v in state.items() if not k.startswith(("decoder", "mask_token"))}
        load_into(network, state, ignore=("head.",), where=weights)
    return SpectralGPT(network)


class SpectralGPT(nn.Module):
    """(B, 12, H, W) -> (B, K), as the authors' forward pass pools; maps are the mean over groups of bands."""

    layers = ("maps",)

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network, self.maps = network, nn.Identity()
        network.blocks[-1].register_forward_hook(self._give)

    def forward(self, images: Tensor) -> Tensor:
        return self.network(images)

    def _give(self, _, __, tokens: Tensor) -> None:
        groups, rows, columns = self.network.input_size
        patches = tokens.flatten(1, -2)[:, -groups * rows * columns :]
        patches = patches.unflatten(1, (groups, rows, columns)).mean(1)
        self.maps(patches.permute(0, 3, 1, 2))


def anysat(inputs, *, code: str, patch_metres: int = 40, weights=None) -> nn.Module:
    """AnySat base (arXiv:2412.14123) of Sentinel-2 series; `code` is their repository, with hubconf.py."""
    with _imported(code, "hubconf") as authors:
        network = authors.AnySat(model_size="base", flash_attn=False)
    if weights is not None:
        load_into(network.model, read_state_dict(weights, where=weights)[0], where=weights)
    return AnySat(network, patch_metres)


class AnySat(nn.Module):
    """(B, T, 10, H, W) -> (B, rows, columns, K): one map of all dates, of patches of `patch_metres`."""

    layout, layers = "NHWC", ("maps",)

    def __init__(self, network: nn.Module, patch_metres: int) -> None:
        super().__init__()
        if patch_metres % _METRES:
            raise PermafrostError(
                f"patches of {patch_metres} m", remedy="give patch_metres a multiple of 10"
            )
        self.network, self.maps, self.patch_metres = network, nn.Identity(), patch_metres

    def forward(self, images: Tensor, dates: Tensor | None = None) -> Tensor:
        series = images if images.ndim == 5 else images[:, None]
        pixels = self.patch_metres // _METRES
        height, width = series.shape[-2:]
        if height != width or height % pixels:
            raise PermafrostError(
                f"AnySat takes squares of a multiple of {pixels} pixels, not {height} x {width}",
                remedy="set options.patch_metres, or input.size",
            )
        days = torch.full(series.shape[:2], UNKNOWN_DAY, device=series.device)
        if dates is not None:
            dates = dates.reshape(*series.shape[:2], 2)
            days = (dates[..., 1] - 1).where(dates[..., 0] > 0, UNKNOWN_DAY)
        fed = {"s2": series, "s2_dates": days}
        return self.maps(self.network(fed, patch_size=self.patch_metres, output="patch"))


@contextlib.contextmanager
def _imported(folder: str, name: str) -> Iterator:
    """The authors' module `name` of their code in `folder`, which may import more of it meanwhile."""
    place, kept = str(Path(folder).resolve()), sys.dont_write_bytecode
    before = list(sys.path)
    sys.path.insert(0, place)
    # what Python compiles would change the folders that identify the backbone
    sys.dont_write_bytecode = True
    try:
        module = importlib.import_module(name)
        if not Path(module.__file__).resolve().is_relative_to(place):
            raise PermafrostError(
                f"another module has the name {name}: {module.__file__}", where=folder
            )
        yield module
    except ModuleNotFoundError as error:
        raise PermafrostError(
            f"the authors' code lacks a module, or needs one that is not installed ({error})",
            where=f"{folder}: {name}",
            remedy="put their repository there, see `url` in the entry",
        ) from error
    finally:
        sys.path[:] = before
        sys.dont_write_bytecode = kept


def _dense(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """MP-MAE's weights of sparse convolutions with the names and shapes of dense ones, as the authors map them."""
    made = {}
    for key, value in state.items():
        key = key.removeprefix("encoder.")
        if key.endswith(".kernel"):
            key = key.removesuffix("kernel") + "weight"
            side = math.isqrt(value.shape[0])
            # (k², in, out), or (k², channels) of one convolution per channel
            value = value.movedim(0, -1)
            value = value.movedim(1, 0) if value.ndim == 3 else value[:, None]
            value = value.unflatten(-1, (side, side)).transpose(-1, -2)
        elif ".ln." in key or ".linear." in key:
            parts = key.split(".")
            key = ".".join([*parts[:-2], parts[-1]])
        if "grn" in key:
            value = value.reshape(1, 1, 1, -1)
        elif key.endswith("bias"):
            value = value.reshape(-1)
        made[key] = value
    return made
