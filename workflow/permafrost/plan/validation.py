"""Checks a configuration or a catalogue entry against its JSON schema, before anything runs."""

from __future__ import annotations

import functools
from pathlib import Path

import yaml

from permafrost.core.errors import PermafrostError

from .explain import explain

# a link to workflow/schemas; a folder of its own where the package is installed
SCHEMAS = Path(__file__).resolve().parent / "schemas"


@functools.cache
def load_schema(name: str) -> dict:
    """The schema ``workflow/schemas/{name}.schema.yaml``."""
    return yaml.safe_load((SCHEMAS / f"{name}.schema.yaml").read_text(encoding="utf-8"))


def validate(instance, schema_name: str, *, where: str, required: tuple[str, ...] = ()) -> None:
    """Check `instance` and fill in the schema's defaults, in place. It must have the keys `required` as well.

    Of an ``anyOf`` or ``oneOf``, only the alternative that applies fills in its defaults: the one whose
    constants (``kind: knn``) the instance bears, else the first that the instance fits.

    Raises
    ------
    PermafrostError : every problem found, each with the path of the key, e.g.
        ``config/config.yaml: extraction.sise: unknown key, did you mean 'size'?``
    """
    validator = _validator(schema_name)
    problems = list(dict.fromkeys(explain(error) for error in validator.iter_errors(instance)))
    if isinstance(instance, dict):
        problems += [f"{key}: missing" for key in required if key not in instance]
    if problems:
        raise PermafrostError(
            "; ".join(problems),
            where=where,
            remedy=f"correct the entry (workflow/schemas/{schema_name}.schema.yaml describes every key)",
        )


@functools.cache
def _validator(schema_name: str):
    from jsonschema import Draft202012Validator, validators

    schema = load_schema(schema_name)
    check_properties = Draft202012Validator.VALIDATORS["properties"]
    own = {
        "properties": functools.partial(_fill_and_check, schema, check_properties),
        "anyOf": functools.partial(_check_alternatives, schema, False),
        "oneOf": functools.partial(_check_alternatives, schema, True),
    }
    kind = validators.extend(Draft202012Validator, own)
    kind.check_schema(schema)
    return kind(schema)


def _fill_and_check(root, check, validator, properties, instance, schema):
    if isinstance(instance, dict):
        for key, subschema in properties.items():
            if not isinstance(subschema, dict):
                continue
            if "default" not in subschema:
                subschema = _resolved(root, subschema)
            if "default" in subschema:
                instance.setdefault(key, _copy(subschema["default"]))
    yield from check(validator, properties, instance, schema)


def _check_alternatives(root, exclusive, validator, alternatives, instance, schema):
    """``anyOf`` and ``oneOf``; an alternative that is only tried must not leave its defaults behind."""
    from jsonschema import ValidationError

    meant = [branch for branch in alternatives if _bears_constants(root, branch, instance)]
    if len(meant) != 1:
        tried = [
            list(validator.descend(_copy(instance), branch, schema_path=index))
            for index, branch in enumerate(alternatives)
        ]
        meant = [b for b, errors in zip(alternatives, tried, strict=True) if not errors]
        if not meant:
            causes = [error for errors in tried for error in errors]
            yield ValidationError(f"{instance!r} fits none of the alternatives", context=causes)
            return
        if exclusive and len(meant) > 1:
            yield ValidationError(f"{instance!r} fits more than one of the alternatives")
            return
    yield from validator.descend(instance, meant[0])


def _bears_constants(root: dict, branch: dict, instance) -> bool:
    """Whether `branch` asks for constant values of some keys, and `instance` has just those."""
    branch = _resolved(root, branch)
    constants = {
        key: subschema["const"]
        for key, subschema in branch.get("properties", {}).items()
        if "const" in subschema
    }
    if not constants or not isinstance(instance, dict):
        return False
    return all(instance.get(key) == value for key, value in constants.items())


def _resolved(root: dict, subschema: dict) -> dict:
    """The schema behind a reference within `root`, or `subschema` itself."""
    while "$ref" in subschema:
        place = subschema["$ref"].removeprefix("#/").split("/")
        subschema = functools.reduce(dict.__getitem__, place, root)
    return subschema


def _copy(value):
    """Defaults are shared by every entry, so a mutable one must not be handed out."""
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value
