"""Columns of result tables; tables, JSON schemas and the reference are generated from them."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, cast

import pyarrow as pa

_JSON_TYPES = {
    "string": "string",
    "bool": "boolean",
    **dict.fromkeys(("int32", "int64", "uint8"), "integer"),
    **dict.fromkeys(("float", "double"), "number"),
}
#: keywords of JSON schema for numbers between 0 and 1, and for fingerprints
BETWEEN_0_AND_1 = {"minimum": 0, "maximum": 1}
FINGERPRINT = {"pattern": "^[0-9a-f]{32}$"}


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes
    ----------
    name : name of the column.
    type : Arrow type as text, lists of a fixed size without it; several if it depends on the task.
    nullable : whether a value may be missing.
    optional : whether the whole column may be missing.
    values : all possible values, if they can be listed.
    least : lower bound of numbers.
    rules : further keywords of JSON schema.
    """

    name: str
    type: str | tuple[str, ...] = "string"
    nullable: bool = False
    optional: bool = False
    values: tuple = ()
    least: int | None = None
    rules: Mapping = field(default_factory=dict)

    def schema(self) -> dict:
        """JSON schema of one value."""
        kinds = [self.type] if isinstance(self.type, str) else list(self.type)
        found = _json_type(kinds[0]) if len(kinds) == 1 else {"oneOf": [*map(_json_type, kinds)]}
        if self.values:
            found["enum"] = list(dict.fromkeys([*self.values, *([None] if self.nullable else [])]))
        if self.nullable and "type" in found:
            found["type"] = [found["type"], "null"]
        if self.least is not None:
            found["minimum"] = self.least
        return {**found, **self.rules, "x-arrow": kinds[0] if len(kinds) == 1 else kinds}


def _json_type(arrow: str) -> dict:
    """JSON schema of an Arrow type; structures and bytes are not restricted."""
    if "list<" in arrow.partition("struct")[0]:
        item = arrow.partition("<")[2].removesuffix(">").removeprefix("item: ")
        return {"type": "array", "items": _json_type(item)}
    return {"type": _JSON_TYPES[arrow]} if arrow in _JSON_TYPES else {}


class Table:
    """A result table. The docstring of a subclass describes its rows and, below "Columns", its columns.

    Jobs do not depend on docstrings, so editing a description reruns nothing. A column inherits its
    description from the base class if the docstring does not mention it; "…" inserts that
    description.

    Attributes
    ----------
    columns : in order.
    words : name to the text that replaces ``{name}`` in the descriptions.
    """

    columns: ClassVar[tuple[Column, ...]] = ()
    words: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def names(cls) -> list[str]:
        return [one.name for one in cls.columns]

    @classmethod
    @functools.cache
    def arrow(cls) -> pa.Schema:
        """Arrow schema, for tables in which every column has a single type."""
        return pa.schema([(one.name, pa.type_for_alias(one.type)) for one in cls.columns])

    @classmethod
    def from_rows(cls, rows: list[dict]) -> pa.Table:
        """A table of rows that have a value for every column."""
        arrays = [pa.array([row[one.name] for row in rows], one.type) for one in cls.arrow()]
        return pa.table(arrays, schema=cls.arrow())

    @classmethod
    def but(cls, *names: str, **changes) -> tuple[Column, ...]:
        """The columns of these names, with `changes` of their attributes."""
        by_name = {one.name: one for one in cls.columns}
        return tuple(replace(by_name[name], **changes) for name in names)

    @classmethod
    def changed(cls, *columns: Column) -> tuple[Column, ...]:
        """All columns, with `columns` replacing those of the same names; new ones come last."""
        return tuple({one.name: one for one in (*cls.columns, *columns)}.values())

    @classmethod
    def descriptions(cls) -> dict[str, str]:
        """Description of every column by name; ``""`` describes a row."""
        above = cast("type[Table]", cls.__base__).descriptions() if cls is not Table else {}
        row, _, section = inspect.cleandoc(cls.__doc__ or "").partition("\n\nColumns\n-------\n")
        found = {"": row}
        for names, text in re.findall(r"^(\S.*?) : (.*(?:\n +.*)*)", section, re.MULTILINE):
            for name in " ".join(names.split()).split(", "):
                found[name] = text.replace("…", above.get(name, ""), 1)
        for name, text in found.items():
            for word, replacement in cls.words.items():
                text = text.replace(f"{{{word}}}", replacement)
            found[name] = " ".join(text.split())
        return {**above, **found}

    @classmethod
    def schema(cls) -> dict:
        """JSON schema of a row."""
        described = cls.descriptions()
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": cls.__name__,
            "description": described[""],
            "type": "object",
            "additionalProperties": False,
            "required": [one.name for one in cls.columns if not one.optional],
            "properties": {
                one.name: {**one.schema(), "description": described[one.name]}
                for one in cls.columns
            },
        }
