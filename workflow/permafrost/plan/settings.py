"""The keys of a configuration, except the options of probes, which their kinds define."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from annotated_types import Ge, Interval, MaxLen

from permafrost.backbones.derived import Step
from permafrost.core.options import (
    Above0,
    AtLeast2,
    Different,
    LeftOut,
    Matches,
    Name,
    Natural,
    Options,
    Positive,
    Some,
    Text,
    Two,
)
from permafrost.data.derived import DerivedDataset
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
    Matches(
        "at most 80 letters, digits, spaces, - and _, a letter or digit first, no space last",
        r"^[A-Za-z0-9](?:[A-Za-z0-9 _-]{0,78}[A-Za-z0-9_-])?$(?!\n)",
    ),
]
#: name of a plug-in -> where it is defined
Plugins = dict[
    str,
    Annotated[
        str,
        Matches(
            "path/to/file.py:NAME or package.module:NAME", r"^.+:[A-Za-z_][A-Za-z0-9_]*$(?!\n)"
        ),
    ],
]
#: published name -> name in this configuration
SameNames = dict[str, Text]


@dataclass(frozen=True, kw_only=True)
class Suite(Options):
    """The suite that this configuration defines (docs/configure.md). The plan adds a digest of its content, and how
    the run differs from it.
    """

    name: Name
    """Name of the suite."""
    version: Positive
    """Version of the suite."""
    title: LeftOut[str] = None
    """Title of the suite."""
    digest: LeftOut[str] = None
    """Written by the plan: digest of the suite's content."""
    data: LeftOut[str] = None
    """Written by the plan: digest of the entries and files of the datasets."""
    changed: LeftOut[list[str]] = None
    """Written by the plan: differences between the run and the suite."""


@dataclass(frozen=True, kw_only=True)
class Photometric(Options):
    """Random changes of brightness and contrast, relative to the standard deviation of each band."""

    gain: float = 0.2
    """Contrast: deviations from the band's mean in the train split are multiplied by a random factor from 1 - gain
    to 1 + gain, the same for all bands of a view."""
    offset: float = 0.2
    """Brightness: a random number from -offset to +offset, times the band's standard deviation in the train split,
    is added; the same number for all bands of a view."""


@dataclass(frozen=True, kw_only=True)
class Augmentations(Options):
    """Augmented views of images. They have the image's size and unit, are the same for all backbones, and are
    preprocessed like any other image. With the defaults, every backbone processes 10,000 views.
    """

    views: AtLeast2 = 10
    """Views per image (q). The LiDAR paper uses 50, other implementations 10."""
    images: AtLeast2 = 1000
    """Largest number of images of the split; from more, this many are sampled, the same for all backbones. The LiDAR
    paper uses 1,000 and more; LiDAR is at most the number of images minus 1."""
    crop_scale: Two[float] = field(default_factory=lambda: [0.2, 1.0])
    """Smallest and largest area of the random crop, as a share of the image; it is resized to the image's size
    (bilinear). Its aspect ratio differs from the image's by up to a third. [1, 1]: no crop."""
    flips: bool = True
    """Flip half of the views vertically, and half of them horizontally."""
    rotations: bool = True
    """Rotate views by 0, 90, 180 or 270 degrees; images that are not square by 0 or 180."""
    photometric: Photometric | None = field(default_factory=Photometric)
    """Random changes of brightness and contrast, relative to the standard deviation of each band; null: none."""
    seed: Natural = 0
    """Seed for sampling images and views."""
    delta: float = 1e-4
    """Added by LiDAR to the variances within images, in squared units of the features. Other implementations use
    1e-6 to 1e-4. If it exceeds their mean, the value is flagged."""


@dataclass(frozen=True, kw_only=True)
class Measures(Dates):
    """Feature metrics, computed without a probe; shown next to the scores, never used for ranking."""

    # type checkers do not accept computed choices
    names: Different[Literal[(*MEASURES, *OF_VIEWS)]] | None = None  # type: ignore[valid-type]
    """Names of the metrics; null: all. Alignment and silhouettes use labels, the last two need augmentations."""
    split: Literal["train", "val", "test"] = "train"
    """The split whose features are used."""
    max_rows: AtLeast2 = 10_000
    """Largest number of samples; from more, this many are sampled, the same for all backbones."""
    seed: Natural = 0
    """Seed for sampling."""
    similarity: bool = True
    """Also compute the similarity of every two backbones (debiased linear CKA)."""
    augmentations: Augmentations | None = None
    """Also compute metrics of augmented views of some images (LiDAR, alignment of views). Costs images × views
    forward passes of every backbone; null: none."""


@dataclass(frozen=True, kw_only=True)
class Profile(Options):
    """Cost of backbones on this machine, on the device of `runtime`; shown next to the scores, never used for
    ranking.
    """

    batch_size: Positive = 64
    """Images per forward pass, for throughput and memory; latency is measured with one image."""
    repeats: AtLeast3 = 20
    """Timed passes of a batch."""
    latency_repeats: AtLeast3 = 100
    """Timed passes of a single image."""
    warm_up: Positive = 3
    """Untimed passes before each measurement."""
    most_seconds: Above0 = 60
    """Time limit of each measurement, in seconds; at least 3 passes are timed. The table gives their number."""
    threads: Positive | None = None
    """CPU threads of torch; null: all cores of the run."""


@dataclass(frozen=True, kw_only=True)
class Published(Options):
    """Results that others published, and your names for theirs."""

    file: Text
    """torchgeo-bench's results (a file, or a folder with a file per model), or a results_and_parameters.csv of
    GEO-Bench-2."""
    source: LeftOut[Annotated[Text, MaxLen(80)]] = None
    """Name of the source on the page; by default the file name."""
    url: LeftOut[
        Annotated[str, Matches("an address that begins with https://", r"^https?://[^\s]+$(?!\n)")]
    ] = None
    """Address that the file comes from."""
    date: LeftOut[
        Annotated[str, Matches("a day in quotes, '2024-05-31'", r"^\d{4}-\d\d-\d\d$(?!\n)")]
    ] = None
    """Day of publication or download, in quotes."""
    duplicates: LeftOut[Literal["refuse", "first", "last"]] = None
    """How to treat two values of one configuration; refuse by default."""
    backbones: LeftOut[SameNames] = None
    """Published names to names of backbones in this configuration. Similar names are not matched."""
    datasets: LeftOut[SameNames] = None
    """Published names to names of datasets in this configuration. Similar names are not matched."""
    methods: LeftOut[SameNames] = None
    """Published names to names of probes in this configuration. Similar names are not matched."""


@dataclass(frozen=True, kw_only=True)
class Report(Options):
    """The page."""

    title: str = "Permafrost"
    examples: Annotated[int, Interval(ge=2, le=40)] = 12
    """Test images shown per dataset."""
    seed: Natural = 0
    """Seed for sampling these images."""


@dataclass(frozen=True, kw_only=True)
class Archive(Options):
    """The archive of a run."""

    include_stores: bool = False
    """Also pack image and feature stores."""


@dataclass(frozen=True, kw_only=True)
class Runtime(Options):
    """How to run. Changing these options reruns nothing."""

    device: Annotated[
        str, Matches("auto, cpu, cuda or cuda:0", r"^(auto|cpu|cuda(:[0-9]+)?)$(?!\n)")
    ] = "auto"
    """Device of jobs. auto: a GPU if available, but cheap probes on the CPU; cuda: all jobs that can use a GPU."""
    batch_size: Positive = Running.batch_size
    """Images per forward pass."""
    workers: Positive | None = None
    """Threads that decode images, and threads of forward passes on the CPU. null: 2, and for extractions on a GPU of
    this machine half of the cores of the run, from 2 to 8."""
    parts: Parts | dict[str, Parts] = 1
    """Number of jobs (shards) that share the preparation of a dataset, and the extraction of each backbone on it,
    each on its own node or GPU; or dataset to number, 1 for others. The joined result is the same to the byte. Derived
    datasets, also those of harder images, are not divided."""
    cache: Text | None = None
    """Folder shared by projects: they reuse each other's image and feature stores if data, options and code are the
    same. Users without write permission reuse stores but add none."""
    keep_maps: (
        bool
        | Annotated[
            str,
            Matches(
                "true, false, or a size such as 500 GB", r"^[0-9]+(\.[0-9]+)? ?(MB|GB|TB)$(?!\n)"
            ),
        ]
    ) = True
    """Whether feature stores with maps (of tasks of pixels and objects) stay on disk. false: each is removed as soon
    as no job of the run reads it; 500 GB: also, an extraction waits while such stores take more than that. A probe
    that is added later extracts again, and no other result is computed again."""
    light_jobs: Literal["fork", "process"] = "fork"
    """How jobs run on the machine of Snakemake: as forks of processes that have imported what they need (Linux), or as
    processes of their own, which import it again. Results are the same to the byte."""
    light_jobs_on: Literal["auto", "cluster", "driver"] = "auto"
    """Where probes of embeddings and patches, bootstrap and compare run with a cluster executor. auto: on Slurm, in
    allocations that run many of them (if snakemake itself runs in an allocation, there), else as cluster; cluster:
    each submitted; driver: next to snakemake, whose machine then needs cores for them."""


@dataclass(frozen=True, kw_only=True)
class Settings(Options):
    """The configuration without its probes."""

    suite: LeftOut[Suite] = None
    """The suite that this configuration defines (docs/configure.md). The plan adds a digest of its content, and how
    the run differs from it."""
    results: Text = "results"
    """Folder of all outputs, relative to the project's folder."""
    data: Text = "data"
    """Folder that replaces {data} in the paths of entries. Moving the data reruns nothing."""
    versions: Literal["record", "rerun"] = "record"
    """Package versions that a result was computed with. record: they are stored with the result, and mixed versions
    give a warning. rerun: they are part of its fingerprint, so an upgrade reruns the jobs that use the package."""
    catalogues: list[str] = field(default_factory=lambda: ["config"])
    """Folders with backbones/*.yaml and datasets/*.yaml. `{permafrost}` is the folder of the workflow, here and in
    entries."""
    backbones: LeftOut[Different[str]] = None
    """Names of backbones; [all]: the whole catalogue."""
    datasets: LeftOut[Different[str]] = None
    """Names of datasets; [all]: the whole catalogue."""
    extra_backbones: dict = field(default_factory=dict)
    """Further backbones, name to entry, as in a catalogue file."""
    extra_datasets: dict = field(default_factory=dict)
    """Further datasets, name to entry, as in a catalogue file."""
    derive: dict[Name, Some[Step]] = field(default_factory=dict)
    """Smaller forms of every backbone of the run, name to steps (docs/derived.md). `int8` makes of `resnet50` the
    backbone `resnet50@int8`, read from the stored features of `resnet50`."""
    derived_datasets: dict[Name, DerivedDataset] = field(default_factory=dict)
    """Further datasets of the run: images of others, divided anew (docs/derived-datasets.md)."""
    extra_probes: Plugins = field(default_factory=dict)
    """Your own kinds of probes, name to the place of a ProbeKind (docs/architecture.md)."""
    extra_sources: Plugins = field(default_factory=dict)
    """Your own kinds of sources, name to the place of a Kind of sources."""
    extra_metrics: Plugins = field(default_factory=dict)
    """Your own metrics, name to the place of a Metric."""
    extraction: ExtractionSettings = field(default_factory=ExtractionSettings)
    """How features are computed; a backbone's entry can override it."""
    measures: Measures | None = None
    """Feature metrics, computed without a probe; null: none, {}: all."""
    profile: Profile | None = None
    """Cost of backbones on this machine (size, FLOPs, throughput, latency, memory, energy); null: not measured, {}:
    with these defaults."""
    seeds: Different[Natural] = field(default_factory=lambda: [0])
    """Seeds of probes that use random numbers."""
    bootstrap: Bootstrap = field(default_factory=Bootstrap)
    """Confidence intervals of scores."""
    comparison: Comparison = field(default_factory=Comparison)
    """Paired differences between backbones, on the same sampling units of the test set."""
    groups: dict[GroupName, Different[str]] = field(default_factory=dict)
    """Groups of datasets for rankings, name to names of datasets. The overall ranking names datasets of a group that
    a run lacks. Groups of all datasets, and of each task, type of label, sensor and ground sampling distance, are
    automatic, without derived datasets."""
    fit: Literal["strict", "authors", "geobench2"] = "strict"
    """How to treat a dataset that lacks what a backbone needs. strict: nothing is filled in. authors: as authors of
    models do in their evaluations, absent bands are copies of neighbouring bands or neutral, and 8-bit images are
    z-scored. geobench2: as in GEO-Bench-2, z-scores for every pair, and 0 for absent bands. It is part of the
    features' fingerprint."""
    unfit: Literal["error", "leave_out"] = "leave_out"
    """How to treat a backbone that cannot read a dataset, or a probe that cannot score it. leave_out: the pair is
    omitted, and plan, tables and page give the reason. error: nothing is run."""
    published: list[Text | Published] = field(default_factory=list)
    """Results that others published (docs/published.md), collected in published.csv and shown, marked, on the page.
    They are not ranked or tested. A file, or a file with its metadata."""
    ranking: RankingSettings = field(default_factory=RankingSettings)
    """Overall rankings over groups of datasets. Confidence and seed are those of comparison."""
    calibration: CalibrationSettings | None = field(default_factory=CalibrationSettings)
    """Also evaluate predicted probabilities, if a probe gives them (calibration errors, Brier score, temperature);
    null: not evaluated."""
    report: Report = field(default_factory=Report)
    """The page."""
    archive: Archive = field(default_factory=Archive)
    """The archive of a run."""
    runtime: Runtime = field(default_factory=Runtime)
    """How to run. Changing these options reruns nothing."""
