# Heads that find objects: maps of layers in; a list of detections per test image out, also as COCO JSON.


rule detection:
    input:
        **stores("features/{dataset}/{backbone}"),
    output:
        table=f"{RESULTS}/predictions/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.parquet",
        detections=directory(beside_predictions(DETECTIONS)),
    log:
        f"{RESULTS}/logs/probe/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.log",
    wildcard_constraints:
        probe=probes_of_kind("detection"),
    resources:
        mem_mb=memory_mb(6000),
        runtime=minutes(240),
        gpu=gpu,
    params:
        job=job("probe", "dataset", "backbone", "probe", "seed"),
    shell:
        "permafrost detection --job {params.job} --plan {PLAN_FILE:q} "
        "--features {input.train:q} {input.val:q} {input.test:q} "
        "--output {output.table:q} --detections {output.detections:q} "
        "--device {RUNTIME[device]} --threads {threads} 2>&1 | tee {log:q}"
