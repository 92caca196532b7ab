# What a backbone costs on this machine. The job asks for all cores, so that no other job of this run
# disturbs its timing; it waits until the others are done, or keeps them waiting. On a cluster, give it a node of its
# own (profiles/slurm/config.yaml). What it measured is of the machine it ran on, which the table names: another
# machine makes it no younger. To measure again: `snakemake --profile local --forcerun profile`.


rule profile:
    input:
        card=f"{RESULTS}/images/{{dataset}}/card.json",
    output:
        f"{RESULTS}/profiles/{{dataset}}/{{backbone}}.parquet",
    log:
        f"{RESULTS}/logs/profile/{{dataset}}/{{backbone}}.log",
    threads: all_cores
    resources:
        mem_mb=memory_mb(6000),
        runtime=minutes(60),
        gpu=gpu,
    params:
        spec=spec("profile", "dataset", "backbone"),
        code=PLAN.code("profile"),
        prepare_spec=spec("prepare", "dataset"),
        prepare_code=PLAN.code("prepare"),
    shell:
        "permafrost profile --spec {params.spec:q} --code {params.code} --data {config[data]:q} "
        "--card {input.card:q} "
        "--prepare-spec {params.prepare_spec:q} --prepare-code {params.prepare_code} "
        "--output {output:q} --device {RUNTIME[device]} --threads {threads} "
        "2>&1 | tee {log:q}"
