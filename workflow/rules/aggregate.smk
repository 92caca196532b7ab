# The stamp bears the fingerprint of the scores in its name: where they were never gathered it is
# missing, so even without Snakemake's records the scores are read again, and one of another plan is refused.


rule aggregate:
    input:
        for_this_plan(
            AGGREGATED, f"{RESULTS}/leaderboard.parquet", every_evaluation, "scores"
        ),
        lazy(every_measure),
        lazy(every_profile),
    output:
        **PUBLISHED,
        parquet=report(
            f"{RESULTS}/leaderboard.parquet",
            caption="../report/leaderboard.rst",
            category="Leaderboard",
        ),
        csv=report(
            f"{RESULTS}/leaderboard.csv",
            caption="../report/leaderboard.rst",
            category="Leaderboard",
        ),
        standings=report(
            f"{RESULTS}/standings.parquet",
            caption="../report/standings.rst",
            category="Leaderboard",
        ),
        standings_csv=report(
            f"{RESULTS}/standings.csv",
            caption="../report/standings.rst",
            category="Leaderboard",
        ),
        stamp=AGGREGATED,
    log:
        **logs("aggregate"),
    resources:
        **resources_for("aggregate"),
    params:
        **of_run("plan", "results"),
        job=PLAN.aggregate().fingerprint,
        published=published_options,
    message:
        "Gather the scores into the leaderboard"
    shell:
        "permafrost aggregate --job {params.job} --plan {params.plan:q} --results {params.results:q} "
        "--parquet {output.parquet:q} --csv {output.csv:q} "
        "--standings {output.standings:q} --standings-csv {output.standings_csv:q} --stamp {output.stamp:q} "
        "{params.published} "
        "--benchmark {log.benchmark:q} 2>&1 | tee {log.text:q}"
