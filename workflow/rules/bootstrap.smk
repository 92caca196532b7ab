rule bootstrap:
    input:
        f"{RESULTS}/predictions/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.parquet",
    output:
        f"{RESULTS}/scores/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.parquet",
    log:
        f"{RESULTS}/logs/bootstrap/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.log",
    resources:
        **asks("bootstrap"),
    params:
        **of_run("plan"),
        job=job("bootstrap", "dataset", "backbone", "probe", "seed"),
        light=light("bootstrap", "dataset", "backbone", "probe", "seed"),
    shell:
        "{params.light} bootstrap --job {params.job} --plan {params.plan:q} "
        "--predictions {input:q} --output {output:q} 2>&1 | tee {log:q}"
