"""Segmentation heads: maps of frozen layers in, logits per pixel out.

A head is a ``torch.nn.Module`` built as ``Head(channels, classes, hidden=, sizes=)`` with channels and
(height, width) of the maps, coarse to fine. ``forward(maps, size)`` maps (B, C, H, W) each to
logits (B, classes, *size). To add a head, add a file here and a line in `HEADS`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Literal

from permafrost.core.errors import PermafrostError, look_up

# name -> module of this package and class, imported when used
HEADS = {
    "linear": "permafrost.probes.segmentation.heads.linear:LinearHead",
    "conv_block": "permafrost.probes.segmentation.heads.conv_block:ConvBlockHead",
    "fpn": "permafrost.probes.segmentation.heads.fpn:FPNHead",
    "dpt": "permafrost.probes.segmentation.heads.dpt:DPTHead",
}
if TYPE_CHECKING:
    HeadName = str
else:
    HeadName = Literal[tuple(HEADS)]


def build_head(
    name: str,
    channels: list[int],
    classes: int,
    *,
    hidden: int = 256,
    sizes: list[tuple[int, int]],
    where: object = None,
):
    """A head with fresh parameters, drawn from torch's global generator.

    Raises
    ------
    PermafrostError : an unknown head, or maps that do not fit it; the message includes `where`.
    """
    look_up(HEADS, name, "unknown head", where=where)
    module, _, kind = HEADS[name].partition(":")
    head = getattr(import_module(module), kind)
    try:
        return head(list(channels), classes, hidden=hidden, sizes=[tuple(size) for size in sizes])
    except PermafrostError as error:
        raise PermafrostError(error.problem, where=where, remedy=error.remedy) from error
