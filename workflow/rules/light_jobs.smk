# How jobs run: in forks of processes that have imported what they need, light ones on a cluster in workers, or alone.

from permafrost.core.snakemake_internals import jobs_of_rules
from permafrost.operate.failures import LIGHT, light_jobs_of
from permafrost.operate.light_client import WORKERS
from permafrost.operate.light_workers import asks, start_workers
from permafrost.operate.snakemake_process import (
    keep_warm,
    light_program,
    of_libraries,
)
from permafrost.plan.preloaded import IMAGES, PAGE, of_backbone, of_probe

if RUNTIME["light_jobs"] == "fork":
    keep_warm()
LIGHT_JOBS = light_jobs_of(workflow, RUNTIME["light_jobs_on"])
# local: the rule's command runs beside Snakemake, and passes the job to a worker
if LIGHT_JOBS:

    localrules:
        bootstrap,
        compare,

    if not RUNTIME["device"].startswith("cuda"):

        localrules:
            probe_embeddings,
            probe_patches,
            probe_patches_with_masks,


def has_workers():
    """Whether light jobs run in workers; known once the executor is."""
    return LIGHT_JOBS and not workflow.local_exec


def start_needed_workers():
    """Start the workers of a run that has light jobs for them."""
    if has_workers() and rules_to_run(workflow).intersection(LIGHT):
        start_workers(Path(PLACES.folder) / "logs/slurm", here=LIGHT_JOBS == "here")


def gathering_program():
    """The program of `permafrost incomplete` after a run that failed: in a worker, if others are in allocations."""
    if not (has_workers() and LIGHT_JOBS == "workers"):
        return "permafrost"
    # it does what these jobs would have done
    jobs = jobs_of_rules(workflow, ("aggregate", "report"))
    if not jobs:
        return "permafrost"
    if WORKERS not in os.environ:
        start_workers(Path(PLACES.folder) / "logs/slurm", here=False)
    largest = max((job.resources for job in jobs), key=lambda one: one["mem_mb"])
    return light_program("incomplete", asks(largest, 1, workflow.executor_settings))


def light_command(stage, *names):
    """Parameter `program` of a light job: the command that runs it in the warm process of its code or its libraries."""
    built = planned(stage, *names)

    def shares(wildcards):
        libraries = of_probe(probe_kind(wildcards)) if stage == "probe" else ()
        return of_libraries(libraries) if libraries else built(wildcards).code

    if not LIGHT_JOBS:
        return without_rerun(program=lambda wildcards: light_program(shares(wildcards)))

    # it reads `output`, so Snakemake does not compare it
    @fast_params
    def program(wildcards, output, threads, resources):
        settings = workflow.executor_settings
        asked = asks(resources, threads, settings) if has_workers() else ""
        return light_program(shares(wildcards), asked)

    return {"program": program}


def forks_here():
    """Whether jobs run beside Snakemake, as forks; known once the executor is."""
    here = workflow.is_main_process and workflow.local_exec
    return here and RUNTIME["light_jobs"] == "fork"


def warm_program(libraries):
    """Parameter `program` of a job that is a fork of a process with these libraries, where jobs are forks."""
    return without_rerun(
        program=lambda wildcards: (
            light_program(of_libraries(libraries)) if forks_here() else "permafrost"
        )
    )


def backbone_program(*, warm=True):
    """Parameter `program` of a job that runs a backbone: that of its environment, if it has one.

    warm : the job may be a fork of a process that has imported the backbone's libraries.
    """

    def program(wildcards):
        environment = PLAN.environments.get(wildcards.backbone)
        if environment:
            return environment.program
        if not (warm and forks_here()):
            return "permafrost"
        kind = PLAN.backbones[wildcards.backbone]["kind"]
        return light_program(of_libraries(of_backbone(kind)))

    return without_rerun(program=program)
