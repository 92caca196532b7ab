"""Dates as model input: months and days, and batches with differing numbers of dates."""

from __future__ import annotations

from collections.abc import Callable

import torch

# days before each month, except in leap years
_BEFORE = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)


def month_and_day(dates: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(month from 0 to 11, day of the month from 1) of (..., 2) int64 years and days of the year from 1.

    Day 0, which marks a missing date, gives the first of January.
    """
    year, day = dates[..., 0], dates[..., 1].clamp(min=1)
    leap = ((year % 4 == 0) & (year % 100 != 0)) | (year % 400 == 0)
    before = torch.tensor(_BEFORE, device=dates.device).expand(*day.shape, 12)
    after_february = torch.arange(12, device=dates.device) > 1
    before = before + (leap[..., None] & after_february)
    month = (day[..., None] > before).sum(-1) - 1
    first = before.gather(-1, month[..., None])[..., 0]
    return month, day - first


def by_dates[Maps](
    run: Callable[..., tuple[torch.Tensor, dict[Maps, torch.Tensor]]],
    present: torch.Tensor | None,
    series: torch.Tensor,
    dates: torch.Tensor | None,
    *others: torch.Tensor | None,
) -> tuple[torch.Tensor, dict[Maps, torch.Tensor]]:
    """Call ``run(series, dates, *others)`` for each group of samples with the same missing dates.

    Missing dates are removed. For models that cannot mask dates, so that features do not depend on
    the batch.

    Parameters
    ----------
    present : (B, T) bool, which dates exist; None: all.
    series : (B, T, ...).
    dates : (B, T, ...), or None if unknown.
    others : (B, ...) each, or None if unknown.

    Returns
    -------
    Features and maps as `run` returns them, in the order of the batch.
    """
    if present is None or bool(present.all()):
        return run(series, dates, *others)
    patterns, which = present.unique(dim=0, return_inverse=True)
    rows = [(which == group).nonzero()[:, 0] for group in range(len(patterns))]
    found = [
        run(
            series[at][:, there],
            None if dates is None else dates[at][:, there],
            *(None if one is None else one[at] for one in others),
        )
        for at, there in zip(rows, patterns, strict=True)
    ]
    order = torch.cat(rows).argsort()
    maps = {key: torch.cat([some[key] for _, some in found])[order] for key in found[0][1]}
    return torch.cat([features for features, _ in found])[order], maps
