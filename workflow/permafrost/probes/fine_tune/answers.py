"""What was found for the test split, before it becomes a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

FINE_TUNED, FROZEN = "fine-tuned", "frozen"


@dataclass(frozen=True)
class Answer:
    """What a model says of the test split.

    Attributes
    ----------
    name : of the setting.
    output : what the problem's ``answer`` gave.
    settings : how the model was found; JSON-able.
    gates : names of the sanity checks that it did not pass.
    """

    name: str
    output: Any
    settings: dict
    gates: list[str]

    @property
    def brief(self) -> dict:
        """The settings without logs and lists, which the ranked answer's settings hold."""
        return {
            name: value
            for name, value in self.settings.items()
            if not isinstance(value, list | dict)
        }
