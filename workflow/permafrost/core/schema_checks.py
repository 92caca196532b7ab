"""Checks values against JSON schemas, in sentences, and fills in defaults."""

from __future__ import annotations

import functools

from permafrost.core.explain import explain


def problems(instance, validator) -> dict[str, tuple]:
    """What is wrong with `instance`: sentence with the path of the key -> that path.

    The defaults of the schema are filled in, in place. Of an ``anyOf`` or ``oneOf``, only the alternative that applies
    fills in its defaults: the one whose constants (``kind: knn``) the instance has, else the first that it fits.
    """
    return {explain(error): tuple(error.absolute_path) for error in validator.iter_errors(instance)}


def validator_of(schema: dict):
    """The validator of a schema, for `problems`."""
    from jsonschema import Draft202012Validator, validators

    check_properties = Draft202012Validator.VALIDATORS["properties"]
    own = {
        "properties": functools.partial(_fill_and_check, schema, check_properties),
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
