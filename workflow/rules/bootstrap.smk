rule bootstrap:
    input:
        unpack(clean_predictions),
        predictions=f"{RESULTS}/predictions/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.parquet",
    output:
        f"{RESULTS}/scores/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.parquet",
    log:
        **logs("bootstrap/{dataset}/{backbone}/seed{seed}/{probe}"),
    resources:
        **resources_for("bootstrap"),
    params:
        **of_run("plan"),
        **light_command("bootstrap", "dataset", "backbone", "probe", "seed"),
        **TITLE,
        job=job("bootstrap", "dataset", "backbone", "probe", "seed"),
        clean=clean_option,
    message:
        "Score {params.title}"
    shell:
        "{params.program} bootstrap --job {params.job} --plan {params.plan:q} "
        "--predictions {input.predictions:q} {params.clean} --output {output:q} --benchmark {log.benchmark:q} 2>&1 | tee {log.text:q}"
