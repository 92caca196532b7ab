rule bootstrap:
    input:
        f"{RESULTS}/predictions/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.parquet",
    output:
        f"{RESULTS}/scores/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.parquet",
    log:
        f"{RESULTS}/logs/bootstrap/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.log",
    resources:
        mem_mb=memory_mb(1000),
        runtime=minutes(20),
    params:
        spec=spec("bootstrap", "dataset", "backbone", "probe", "seed"),
        code=PLAN.code("bootstrap"),
    shell:
        "permafrost bootstrap --spec {params.spec:q} --code {params.code} "
        "--predictions {input:q} --output {output:q} 2>&1 | tee {log:q}"
