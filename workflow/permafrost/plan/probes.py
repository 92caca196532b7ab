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
    probabilities : of classes or labels its scores are probabilities, whose calibration can be judged.
    from_images : it runs the backbone itself, over image stores, and reads no features.
    """

    stage: str
    tasks: frozenset[str]
    seeded: bool = False
    probabilities: bool = False
    from_images: bool = False


KINDS = {
    "knn": ProbeKind(
        "knn", frozenset({"classification", "multilabel", "regression"}), probabilities=True
    ),
    "knn_sweep": ProbeKind(
        "knn_sweep", frozenset({"classification", "multilabel"}), probabilities=True
    ),
    "linear": ProbeKind("linear", frozenset({"classification", "multilabel"}), probabilities=True),
    "sgd_linear": ProbeKind(
        "sgd_linear",
        frozenset({"classification", "multilabel"}),
        seeded=True,
        probabilities=True,
    ),
    "mlp": ProbeKind(
        "mlp", frozenset({"classification", "multilabel"}), seeded=True, probabilities=True
    ),
    "few_shot": ProbeKind("few_shot", frozenset({"classification", "multilabel"})),
    "ridge": ProbeKind("ridge", frozenset({"regression"})),
    "retrieval": ProbeKind("retrieval", frozenset({"classification", "multilabel"})),
    "segmentation": ProbeKind("segmentation", frozenset({"segmentation"}), seeded=True),
    "dense_knn": ProbeKind("dense_knn", frozenset({"segmentation", "pixel_regression"})),
    "dense_ridge": ProbeKind("dense_ridge", frozenset({"pixel_regression"})),
    "fine_tune": ProbeKind(
        "fine_tune",
        frozenset({"classification", "multilabel", "regression", "segmentation"}),
        seeded=True,
        probabilities=True,
        from_images=True,
    ),
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
