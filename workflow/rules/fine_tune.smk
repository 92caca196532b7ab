# A backbone that is trained further: images in, one row of predictions per test item out. As for extract,
# the input is the dataset's card and not its image stores, which may be deleted and are made again.


rule fine_tune:
    input:
        card=f"{RESULTS}/images/{{dataset}}/card.json",
    output:
        f"{RESULTS}/predictions/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.parquet",
    log:
        f"{RESULTS}/logs/probe/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.log",
    wildcard_constraints:
        probe=probes_of_kind("fine_tune"),
    threads: 2
    resources:
        mem_mb=memory_mb(8000),
        runtime=minutes(480),
        gpu=gpu,
    params:
        job=job("probe", "dataset", "backbone", "probe", "seed"),
        prepare_job=job("prepare", "dataset"),
    shell:
        "permafrost fine_tune --job {params.job} --plan {PLAN_FILE:q} --data {config[data]:q} "
        "--card {input.card:q} "
        "--prepare-job {params.prepare_job} "
        "--output {output:q} "
        "--device {RUNTIME[device]} --threads {threads} 2>&1 | tee {log:q}"
