# What a finished run has: the lists of files that targets and the last rules ask for.

from permafrost.core.snakemake_internals import run_again
from permafrost.core.stamps import lost_files
from permafrost.plan.options import DETECTIONS


def lazy(paths, *arguments):
    """Input function that calls `paths` only if its rule is planned, since the lists of files are long."""
    return fast_params(lambda wildcards: paths(*arguments))


def for_this_plan(stamp, made, paths, *arguments):
    """`lazy`, for the rule that writes `stamp`: it runs again if `made` is not of this plan, or a file is lost.

    Snakemake does not miss a stamp that is not asked for, and has no record of tables that
    `permafrost incomplete` wrote.
    """

    @fast_params
    def inputs(wildcards):
        here = workflow.is_main_process and not PLACES.on_store
        if here and os.path.exists(made) and lost_files(stamp, expect=Path(stamp).stem):
            run_again(workflow, stamp)
        return paths(*arguments)

    return inputs


def every_evaluation(stage):
    return [evaluation_path(stage, *evaluation) for evaluation in PLAN.evaluations()]


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


def every_comparison():
    return [f"{RESULTS}/comparisons/{d}/{p}.parquet" for d, p in PLAN.compared()]


def every_detection_folder():
    return [
        f"{RESULTS}/detections/{dataset}/{backbone}/seed{seed}/{probe}"
        for dataset, backbone, probe, seed in PLAN.evaluations()
        if leaves(PLAN.probes[probe]) == "detections"
    ]


def make_again_what_lost_files():
    """Rerun the jobs whose folders have lost a file; Snakemake only looks at the folders themselves."""
    for folder in every_detection_folder():
        if not all(os.path.exists(f"{folder}/{name}") for name in DETECTIONS):
            run_again(workflow, folder)


def finished():
    """The outputs of a finished run, except stores and predicted masks, which may be deleted.

    Snakemake makes again what is missing here; a file that is only an input of another, it does not miss.
    """
    if not PLACES.on_store:
        make_again_what_lost_files()
    return [
        f"{RESULTS}/leaderboard.parquet",
        f"{RESULTS}/leaderboard.csv",
        f"{RESULTS}/standings.parquet",
        f"{RESULTS}/standings.csv",
        *PUBLISHED.values(),
        f"{RESULTS}/report/index.html",
        f"{RESULTS}/report/figures",
        f"{RESULTS}/report/datasets",
        f"{RESULTS}/report/backbones",
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
