# The features themselves, without a probe: one table per backbone, and one of all pairs of backbones.


rule measure:
    input:
        unpack(views_measured),
        features=f"{RESULTS}/features/{{dataset}}/{{backbone}}/{MEASURED_SPLIT}.zarr",
        parents=read_through,
    output:
        f"{RESULTS}/measures/{{dataset}}/{{backbone}}.parquet",
    log:
        **logs("measure/{dataset}/{backbone}"),
    # as in probes.smk
    priority: 1
    resources:
        **resources_for("measure"),
    params:
        **of_run("plan"),
        **light_command("measure", "dataset", "backbone"),
        job=job("measure", "dataset", "backbone"),
        views=views_option,
    message:
        "Measure the features of {wildcards.backbone} on {wildcards.dataset}"
    shell:
        "{params.program} measure --job {params.job} --plan {params.plan:q} "
        "--features {input.features:q} {params.views} --output {output:q} "
        "--threads {threads} --benchmark {log.benchmark:q} 2>&1 | tee {log.text:q}"


rule similarity:
    input:
        features_paired,
    output:
        f"{RESULTS}/similarity/{{dataset}}.parquet",
    log:
        **logs("similarity/{dataset}"),
    resources:
        **resources_for("similarity"),
    params:
        **of_run("plan", "results"),
        **light_command("similarity", "dataset"),
        job=job("similarity", "dataset"),
    message:
        "Compare the features of all backbones on {wildcards.dataset}"
    shell:
        "{params.program} similarity --job {params.job} --plan {params.plan:q} "
        "--results {params.results:q} --output {output:q} --threads {threads} --benchmark {log.benchmark:q} 2>&1 | tee {log.text:q}"
