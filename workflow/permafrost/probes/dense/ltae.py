"""The lightweight temporal attention encoder (L-TAE): combines features of several dates into those of a sample.

Garnot & Landrieu 2020, Lightweight temporal self-attention for classifying satellite image time series,
arXiv:2007.00586: one learned query per head, and each head attends to a separate group of channels. The
published implementation normalises over all dates together. Here each date is normalised separately, so that
missing dates have no effect.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from permafrost.core.errors import PermafrostError
from permafrost.features.dates import LtaeOptions, check_heads

# as in the published implementation: longest period of the positional encoding, dropout of attention
PERIOD = 1000.0
ATTENTION_DROPOUT = 0.1


class Ltae(nn.Module):
    """Layer norm, projection, position, grouped attention over dates, perceptron, layer norm.

    Parameters
    ----------
    channels : number of features of a date, C.
    options : ``hidden`` channels D, divided among the heads, and ``width`` of the result.

    Raises
    ------
    PermafrostError : `hidden` cannot be divided equally.
    """

    def __init__(self, channels: int, options: LtaeOptions) -> None:
        super().__init__()
        self.heads, self.key, hidden = options.heads, options.key, options.hidden
        check_heads(self.heads, hidden)
        self.norm = nn.LayerNorm(channels)
        self.project = nn.Linear(channels, hidden)
        self.queries = nn.Parameter(torch.empty(self.heads, self.key))
        self.keys = nn.Linear(hidden, self.heads * self.key)
        for weights in (self.queries, self.keys.weight):
            nn.init.normal_(weights, std=(2 / self.key) ** 0.5)
        self.attention_dropout = nn.Dropout(ATTENTION_DROPOUT)
        self.perceptron = nn.Linear(hidden, options.width)
        self.batch_norm = nn.BatchNorm1d(options.width)
        self.dropout = nn.Dropout(options.dropout)
        self.out_norm = nn.LayerNorm(options.width)

    def forward(self, values: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Encode samples.

        Parameters
        ----------
        values : (B, P, T, C) features of P places at T dates each; all places share the weights.
        positions : (B, T) integers, the day of the year or the index in the series, from 1; 0 for missing dates,
            which are masked.

        Returns
        -------
        (B, P, width)
        """
        batch, places, dates, _ = values.shape
        x = self.project(self.norm(values)) + self._encoded(positions)[:, None]
        attention = self._attention(x, positions)
        grouped = x.reshape(batch, places, dates, self.heads, -1)
        joined = torch.einsum("bpth,bpthc->bphc", attention, grouped)
        found = self.perceptron(joined.reshape(batch * places, -1))
        if self.training and len(found) == 1:
            raise PermafrostError(
                "a batch holds a single sample, which cannot be normalised",
                remedy="give train more samples",
            )
        found = self.dropout(functional.relu(self.batch_norm(found)))
        return self.out_norm(found).reshape(batch, places, -1)

    def _attention(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """(B, P, T, heads) weights, which sum to 1 over dates."""
        # all samples share the queries, so queries are multiplied with the keys' weights instead of keys
        weights = self.keys.weight.view(self.heads, self.key, -1)
        queries = self.queries / self.key**0.5
        merged = torch.einsum("hkd,hk->hd", weights, queries)
        shift = (self.keys.bias.view(self.heads, self.key) * queries).sum(dim=1)
        scores = functional.linear(x, merged, shift).float()
        scores = scores.masked_fill((positions == 0)[:, None, :, None], -torch.inf)
        return self.attention_dropout(scores.softmax(dim=2)).to(x.dtype)

    def _encoded(self, positions: torch.Tensor) -> torch.Tensor:
        """(B, T, hidden) sines and cosines of the positions, the same for each head."""
        width = self.project.out_features // self.heads
        places = torch.arange(width, device=positions.device)
        frequencies = PERIOD ** -(places // 2 * 2 / width)
        angles = positions[..., None] * frequencies
        waves = torch.where(places % 2 == 0, angles.sin(), angles.cos())
        return waves.repeat(1, 1, self.heads)


def ltae_over_maps(encoder: Ltae, maps: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """(B, T, C, H, W) and (B, T), see `Ltae.forward` -> (B, width, H, W), for each pixel separately."""
    batch, dates, channels, height, width = maps.shape
    values = maps.permute(0, 3, 4, 1, 2).reshape(batch, height * width, dates, channels)
    found = encoder(values, positions).reshape(batch, height, width, -1)
    # channels are last in memory, as in maps of single dates
    return found.permute(0, 3, 1, 2)


def head_over_dates(
    build: Callable[[list[int]], nn.Module], channels: list[int], ltae: LtaeOptions | None
) -> nn.Module:
    """The head that `build` makes for maps of these channels; with `ltae`, encoders of all dates come before it."""
    if ltae is None:
        return build(channels)
    return HeadOverDates(channels, ltae, build([ltae.width] * len(channels)))


class HeadOverDates(nn.Module):
    """A head on maps of all dates: an encoder per layer, with weights shared by all pixels, then the head.

    Parameters
    ----------
    channels : number of channels of each layer's maps.
    head : takes maps of `options.width` channels.
    """

    def __init__(self, channels: list[int], options: LtaeOptions, head: nn.Module) -> None:
        super().__init__()
        self.encoders = nn.ModuleList(Ltae(count, options) for count in channels)
        self.head = head

    def forward(self, maps: list[torch.Tensor], *size):
        """Maps (B, T, C, H, W), coarse to fine, then positions (B, T) -> the head's output."""
        *maps, positions = maps
        pairs = zip(self.encoders, maps, strict=True)
        return self.head([ltae_over_maps(encoder, x, positions) for encoder, x in pairs], *size)
