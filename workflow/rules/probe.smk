# One rule per kind of probe: features in, one row of predictions per test item out.


rule knn:
    input:
        **stores("features/{dataset}/{backbone}"),
    output:
        f"{RESULTS}/predictions/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.parquet",
    log:
        f"{RESULTS}/logs/probe/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.log",
    wildcard_constraints:
        probe=probes_of_kind("knn"),
    resources:
        mem_mb=memory_mb(2000),
        runtime=minutes(30),
    params:
        job=job("probe", "dataset", "backbone", "probe", "seed"),
    shell:
        "permafrost knn --job {params.job} --plan {PLAN_FILE:q} "
        "--features {input.train:q} {input.val:q} {input.test:q} --output {output:q} "
        "--device {RUNTIME[device]} --threads {threads} 2>&1 | tee {log:q}"


rule linear:
    input:
        **stores("features/{dataset}/{backbone}"),
    output:
        f"{RESULTS}/predictions/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.parquet",
    log:
        f"{RESULTS}/logs/probe/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.log",
    wildcard_constraints:
        probe=probes_of_kind("linear"),
    resources:
        mem_mb=memory_mb(3000),
        runtime=minutes(60),
    params:
        job=job("probe", "dataset", "backbone", "probe", "seed"),
    shell:
        "permafrost linear --job {params.job} --plan {PLAN_FILE:q} "
        "--features {input.train:q} {input.val:q} {input.test:q} --output {output:q} "
        "--device {RUNTIME[device]} --threads {threads} 2>&1 | tee {log:q}"


rule ridge:
    input:
        **stores("features/{dataset}/{backbone}"),
    output:
        f"{RESULTS}/predictions/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.parquet",
    log:
        f"{RESULTS}/logs/probe/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.log",
    wildcard_constraints:
        probe=probes_of_kind("ridge"),
    resources:
        mem_mb=memory_mb(3000),
        runtime=minutes(60),
    params:
        job=job("probe", "dataset", "backbone", "probe", "seed"),
    shell:
        "permafrost ridge --job {params.job} --plan {PLAN_FILE:q} "
        "--features {input.train:q} {input.val:q} {input.test:q} --output {output:q} "
        "--device {RUNTIME[device]} --threads {threads} 2>&1 | tee {log:q}"
