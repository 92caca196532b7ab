"""Read options from JSON, and generate the JSON schemas of their classes."""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import json
import textwrap
import typing
from collections.abc import Callable
from typing import cast

from pydantic import TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema

from permafrost.core.errors import PermafrostError
from permafrost.core.explain import TOP_LEVEL
from permafrost.core.options import LEFT_OUT, NO_DEFAULT
from permafrost.core.schema_checks import problems, validator_of


def read[T](kind: type[T], content: object, *, where: str) -> T:
    """Build the dataclass `kind` from a JSON object; nested objects become nested dataclasses.

    Raises
    ------
    PermafrostError : the content is invalid; lists every problem with the path of its key.
    """
    try:
        return _adapter(kind).validate_json(json.dumps(content))
    except ValidationError as error:
        raise PermafrostError(_problem(kind, content, error), where=where) from None


def _problem(kind: type, content: object, error: ValidationError) -> str:
    """The problems by the JSON schema of `kind`; pydantic's messages if the schema finds none."""
    known = problems(json.loads(json.dumps(content)), validator_of(schema_of(kind)))
    said = known or [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
    return "; ".join(one.removeprefix(f"{TOP_LEVEL}: ") for one in said)


_adapter: Callable[[object], TypeAdapter] = functools.cache(TypeAdapter)


def schema_of(kind) -> dict:
    """The JSON schema of a dataclass or of a union; referenced classes are under ``$defs``."""
    return _adapter(kind).json_schema(schema_generator=_Schema)


def named(name: str, *bases: type) -> type:
    """A dataclass with ``kind: name`` and the fields of all `bases`, those of the last base first."""
    key = type("Kind", (), {"__annotations__": {"kind": typing.Literal[name]}})
    options = {"frozen": True, "kw_only": True}
    key = dataclasses.dataclass(key, **options)
    return dataclasses.dataclass(
        type(name, (*bases, key), {"__doc__": bases[0].__doc__}), **options
    )


class _Schema(GenerateJsonSchema):
    def field_title_should_be_set(self, schema) -> bool:
        return False

    def sort(self, value, parent_key=None):
        return value

    def dict_schema(self, schema) -> dict:
        made = super().dict_schema(schema)
        values = made.pop("patternProperties", None)
        if values is None:
            return made
        names = self.generate_inner(schema["keys_schema"])
        names = {key: names[key] for key in ("pattern", "words")}
        return {**made, "propertyNames": names, "additionalProperties": next(iter(values.values()))}

    def literal_schema(self, schema) -> dict:
        made = super().literal_schema(schema)
        made.pop("type", None)
        return made

    def dataclass_schema(self, schema) -> dict:
        cls = schema["cls"]
        made = super().dataclass_schema(schema)
        made.pop("title", None)
        said, hints = _descriptions(cls), typing.get_type_hints(cls, include_extras=True)
        keys = {
            field.name: _key(made["properties"][field.name], field, hints[field.name])
            | ({"description": said[field.name]} if field.name in said else {})
            for field in dataclasses.fields(cls)
        }
        made = {**made, "properties": keys, **getattr(cls, "RULES", {})}
        made.pop("description", None)
        # dataclasses without a docstring get their signature as docstring
        if cls.__doc__ is None or cls.__doc__.startswith(f"{cls.__name__}("):
            return made
        return {"description": _first_paragraph(cls.__doc__), **made}


def _key(schema: dict, field: dataclasses.Field, hint) -> dict:
    """The schema of a key with its default; an optional key does not accept null."""
    schema = {key: value for key, value in schema.items() if key != "default"}
    marks = getattr(hint, "__metadata__", ())
    if NO_DEFAULT in marks:
        return schema
    if LEFT_OUT in marks:
        kinds = [one for one in schema.pop("anyOf") if one != {"type": "null"}]
        return {**schema, **(kinds[0] if len(kinds) == 1 else {"anyOf": kinds})}
    default = _default(field)
    return schema if default is dataclasses.MISSING else {**schema, "default": _plain(default)}


def _default(field: dataclasses.Field):
    """The default of a field; `dataclasses.MISSING` if it has none."""
    made = field.default_factory
    return field.default if made is dataclasses.MISSING else made()


def _plain(value):
    """A default as JSON; nested options give only the keys that differ from their own defaults."""
    if dataclasses.is_dataclass(value):
        chosen = {field: getattr(value, field.name) for field in dataclasses.fields(value)}
        return {field.name: _plain(one) for field, one in chosen.items() if one != _default(field)}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


def _descriptions(cls: type) -> dict[str, str]:
    """Field to the string below it, for `cls` and its bases."""
    return {name: text for base in reversed(cls.__mro__) for name, text in _own(base).items()}


@functools.cache
def _own(cls: type) -> dict[str, str]:
    try:
        body = cast("ast.ClassDef", ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]).body
    except (OSError, TypeError):
        # the class has no source file, such as those of `named`
        return {}
    return {
        # in a class, only names have annotations, and only texts are constants by themselves
        cast("ast.Name", field.target).id: " ".join(cast("str", text.value.value).split())
        for field, text in zip(body, body[1:], strict=False)
        if isinstance(field, ast.AnnAssign)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
    }


def _first_paragraph(text: str) -> str:
    return " ".join(inspect.cleandoc(text).partition("\n\n")[0].split())
