# The plan, the look-ups that rules make in it, and the lists of targets.
#
# The parameter `job` says what a job is to do: the fingerprint of all that affects its result (the
# fingerprints of its inputs among it) and of the code it uses. So reruns follow content; time stamps say
# nothing that the parameter doesn't say better, and the profiles leave them out of the triggers (Snakemake still looks
# at those of objects on a store: docs/machines.md). The stage finds what the fingerprint stands for in the recorded
# plan. Other parameters follow from that plan and only shape the command.

import shlex
import sys
import time
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.io import IOFile

# found from this file: a Snakefile elsewhere may include the workflow, as workflow/Snakefile and own projects do
CLONE = Path(workflow.current_basedir.get_path_or_uri(secret_free=False)).parents[1]
WORKFLOW = CLONE / "workflow"
sys.path.insert(0, str(WORKFLOW))
from permafrost.core.device import takes_gpu
from permafrost.core.specification import SPLITS
from permafrost.plan.catalogue import read_yaml
from permafrost.plan.demo import complete
from permafrost.plan.environments import check_deployed
from permafrost.plan.failures import (
    check_executor,
    check_gpu,
    check_groups,
    end_failed_run,
)
from permafrost.plan.misfits import misfit_lines, recorded_misfits
from permafrost.plan.object_store import Places, check_archive
from permafrost.plan.options import KINDS, leaves
from permafrost.plan.parts import FOLDER, PATTERN, JoinedParts, check_parts
from permafrost.plan.plan import Plan
from permafrost.plan.record import record_plan
from permafrost.plan.resources import asked, device_of
from permafrost.plan.snakemake_process import (
    asked_often,
    collect_rarely,
    expose_commands,
    keep_warm,
    light_program,
    show_progress,
    plain_errors,
)

collect_rarely()
expose_commands(WORKFLOW)
STARTED = time.time()

with plain_errors():
    # Snakemake lists the files of the command line first, then config/config.yaml, which they override
    given = workflow.overwrite_configfiles
    standing = workflow.configfiles[len(given) :]
    # read again: Snakemake keeps the last of two equal keys in silence
    layers = [read_yaml(Path(path)) for path in [*standing, *given]]
    if workflow.config_settings.replace_workflow_config:
        layers = layers[len(standing) :]
    from_demo = complete(
        config,
        [*layers, workflow.config_settings.config],
        read_yaml(CLONE / "config/demo.yaml"),
        Path.cwd(),
    )
    PLAN = Plan(
        config,
        Path.cwd(),
        where=", ".join(map(str, workflow.configfiles)) or "--config",
        checked=not workflow.is_main_process,
    )
    check_parts(PLAN)
    PLACES = Places(workflow, config["results"])
    check_deployed(
        PLAN.environments,
        {method.value for method in workflow.deployment_settings.deployment_method},
    )

if from_demo and workflow.is_main_process:
    print(
        f"The configuration names no {', '.join(from_demo)}: "
        "those of the demo are run (config/demo.yaml).",
        file=sys.stderr,
    )

if workflow.is_main_process:
    for line in misfit_lines(recorded_misfits(PLAN.misfits), len(PLAN.pairs())):
        print(line, file=sys.stderr)

MESSAGES = show_progress(workflow, PLAN) if workflow.is_main_process else {}
RESULTS = config["results"]
PLAN_FILE = record_plan(PLAN, RESULTS)
RUNTIME = config["runtime"]
if RUNTIME["light_jobs"] == "fork":
    keep_warm()
if RUNTIME["light_jobs_on"] == "driver":

    localrules:
        probe_embeddings,
        bootstrap,
        compare,


GPU_HERE = takes_gpu(RUNTIME["device"])
MEASURED_SPLIT = (config["measures"] or {}).get("split", "train")
VIEWED = set(PLAN.viewed())
PREDICTIONS = (
    f"{RESULTS}/predictions/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.parquet"
)
PROBE_LOG = f"{RESULTS}/logs/probe/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.log"
AGGREGATED = f"{RESULTS}/plans/{PLAN.aggregate().fingerprint}.done"
REPORTED = f"{RESULTS}/plans/{PLAN.report().fingerprint}.done"
# results that others published, where the configuration names some
PUBLISHED = (
    {
        "published": f"{RESULTS}/published.parquet",
        "published_csv": f"{RESULTS}/published.csv",
    }
    if config["published"]
    else {}
)


def not_compared(**values):
    """Parameters that may change without running a job again: Snakemake compares none that is made of the output."""

    def constant(value):
        return asked_often(lambda wildcards, output: value)

    return {name: constant(value) for name, value in values.items()}


@asked_often
def device(wildcards, output=None):
    """Where a job computes: for a probe, what `auto` means for its kind. Of the output, as in `not_compared`."""
    named = RUNTIME["device"]
    return (
        device_of(probe_kind(wildcards), named)
        if "probe" in wildcards.keys()
        else named
    )


# what stands in commands and changes no result; a parameter, since a command sees no name of a module
RUN = {
    **not_compared(plan=PLAN_FILE, results=PLACES.folder, data=config["data"]),
    "device": device,
}


def of_run(*names):
    """Those of `RUN` that stand in the command of a rule: each costs time for every job of it."""
    return {name: RUN[name] for name in names}


def one_of(names):
    """A regular expression that matches exactly the names; none of them: one that never matches."""
    return "|".join(names) or "(?!)"


wildcard_constraints:
    part=PATTERN,
    dataset=one_of(PLAN.datasets),
    backbone=one_of(PLAN.backbones),
    probe=one_of(PLAN.probes),
    split=one_of(SPLITS),
    seed=r"\d+",


def planned(stage, *names):
    """A function of the wildcards: the job of a stage that they name."""
    types = {"seed": int}
    build = getattr(PLAN, stage)
    return lambda wildcards: build(
        *(types.get(name, str)(getattr(wildcards, name)) for name in names)
    )


def job(stage, *names):
    """Input function of a rule's parameter: the fingerprint of its job, by the wildcards `names`."""
    built = planned(stage, *names)
    return asked_often(lambda wildcards: built(wildcards).fingerprint)


def light(stage, *names):
    """Input function of a parameter: what stands for `permafrost` in the command of a job that mostly starts up."""
    built = planned(stage, *names)
    # of the output, so that it is not compared
    return asked_often(lambda wildcards, output: light_program(built(wildcards).code))


def probes_that_read(shape, leaving=None):
    """A pattern of the probes that read embeddings, patches, maps or images, and leave this beside their table."""
    return one_of(
        [
            name
            for name, options in PLAN.probes.items()
            if KINDS[options["kind"]].reads == shape and leaves(options) == leaving
        ]
    )


@asked_often
def probe_kind(wildcards):
    return PLAN.probes[wildcards.probe]["kind"]


def asks(stage):
    """The resources that every rule sets; they grow with each attempt (retries are set in the profile)."""

    def of_job(wildcards):
        kind = probe_kind(wildcards) if stage == "probe" else None
        return asked(stage, kind=kind, views=bool(VIEWED))

    return {
        "mem_mb": asked_often(
            lambda wildcards, attempt: of_job(wildcards).memory_mb * attempt
        ),
        "runtime": asked_often(
            lambda wildcards, attempt: of_job(wildcards).minutes * attempt
        ),
    }


JOINED_PARTS = JoinedParts(
    PLAN,
    RESULTS,
    lambda path: workflow.persistence.input(IOFile(path)),
    PLACES,
    planned=workflow.is_main_process,
)


@asked_often
def parts(wildcards):
    """What `extract` joins; nothing where it extracts all by itself."""
    return JOINED_PARTS("extract", wildcards.dataset, wildcards.backbone)


@asked_often
def image_parts(wildcards):
    """What `prepare` joins; nothing where it decodes all by itself."""
    return JOINED_PARTS("prepare", wildcards.dataset)


@asked_often
def parts_option(wildcards, input):
    return f"--parts {shlex.join(input.parts)}" if input.parts else ""


def images(wildcards):
    """The image stores beside a card, as inputs: on an object store a job gets only what it names.

    Where results are files, its input is the card alone: the stores may be deleted when disk is short, and a job that
    misses them makes them again by itself. As inputs, making them again would rerun every other backbone, since
    Snakemake takes a file that was made anew for a changed one.
    """
    return (
        [path.format(**wildcards) for path in stores("images/{dataset}").values()]
        if PLACES.on_store
        else []
    )


def stores(folder):
    """The three stores, one per split, under `folder` with its wildcards."""
    return {split: f"{RESULTS}/{folder}/{split}.zarr" for split in SPLITS}


def evaluation_path(stage, dataset, backbone, probe, seed):
    return f"{RESULTS}/{stage}/{dataset}/{backbone}/seed{seed}/{probe}.parquet"


def beside_predictions(folder):
    """Where a probe leaves a second output, which is a folder or a store."""
    return f"{RESULTS}/{folder}/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}"


@asked_often
def second_output(wildcards, output):
    return f"--second-output {shlex.quote(output.second)}"


@asked_often
def published_options(wildcards, output):
    return " ".join(
        f"--{name.replace('_', '-')} {shlex.quote(getattr(output, name))}"
        for name in PUBLISHED
    )


@asked_often
def views_measured(wildcards):
    """The augmented views that a job of measures reads beside the features, where the plan has some."""
    path = f"{RESULTS}/views/{wildcards.dataset}/{wildcards.backbone}.zarr"
    return {"views": path} if (wildcards.dataset, wildcards.backbone) in VIEWED else {}


@asked_often
def views_option(wildcards, input):
    return f"--views {shlex.quote(input.views)}" if "views" in input.keys() else ""


def later(paths, *arguments):
    """An input function of what `paths` returns: only the jobs that are planned make their long lists of files."""
    return asked_often(lambda wildcards: paths(*arguments))


def every_evaluation(stage):
    return [evaluation_path(stage, *evaluation) for evaluation in PLAN.evaluations()]


@asked_often
def features_paired(wildcards):
    """The measured features of all backbones of a dataset."""
    return [
        f"{RESULTS}/features/{wildcards.dataset}/{backbone}/{MEASURED_SPLIT}.zarr"
        for backbone in PLAN.backbones_on(wildcards.dataset)
    ]


def every_measure():
    return [f"{RESULTS}/measures/{d}/{b}.parquet" for d, b in PLAN.measured()]


def every_profile():
    return [f"{RESULTS}/profiles/{d}/{b}.parquet" for d, b in PLAN.profiled()]


def every_similarity():
    return [f"{RESULTS}/similarity/{d}.parquet" for d in PLAN.paired()]


def every_feature_store():
    return [
        f"{RESULTS}/features/{dataset}/{backbone}/{split}.zarr"
        for dataset, backbone in PLAN.pairs()
        for split in SPLITS
    ]


@asked_often
def predictions_compared(wildcards):
    """Predictions of all backbones and seeds of a dataset and probe."""
    return [
        evaluation_path(
            "predictions", wildcards.dataset, backbone, wildcards.probe, seed
        )
        for backbone in PLAN.backbones_on(wildcards.dataset, wildcards.probe)
        for seed in PLAN.seeds_of(wildcards.probe)
    ]


def every_comparison():
    return [f"{RESULTS}/comparisons/{d}/{p}.parquet" for d, p in PLAN.compared()]


def every_detection_folder():
    return [
        f"{RESULTS}/detections/{dataset}/{backbone}/seed{seed}/{probe}"
        for dataset, backbone, probe, seed in PLAN.evaluations()
        if leaves(PLAN.probes[probe]) == "detections"
    ]


def finished():
    """What a finished run has left: all but the stores and predicted masks, which may be deleted.

    Snakemake makes again what is missing here; a file that is only an input of another, it does not miss.
    """
    return [
        f"{RESULTS}/leaderboard.parquet",
        f"{RESULTS}/leaderboard.csv",
        f"{RESULTS}/standings.parquet",
        f"{RESULTS}/standings.csv",
        *PUBLISHED.values(),
        f"{RESULTS}/report/index.html",
        f"{RESULTS}/report/figures",
        AGGREGATED,
        REPORTED,
        *every_evaluation("predictions"),
        *every_detection_folder(),
        *every_evaluation("scores"),
        *every_comparison(),
        *every_measure(),
        *every_similarity(),
        *every_profile(),
    ]


@asked_often
def program(wildcards):
    """What stands for `permafrost` in the command of a job that runs a backbone: that of its environment."""
    environment = PLAN.environments.get(wildcards.backbone)
    return environment.program if environment else "permafrost"


def deployed(method):
    """Input function of `conda` or `container`: the file of a backbone's environment; None where no backbone has one."""
    files = {
        backbone: str(environment.file)
        for backbone, environment in PLAN.environments.items()
        if environment.deployed == method
    }
    return (
        asked_often(lambda wildcards: files.get(wildcards.backbone)) if files else None
    )


@asked_often
def batch_size(wildcards):
    own = PLAN.backbones[wildcards.backbone].get("runtime") or {}
    return own.get("batch_size", RUNTIME["batch_size"])


@asked_often
def gpu(wildcards):
    """Whether a job uses a GPU, as a number that `resources: gpu=1` limits; 0 where there is none.

    With `device: auto`, this machine decides. On a cluster it can't: there the profile's `set-resources` says
    which jobs go to nodes with a GPU.
    """
    return int(GPU_HERE and (workflow.local_exec or RUNTIME["device"] != "auto"))


@asked_often
def probe_gpu(wildcards):
    """The same for the job of a probe."""
    return 0 if device(wildcards) == "cpu" else gpu(wildcards)


@asked_often
def all_cores(wildcards):
    """The cores of this run; where there is no such number (a cluster), `set-threads` says how many."""
    try:
        return workflow.cores
    except WorkflowError:
        return 1
