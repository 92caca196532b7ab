"""Catching the maps of layers in the forward pass that makes the embedding."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from permafrost.backbones.outputs.layers import Dense, to_map
from permafrost.core.errors import PermafrostError


class WithMaps(nn.Module):
    """A module that returns, beside its own output, the maps of some of its layers.

    Each map is converted and copied when its layer has just made it: what a later layer changes in place
    does not reach it, and no map is held in a wider type than it is kept in.

    Parameters
    ----------
    module : called as it would be without; `dense` says which of its layers are which.
    names : layers, in the order in which their maps are returned.
    dtype : type of the maps.
    where : how errors name the backbone.
    """

    def __init__(
        self,
        module: nn.Module,
        dense: Dense,
        names: Sequence[str],
        dtype: torch.dtype,
        *,
        where: str,
    ) -> None:
        super().__init__()
        self.module, self._names, self._where = module, tuple(names), where
        self._caught: dict[str, torch.Tensor] = {}
        self._fed = (0, 0, 0)
        modules = dict(dense.model.named_modules())
        for name in names:
            catch = self._catcher(name, dense, dtype)
            if name in dense.given_to:
                modules[dense.given_to[name]].register_forward_pre_hook(
                    lambda _, inputs, catch=catch: catch(inputs[0])
                )
            else:
                modules[name].register_forward_hook(
                    lambda _, inputs, output, catch=catch: catch(output)
                )

    def forward(self, images: torch.Tensor, **told: torch.Tensor):
        """(B, C, H, W), or of all dates (B, T, C, H, W) -> output of the module, maps (B, C, H, W) by name."""
        self._caught = {}
        self._fed = (images.shape[0], *images.shape[-2:])
        output = self.module(images, **told)
        caught, self._caught = self._caught, {}
        unused = [name for name in self._names if name not in caught]
        if unused:
            raise PermafrostError(
                f"the forward pass does not call the layer {unused[0]!r}",
                where=f"{self._where}: layers",
                remedy="name a layer that it calls, such as one inside of it",
            )
        return output, [caught[name] for name in self._names]

    def _catcher(self, name: str, dense: Dense, dtype: torch.dtype):
        def catch(output) -> None:
            if name in self._caught:
                raise PermafrostError(
                    f"the forward pass calls the layer {name!r} more than once",
                    where=f"{self._where}: layers",
                    remedy="name a layer that it calls once",
                )
            found = to_map(output, name, dense, self._fed, where=self._where)
            self._caught[name] = found.to(dtype, memory_format=torch.contiguous_format, copy=True)

        return catch
