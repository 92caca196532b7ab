"""Days of the year as months and days, for models that are told when an image was taken."""

from __future__ import annotations

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
