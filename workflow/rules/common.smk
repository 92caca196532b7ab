# The plan, and the look-ups that rules make in it.
#
# The parameter `job` is the fingerprint of all that affects the result of a job, its inputs and its code included. So
# reruns follow content, and the profiles leave time stamps out of the triggers (Snakemake still compares those of
# objects on a store: docs/clusters.md). The command looks the fingerprint up in the recorded plan. The other
# parameters follow from that plan and only shape the command.

import os
import shlex
import sys
import time
from pathlib import Path

from snakemake.sourcecache import LocalSourceFile

HERE = workflow.current_basedir
if isinstance(HERE, LocalSourceFile):
    # relative to this file, since a Snakefile elsewhere may include the workflow, as workflow/Snakefile and own projects do
    CLONE = Path(HERE.get_path_or_uri(secret_free=False)).parents[1]
    sys.path.insert(0, str(CLONE / "workflow"))
else:
    # read from a host, as by github(…): catalogues and commands are those of the installed package
    try:
        from permafrost.core.home import HOME as CLONE
        from permafrost.operate.snakemake_process import plain_errors
        from permafrost.plan.hosted import check_hosted
    except ImportError:
        sys.exit(
            f"permafrost: error: {HERE}: this workflow is read from a host, and the package that its jobs run is not "
            'installed here, or is older. Remedy: `pip install "permafrost[workflow]"`; `permafrost init FOLDER` then '
            "writes a project that needs no host"
        )
    with plain_errors():
        check_hosted(workflow, HERE)
WORKFLOW = CLONE / "workflow"
from permafrost.core.device import takes_gpu
from permafrost.core.snakemake_internals import (
    config_of_module,
    configuration_files,
    fast_params,
    keep_error_hook,
    make_again,
    recorded_inputs,
    renamed_rule,
    rules_to_run,
    without_rerun,
)
from permafrost.core.specification import SPLITS
from permafrost.plan.catalogue import read_yaml
from permafrost.plan.demo import complete
from permafrost.plan.environments import check_deployed
from permafrost.operate.failures import (
    check_executor,
    check_gpu,
    check_groups,
    end_failed_run,
)
from permafrost.operate.maps_on_disk import lacks_layers, limit_maps
from permafrost.plan.hosted import check_module
from permafrost.plan.misfits import misfit_lines, recorded_misfits
from permafrost.plan.object_store import Places, check_archive
from permafrost.plan.options import KINDS, leaves, titled
from permafrost.plan.parts import FOLDER, PATTERN, JoinedParts, check_parts
from permafrost.plan.plan import Plan
from permafrost.plan.read_before import change_lines
from permafrost.plan.record import plan_file, record_plan
from permafrost.plan.resources import asked, device_of, reading_threads
from permafrost.operate.snakemake_process import (
    expose_commands,
    follow_run,
    plain_errors,
    set_up_planning,
)
from permafrost.core.shared_cache import CACHE

set_up_planning()
expose_commands(WORKFLOW)
STARTED = time.time()

with plain_errors():
    # read again, since Snakemake keeps the last of two equal keys in silence
    layers = [read_yaml(path) for path in configuration_files(workflow)]
    layers.append(workflow.config_settings.config)
    from_demo = complete(
        config,
        [config] if config_of_module(workflow) else layers,
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
    check_module(workflow, config["results"])
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
    for line in change_lines(PLAN.changes()):
        print(line, file=sys.stderr)

RESULTS = config["results"]
PLAN_FILE = plan_file(PLAN, RESULTS)
RUNTIME = config["runtime"]
if RUNTIME["cache"] and not PLACES.on_store:
    # no parameter, since it changes no result
    os.environ[CACHE] = str(Path(RUNTIME["cache"]).expanduser().absolute())


def start_run():
    """Check the run and record its plan before the first job starts; not called for `-n`, `--lint` and `--dag`."""
    with plain_errors():
        check_executor(workflow)
        check_groups(workflow, RUNTIME["light_jobs_on"])
        check_gpu(workflow, RUNTIME["device"])
        check_archive(PLACES, rules_to_run(workflow))
        limit_maps(
            workflow,
            PLAN,
            RESULTS,
            EXTRACTING,
            EXTRACTING_PARTS,
            on_store=PLACES.on_store,
        )
        PLAN.keep_misfits()
        record_plan(PLAN, RESULTS)
    start_needed_workers()


EXTRACTING = (
    renamed_rule(workflow, "extract"),
    renamed_rule(workflow, "extract_harder"),
)
EXTRACTING_PARTS = (renamed_rule(workflow, "extract_part"),)
EVENTS = None
if workflow.is_main_process:
    EVENTS = follow_run(workflow, PLAN, start_run)
else:
    # where a job of this run may not share a file system with the main process
    record_plan(PLAN, RESULTS)

GPU_HERE = takes_gpu(RUNTIME["device"])
MEASURED_SPLIT = (config["measures"] or {}).get("split", "train")
VIEWED = set(PLAN.viewed())
PREDICTIONS = (
    f"{RESULTS}/predictions/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.parquet"
)
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


@fast_params
def device(wildcards):
    """The device of a job; for a probe, `auto` depends on its kind."""
    named = RUNTIME["device"]
    return (
        device_of(probe_kind(wildcards), named)
        if "probe" in wildcards.keys()
        else named
    )


# options of commands that change no result; parameters, since the command of a module's rule sees no global name
RUN = without_rerun(
    plan=PLAN_FILE, results=PLACES.folder, data=config["data"], device=device
)


def of_run(*names):
    """The parameters of `RUN` that a rule needs; each costs planning time for every job."""
    return {name: RUN[name] for name in names}


def one_of(names):
    """A regular expression that matches exactly the names; without names it never matches."""
    return "|".join(names) or "(?!)"


wildcard_constraints:
    part=PATTERN,
    dataset=one_of(PLAN.datasets),
    backbone=one_of(PLAN.backbones),
    probe=one_of(PLAN.probes),
    split=one_of(SPLITS),
    seed=r"\d+",


ROOTS = one_of([name for name in PLAN.backbones if name not in PLAN.parents])
DERIVED = one_of(PLAN.parents)
ROOT_DATASETS = one_of([name for name in PLAN.datasets if name not in PLAN.origins])
DERIVED_DATASETS = one_of(PLAN.origins)
HARDER_DATASETS = one_of(PLAN.harder)
DIVIDED_DATASETS = one_of([name for name in PLAN.origins if name not in PLAN.harder])


def logs(name):
    """The log of a job, and its table of seconds and peak memory in the format of `benchmark:`.

    Snakemake's own directive would measure the client of a light job, not its fork of the warm process.
    """
    return {
        "text": f"{RESULTS}/logs/{name}.log",
        "benchmark": f"{RESULTS}/logs/{name}.tsv",
    }


TITLES = {name: titled(name, options) for name, options in PLAN.probes.items()}
# says what a probe is; its change reruns nothing
TITLE = without_rerun(
    title=lambda wildcards: f"{TITLES[wildcards.probe]} of {wildcards.backbone} on {wildcards.dataset}, seed {wildcards.seed}"
)


def planned(stage, *names):
    """Function of the wildcards that returns the planned job of a stage."""
    types = {"seed": int}
    build = getattr(PLAN, stage)
    return lambda wildcards: build(
        *(types.get(name, str)(getattr(wildcards, name)) for name in names)
    )


def job(stage, *names):
    """Parameter: the fingerprint of the job that the wildcards `names` identify."""
    built = planned(stage, *names)
    return fast_params(lambda wildcards: built(wildcards).fingerprint)


def probes_that_read(shape, leaving=None):
    """Pattern of the probes that read embeddings, patches, maps or images and have this second output."""
    return one_of(
        [
            name
            for name, options in PLAN.probes.items()
            if KINDS[options["kind"]].reads == shape and leaves(options) == leaving
        ]
    )


@fast_params
def probe_kind(wildcards):
    return PLAN.probes[wildcards.probe]["kind"]


def resources_for(stage):
    """Memory and time of a job; they grow with each attempt (profiles set the retries)."""

    def of_job(wildcards):
        kind = probe_kind(wildcards) if stage == "probe" else None
        return asked(stage, kind=kind, views=bool(VIEWED))

    return {
        "mem_mb": fast_params(
            lambda wildcards, attempt: of_job(wildcards).memory_mb * attempt
        ),
        "runtime": fast_params(
            lambda wildcards, attempt: of_job(wildcards).minutes * attempt
        ),
    }


JOINED_PARTS = JoinedParts(
    PLAN,
    RESULTS,
    lambda path: recorded_inputs(workflow, path),
    PLACES,
    planned=workflow.is_main_process,
)


@fast_params
def parts(wildcards):
    """The shards that `extract` joins; empty if it extracts everything itself."""
    pair = wildcards.dataset, wildcards.backbone
    if workflow.is_main_process and lacks_layers(PLAN, RESULTS, *pair):
        make_again(workflow, f"{RESULTS}/features/{'/'.join(pair)}/train.zarr")
    return JOINED_PARTS("extract", wildcards.dataset, wildcards.backbone)


@fast_params
def image_parts(wildcards):
    """The shards that `prepare` joins; empty if it decodes everything itself."""
    return JOINED_PARTS("prepare", wildcards.dataset)


@fast_params
def parts_option(wildcards, input):
    return f"--parts {shlex.join(input.parts)}" if input.parts else ""


@fast_params
def layers_option(wildcards, output):
    """Not a compared parameter: what else is stored does not change what a probe reads."""
    kept = PLAN.kept_layers(wildcards.dataset, wildcards.backbone)
    if kept is None:
        return ""
    chosen = (("--layers", kept.names), ("--strides", kept.strides))
    return " ".join(
        f"{option} {shlex.join(map(str, values))}"
        for option, values in chosen
        if values
    )


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
    """Path of the second output of a probe, a folder or a store."""
    return f"{RESULTS}/{folder}/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}"


@fast_params
def second_output(wildcards, output):
    return f"--second-output {shlex.quote(output.second)}"


@fast_params
def published_options(wildcards, output):
    return " ".join(
        f"--{name.replace('_', '-')} {shlex.quote(getattr(output, name))}"
        for name in PUBLISHED
    )


@fast_params
def views_measured(wildcards):
    """The augmented views that `measure` reads in addition to the features, if the plan has any."""
    path = f"{RESULTS}/views/{wildcards.dataset}/{wildcards.backbone}.zarr"
    return {"views": path} if (wildcards.dataset, wildcards.backbone) in VIEWED else {}


@fast_params
def views_option(wildcards, input):
    return f"--views {shlex.quote(input.views)}" if "views" in input.keys() else ""


@fast_params
def read_through(wildcards):
    """The stores that those of a derived backbone or dataset read; none of others."""
    return [
        path
        for dataset, backbone in PLAN.read_through(
            wildcards.dataset, wildcards.backbone
        )
        for path in stores(f"features/{dataset}/{backbone}").values()
    ]


@fast_params
def origin_cards(wildcards):
    """The cards of the datasets that a dataset is derived from."""
    return [
        f"{RESULTS}/images/{name}/card.json" for name in PLAN.origins[wildcards.dataset]
    ]


@fast_params
def origin_images(wildcards):
    """The image stores beside these cards, as `images`."""
    return [
        path
        for name in PLAN.origins[wildcards.dataset]
        for path in (stores(f"images/{name}").values() if PLACES.on_store else ())
    ]


@fast_params
def origin_jobs(wildcards):
    return " ".join(
        PLAN.prepare(name).fingerprint for name in PLAN.origins[wildcards.dataset]
    )


@fast_params
def clean_predictions(wildcards):
    """Of a dataset with relative losses, the predictions on the clean images; none of others."""
    clean = PLAN.losses.get(wildcards.dataset, ())
    return {
        "clean": evaluation_path(
            "predictions",
            of,
            wildcards.backbone,
            wildcards.probe,
            wildcards.seed,
        )
        for of in clean[:1]
    }


@fast_params
def clean_option(wildcards, input):
    return f"--clean {shlex.quote(input.clean)}" if "clean" in input.keys() else ""


@fast_params
def features_paired(wildcards):
    """The measured features of all backbones of a dataset, without derived ones."""
    return [
        f"{RESULTS}/features/{wildcards.dataset}/{backbone}/{MEASURED_SPLIT}.zarr"
        for backbone in PLAN.roots_on(wildcards.dataset)
    ]


@fast_params
def predictions_compared(wildcards):
    """Predictions of all backbones and seeds of a dataset and probe."""
    return [
        evaluation_path(
            "predictions", wildcards.dataset, backbone, wildcards.probe, seed
        )
        for backbone in PLAN.backbones_on(wildcards.dataset, wildcards.probe)
        for seed in PLAN.seeds_of(wildcards.probe)
    ]


def deployed(method):
    """Function for `conda` or `container`: the file of a backbone's environment; None if no backbone has one."""
    files = {
        backbone: str(environment.file)
        for backbone, environment in PLAN.environments.items()
        if environment.deployed == method
    }
    return (
        fast_params(lambda wildcards: files.get(wildcards.backbone)) if files else None
    )


@fast_params
def batch_size(wildcards):
    own = PLAN.backbones[wildcards.backbone].get("runtime") or {}
    return own.get("batch_size", RUNTIME["batch_size"])


@fast_params
def gpu(wildcards):
    """1 if a job uses a GPU, else 0; `resources: gpu=1` limits the sum.

    With `device: auto`, this machine decides. On a cluster it can't: there the profile's `set-resources` says
    which jobs go to nodes with a GPU.
    """
    return int(GPU_HERE and (workflow.local_exec or RUNTIME["device"] != "auto"))


@fast_params
def probe_gpu(wildcards):
    """Like `gpu`, for the job of a probe."""
    return 0 if device(wildcards) == "cpu" else gpu(wildcards)


@fast_params
def all_cores(wildcards):
    """The cores of this run; on a cluster, where there is no such number, `set-threads` sets it."""
    return workflow.cores if workflow.local_exec else 1


@fast_params
def extraction_cores(wildcards):
    """Cores of an extraction: some of this run's if it feeds a GPU; on a cluster, `set-threads` sets more."""
    return reading_threads(
        RUNTIME["workers"], all_cores(wildcards) if gpu(wildcards) else 0
    )
