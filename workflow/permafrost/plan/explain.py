"""One readable sentence for an error of jsonschema, without the schema that jsonschema would print."""

from __future__ import annotations

from permafrost.core.errors import near_names


def explain(error) -> str:
    """``path.of.the.key: what is wrong with it``, for a `jsonschema.ValidationError`."""
    path = _path(error)
    match error.validator:
        case "anyOf" | "oneOf" if error.context:
            return _explain_alternatives(error)
        case "additionalProperties" | "unevaluatedProperties":
            return _explain_unknown(error)
        case "required":
            missing = [key for key in error.validator_value if key not in error.instance]
            what = "key" if len(missing) == 1 else "keys"
            return f"{path}: missing {what} {', '.join(map(repr, missing))}"
        case "enum":
            return f"{path}: {error.instance!r} is not one of {_listed(error.validator_value)}"
        case "const":
            return f"{path}: {error.instance!r} is not {error.validator_value!r}"
        case "type":
            return f"{path}: {_wrong_type(error.instance, _types(error))}"
    return f"{path}: {error.message}"


def _explain_unknown(error) -> str:
    known = set(error.schema.get("properties", {}))
    prefix = "".join(f"{part}." for part in error.absolute_path)
    unknown = sorted(map(str, set(error.instance) - known))
    return "; ".join(f"{prefix}{key}: unknown key, {near_names(key, known)}" for key in unknown)


def _explain_alternatives(error) -> str:
    """Where all alternatives fail, explain those that the value was probably meant for."""
    branches: dict[int, list] = {}
    for cause in error.context:
        branches.setdefault(cause.schema_path[0], []).append(cause)
    fitting = [causes for causes in branches.values() if not any(map(_is_wrong_type, causes))]
    if not fitting:
        types = [name for causes in branches.values() for cause in causes for name in _types(cause)]
        return f"{_path(error)}: {_wrong_type(error.instance, types)}"
    kinds = _constants(fitting)
    if kinds:
        return _explain_kinds(error, kinds)
    return " or ".join(dict.fromkeys("; ".join(map(explain, causes)) for causes in fitting))


def _explain_kinds(error, kinds: dict[str, list]) -> str:
    """The alternatives differ by a constant (``kind: knn``), and the value has none of these."""
    path = _path(error)
    for key, values in kinds.items():
        if key not in error.instance:
            return f"{path}: missing key {key!r} (one of {_listed(values)})"
    key, values = next(iter(kinds.items()))
    prefix = "".join(f"{part}." for part in error.absolute_path)
    return f"{prefix}{key}: unknown {key} {error.instance[key]!r}, {near_names(error.instance[key], values)}"


def _constants(branches: list[list]) -> dict[str, list]:
    """Key to the constants asked for, of keys by which every one of `branches` fails."""
    constants: dict[str, list] = {}
    for causes in branches:
        for key, value in _constants_missed(causes).items():
            constants.setdefault(key, []).append(value)
    return {key: values for key, values in constants.items() if len(values) == len(branches)}


def _constants_missed(causes: list) -> dict:
    """Key to the constant that one alternative asks for, where the value has another, or none."""
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


def _wrong_type(value, types: list[str]) -> str:
    text = f"{_shown(value)} is not of type {' or '.join(dict.fromkeys(types))}"
    if isinstance(value, str) and {"number", "integer"} & set(types):
        try:
            return f"{text} (YAML reads it as text; write {float(value)!r} or 1.0e+4)"
        except ValueError:
            pass
    return text


def _shown(value) -> str:
    return "null" if value is None else repr(value)


def _listed(values) -> str:
    return ", ".join(map(_shown, values))


def _path(error) -> str:
    return ".".join(str(part) for part in error.absolute_path) or "(top level)"
