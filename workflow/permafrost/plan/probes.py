"""What the plan must know of a probe: which tasks it serves, and whether chance plays a part in it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ProbeKind:
    """A kind of probe.

    Attributes
    ----------
    stage : the command that runs it, ``permafrost {stage}``.
    tasks : tasks of datasets that it can score.
    seeded : its result depends on a seed, so it runs once for each of the configuration's seeds.
    """

    stage: str
    tasks: frozenset[str]
    seeded: bool = False


KINDS = {
    "knn": ProbeKind("knn", frozenset({"classification", "multilabel"})),
    "linear": ProbeKind("linear", frozenset({"classification", "multilabel"})),
    "segmentation": ProbeKind("segmentation", frozenset({"segmentation"}), seeded=True),
    "dense_knn": ProbeKind("dense_knn", frozenset({"segmentation"})),
    "detection": ProbeKind("detection", frozenset({"detection", "point_detection"}), seeded=True),
}
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
