# Probes that score several settings in one job (a table of predictions with an answer for each of them), and
# retrieval, which has a table of queries.


rule knn_sweep:
    input:
        **stores("features/{dataset}/{backbone}"),
    output:
        f"{RESULTS}/predictions/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.parquet",
    log:
        f"{RESULTS}/logs/probe/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.log",
    wildcard_constraints:
        probe=probes_of_kind("knn_sweep"),
    resources:
        mem_mb=memory_mb(3000),
        runtime=minutes(30),
    params:
        job=job("probe", "dataset", "backbone", "probe", "seed"),
    shell:
        "permafrost knn_sweep --job {params.job} --plan {PLAN_FILE:q} "
        "--features {input.train:q} {input.val:q} {input.test:q} --output {output:q} "
        "--device {RUNTIME[device]} --threads {threads} 2>&1 | tee {log:q}"


rule few_shot:
    input:
        **stores("features/{dataset}/{backbone}"),
    output:
        f"{RESULTS}/predictions/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.parquet",
    log:
        f"{RESULTS}/logs/probe/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.log",
    wildcard_constraints:
        probe=probes_of_kind("few_shot"),
    resources:
        mem_mb=memory_mb(3000),
        runtime=minutes(120),
    params:
        job=job("probe", "dataset", "backbone", "probe", "seed"),
    shell:
        "permafrost few_shot --job {params.job} --plan {PLAN_FILE:q} "
        "--features {input.train:q} {input.val:q} {input.test:q} --output {output:q} "
        "--device {RUNTIME[device]} --threads {threads} 2>&1 | tee {log:q}"


rule retrieval:
    input:
        **stores("features/{dataset}/{backbone}"),
    output:
        f"{RESULTS}/predictions/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.parquet",
    log:
        f"{RESULTS}/logs/probe/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.log",
    wildcard_constraints:
        probe=probes_of_kind("retrieval"),
    resources:
        mem_mb=memory_mb(3000),
        runtime=minutes(60),
    params:
        job=job("probe", "dataset", "backbone", "probe", "seed"),
    shell:
        "permafrost retrieval --job {params.job} --plan {PLAN_FILE:q} "
        "--features {input.train:q} {input.val:q} {input.test:q} --output {output:q} "
        "--threads {threads} 2>&1 | tee {log:q}"
