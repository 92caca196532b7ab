rule compare:
    input:
        predictions_compared,
    output:
        f"{RESULTS}/comparisons/{{dataset}}/{{probe}}.parquet",
    log:
        f"{RESULTS}/logs/compare/{{dataset}}/{{probe}}.log",
    resources:
        mem_mb=memory_mb(2000),
        runtime=minutes(30),
    params:
        spec=spec("compare", "dataset", "probe"),
        code=PLAN.code("compare"),
    shell:
        "permafrost compare --spec {params.spec:q} --code {params.code} "
        "--results {RESULTS:q} --output {output:q} 2>&1 | tee {log:q}"
