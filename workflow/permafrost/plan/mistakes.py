"""Collect all mistakes of a configuration, to report them at once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from permafrost.core.errors import PermafrostError

_MOST_SHOWN = 60


class Mistakes:
    """Collects the errors of planning, without repeats, so that users can correct all at once."""

    def __init__(self) -> None:
        self._errors: dict[str, PermafrostError] = {}

    def __bool__(self) -> bool:
        return bool(self._errors)

    def add(self, *errors: PermafrostError) -> None:
        for error in errors:
            self._errors.setdefault(str(error), error)

    @contextlib.contextmanager
    def gathered(self) -> Iterator[None]:
        """Collect a `PermafrostError` raised inside instead of passing it on."""
        try:
            yield
        except PermafrostError as error:
            self.add(error)

    def refuse(self, where: str) -> None:
        """Raise the collected errors, if any: a single one as it is, several as a numbered list."""
        errors = list(self._errors.values())
        if len(errors) == 1:
            raise errors[0]
        if errors:
            lines = [f"{number}. {error}" for number, error in enumerate(errors, start=1)]
            left_out = len(lines) - _MOST_SHOWN
            more = [f"… and {left_out} more"] if left_out > 0 else []
            shown = "\n  ".join([*lines[:_MOST_SHOWN], *more])
            raise PermafrostError(
                f"{len(errors)} mistakes were found while planning, and nothing was run\n  {shown}",
                where=where,
            )
