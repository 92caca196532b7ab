"""What the plan must know of a probe with its options: what it leaves, and whether chance plays a part in it."""

from __future__ import annotations

from permafrost.probes.kinds import KINDS

#: folder of results for predicted masks, which probes leave beside their table where they are asked to
MASKS = "masks"


def leaves(options: dict) -> str | None:
    """The folder of results in which a probe with these options leaves a second output; None: none."""
    asked = MASKS if options.get("masks", "none") != "none" else None
    return KINDS[options["kind"]].leaves or asked


def is_seeded(options: dict) -> bool:
    """Whether a probe with these options draws random numbers."""
    return KINDS[options["kind"]].seeded or options.get("solver") == "adam"
