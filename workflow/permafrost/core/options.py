"""Options as frozen dataclasses, which define type, default, choices and bounds of each key.

A string below a field describes it. `permafrost.core.option_models` reads options from JSON and
generates JSON schemas, which editors, the reference and error messages use.
"""

from __future__ import annotations

import functools
import re
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from typing import Annotated, Any, ClassVar, TypeVar

from annotated_types import Ge, Gt, Interval, Len, MinLen

from permafrost.core.names import NAME, NAME_WORDS


@dataclass(frozen=True, kw_only=True)
class Options:
    """Base class of options; unknown keys and values of another type are errors.

    Attributes
    ----------
    RULES : class attribute; JSON schema keywords across keys (``dependentRequired``, ``if``,
        ``oneOf``).
    BY_TASK : class attribute of dataset entries and sources: tasks to the defaults of their keys.
    PLAIN : class attribute; whether `build` keeps the mapping, which shows the keys the user wrote.
    """

    __pydantic_config__ = {"extra": "forbid", "strict": True}
    BY_TASK: ClassVar[dict[tuple[str, ...], dict[str, Any]]] = {}
    PLAIN = False


def build[T](kind: type[T], content: dict) -> T:
    """Build options from JSON that was validated: by its schema in the plan, by `read` in jobs.

    Numbers keep their JSON type, and no slow library is imported (see `core.option_models.read`).
    """
    hints = _hints(kind)
    return kind(**{key: _built(hints[key], value) for key, value in content.items()})


_hints: Callable[[type], dict[str, Any]] = functools.cache(typing.get_type_hints)


def _built(hint, value):
    """`value` with its JSON objects replaced by options."""
    union = typing.get_origin(hint) in (types.UnionType, typing.Union)
    for one in typing.get_args(hint) if union else (hint,):
        origin, inner = typing.get_origin(one), typing.get_args(one)
        match value:
            case dict() if is_dataclass(one):
                return value if getattr(one, "PLAIN", False) else build(one, value)
            case dict() if origin is dict:
                return {key: _built(inner[1], item) for key, item in value.items()}
            case list() if origin is list:
                return [_built(inner[0], item) for item in value]
    return value


@dataclass(frozen=True)
class Words:
    """Type annotation: the words that error messages use for a value."""

    words: str

    def __get_pydantic_json_schema__(self, schema, handler) -> dict:
        return {**handler(schema), "words": self.words}


@dataclass(frozen=True)
class Matches(Words):
    """Type annotation: a text that matches a regular expression, which `words` describe."""

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
    """Type annotation: a list without duplicates."""

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


#: annotation of an optional key that cannot be null; None if it is missing
LEFT_OUT = "left out"
#: annotation of an optional key, for which missing and null differ
NO_DEFAULT = "no default"

_T = TypeVar("_T")
#: ``LeftOut[T]``: an optional key that cannot be null; None if it is missing
LeftOut = Annotated[_T | None, LEFT_OUT]
#: ``OrNull[T]``: an optional key that can be null; None in both cases, but the two differ in meaning
OrNull = Annotated[_T | None, NO_DEFAULT]
#: whole numbers of at least 1, of at least 2, and of at least 0
Positive = Annotated[int, Ge(1)]
AtLeast2 = Annotated[int, Ge(2)]
Natural = Annotated[int, Ge(0)]
#: numbers above 0, and of at least 0
Above0 = Annotated[float, Gt(0)]
AtLeast0 = Annotated[float, Ge(0)]
#: shares: in (0, 1), and in (0, 1]
Share = Annotated[float, Interval(gt=0, lt=1)]
ShareOrAll = Annotated[float, Interval(gt=0, le=1)]
#: a text that is not empty
Text = Annotated[str, MinLen(1)]
#: a mapping with at least one name
ByName = Annotated[dict[str, _T], MinLen(1)]
#: a text that can be part of a file name
Name = Annotated[str, Matches(NAME_WORDS, NAME)]
#: lists: not empty; not empty and distinct; two or more and distinct; distinct; of two items
Some = Annotated[list[_T], MinLen(1)]
Different = Annotated[list[_T], MinLen(1), _Different()]
TwoOrMore = Annotated[list[_T], MinLen(2), _Different()]
AnyDifferent = Annotated[list[_T], _Different()]
Two = Annotated[list[_T], Len(2, 2)]
