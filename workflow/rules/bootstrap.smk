rule bootstrap:
    input:
        f"{RESULTS}/predictions/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.parquet",
    output:
        f"{RESULTS}/scores/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.parquet",
    log:
        f"{RESULTS}/logs/bootstrap/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.log",
    resources:
        **resources_for("bootstrap"),
    params:
        **of_run("plan"),
        **light_command("bootstrap", "dataset", "backbone", "probe", "seed"),
        job=job("bootstrap", "dataset", "backbone", "probe", "seed"),
    shell:
        "{params.program} bootstrap --job {params.job} --plan {params.plan:q} "
        "--predictions {input:q} --output {output:q} 2>&1 | tee {log:q}"
