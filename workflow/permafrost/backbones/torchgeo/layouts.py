"""Convert state dicts saved from torchgeo's classes to the layout that torchgeo's model functions load.

These functions load the files that authors published. ``state_dict()`` of the models differs from
these: CROMA's file has a mapping per encoder, Panopticon's has position embeddings for 518 pixels
and a mask token. Trainers add prefixes: a checkpoint of ``torchgeo.tasks`` has
``backbone.conv1.weight`` and a projector.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import torch
from torch import nn

from permafrost.core.errors import PermafrostError, near_names

# prefix of the name of torchgeo's function -> a tensor that every state dict of the model has
_ANCHORS = {
    "resnet": ("conv1.weight",),
    "tilenet": ("conv1.weight",),
    "swin": ("features.0.0.weight",),
    "croma": ("s2_encoder.linear_input.weight", "s1_encoder.linear_input.weight"),
    "earthloc": ("backbone.conv1.weight",),
    "deo": ("feat_extr.features.0.0.norm1.weight",),
    "presto": ("encoder.pos_embed",),
    "tessera": ("s2_backbone.embedding.0.weight", "embedding.0.weight"),
    "satclip": ("nnet.layers.0.weight",),
    "unet": ("encoder.conv1.weight", "encoder._conv_stem.weight"),
    # vision transformers
    "": ("cls_token",),
}
# momentum copies of the trained model in torchgeo's trainers (BYOL, MoCo)
_COPIES = re.compile(r"(^|\.)(target|backbone_momentum)\.")
# tensors to remove, since torchgeo's functions do not accept them
_HEADS = {"dofa": ("head.",), "copernicusfm": ("head.",), "croma": ("attn_bias",)}
_SWIN_CLASSES = 1000
_PANOPTICON_ROWS = 37


@dataclass
class Laid:
    """Tensors in the layout of the authors' file.

    Attributes
    ----------
    state : tensors to load; for CROMA a mapping per encoder.
    left_out : names in the file of tensors that were left out.
    positions : position embeddings (1, 1 + rows², K) of Panopticon, if for another size than
        published.
    """

    state: dict
    left_out: list[str] = field(default_factory=list)
    positions: torch.Tensor | None = None


def as_published(content: dict, model: str, *, where: str) -> Laid:
    """Convert the tensors of a file to the layout that torchgeo's function `model` loads.

    Parameters
    ----------
    content : tensors by name, or mappings of them.

    Raises
    ------
    PermafrostError : the file contains no such model, or several.
    """
    flat = _flat(content)
    before = _beginning(flat, model, where)
    heads = _of(_HEADS, model, ())
    state = {
        name.removeprefix(before): one for name, one in flat.items() if name.startswith(before)
    }
    state = {name: one for name, one in state.items() if not name.startswith(heads)}
    left_out = [
        name for name in flat if not name.startswith(before) or name[len(before) :] not in state
    ]
    laid = Laid(state, left_out)
    if model.startswith("croma"):
        laid.state = _nested(state)
    elif model.startswith("swin") and "norm.weight" in state:
        # torchgeo's function requires a classifier of ImageNet's size, which is removed later
        width = len(state["norm.weight"])
        state |= {
            "head.weight": torch.zeros(_SWIN_CLASSES, width),
            "head.bias": torch.zeros(_SWIN_CLASSES),
        }
    elif model.startswith("panopticon"):
        _for_panopticon(laid)
    elif model == "satclip":
        # the authors' file is a checkpoint of both encoders
        laid.state = {"state_dict": {f"model.location.{name}": one for name, one in state.items()}}
    return laid


def settle(model: nn.Module, laid: Laid | None) -> int | None:
    """Load position embeddings of Panopticon that differ in size from the published ones, resized.

    Returns
    -------
    Rows of patches that the embeddings were trained for; None if torchgeo's function has loaded
    them.
    """
    if laid is None or laid.positions is None:
        return None
    from torchgeo.models.copernicusfm import resize_abs_pos_embed

    of_model = model.model.pos_embed
    rows, fed = (round((one.shape[1] - 1) ** 0.5) for one in (laid.positions, of_model))
    with torch.no_grad():
        of_model.copy_(resize_abs_pos_embed(laid.positions, fed, rows))
    return rows


def _for_panopticon(laid: Laid) -> None:
    state = laid.state
    state.setdefault("mask_token", torch.zeros(1))
    positions = state.get("pos_embed")
    if positions is not None and positions.shape[1] != 1 + _PANOPTICON_ROWS**2:
        laid.positions = positions
        state["pos_embed"] = positions.new_zeros(1, 1 + _PANOPTICON_ROWS**2, positions.shape[2])


def _beginning(flat: dict, model: str, where: str) -> str:
    """Prefix of the model's tensors in the file: ``""``, ``backbone.``, ``model.backbone.``, …"""
    anchors = _of(_ANCHORS, model)
    for anchor in anchors:
        found = [
            name.removesuffix(anchor)
            for name in flat
            if name == anchor or name.endswith(f".{anchor}")
        ]
        # layer1.0.conv1.weight does not mean a second model
        roots = [
            one
            for one in found
            if not any(one != other and one.startswith(other) for other in found)
        ]
        roots = [one for one in roots if not _COPIES.search(one)] or roots
        if len(roots) == 1:
            return roots[0]
        if roots:
            raise PermafrostError(
                f"the file holds {len(roots)} models like torchgeo's {model}, beginning with {', '.join(roots)}",
                where=where,
                remedy=f"leave out all but one, such as weights.drop: ['{roots[-1]}*']",
            )
    raise PermafrostError(
        f"the file holds no tensor {anchors[0]!r}, which torchgeo's {model} has; {near_names(anchors[0], flat)}",
        where=where,
        remedy="name under `like` weights of the model that the file was saved from",
    )


def _of(table: dict, model: str, default=None):
    return next((value for key, value in table.items() if model.startswith(key)), default)


def _flat(content: dict, before: str = "") -> dict[str, torch.Tensor]:
    flat = {}
    for key, value in content.items():
        name = f"{before}{key}"
        flat.update(_flat(value, f"{name}.") if isinstance(value, dict) else {name: value})
    return flat


def _nested(state: dict) -> dict[str, dict[str, torch.Tensor]]:
    nested: dict[str, dict[str, torch.Tensor]] = {}
    for name, value in state.items():
        part, _, rest = name.partition(".")
        nested.setdefault(part, {})[rest] = value
    return nested
