rule compare:
    input:
        predictions_compared,
    output:
        f"{RESULTS}/comparisons/{{dataset}}/{{probe}}.parquet",
    log:
        f"{RESULTS}/logs/compare/{{dataset}}/{{probe}}.log",
    resources:
        **resources_for("compare"),
    params:
        **of_run("plan", "results"),
        **light_command("compare", "dataset", "probe"),
        job=job("compare", "dataset", "probe"),
    shell:
        "{params.program} compare --job {params.job} --plan {params.plan:q} "
        "--results {params.results:q} --output {output:q} 2>&1 | tee {log:q}"
