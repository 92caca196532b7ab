"""The kinds of probes: description, inputs, outputs, resources, and the function that runs each.

To add a kind, add a file (or folder) next to this one with its options, an entry here and a paragraph in
docs/which-evaluation-when.md. Commands, rules, the plan and the page get all else from here. Light to import:
the plan reads it before any job runs. No job's fingerprint depends on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from permafrost.core.plugins import Registry, named_object


@dataclass(frozen=True)
class ProbeKind:
    """A kind of probe.

    Attributes
    ----------
    run : ``module:function``, or the function of a plug-in; called with a `job.ProbeJob` (with
        ``reads="images"`` a `job.ImageProbeJob`); see `embeddings.features.on_embeddings`.
    options : ``module:class``, a `permafrost.core.options.Options`; options for several dates are added.
    tasks : tasks of datasets that it supports.
    brief : description of its command in the list of commands.
    summary : method and meaning of the score, for readers of the report: sentences without a subject,
        which is the probe's name.
    reads : ``embeddings``; ``patches`` (maps of layers, on the CPU); ``maps`` (maps of layers, on a GPU if there is
        one); ``images``, on which it runs the backbone itself.
    memory_mb, minutes : memory (MB) and time that a job requests at its first attempt.
    work : quantity with which its time grows, a name in `operate.estimate.work`.
    gpu : ``auto``: it uses a GPU if there is one; ``named``: only if the configuration names one, since most
        of its jobs take less time on a CPU than a GPU takes to start; ``never``.
    seeded : its result depends on a seed, so it runs once for each of the configuration's seeds.
    probabilities : for classes or labels its scores are probabilities, whose calibration can be evaluated.
    trains_backbone : it changes the backbone's weights.
    answers : type of its predictions (`statistics.predictions.reading`), if not that of the dataset's task.
    leaves : the results folder of its second output, if it always writes one.
    series : it supports only datasets whose samples are series of dates.
    pooled : it can be trained once per fold of a dataset, and its answers pooled.
    """

    run: str | Callable
    options: str | type
    tasks: frozenset[str]
    brief: str
    summary: str
    reads: Literal["embeddings", "patches", "maps", "images"]
    memory_mb: int
    minutes: int
    work: str
    gpu: Literal["auto", "named", "never"] = "never"
    seeded: bool = False
    probabilities: bool = False
    trains_backbone: bool = False
    answers: str | None = None
    leaves: str | None = None
    series: bool = False
    pooled: bool = False

    def serves(self, task: str, dates: str) -> bool:
        """Whether it supports a dataset of this task, whose samples have these `dates` (`Entry.dates`)."""
        return task in self.tasks and (dates == "series" or not self.series)

    def load(self):
        """The function that runs it."""
        return named_object(self.run)

    def options_class(self) -> type:
        """The dataclass of its options."""
        return named_object(self.options)

    def option_classes(self) -> tuple[type, ...]:
        """The dataclasses of all options: its own, and those for several dates."""
        dates = {"images": (), "maps": ("DatesOfHead",)}.get(self.reads, ("Dates",))
        names = ("DatesOfSeries",) if self.series else dates
        return self.options_class(), *(
            named_object(f"permafrost.features.dates:{one}") for one in names
        )


_LABELS = frozenset({"classification", "multilabel"})

KINDS = {
    "knn": ProbeKind(
        "permafrost.probes.knn.probe:run",
        "permafrost.probes.knn.probe:KnnOptions",
        frozenset({"classification", "multilabel", "regression"}),
        "classify test embeddings by their nearest neighbours",
        "asks the nearest training images and trains nothing: it shows how the features are arranged.",
        reads="embeddings",
        memory_mb=2000,
        minutes=30,
        work="neighbours",
        gpu="named",
        probabilities=True,
        pooled=True,
    ),
    "knn_sweep": ProbeKind(
        "permafrost.probes.knn.sweep:run",
        "permafrost.probes.knn.sweep:KnnSweepOptions",
        _LABELS,
        "classify test embeddings by nearest neighbours under many settings",
        "asks the nearest training images with many numbers of neighbours, metrics and weightings, and is scored with "
        "the setting that is best on validation.",
        reads="embeddings",
        memory_mb=3000,
        minutes=30,
        work="neighbours",
        gpu="named",
        probabilities=True,
    ),
    "linear": ProbeKind(
        "permafrost.probes.linear.probe:run",
        "permafrost.probes.linear.probe:LinearOptions",
        _LABELS,
        "fit a sweep of linear probes and predict the test split",
        "fits a linear classifier whose regularisation is chosen on validation: it shows what can be read "
        "off the features linearly.",
        reads="embeddings",
        memory_mb=3000,
        minutes=60,
        work="sweep",
        gpu="named",
        probabilities=True,
        pooled=True,
    ),
    "sgd_linear": ProbeKind(
        "permafrost.probes.sgd.linear_probe:run",
        "permafrost.probes.sgd.linear_probe:SgdLinearOptions",
        _LABELS,
        "train linear layers by gradient descent and predict the test split",
        "trains a linear classifier by stochastic gradient descent, once per learning rate, and is scored with the "
        "rate that is best on validation: the linear evaluation of most papers on pretraining.",
        reads="embeddings",
        memory_mb=3000,
        minutes=60,
        work="epochs",
        seeded=True,
        probabilities=True,
        pooled=True,
    ),
    "mlp": ProbeKind(
        "permafrost.probes.sgd.mlp_probe:run",
        "permafrost.probes.sgd.mlp_probe:MlpOptions",
        _LABELS,
        "train a network of two layers and predict the test split",
        "trains a network with a hidden layer on the features: what it gains over a linear probe is in the features, "
        "but not linearly.",
        reads="embeddings",
        memory_mb=3000,
        minutes=60,
        work="epochs",
        seeded=True,
        probabilities=True,
        pooled=True,
    ),
    "ltae": ProbeKind(
        "permafrost.probes.ltae.probe:run",
        "permafrost.probes.ltae.probe:LtaeProbeOptions",
        frozenset({"classification", "multilabel", "regression"}),
        "train temporal attention over the dates of series and predict the test split",
        "trains a lightweight temporal attention encoder (L-TAE) over the features of all dates of a series: what it "
        "gains over a probe of their mean is in how they follow each other.",
        reads="embeddings",
        memory_mb=4000,
        minutes=120,
        work="epochs",
        gpu="auto",
        seeded=True,
        probabilities=True,
        series=True,
    ),
    "few_shot": ProbeKind(
        "permafrost.probes.few_shot.probe:run",
        "permafrost.probes.few_shot.probe:FewShotOptions",
        _LABELS,
        "classify test embeddings after small draws of the training set",
        "fits classifiers to small draws of the training images: it shows how many labels a backbone saves. Scores "
        "are means over draws.",
        reads="embeddings",
        memory_mb=3000,
        minutes=120,
        work="draws",
        gpu="named",
    ),
    "ridge": ProbeKind(
        "permafrost.probes.ridge.probe:run",
        "permafrost.probes.ridge.probe:RidgeOptions",
        frozenset({"regression"}),
        "fit ridge regressions and predict the numbers of the test split",
        "fits a linear regression of a number per image, whose penalty is chosen on validation.",
        reads="embeddings",
        memory_mb=3000,
        minutes=60,
        work="solving",
        pooled=True,
    ),
    "random_forest": ProbeKind(
        "permafrost.probes.learners.random_forest:run",
        "permafrost.probes.learners.random_forest:RandomForestOptions",
        frozenset({"classification", "multilabel", "regression"}),
        "fit a random forest and predict the test split",
        "fits a random forest to the features, as practitioners do: it needs no scaling and no choice on validation.",
        reads="embeddings",
        memory_mb=4000,
        minutes=60,
        work="trees",
        seeded=True,
        probabilities=True,
        pooled=True,
    ),
    "gradient_boosting": ProbeKind(
        "permafrost.probes.learners.gradient_boosting:run",
        "permafrost.probes.learners.gradient_boosting:GradientBoostingOptions",
        frozenset({"classification", "multilabel", "regression"}),
        "fit gradient-boosted trees and predict the test split",
        "fits gradient-boosted trees to the features, with the number of rounds that is best on validation.",
        reads="embeddings",
        memory_mb=4000,
        minutes=120,
        work="rounds",
        probabilities=True,
        pooled=True,
    ),
    "svm": ProbeKind(
        "permafrost.probes.learners.svm:run",
        "permafrost.probes.learners.svm:SvmOptions",
        frozenset({"classification", "multilabel", "regression"}),
        "fit support vector machines and predict the test split",
        "fits a support vector machine to standardised features, with the regularisation that is best on validation: "
        "what it gains over a linear probe is in the features, but not linearly.",
        reads="embeddings",
        memory_mb=4000,
        minutes=120,
        work="pairs",
        pooled=True,
    ),
    "nearest_centroid": ProbeKind(
        "permafrost.probes.learners.nearest_centroid:run",
        "permafrost.probes.learners.nearest_centroid:NearestCentroidOptions",
        frozenset({"classification"}),
        "classify test embeddings by the nearest class mean",
        "gives each test image the class whose mean over the training images is nearest, and trains nothing else: it "
        "shows whether classes are compact.",
        reads="embeddings",
        memory_mb=2000,
        minutes=30,
        work="solving",
        pooled=True,
    ),
    "retrieval": ProbeKind(
        "permafrost.probes.retrieval:run",
        "permafrost.probes.retrieval:RetrievalOptions",
        _LABELS,
        "rank a gallery for every test embedding, and count what is like it",
        "lets every test image rank a gallery and asks whether its like come first. Mean average precision looks at "
        "the whole ranking, recall at k at the share of relevant images among the k nearest, hits at k at whether "
        "there is any.",
        reads="embeddings",
        memory_mb=3000,
        minutes=60,
        work="neighbours",
        answers="retrieval",
    ),
    "segmentation": ProbeKind(
        "permafrost.probes.segmentation.probe:run_segmentation",
        "permafrost.probes.segmentation.probe:SegmentationOptions",
        frozenset({"segmentation", "change"}),
        "train a segmentation head on maps of layers and predict the test split",
        "trains a head that gives every pixel a class, on the maps of frozen layers.",
        reads="maps",
        memory_mb=6000,
        minutes=240,
        work="heads",
        gpu="auto",
        seeded=True,
        pooled=True,
    ),
    "dense_knn": ProbeKind(
        "permafrost.probes.dense_knn.probe:run_dense_knn",
        "permafrost.probes.dense_knn.probe:DenseKnnOptions",
        frozenset({"segmentation", "change", "pixel_regression"}),
        "label patches of test images by their nearest neighbours",
        "gives each patch the class (or number) of the nearest training patches and trains nothing.",
        reads="patches",
        memory_mb=6000,
        minutes=60,
        work="patches",
        gpu="named",
        pooled=True,
    ),
    "dense_centroid": ProbeKind(
        "permafrost.probes.dense_knn.centroid_probe:run_dense_centroid",
        "permafrost.probes.dense_knn.centroid_probe:DenseCentroidOptions",
        frozenset({"segmentation", "change"}),
        "label patches of test images by the nearest class mean",
        "gives each patch the class whose mean over the training patches is nearest, and trains nothing else: one "
        "prototype per class.",
        reads="patches",
        memory_mb=6000,
        minutes=60,
        work="patch_means",
        pooled=True,
    ),
    "dense_ridge": ProbeKind(
        "permafrost.probes.dense_ridge.probe:run_dense_ridge",
        "permafrost.probes.dense_ridge.probe:DenseRidgeOptions",
        frozenset({"pixel_regression"}),
        "fit ridge regressions of patches and predict a number for every pixel",
        "fits a linear regression of a number per patch, whose penalty is chosen on validation.",
        reads="patches",
        memory_mb=4000,
        minutes=120,
        work="patch_solving",
        pooled=True,
    ),
    "fine_tune": ProbeKind(
        "permafrost.probes.fine_tune.probe:run_fine_tune",
        "permafrost.probes.fine_tune.options:FineTuneOptions",
        frozenset({"classification", "multilabel", "regression", "segmentation"}),
        "train a backbone further, from images, and predict the test split",
        "trains the backbone further, together with a head, on the training images of each dataset: it shows what a "
        "backbone reaches when it is adapted, and beside it what the same head reaches on the frozen one.",
        reads="images",
        memory_mb=8000,
        minutes=480,
        work="tuning",
        gpu="auto",
        seeded=True,
        probabilities=True,
        trains_backbone=True,
    ),
    "detection": ProbeKind(
        "permafrost.probes.detection.probe:run_detection",
        "permafrost.probes.detection.probe:DetectionOptions",
        frozenset({"detection", "point_detection", "oriented_detection"}),
        "train a detection head on maps of layers and find the objects of the test split",
        "trains a head on the maps of frozen layers that says at every place whether an object is there, of which "
        "class, and where its borders are (of points, where it lies).",
        reads="maps",
        memory_mb=6000,
        minutes=240,
        work="objects",
        gpu="auto",
        seeded=True,
        leaves="detections",
        pooled=True,
    ),
}
KINDS = PLUGINS = Registry("probes", KINDS)
