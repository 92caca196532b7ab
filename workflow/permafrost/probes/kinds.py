"""What is known of each kind of probe: what it does in words, which tasks it serves, whether chance plays a part."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ProbeKind:
    """A kind of probe.

    Attributes
    ----------
    stage : the command that runs it, ``permafrost {stage}``.
    tasks : tasks of datasets that it can score.
    summary : what it does and what its score shows, for a reader of the report: sentences without their subject,
        which is the probe's name.
    seeded : its result depends on a seed, so it runs once for each of the configuration's seeds.
    probabilities : of classes or labels its scores are probabilities, whose calibration can be judged.
    from_images : it runs the backbone itself, over image stores, and reads no features.
    trains_backbone : it changes the backbone's weights; all others leave them as they are.
    answers : what its predictions are read as (`statistics.predictions`), where that is not the dataset's task.
    """

    stage: str
    tasks: frozenset[str]
    summary: str
    seeded: bool = False
    probabilities: bool = False
    from_images: bool = False
    trains_backbone: bool = False
    answers: str | None = None


_LABELS = frozenset({"classification", "multilabel"})

KINDS = {
    "knn": ProbeKind(
        "knn",
        frozenset({"classification", "multilabel", "regression"}),
        "asks the nearest training images and trains nothing: it shows how the features are arranged.",
        probabilities=True,
    ),
    "knn_sweep": ProbeKind(
        "knn_sweep",
        _LABELS,
        "asks the nearest training images with many numbers of neighbours, metrics and weightings, and is scored with "
        "the setting that is best on validation.",
        probabilities=True,
    ),
    "linear": ProbeKind(
        "linear",
        _LABELS,
        "fits a linear classifier whose regularisation is chosen on validation: it shows what can be read "
        "off the features linearly.",
        probabilities=True,
    ),
    "sgd_linear": ProbeKind(
        "sgd_linear",
        _LABELS,
        "trains a linear classifier by stochastic gradient descent, once per learning rate, and is scored with the "
        "rate that is best on validation: the linear evaluation of most papers on pretraining.",
        seeded=True,
        probabilities=True,
    ),
    "mlp": ProbeKind(
        "mlp",
        _LABELS,
        "trains a network with a hidden layer on the features: what it gains over a linear probe is in the features, "
        "but not linearly.",
        seeded=True,
        probabilities=True,
    ),
    "few_shot": ProbeKind(
        "few_shot",
        _LABELS,
        "fits classifiers to small draws of the training images: it shows how many labels a backbone saves. Scores "
        "are means over draws.",
    ),
    "ridge": ProbeKind(
        "ridge",
        frozenset({"regression"}),
        "fits a linear regression of a number per image, whose penalty is chosen on validation.",
    ),
    "retrieval": ProbeKind(
        "retrieval",
        _LABELS,
        "lets every test image rank a gallery and asks whether its like come first. Mean average precision looks at "
        "the whole ranking, recall at k at the share of relevant images among the k nearest, hits at k at whether "
        "there is any.",
        answers="retrieval",
    ),
    "segmentation": ProbeKind(
        "segmentation",
        frozenset({"segmentation"}),
        "trains a head that gives every pixel a class, on the maps of frozen layers.",
        seeded=True,
    ),
    "dense_knn": ProbeKind(
        "dense_knn",
        frozenset({"segmentation", "pixel_regression"}),
        "gives each patch the class (or number) of the nearest training patches and trains nothing.",
    ),
    "dense_ridge": ProbeKind(
        "dense_ridge",
        frozenset({"pixel_regression"}),
        "fits a linear regression of a number per patch, whose penalty is chosen on validation.",
    ),
    "fine_tune": ProbeKind(
        "fine_tune",
        frozenset({"classification", "multilabel", "regression", "segmentation"}),
        "trains the backbone further, together with a head, on the training images of each dataset: it shows what a "
        "backbone reaches when it is adapted, and beside it what the same head reaches on the frozen one.",
        seeded=True,
        probabilities=True,
        from_images=True,
        trains_backbone=True,
    ),
    "detection": ProbeKind(
        "detection",
        frozenset({"detection", "point_detection"}),
        "trains a head on the maps of frozen layers that says at every place whether an object is there, of which "
        "class, and where its borders are (of points, where it lies).",
        seeded=True,
    ),
}
