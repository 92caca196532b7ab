# Ridge regression of a number per pixel: maps of layers in, a few sums per test image out. Nearest patches
# serve numbers too, see segmentation.smk.


rule dense_ridge:
    input:
        **stores("features/{dataset}/{backbone}"),
    output:
        table=f"{RESULTS}/predictions/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.parquet",
    log:
        f"{RESULTS}/logs/probe/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.log",
    wildcard_constraints:
        probe=probes_of_kind("dense_ridge", masks=False),
    resources:
        mem_mb=memory_mb(4000),
        runtime=minutes(120),
    params:
        job=job("probe", "dataset", "backbone", "probe", "seed"),
        masks="",
    shell:
        "permafrost dense_ridge --job {params.job} --plan {PLAN_FILE:q} "
        "--features {input.train:q} {input.val:q} {input.test:q} "
        "--output {output.table:q} {params.masks} "
        "--device {RUNTIME[device]} --threads {threads} 2>&1 | tee {log:q}"


use rule dense_ridge as dense_ridge_with_masks with:
    output:
        table=f"{RESULTS}/predictions/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.parquet",
        masks=directory(beside_predictions(MASKS)),
    wildcard_constraints:
        probe=probes_of_kind("dense_ridge", masks=True),
    params:
        job=job("probe", "dataset", "backbone", "probe", "seed"),
        masks=masks_option,
