REPORT = f"{RESULTS}/report"


rule report:
    input:
        leaderboard=f"{RESULTS}/leaderboard.parquet",
        standings=f"{RESULTS}/standings.parquet",
        published=list(PUBLISHED.values())[:1],
        stamp=AGGREGATED,
        predictions=lazy(every_evaluation, "predictions"),
        scores=for_this_plan(
            REPORTED, f"{REPORT}/index.html", every_evaluation, "scores"
        ),
        comparisons=lazy(every_comparison),
        similarities=lazy(every_similarity),
        cards=[f"{RESULTS}/images/{d}/card.json" for d in PLAN.datasets],
        # for pictures, which a page does without where the stores were deleted; see `images` of common.smk
        images=[
            f"{RESULTS}/images/{d}/test.zarr" for d in PLAN.datasets if PLACES.on_store
        ]
        + [
            path
            for origins in PLAN.origins.values()
            for d in origins
            for path in stores(f"images/{d}").values()
            if PLACES.on_store
        ],
    output:
        page=report(
            f"{REPORT}/index.html",
            caption="../report/page.rst",
            category="Report",
        ),
        figures=report(
            directory(f"{REPORT}/figures"),
            patterns=["{name}.png", "{name}.svg"],
            caption="../report/figures.rst",
            category="Figures",
        ),
        datasets=directory(f"{REPORT}/datasets"),
        backbones=directory(f"{REPORT}/backbones"),
        stamp=REPORTED,
    log:
        **logs("report"),
    resources:
        **resources_for("report"),
    params:
        **of_run("plan", "results"),
        **without_rerun(folder=PLACES.copy(REPORT)),
        **warm_program(PAGE),
        job=PLAN.report().fingerprint,
    message:
        "Write the page"
    shell:
        "{params.program} report --job {params.job} --plan {params.plan:q} --results {params.results:q} "
        "--standings {input.standings:q} "
        "--output {params.folder:q} --stamp {output.stamp:q} --benchmark {log.benchmark:q} 2>&1 | tee {log.text:q}"
