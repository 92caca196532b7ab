"""When images were taken: days of the year as months and days, and samples that have fewer dates than others."""

from __future__ import annotations

from collections.abc import Callable

import torch

# days before each month of a year that is no leap year, and what follows December
_BEFORE = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)


def month_and_day(dates: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Month from 0 to 11 and day of the month from 1, of (..., 2) int64 years and days of the year from 1.

    A day of 0, which stands for a date that is not there, is taken for the first of January.
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
    """``run(series, dates, *others)`` of the samples that have the same dates together, each without those it lacks.

    For models that cannot leave dates out: so no feature depends on its neighbours in the batch.

    Parameters
    ----------
    present : (B, T) bool, which dates there are; None stands for all.
    series, dates : (B, T, ...); others : (B, ...). What is not known is None.

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
