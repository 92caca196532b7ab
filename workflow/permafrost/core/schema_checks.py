"""Validate values by JSON schemas, with readable messages, and fill in defaults."""

from __future__ import annotations

import functools

from permafrost.core.explain import explain


def problems(instance, validator) -> dict[str, tuple]:
    """The problems of `instance`: message with the path of the key -> that path.

    Fills in the defaults of the schema, in place. Of an ``anyOf`` or ``oneOf``, only the
    alternative that applies fills in its defaults: the one whose constants (``kind: knn``) the
    instance has, else the first valid one.
    """
    return {explain(error): tuple(error.absolute_path) for error in validator.iter_errors(instance)}


def validator_of(schema: dict):
    """The validator of a schema, for `problems`."""
    from jsonschema import Draft202012Validator, validators

    usual = Draft202012Validator.VALIDATORS
    own = {
        "properties": functools.partial(_fill_and_check, schema, usual["properties"]),
        "if": functools.partial(_check_case, usual["if"]),
        "anyOf": functools.partial(_check_alternatives, schema, False),
        "oneOf": functools.partial(_check_alternatives, schema, True),
    }
    return validators.extend(Draft202012Validator, own)(schema)


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


def _check_case(check, validator, condition, instance, schema):
    """``if``; not checked where a constant of the condition already differs, which is much faster."""
    if "else" in schema or not _has_others(condition, instance):
        yield from check(validator, condition, instance, schema)


def _has_others(condition: dict, instance) -> bool:
    return isinstance(instance, dict) and any(
        instance[key] not in subschema.get("enum", [subschema.get("const", instance[key])])
        for key, subschema in condition.get("properties", {}).items()
        if key in instance
    )


def _check_alternatives(root, exclusive, validator, alternatives, instance, schema):
    """``anyOf`` and ``oneOf``; tries alternatives on copies, so that they leave no defaults behind."""
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
    """Whether `branch` requires constants for some keys, and `instance` has them."""
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
    """The schema that `subschema` refers to within `root`, or itself."""
    while "$ref" in subschema:
        place = subschema["$ref"].removeprefix("#/").split("/")
        subschema = functools.reduce(dict.__getitem__, place, root)
    return subschema


def _copy(value):
    """A copy of JSON data, since all entries share the defaults of the schema."""
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value
