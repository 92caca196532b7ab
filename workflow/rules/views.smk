# Features of augmented views of some images, where measures of them are asked for.


rule views:
    input:
        card=f"{RESULTS}/images/{{dataset}}/card.json",
        images=images,
    output:
        directory(f"{RESULTS}/views/{{dataset}}/{{backbone}}.zarr"),
    log:
        **logs("views/{dataset}/{backbone}"),
    conda:
        deployed("conda")
    container:
        deployed("apptainer")
    threads: 2
    resources:
        **resources_for("views"),
        gpu=gpu,
        batch_size=batch_size,
    params:
        **of_run("plan", "data", "device"),
        **backbone_program(),
        job=job("views", "dataset", "backbone"),
        prepare_job=job("prepare", "dataset"),
    message:
        "Extract features of augmented views: {wildcards.backbone} on {wildcards.dataset}"
    shell:
        "{params.program} views --job {params.job} --plan {params.plan:q} --data {params.data:q} "
        "--card {input.card:q} "
        "--prepare-job {params.prepare_job} "
        "--output {output:q} "
        "--device {params.device} --batch-size {resources.batch_size} --threads {threads} "
        "--benchmark {log.benchmark:q} 2>&1 | tee {log.text:q}"
