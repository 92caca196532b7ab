rule compare:
    input:
        predictions_compared,
    output:
        f"{RESULTS}/comparisons/{{dataset}}/{{probe}}.parquet",
    log:
        **logs("compare/{dataset}/{probe}"),
    resources:
        **resources_for("compare"),
    params:
        **of_run("plan", "results"),
        **light_command("compare", "dataset", "probe"),
        job=job("compare", "dataset", "probe"),
    message:
        "Compare the backbones on {wildcards.dataset} by {wildcards.probe}"
    shell:
        "{params.program} compare --job {params.job} --plan {params.plan:q} "
        "--results {params.results:q} --output {output:q} --benchmark {log.benchmark:q} 2>&1 | tee {log.text:q}"
