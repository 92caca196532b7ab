"""Check a configuration or a catalogue entry against its JSON schema."""

from __future__ import annotations

import functools
from pathlib import Path

import yaml

from permafrost.core import schema_checks
from permafrost.core.errors import PermafrostError
from permafrost.plan.plugins import offer

# a link to workflow/schemas; a real folder in an installed package
SCHEMAS = Path(__file__).resolve().parent / "schemas"


@functools.cache
def load_schema(name: str) -> dict:
    """The schema ``workflow/schemas/{name}.schema.yaml``."""
    # libyaml's reader is ten times as fast, but is not always installed
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load((SCHEMAS / f"{name}.schema.yaml").read_text(encoding="utf-8"), Loader=loader)


def validate(instance, schema_name: str, *, where: object) -> None:
    """Check `instance` and fill in the schema's defaults, in place.

    Of an ``anyOf`` or ``oneOf``, one alternative fills in its defaults: the one whose constants
    (``kind: knn``) match the instance, else the first that is valid.

    Raises
    ------
    PermafrostError : all problems, each with the path of the key, e.g.
        ``config/config.yaml: extraction.sise: unknown key, did you mean 'size'?``
    """
    faults = problems(instance, schema_name)
    if faults:
        raise misfit("; ".join(faults), schema_name, where=where)


def misfit(problem: str, schema_name: str, *, where: object) -> PermafrostError:
    """The error for an instance that does not fit its schema."""
    return PermafrostError(
        problem,
        where=where,
        remedy=f"correct the entry (workflow/schemas/{schema_name}.schema.yaml describes every key)",
    )


def problems(instance, schema_name: str) -> dict[str, tuple]:
    """The problems of `instance`: text -> path of the key. Fills in defaults like `validate`."""
    offer(instance, schema_name, load_schema(schema_name))
    return schema_checks.problems(instance, _validator(schema_name))


@functools.cache
def _validator(schema_name: str):
    return schema_checks.validator_of(load_schema(schema_name))


def without_faults(config: dict, faults: dict[str, tuple]) -> dict:
    """The valid part of a configuration with faults, completed with defaults, for further checks.

    Parameters
    ----------
    config : after `problems`.
    faults : the result of `problems`.
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
