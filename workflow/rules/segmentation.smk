# One rule per kind of segmentation probe: maps of layers in, one confusion matrix per test image out.
# Probes that also keep the predicted masks have a second output, hence a rule of their own.


rule segmentation:
    input:
        **stores("features/{dataset}/{backbone}"),
    output:
        table=f"{RESULTS}/predictions/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.parquet",
    log:
        f"{RESULTS}/logs/probe/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.log",
    wildcard_constraints:
        probe=probes_of_kind("segmentation", masks=False),
    resources:
        mem_mb=memory_mb(6000),
        runtime=minutes(240),
        gpu=gpu,
    params:
        job=job("probe", "dataset", "backbone", "probe", "seed"),
        masks="",
    shell:
        "permafrost segmentation --job {params.job} --plan {PLAN_FILE:q} "
        "--features {input.train:q} {input.val:q} {input.test:q} "
        "--output {output.table:q} {params.masks} "
        "--device {RUNTIME[device]} --threads {threads} 2>&1 | tee {log:q}"


rule dense_knn:
    input:
        **stores("features/{dataset}/{backbone}"),
    output:
        table=f"{RESULTS}/predictions/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.parquet",
    log:
        f"{RESULTS}/logs/probe/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.log",
    wildcard_constraints:
        probe=probes_of_kind("dense_knn", masks=False),
    resources:
        mem_mb=memory_mb(6000),
        runtime=minutes(60),
    params:
        job=job("probe", "dataset", "backbone", "probe", "seed"),
        masks="",
    shell:
        "permafrost dense_knn --job {params.job} --plan {PLAN_FILE:q} "
        "--features {input.train:q} {input.val:q} {input.test:q} "
        "--output {output.table:q} {params.masks} "
        "--device {RUNTIME[device]} --threads {threads} 2>&1 | tee {log:q}"


use rule segmentation as segmentation_with_masks with:
    output:
        table=f"{RESULTS}/predictions/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.parquet",
        masks=directory(beside_predictions(MASKS)),
    wildcard_constraints:
        probe=probes_of_kind("segmentation", masks=True),
    params:
        job=job("probe", "dataset", "backbone", "probe", "seed"),
        masks=masks_option,


use rule dense_knn as dense_knn_with_masks with:
    output:
        table=f"{RESULTS}/predictions/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.parquet",
        masks=directory(beside_predictions(MASKS)),
    wildcard_constraints:
        probe=probes_of_kind("dense_knn", masks=True),
    params:
        job=job("probe", "dataset", "backbone", "probe", "seed"),
        masks=masks_option,
