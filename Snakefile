# Permafrost: how good are the features of frozen geospatial backbones?
#
# results/images/{dataset}/{split}.zarr                            prepare
# results/features/{dataset}/{backbone}/{split}.zarr               extract
# results/predictions/{dataset}/{backbone}/seed{seed}/{probe}.parquet   the kinds of probes (workflow/permafrost/probes/kinds.py)
# results/masks/{dataset}/{backbone}/seed{seed}/{probe}/           the same, for probes that keep masks or rasters
# results/detections/{dataset}/{backbone}/seed{seed}/{probe}/      the same as COCO JSON, with the truth (detection)
# results/views/{dataset}/{backbone}.zarr                          views (on request, for measures)
# results/measures/{dataset}/{backbone}.parquet                    measure
# results/similarity/{dataset}.parquet                             similarity
# results/profiles/{dataset}/{backbone}.parquet                    profile
# results/scores/{dataset}/{backbone}/seed{seed}/{probe}.parquet   bootstrap
# results/comparisons/{dataset}/{probe}.parquet                    compare
# results/{leaderboard,standings}.{parquet,csv}                     aggregate
# results/published.{parquet,csv}                                  aggregate, where the configuration names some
# results/report/                                                  report
# results/plans/FINGERPRINT.done                                   aggregate, report: digests of what they wrote
# results/archive/                                                 archive (on request)

from snakemake.utils import min_version

min_version("9.27")


configfile: "config/config.yaml"


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/light_jobs.smk"
include: "workflow/rules/targets.smk"
include: "workflow/rules/prepare.smk"
include: "workflow/rules/extract.smk"
include: "workflow/rules/probes.smk"
include: "workflow/rules/views.smk"
include: "workflow/rules/measure.smk"
include: "workflow/rules/profile.smk"
include: "workflow/rules/bootstrap.smk"
include: "workflow/rules/compare.smk"
include: "workflow/rules/aggregate.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/archive.smk"


onerror:
    EVENTS.wait_for_view()
    end_failed_run(
        workflow,
        PLAN,
        PLAN_FILE,
        RESULTS,
        EVENTS.messages,
        since=STARTED,
        on_store=PLACES.on_store,
        program=gathering_program,
    )


keep_error_hook(workflow, onerror.func)


localrules:
    all,
    features,
    predictions,
    measures,
    profiles,
    scores,
    archive,


rule all:
    default_target: True
    input:
        lazy(finished),


rule features:
    input:
        lazy(every_feature_store),


rule predictions:
    input:
        lazy(every_evaluation, "predictions"),


rule measures:
    input:
        lazy(every_measure),
        lazy(every_similarity),


rule profiles:
    input:
        lazy(every_profile),


rule scores:
    input:
        lazy(every_evaluation, "scores"),
