# Probes trained by stochastic gradient descent on mini-batches of features.


rule sgd_linear:
    input:
        **stores("features/{dataset}/{backbone}"),
    output:
        f"{RESULTS}/predictions/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.parquet",
    log:
        f"{RESULTS}/logs/probe/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.log",
    wildcard_constraints:
        probe=probes_of_kind("sgd_linear"),
    resources:
        mem_mb=memory_mb(3000),
        runtime=minutes(60),
    params:
        job=job("probe", "dataset", "backbone", "probe", "seed"),
    shell:
        "permafrost sgd_linear --job {params.job} --plan {PLAN_FILE:q} "
        "--features {input.train:q} {input.val:q} {input.test:q} --output {output:q} "
        "--device {RUNTIME[device]} --threads {threads} 2>&1 | tee {log:q}"


rule mlp:
    input:
        **stores("features/{dataset}/{backbone}"),
    output:
        f"{RESULTS}/predictions/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.parquet",
    log:
        f"{RESULTS}/logs/probe/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.log",
    wildcard_constraints:
        probe=probes_of_kind("mlp"),
    resources:
        mem_mb=memory_mb(3000),
        runtime=minutes(60),
    params:
        job=job("probe", "dataset", "backbone", "probe", "seed"),
    shell:
        "permafrost mlp --job {params.job} --plan {PLAN_FILE:q} "
        "--features {input.train:q} {input.val:q} {input.test:q} --output {output:q} "
        "--device {RUNTIME[device]} --threads {threads} 2>&1 | tee {log:q}"
