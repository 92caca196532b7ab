# How light jobs run: in forks of a preloaded process, on a cluster in workers, or as the others do.

from permafrost.operate.failures import LIGHT, light_jobs_of
from permafrost.operate.light_workers import asks, start_workers
from permafrost.operate.snakemake_process import keep_warm, light_program

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


def light_command(stage, *names):
    """Parameter `program` of a light job: the command that runs it in the warm process."""
    built = planned(stage, *names)
    if not LIGHT_JOBS:
        return without_rerun(
            program=lambda wildcards: light_program(built(wildcards).code)
        )

    # it reads `output`, so Snakemake does not compare it
    @fast_params
    def program(wildcards, output, threads, resources):
        settings = workflow.executor_settings
        asked = asks(resources, threads, settings) if has_workers() else ""
        return light_program(built(wildcards).code, asked)

    return {"program": program}
