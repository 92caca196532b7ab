"""What the plan must know of a probe with its options: what it leaves, and whether chance plays a part in it."""

from __future__ import annotations

from permafrost.probes.kinds import KINDS

#: folders of results in which probes leave more than a table: predicted masks, detections as COCO JSON
MASKS, DETECTIONS = "masks", "detections"


def leaves(options: dict) -> str | None:
    """The folder of results in which a probe with these options leaves a second output; None: none."""
    if options["kind"] == "detection":
        return DETECTIONS
    return MASKS if options.get("masks", "none") != "none" else None


def is_seeded(options: dict) -> bool:
    """Whether a probe with these options draws random numbers."""
    return KINDS[options["kind"]].seeded or options.get("solver") == "adam"
