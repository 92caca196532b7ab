# The features themselves, without a probe: one table per backbone, and one of all pairs of backbones.


rule measure:
    input:
        unpack(views_measured),
        features=f"{RESULTS}/features/{{dataset}}/{{backbone}}/{MEASURED_SPLIT}.zarr",
    output:
        f"{RESULTS}/measures/{{dataset}}/{{backbone}}.parquet",
    log:
        f"{RESULTS}/logs/measure/{{dataset}}/{{backbone}}.log",
    resources:
        **resources_for("measure"),
    params:
        **of_run("plan"),
        **light_command("measure", "dataset", "backbone"),
        job=job("measure", "dataset", "backbone"),
        views=views_option,
    shell:
        "{params.program} measure --job {params.job} --plan {params.plan:q} "
        "--features {input.features:q} {params.views} --output {output:q} "
        "--threads {threads} 2>&1 | tee {log:q}"


rule similarity:
    input:
        features_paired,
    output:
        f"{RESULTS}/similarity/{{dataset}}.parquet",
    log:
        f"{RESULTS}/logs/similarity/{{dataset}}.log",
    resources:
        **resources_for("similarity"),
    params:
        **of_run("plan", "results"),
        **light_command("similarity", "dataset"),
        job=job("similarity", "dataset"),
    shell:
        "{params.program} similarity --job {params.job} --plan {params.plan:q} "
        "--results {params.results:q} --output {output:q} --threads {threads} 2>&1 | tee {log:q}"
