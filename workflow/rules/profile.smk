# What a backbone costs on this machine. The job asks for all cores, so that no other job of this run
# disturbs its timing; it waits until the others are done, or keeps them waiting. On a cluster, give it a node of its
# own (profiles/slurm/config.yaml). What it measured is of the machine it ran on, which the table names: another
# machine makes it no younger. To measure again: `snakemake --profile local --forcerun profile`.


rule profile:
    input:
        card=f"{RESULTS}/images/{{dataset}}/card.json",
        images=images,
    output:
        f"{RESULTS}/profiles/{{dataset}}/{{backbone}}.parquet",
    log:
        **logs("profile/{dataset}/{backbone}"),
    conda:
        deployed("conda")
    container:
        deployed("apptainer")
    threads: all_cores
    resources:
        **resources_for("profile"),
        gpu=gpu,
    params:
        **of_run("plan", "data", "device"),
        **backbone_program(warm=False),
        job=job("profile", "dataset", "backbone"),
        prepare_job=job("prepare", "dataset"),
    message:
        "Time {wildcards.backbone} on {wildcards.dataset}"
    shell:
        "{params.program} profile --job {params.job} --plan {params.plan:q} --data {params.data:q} "
        "--card {input.card:q} "
        "--prepare-job {params.prepare_job} "
        "--output {output:q} --device {params.device} --threads {threads} "
        "--benchmark {log.benchmark:q} 2>&1 | tee {log.text:q}"
