"""Checks a configuration or a catalogue entry against its JSON schema, before anything runs."""

from __future__ import annotations

import functools
from pathlib import Path

import yaml

from permafrost.core.errors import PermafrostError
from permafrost.plan.explain import explain

# a link to workflow/schemas; a folder of its own where the package is installed
SCHEMAS = Path(__file__).resolve().parent / "schemas"


@functools.cache
def load_schema(name: str) -> dict:
    """The schema ``workflow/schemas/{name}.schema.yaml``."""
    # the reader in C is ten times as fast, where libyaml is installed
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load((SCHEMAS / f"{name}.schema.yaml").read_text(encoding="utf-8"), Loader=loader)


def validate(instance, schema_name: str, *, where: str) -> None:
    """Check `instance` and fill in the schema's defaults, in place.

    Of an ``anyOf`` or ``oneOf``, only the alternative that applies fills in its defaults: the one whose
    constants (``kind: knn``) the instance bears, else the first that the instance fits.

    Raises
    ------
    PermafrostError : every problem found, each with the path of the key, e.g.
        ``config/config.yaml: extraction.sise: unknown key, did you mean 'size'?``
    """
    faults = problems(instance, schema_name)
    if faults:
        raise misfit("; ".join(faults), schema_name, where=where)


def misfit(problem: str, schema_name: str, *, where: str) -> PermafrostError:
    """The error that says what does not fit a schema."""
    return PermafrostError(
        problem,
        where=where,
        remedy=f"correct the entry (workflow/schemas/{schema_name}.schema.yaml describes every key)",
    )


def problems(instance, schema_name: str) -> dict[str, tuple]:
    """What is wrong with `instance`, each sentence with the path of the key; fills in defaults as `validate`."""
    errors = _validator(schema_name).iter_errors(instance)
    return {explain(error): tuple(error.absolute_path) for error in errors}


def without_faults(config: dict, faults: dict[str, tuple]) -> dict:
    """The part of a faulty configuration that can be judged further, complete with defaults.

    Parameters
    ----------
    config : as `problems` left it.
    faults : what that found.
    """
    usable = {"backbones": ["-"], "datasets": ["-"], "probes": {"-": None}}
    problems(usable, "config")
    usable |= {"backbones": [], "datasets": [], "probes": {}}
    faulty = {path[0] for path in faults.values() if path}
    usable |= {key: config[key] for key in usable if key in config and key not in faulty}
    probes = {path[:2] for path in faults.values() if path[:1] == ("probes",)}
    if isinstance(config.get("probes"), dict) and ("probes",) not in probes:
        wrong = {name for _, name in probes}
        usable["probes"] = {n: one for n, one in config["probes"].items() if n not in wrong}
    return usable


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
