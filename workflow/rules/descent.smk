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
        spec=spec("probe", "dataset", "backbone", "probe", "seed"),
        code=PLAN.code("sgd_linear"),
    shell:
        "permafrost sgd_linear --spec {params.spec:q} --code {params.code} "
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
        spec=spec("probe", "dataset", "backbone", "probe", "seed"),
        code=PLAN.code("mlp"),
    shell:
        "permafrost mlp --spec {params.spec:q} --code {params.code} "
        "--features {input.train:q} {input.val:q} {input.test:q} --output {output:q} "
        "--device {RUNTIME[device]} --threads {threads} 2>&1 | tee {log:q}"
