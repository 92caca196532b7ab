"""Turn errors of jsonschema into one readable sentence each, without the schema."""

from __future__ import annotations

from typing import cast

from permafrost.core.errors import near_names
from permafrost.core.text import shortened

#: shown as the path if the problem is in the top-level object
TOP_LEVEL = "(top level)"
_LONGEST = 120
_WORDS = {
    "array": "a list in [ ]",
    "object": "a mapping (key: value)",
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}


def explain(error) -> str:
    """``path.of.the.key: problem``, for a `jsonschema.ValidationError`."""
    path, wanted = _path(error), error.validator_value
    match error.validator:
        case "anyOf" | "oneOf" if error.context:
            return _explain_alternatives(error)
        case "additionalProperties" | "unevaluatedProperties":
            return _explain_unknown(error)
        case "required":
            missing = [key for key in wanted if key not in error.instance]
            what = "key" if len(missing) == 1 else "keys"
            told: str | list[str] = ", ".join(
                f"{key!r}{_meaning(error.schema, key)}" for key in missing
            )
            return f"{path}: missing {what} {told}"
        case "dependentRequired":
            given = [(key, needs) for key, needs in wanted.items() if key in error.instance]
            told = [f"{key} needs {', '.join(needs)} too" for key, needs in given]
            return f"{path}: {' and '.join(told)}"
        case "enum":
            return f"{path}: {_no_choice(error.instance, wanted)}"
        case "const":
            return f"{path}: must be {shown(wanted)}, not {shown(error.instance)}"
        case "type":
            return f"{path}: {_wrong_type(error.instance, _types(error), [error.schema])}"
        case "pattern":
            return f"{path}: {shown(error.instance)} must be {_about(error.schema) or f'like {wanted}'}"
        case "minItems" | "maxItems" | "minProperties" | "minLength" | "maxLength" | "uniqueItems":
            return f"{path}: {_wrong_length(error)}"
        case "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf":
            return f"{path}: {_wrong_size(error)}"
        case "not" if "const" in wanted:
            return f"{path}: must not be {shown(wanted['const'])}"
        case "maxProperties":
            return f"{path}: has the keys {', '.join(error.instance)}, where one is allowed"
    return f"{path}: {error.message}"


def _explain_unknown(error) -> str:
    known = set(error.schema.get("properties", {}))
    prefix = "".join(f"{part}." for part in error.absolute_path)
    unknown = sorted(map(str, set(error.instance) - known))
    told = [f"{prefix}{key}: unknown key, {near_names(key, known)}" for key in unknown]
    properties = error.schema.get("properties", {})
    worded = [key for key, one in properties.items() if isinstance(one, dict) and "words" in one]
    if len(worded) > 1:
        # whoever guesses a key needs the list of keys and their meanings
        words = [f"{key}{_meaning(error.schema, key)}" for key in worded]
        told.append(f"its keys are {', '.join(words)}; also {', '.join(sorted(known - {*worded}))}")
    return "; ".join(told)


def _meaning(schema: dict, key: str) -> str:
    """The meaning of a key in brackets, from the schema's ``words``; empty without one."""
    one = schema.get("properties", {}).get(key)
    return f" ({one['words']})" if isinstance(one, dict) and "words" in one else ""


def _explain_alternatives(error) -> str:
    """If all alternatives fail, explain those that the user probably meant."""
    branches: dict[int, list] = {}
    for cause in error.context:
        branches.setdefault(cause.schema_path[0], []).append(cause)
    fitting = [causes for causes in branches.values() if not any(map(_is_wrong_type, causes))]
    if not fitting:
        every = [cause for causes in branches.values() for cause in causes]
        types = [name for cause in every for name in _types(cause)]
        told = _wrong_type(error.instance, types, [cause.schema for cause in every])
        return f"{_path(error)}: {told}"
    kinds = _constants(fitting)
    if kinds:
        return _explain_kinds(error, kinds)
    told = " or ".join(dict.fromkeys("; ".join(map(explain, causes)) for causes in fitting))
    lists = any("array" in _types(cause) for cause in error.context if _is_wrong_type(cause))
    is_list = lists and isinstance(error.instance, str) and "," in error.instance
    return f"{told} (or a list in [ ]: write [{error.instance}])" if is_list else told


def _explain_kinds(error, kinds: dict[str, list]) -> str:
    """The alternatives differ in a constant (``kind: knn``), and the value matches none of them."""
    path = _path(error)
    for key, values in kinds.items():
        if key not in error.instance:
            return f"{path}: missing key {key!r} (one of {_listed(values)})"
    key, values = next(iter(kinds.items()))
    prefix = "".join(f"{part}." for part in error.absolute_path)
    return f"{prefix}{key}: unknown {key} {error.instance[key]!r}, {near_names(error.instance[key], values)}"


def _constants(branches: list[list]) -> dict[str, list]:
    """Key to the required constants, for keys in which every alternative fails."""
    constants: dict[str, list] = {}
    for causes in branches:
        for key, value in _constants_missed(causes).items():
            constants.setdefault(key, []).append(value)
    return {key: values for key, values in constants.items() if len(values) == len(branches)}


def _constants_missed(causes: list) -> dict:
    """Key to the constant that one alternative requires and the value lacks."""
    missed = {}
    for cause in causes:
        if cause.validator == "const" and len(cause.relative_path) == 1:
            missed[cause.relative_path[0]] = cause.validator_value
        elif cause.validator == "required" and not cause.relative_path:
            properties = cause.schema.get("properties", {})
            for key in set(cause.validator_value) - set(cause.instance):
                if "const" in properties.get(key, {}):
                    missed[key] = properties[key]["const"]
    return missed


def _is_wrong_type(cause) -> bool:
    return cause.validator == "type" and not cause.relative_path


def _types(error) -> list[str]:
    wanted = error.validator_value if error.validator == "type" else []
    return [wanted] if isinstance(wanted, str) else list(wanted)


def _wrong_type(value, types: list[str], schemas: list[dict]) -> str:
    wanted = " or ".join(_WORDS.get(name, name) for name in dict.fromkeys(types))
    kind = _WORDS[_type_of(value)].partition(" ")[2].partition(" in")[0].removeprefix("whole ")
    named = value is None or isinstance(value, bool | dict)
    hint = _rewritten(value, types, schemas)
    return f"must be {wanted}, not {shown(value) if named else f'the {kind} {shown(value)}'}{hint}"


def _type_of(value) -> str:
    known = {bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
    return "null" if value is None else known.get(type(value), "string")


def _rewritten(value, types: list[str], schemas: list[dict]) -> str:
    """A hint in brackets on how to write the value; empty if unknown."""
    one = not isinstance(value, list | dict | None)
    plain = value if isinstance(value, str) else shown(value)
    if isinstance(value, str) and {"number", "integer"} & set(types):
        try:
            number = int(value) if value.strip().lstrip("+-").isdigit() else float(value)
        except ValueError:
            return ""
        notation = ", since YAML takes 1e4 for text and 1.0e+4 for a number"
        return f" (write {number!r} without quotes{notation if 'e' in value.lower() else ''})"
    if one and "array" in types:
        lengths = [schema["minItems"] for schema in schemas if schema.get("minItems", 0) > 1]
        if not lengths:
            return f" (write [{plain}])"
        told = [text for schema in schemas if (text := _about(schema))]
        return f" ({lengths[0]} items{''.join(f': {text}' for text in told[:1])})"
    if one and "string" in types:
        return f' (put it in quotes: "{plain}")'
    if one and "object" in types:
        keys = [key for schema in schemas for key in _keys_that_take(value, schema)]
        return f" (write {{{keys[0]}: {plain}}})" if keys else ""
    if "object" in types and isinstance(value, list) and value:
        return " (write key: value below each other, without - in front)"
    return ""


def _keys_that_take(value, schema: dict) -> list[str]:
    """Keys of a mapping that list the value among their choices."""
    return [
        key
        for key, one in schema.get("properties", {}).items()
        if isinstance(one, dict) and value in [*one.get("enum", []), one.get("const")]
    ]


def _no_choice(value, choices: list) -> str:
    said = f"{shown(value)} is not one of {_listed(choices)}"
    if isinstance(value, bool) and not any(isinstance(one, bool) for one in choices):
        return f"{said} (YAML takes on, off, yes and no for true and false: put the word in quotes)"
    near = near_names(str(value), [one for one in choices if isinstance(one, str)])
    return f"{said}, {near}" if near.startswith("did you mean") else said


def _wrong_length(error) -> str:
    value, bound = error.instance, error.validator_value
    if error.validator == "uniqueItems":
        twice = next(one for place, one in enumerate(value) if one in value[:place])
        return f"{shown(twice)} is in the list twice"
    if not value:
        what = cast("dict[type, str]", {list: "list", dict: "mapping"}).get(type(value), "text")
        return f"the {what} is empty"
    if isinstance(value, str):
        return f"{shown(value)} has {len(value)} characters; the limit is {bound}"
    schema = error.schema
    least, most = schema.get("minItems"), schema.get("maxItems")
    count = (
        f"{least}" if least == most else f"at {'least' if len(value) < bound else 'most'} {bound}"
    )
    about = _about(error.schema)
    what = "numbers" if all(isinstance(one, int | float) for one in value) else "items"
    return (
        f"must be {count} {what}, not {len(value)}: {shown(value)}{f' ({about})' if about else ''}"
    )


def _wrong_size(error) -> str:
    value, bound = error.instance, error.validator_value
    limit = {
        "minimum": "at least",
        "maximum": "at most",
        "exclusiveMinimum": "more than",
        "exclusiveMaximum": "less than",
        "multipleOf": "a multiple of",
    }[error.validator]
    share = "aximum" in error.validator and bound <= 1 < value <= 100
    hint = f" (a share: write {value / 100:g}, not {value:g})" if share else ""
    return f"must be {limit} {bound}, not {value}{hint}"


def _about(schema: dict) -> str | None:
    """The schema's ``words`` for the value, else the first sentence of its description."""
    text = " ".join(str(schema.get("words") or schema.get("description") or "").split())
    first = text.partition(". ")[0].rstrip(".")
    return shortened(first, _LONGEST) if first else None


def shown(value) -> str:
    """A value in YAML notation, in one line."""
    match value:
        case None | True | False:
            return {None: "null", True: "true", False: "false"}[value]
        case dict():
            text = ", ".join(f"{key}: {shown(one)}" for key, one in value.items())
            return f"the mapping {{{shortened(text, _LONGEST)}}}"
        case list():
            return f"[{shortened(', '.join(map(shown, value)), _LONGEST)}]"
    return shortened(repr(value) if isinstance(value, str) else str(value), _LONGEST)


def _listed(values) -> str:
    return ", ".join(map(shown, values))


def _path(error) -> str:
    return ".".join(str(part) for part in error.absolute_path) or TOP_LEVEL
