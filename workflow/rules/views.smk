# Features of augmented views of some images, where measures of them are asked for. The input is the card,
# as in extract.smk.


rule views:
    input:
        card=f"{RESULTS}/images/{{dataset}}/card.json",
    output:
        directory(f"{RESULTS}/views/{{dataset}}/{{backbone}}.zarr"),
    log:
        f"{RESULTS}/logs/views/{{dataset}}/{{backbone}}.log",
    threads: 2
    resources:
        mem_mb=memory_mb(6000),
        runtime=minutes(120),
        gpu=gpu,
        batch_size=batch_size,
    params:
        spec=spec("views", "dataset", "backbone"),
        code=PLAN.code("views"),
        prepare_spec=spec("prepare", "dataset"),
        prepare_code=PLAN.code("prepare"),
    shell:
        "permafrost views --spec {params.spec:q} --code {params.code} --data {config[data]:q} "
        "--card {input.card:q} "
        "--prepare-spec {params.prepare_spec:q} --prepare-code {params.prepare_code} "
        "--output {output:q} "
        "--device {RUNTIME[device]} --batch-size {resources.batch_size} --threads {threads} "
        "2>&1 | tee {log:q}"
