"""Options as frozen dataclasses: a class gives type, default, choices, bounds and words of each of its keys.

A string below a field describes it. `permafrost.core.option_models` reads options from JSON, and makes the JSON schema
of a class, from which editors, the reference of the documentation and messages follow.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, TypeVar

from annotated_types import Ge, Gt, Len, MinLen


@dataclass(frozen=True, kw_only=True)
class Options:
    """Base class of options: unknown keys and values of another type are refused.

    Attributes
    ----------
    RULES : class attribute; what JSON schema says of several keys at once (``dependentRequired``, ``if``, ``oneOf``).
    """

    __pydantic_config__ = {"extra": "forbid", "strict": True}


@dataclass(frozen=True)
class Words:
    """Mark of a type: the text that messages use for a value."""

    words: str

    def __get_pydantic_json_schema__(self, schema, handler) -> dict:
        return {**handler(schema), "words": self.words}


@dataclass(frozen=True)
class Matches(Words):
    """Mark of a text that matches a regular expression; `words` say which texts do."""

    pattern: str

    def __get_pydantic_core_schema__(self, source, handler):
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(self._checked, handler(source))

    def __get_pydantic_json_schema__(self, schema, handler) -> dict:
        return {**super().__get_pydantic_json_schema__(schema, handler), "pattern": self.pattern}

    def _checked(self, value: str) -> str:
        if not re.search(self.pattern, value):
            raise ValueError(f"{value!r} must be {self.words}")
        return value


class _Different:
    """Mark of a list whose items differ from each other."""

    def __get_pydantic_core_schema__(self, source, handler):
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(self._checked, handler(source))

    def __get_pydantic_json_schema__(self, schema, handler) -> dict:
        return {**handler(schema), "uniqueItems": True}

    @staticmethod
    def _checked(value: list) -> list:
        if any(one in value[:place] for place, one in enumerate(value)):
            raise ValueError(f"an item of {value!r} is in the list twice")
        return value


#: mark of a key that may be left out and cannot be null; its value is then None
LEFT_OUT = "left out"
#: mark of a key that may be left out, which is another thing than null
NO_DEFAULT = "no default"

_T = TypeVar("_T")
#: ``LeftOut[T]``: a key that may be left out, with the default None
LeftOut = Annotated[_T | None, LEFT_OUT]
#: whole numbers of at least 1, and of at least 0
Positive = Annotated[int, Ge(1)]
Natural = Annotated[int, Ge(0)]
#: numbers above 0, and of at least 0
Above0 = Annotated[float, Gt(0)]
AtLeast0 = Annotated[float, Ge(0)]
#: a text that is not empty
Text = Annotated[str, MinLen(1)]
#: lists: of at least one item; of at least one, all different; of all different ones; of two
Some = Annotated[list[_T], MinLen(1)]
Different = Annotated[list[_T], MinLen(1), _Different()]
AnyDifferent = Annotated[list[_T], _Different()]
Two = Annotated[list[_T], Len(2, 2)]
