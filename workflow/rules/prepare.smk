rule prepare:
    input:
        parts=image_parts,
    output:
        **{s: directory(p) for s, p in stores("images/{dataset}").items()},
        card=f"{RESULTS}/images/{{dataset}}/card.json",
    log:
        f"{RESULTS}/logs/prepare/{{dataset}}.log",
    threads: lambda wildcards: 1 if image_parts(wildcards) else RUNTIME["workers"]
    resources:
        **resources_for("prepare"),
    params:
        **of_run("plan", "data"),
        job=job("prepare", "dataset"),
        parts=parts_option,
    shell:
        "permafrost prepare --job {params.job} --plan {params.plan:q} --data {params.data:q} "
        "--workers {threads} "
        "--output {output.train:q} {output.val:q} {output.test:q} {params.parts} "
        "--card {output.card:q} "
        "2>&1 | tee {log:q}"


# a part of what `prepare` makes, which joins all of them; see `runtime: parts`
rule prepare_part:
    output:
        temp(directory(f"{RESULTS}/{FOLDER}/{{dataset}}/{{part}}")),
    log:
        f"{RESULTS}/logs/prepare_part/{{dataset}}/{{part}}.log",
    threads: RUNTIME["workers"]
    resources:
        **resources_for("prepare"),
    params:
        **of_run("plan", "data"),
        job=job("prepare", "dataset"),
    shell:
        "permafrost prepare --job {params.job} --plan {params.plan:q} --data {params.data:q} "
        "--workers {threads} "
        "--part {output:q} "
        "2>&1 | tee {log:q}"
