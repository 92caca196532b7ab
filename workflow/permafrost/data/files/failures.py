"""Collect images that cannot be used, and report them in one error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from permafrost.core.errors import PermafrostError
from permafrost.data.files.decode import UnreadableImage
from permafrost.data.records import Record


@dataclass(frozen=True)
class Failure:
    """An image that cannot be used: its name, the reason, a remedy if known, and whether `on_error` may skip it."""

    sample_id: str
    why: str
    remedy: str | None = None
    skippable: bool = True

    @classmethod
    def of(cls, record: Record, error: UnreadableImage) -> Failure:
        image = record.image_id or record.sample_id
        return cls(image, str(error), error.remedy, error.skippable)


def refuse_failures(
    failures: Sequence[Failure], *, total: int, where: object, remedy: str | None = None
) -> None:
    """Raise one `PermafrostError` that lists unusable images, the first 20 by name; `remedy` adds another."""
    if not failures:
        return
    # every window of an image reports the same failure
    failures = list(dict.fromkeys(failures))
    count = len({failure.sample_id for failure in failures})
    shown = "; ".join(f"{failure.sample_id}: {failure.why}" for failure in failures[:20])
    more = f"; and {len(failures) - 20} more" if len(failures) > 20 else ""
    special = list(dict.fromkeys(one.remedy for one in failures if one.remedy))
    plain = any(one.remedy is None for one in failures)
    general = ["repair or remove these files, or correct the entry"] if plain or not special else []
    raise PermafrostError(
        f"{count} of {total} images cannot be used: {shown}{more}",
        where=where,
        remedy="; ".join([*general, *special, *([remedy] if remedy else [])]),
    )
