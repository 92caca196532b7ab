rule compare:
    input:
        predictions_compared,
    output:
        f"{RESULTS}/comparisons/{{dataset}}/{{probe}}.parquet",
    log:
        f"{RESULTS}/logs/compare/{{dataset}}/{{probe}}.log",
    resources:
        **asks("compare"),
    params:
        **of_run("plan", "results"),
        job=job("compare", "dataset", "probe"),
        light=light("compare", "dataset", "probe"),
    shell:
        "{params.light} compare --job {params.job} --plan {params.plan:q} "
        "--results {params.results:q} --output {output:q} 2>&1 | tee {log:q}"
