"""The keys of a configuration, apart from the options of probes, which are theirs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from annotated_types import Ge, Interval, MaxLen

from permafrost.core.options import (
    Above0,
    AtLeast2,
    Different,
    LeftOut,
    Matches,
    Natural,
    Options,
    Positive,
    Text,
    Two,
)
from permafrost.features.dates import Dates
from permafrost.features.specification import ExtractionSettings, Running
from permafrost.metrics.representation.registry import MEASURES
from permafrost.plan.options import OF_VIEWS
from permafrost.statistics.options import (
    Bootstrap,
    CalibrationSettings,
    Comparison,
    RankingSettings,
)

AtLeast3 = Annotated[int, Ge(3)]
Parts = Annotated[int, Interval(ge=1, le=9999)]
GroupName = Annotated[
    str,
    Matches("letters, digits, spaces, - and _, not first", r"^[A-Za-z0-9][A-Za-z0-9 _-]*$(?!\n)"),
]
#: name of a plug-in -> its place
Plugins = dict[
    str,
    Annotated[
        str,
        Matches(
            "path/to/file.py:NAME or package.module:NAME", r"^.+:[A-Za-z_][A-Za-z0-9_]*$(?!\n)"
        ),
    ],
]
#: published names -> those here that mean the same
SameNames = dict[str, Text]


@dataclass(frozen=True, kw_only=True)
class Suite(Options):
    """The suite that a file of config/suites is (docs/configure.md). The plan adds a digest of its content and the
    changes of the run.
    """

    name: str
    """Of the suite."""
    version: Positive
    """Of the suite."""
    title: LeftOut[str] = None
    """Of the suite."""
    digest: LeftOut[str] = None
    """Written by the plan. Of the suite's content."""
    data: LeftOut[str] = None
    """Written by the plan. Of the entries and files of the datasets."""
    changed: LeftOut[list[str]] = None
    """Written by the plan. Differences between the run and the suite."""


@dataclass(frozen=True, kw_only=True)
class Photometric(Options):
    """Changes of brightness and contrast in the spread of each band, whatever its unit."""

    gain: float = 0.2
    """Distances from the mean of a band in the train split are multiplied by a number from 1 - gain to 1 + gain,
    one for all bands of a view."""
    offset: float = 0.2
    """A number from -offset to +offset, times the standard deviation of the band in the train split, is added; one
    for all bands of a view."""


@dataclass(frozen=True, kw_only=True)
class Augmentations(Options):
    """Views of an image have its size and its unit, and are the same for all backbones, which prepare them as any
    other image. With the defaults, every backbone processes 10,000 images.
    """

    views: AtLeast2 = 10
    """Views of each image (q). The paper of LiDAR takes 50, ports of it 10."""
    images: AtLeast2 = 1000
    """Images of the split to view; of more, this many are drawn, the same for all backbones, of fewer all are
    taken. The paper of LiDAR takes 1,000 and more; LiDAR is at most the number of images less one."""
    crop_scale: Two[float] = field(default_factory=lambda: [0.2, 1.0])
    """Least and largest share of the area of a window that is cut out and enlarged to the image's size (bilinear);
    it is up to a third wider or higher than the image, in proportion. [1, 1] cuts nothing off."""
    flips: bool = True
    """Turn half of the views upside down, and mirror half of them."""
    rotations: bool = True
    """Turn views by 0, 90, 180 or 270 degrees; images that are not square by 0 or 180."""
    photometric: Photometric | None = field(default_factory=Photometric)
    """Changes of brightness and contrast in the spread of each band, whatever its unit; null makes none."""
    seed: Natural = 0
    """Draws the images and the views."""
    delta: float = 1e-4
    """Added to the variances within images by LiDAR, in the features' own unit (squared). Ports use 1e-6 to 1e-4.
    If it exceeds their mean, the value is flagged."""


@dataclass(frozen=True, kw_only=True)
class Measures(Dates):
    """Measures of the features themselves; shown next to the scores, and never ranked on."""

    names: Different[Literal[(*MEASURES, *OF_VIEWS)]] | None = None
    """The measures wanted; null makes all of them. Alignment and silhouettes read labels, the last two take
    augmentations."""
    split: Literal["train", "val", "test"] = "train"
    """Whose features are measured."""
    max_rows: AtLeast2 = 10_000
    """Of more samples, this many are drawn, the same for all backbones."""
    seed: Natural = 0
    """Draws them."""
    similarity: bool = True
    """Also measure how alike every two backbones are (debiased linear CKA)."""
    augmentations: Augmentations | None = None
    """Also measure features of augmented views of some images (LiDAR, alignment of views), for images times views
    forward passes of every backbone; null leaves that out."""


@dataclass(frozen=True, kw_only=True)
class Profile(Options):
    """Cost of backbones on this machine; shown next to the scores, and never ranked on. The device is that of
    `runtime`.
    """

    batch_size: Positive = 64
    """Images per forward pass, for throughput and memory; latency is that of a single image."""
    repeats: AtLeast3 = 20
    """Timed passes of a batch."""
    latency_repeats: AtLeast3 = 100
    """Timed passes of a single image."""
    warm_up: Positive = 3
    """Passes before either that are not timed."""
    most_seconds: Above0 = 60
    """Either stops when this many seconds have passed, but not before 3 repeats; the table says how many there
    were."""
    threads: Positive | None = None
    """CPU threads of torch; null takes all cores of the run."""


@dataclass(frozen=True, kw_only=True)
class Published(Options):
    """Results that others published, and the meaning of their names."""

    file: Text
    """torchgeo-bench's results file, or a results_and_parameters.csv of GEO-Bench-2."""
    source: LeftOut[Annotated[Text, MaxLen(80)]] = None
    """Name that the scores are shown under. Without it, that of the file."""
    url: LeftOut[
        Annotated[str, Matches("an address that begins with https://", r"^https?://[^\s]+$(?!\n)")]
    ] = None
    """Where the file is from."""
    date: LeftOut[
        Annotated[str, Matches("a day in quotes, '2024-05-31'", r"^\d{4}-\d\d-\d\d$(?!\n)")]
    ] = None
    """Day that it was published or taken, in quotes."""
    duplicates: LeftOut[Literal["refuse", "first", "last"]] = None
    """How to treat two values of one configuration; refuse by default."""
    backbones: LeftOut[SameNames] = None
    """Published names to those here that mean the same. Nothing is matched by likeness."""
    datasets: LeftOut[SameNames] = None
    """Published names to those here that mean the same. Nothing is matched by likeness."""
    methods: LeftOut[SameNames] = None
    """Published names to probes here that mean the same. Nothing is matched by likeness."""


@dataclass(frozen=True, kw_only=True)
class Report(Options):
    """The page."""

    title: str = "Permafrost"
    examples: Annotated[int, Interval(ge=2, le=40)] = 12
    """Test images shown per dataset."""
    seed: Natural = 0
    """Chooses the images shown."""


@dataclass(frozen=True, kw_only=True)
class Archive(Options):
    """The archive of a run."""

    include_stores: bool = False
    """Also pack image and feature stores."""


@dataclass(frozen=True, kw_only=True)
class Runtime(Options):
    """How to run. Nothing here changes what counts as up to date."""

    device: Annotated[
        str, Matches("auto, cpu, cuda or cuda:0", r"^(auto|cpu|cuda(:[0-9]+)?)$(?!\n)")
    ] = "auto"
    """Where jobs compute. auto: on a GPU if there is one, but light probes on the CPU; cuda: all that can."""
    batch_size: Positive = Running.batch_size
    """Images per forward pass."""
    workers: Positive = Running.workers
    """Threads that decode images, and of forward passes on the CPU."""
    parts: Parts | dict[str, Parts] = 1
    """Jobs that share (shard) the preparation of a dataset, and the extraction of each backbone over it, each on
    its own node or GPU; or dataset to this number, 1 for those not named. Parts are joined to the bytes that one
    job writes."""
    cache: Text | None = None
    """Folder that projects share: image and feature stores that one has made are taken from there by all with the
    same data, options and code. Users who may only read it take stores and leave none."""
    light_jobs: Literal["fork", "process"] = "fork"
    """Short jobs are forks of one warm process for each run (Linux), or separate processes."""
    light_jobs_on: Literal["cluster", "driver"] = "cluster"
    """With an executor of a cluster: submit probes of embeddings, bootstrap and compare too, or run them next to
    snakemake, whose machine then needs cores for them."""


@dataclass(frozen=True, kw_only=True)
class Settings(Options):
    """The configuration without its probes."""

    suite: LeftOut[Suite] = None
    """The suite that a file of config/suites is (docs/configure.md). The plan adds a digest of its content and the
    changes of the run."""
    results: Text = "results"
    """Folder of all outputs, relative to the project's folder."""
    data: Text = "data"
    """Folder that replaces {data} in the paths of entries. Moving the data reruns nothing."""
    versions: Literal["record", "rerun"] = "record"
    """Versions of the packages that a result was computed with. record: they are written with the result, and a
    mixture is a warning. rerun: they are part of its identity, and an upgrade reruns the jobs that depend on it."""
    catalogues: list[str] = field(default_factory=lambda: ["config"])
    """Folders that hold backbones/*.yaml and datasets/*.yaml. `{permafrost}` is the folder of the workflow, here
    and in entries."""
    backbones: LeftOut[Different[str]] = None
    """Names of backbones; [all] takes the whole catalogue."""
    datasets: LeftOut[Different[str]] = None
    """Names of datasets; [all] takes the whole catalogue."""
    extra_backbones: dict = field(default_factory=dict)
    """Further backbones, name to entry, as in a catalogue file."""
    extra_datasets: dict = field(default_factory=dict)
    """Further datasets, name to entry, as in a catalogue file."""
    extra_probes: Plugins = field(default_factory=dict)
    """Kinds of probes of one's own, name to the place of a ProbeKind (docs/architecture.md)."""
    extra_sources: Plugins = field(default_factory=dict)
    """Kinds of sources of one's own, name to the place of a Kind of sources."""
    extra_metrics: Plugins = field(default_factory=dict)
    """Metrics of one's own, name to the place of a Metric."""
    extraction: ExtractionSettings = field(default_factory=ExtractionSettings)
    """How features are computed, if a backbone's entry says nothing else."""
    measures: Measures | None = None
    """Measures of the features themselves, without a probe; null makes none, {} all of them."""
    profile: Profile | None = None
    """Cost of backbones on this machine (size, FLOPs, throughput, latency, memory, energy); null measures none, {}
    with these defaults."""
    seeds: Different[Natural] = field(default_factory=lambda: [0])
    """Seeds of the probes in which chance plays a part."""
    bootstrap: Bootstrap = field(default_factory=Bootstrap)
    """Intervals of scores."""
    comparison: Comparison = field(default_factory=Comparison)
    """Paired differences between backbones, on the same units of the test set."""
    groups: dict[GroupName, Different[str]] = field(default_factory=dict)
    """Groups of datasets that backbones are ranked over, name to names of datasets. Those of a group that a run
    leaves out are named in the standings. Groups of all datasets, of each task, sensor and ground distance are made
    automatically."""
    fit: Literal["strict", "authors", "geobench2"] = "strict"
    """How to treat a dataset that lacks what a backbone needs. strict: nothing is invented. authors: absent bands
    are copies of neighbours or neutral, and 8-bit pictures are z-scored, as authors of models do in their
    evaluations. geobench2: after GEO-Bench-2, z-scores for every pair, and 0 for absent bands. It is part of the
    features' identity."""
    unfit: Literal["leave_out", "error"] = "leave_out"
    """A backbone that cannot read a dataset, or a probe that cannot score it. leave_out: the pair is left out, and
    plan, tables and page say why. error: nothing is run."""
    published: list[Text | Published] = field(default_factory=list)
    """Results that others published (docs/published.md), to be gathered in published.csv and shown on the page,
    marked. They are never ranked or tested. A file, or a file with its metadata."""
    ranking: RankingSettings = field(default_factory=RankingSettings)
    """Standings over groups of datasets. Confidence and seed are those of comparison."""
    calibration: CalibrationSettings | None = field(default_factory=CalibrationSettings)
    """Also judge the probabilities of probes that give any (calibration errors, Brier score, temperature); null
    leaves that out."""
    report: Report = field(default_factory=Report)
    """The page."""
    archive: Archive = field(default_factory=Archive)
    """The archive of a run."""
    runtime: Runtime = field(default_factory=Runtime)
    """How to run. Nothing here changes what counts as up to date."""
