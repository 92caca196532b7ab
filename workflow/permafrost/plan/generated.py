"""JSON schemas from option classes; ``envs/run python docs/generate.py`` writes them."""

from __future__ import annotations

import dataclasses
import functools
import operator
from typing import Any

from permafrost.backbones import kinds as backbones
from permafrost.core.option_models import named, schema_of
from permafrost.core.options import Name
from permafrost.data import sources
from permafrost.data.entry import DatasetEntry
from permafrost.plan import settings
from permafrost.plan.plugins import common_keys
from permafrost.probes.kinds import KINDS

_DRAFT = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
_CONFIGURATION = (
    "What to run. Entries are picked by name from the catalogues, or added under extra_*. Backbones, datasets and"
    " probes that a configuration does not name are taken from config/demo.yaml, as far as they fit."
)
_PROBES = (
    "The evaluations, name to options. They replace those of a file that this one is laid over;"
    " null leaves one out."
)
_NOT_BY_HAND = (
    "# Written by `envs/run python docs/generate.py` from the option classes; do not edit.\n"
)


def backbone() -> dict:
    """The schema of a backbone's entry."""
    kinds = [
        named(kind, known.options_class(), *common_keys(known))
        for kind, known in backbones.KINDS.items()
    ]
    about = {
        "title": "Backbone entry",
        "description": "One backbone of a catalogue (config/backbones/*.yaml) or of extra_backbones.",
    }
    return _DRAFT | about | _by_kind(kinds, "Family of the backbone.")


def dataset() -> dict:
    """The schema of a dataset's entry."""
    kinds = {name: kind.options_class() for name, kind in sources.KINDS.items()}
    made = schema_of(DatasetEntry)
    source = _by_kind([named(*kind) for kind in kinds.items()], "Decides the other options.")
    made["$defs"] |= source.pop("$defs")
    del made["properties"]["kind"]
    made["properties"]["source"] |= source
    made["required"] = ["task", "source"]
    rules: list[tuple[dict, tuple[str, ...], dict]] = [
        ({}, tasks, _defaults(one)) for tasks, one in DatasetEntry.BY_TASK.items()
    ]
    for kind, options in kinds.items():
        of_kind = {"source": {"properties": {"kind": {"const": kind}}}}
        for tasks, values in options.BY_TASK.items():
            rules.append((of_kind, tasks, {"source": {"properties": _defaults(values)}}))
    made["allOf"] += [
        {
            "if": {"properties": {"task": {"enum": list(tasks)}, **of_kind}},
            "then": {"properties": properties},
        }
        for of_kind, tasks, properties in rules
    ]
    return _DRAFT | {"title": "One dataset of a catalogue (config/datasets/*.yaml)"} | made


def _defaults(values: dict) -> dict:
    """Schema properties with these defaults; a default of an option class refers to its schema."""
    made: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            # also fills in the missing keys of a partial mapping
            made[key] = {"default": {}, "properties": _defaults(value)}
        elif dataclasses.is_dataclass(value):
            made[key] = {"default": {}, "$ref": f"#/$defs/{type(value).__name__}"}
        else:
            made[key] = {"default": value}
    return made


def _by_kind(kinds: list[type], description: str) -> dict:
    """The schema of an object whose key ``kind`` decides which of `kinds` it is."""
    names = [kind.__name__ for kind in kinds]
    made = schema_of(functools.reduce(operator.or_, kinds))
    rules = [
        {
            "if": {"required": ["kind"], "properties": {"kind": {"const": name}}},
            "then": {"$ref": f"#/$defs/{name}"},
        }
        for name in names
    ]
    key = {"enum": names, "description": description}
    whole = {"type": "object", "required": ["kind"], "properties": {"kind": key}, "allOf": rules}
    return whole | {"$defs": made["$defs"]}


def config() -> dict:
    """The schema of a configuration."""
    kinds = {name: named(name, *kind.option_classes()) for name, kind in KINDS.items()}
    options = functools.reduce(operator.or_, kinds.values())
    whole = dataclasses.make_dataclass(
        "Configuration",
        # a type created at run time
        [("probes", dict[Name, options | None] | None, None)],  # type: ignore[valid-type]
        bases=(settings.Settings,),
        frozen=True,
        kw_only=True,
    )
    made = schema_of(whole)
    probes = {"description": _PROBES, **made["properties"]["probes"]["anyOf"][0]}
    made["properties"]["probes"] = probes
    about = {"title": "Permafrost configuration", "description": _CONFIGURATION}
    return _DRAFT | about | {key: one for key, one in made.items() if key not in about}


GENERATED = {"backbone": backbone, "config": config, "dataset": dataset}


def text_of(name: str) -> str:
    """The YAML text of a generated schema: ``backbone``, ``config`` or ``dataset``."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Writes shared objects out each time, instead of anchors and aliases."""

        def ignore_aliases(self, data) -> bool:
            return True

    # default_flow_style=None: small mappings and lists on one line
    layout = {"sort_keys": False, "default_flow_style": None, "allow_unicode": True, "width": 120}
    return _NOT_BY_HAND + yaml.dump(GENERATED[name](), Dumper=Dumper, **layout)
