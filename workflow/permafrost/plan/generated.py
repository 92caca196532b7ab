"""The schemas that follow from option classes; as a program, writes them into ``workflow/schemas``.

``envs/run python -m permafrost.plan.generated`` is to be run after a change of options.
"""

from __future__ import annotations

import functools
import operator

from permafrost.backbones import entry
from permafrost.backbones.kinds import KINDS
from permafrost.core.option_models import named, schema_of
from permafrost.plan.validation import SCHEMAS

_DRAFT = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
_NOT_BY_HAND = "# Written by `envs/run python -m permafrost.plan.generated` from the option classes; do not edit.\n"


def backbone() -> dict:
    """The schema of an entry of a backbone."""
    kinds = [
        named(
            kind,
            KINDS[kind].options_class(),
            entry.Imaged if KINDS[kind].pixels else entry.Placed,
        )
        for kind in KINDS
    ]
    about = {
        "title": "Backbone entry",
        "description": "One backbone of a catalogue (config/backbones/*.yaml) or of extra_backbones.",
    }
    return _DRAFT | about | _by_kind(kinds, "Family of the backbone.")


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


GENERATED = {"backbone": backbone}


def text_of(name: str) -> str:
    """The file of a generated schema."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Repeats what is used twice, so that a person need not follow anchors."""

        def ignore_aliases(self, data) -> bool:
            return True

    # small mappings and lists stand in one line
    layout = {"sort_keys": False, "default_flow_style": None, "allow_unicode": True, "width": 120}
    return _NOT_BY_HAND + yaml.dump(GENERATED[name](), Dumper=Dumper, **layout)


if __name__ == "__main__":
    for name in GENERATED:
        (SCHEMAS / f"{name}.schema.yaml").write_text(text_of(name), encoding="utf-8")
