rule prepare:
    input:
        parts=image_parts,
    output:
        **{s: directory(p) for s, p in stores("images/{dataset}").items()},
        card=f"{RESULTS}/images/{{dataset}}/card.json",
    log:
        **logs("prepare/{dataset}"),
    threads: lambda wildcards: 1 if image_parts(wildcards) else reading_threads(RUNTIME["workers"])
    resources:
        **resources_for("prepare"),
    params:
        **of_run("plan", "data"),
        **warm_program(IMAGES),
        job=job("prepare", "dataset"),
        parts=parts_option,
    message:
        "Prepare the images of {wildcards.dataset}"
    shell:
        "{params.program} prepare --job {params.job} --plan {params.plan:q} --data {params.data:q} "
        "--workers {threads} "
        "--output {output.train:q} {output.val:q} {output.test:q} {params.parts} "
        "--card {output.card:q} "
        "--benchmark {log.benchmark:q} 2>&1 | tee {log.text:q}"


# a part of what `prepare` makes, which joins all of them; see `runtime: parts`
rule prepare_part:
    output:
        temp(directory(f"{RESULTS}/{FOLDER}/{{dataset}}/{{part}}")),
    log:
        **logs("prepare_part/{dataset}/{part}"),
    threads: reading_threads(RUNTIME["workers"])
    resources:
        **resources_for("prepare"),
    params:
        **of_run("plan", "data"),
        **warm_program(IMAGES),
        job=job("prepare", "dataset"),
    message:
        "Prepare the images of {wildcards.dataset}, part {wildcards.part}"
    shell:
        "{params.program} prepare --job {params.job} --plan {params.plan:q} --data {params.data:q} "
        "--workers {threads} "
        "--part {output:q} "
        "--benchmark {log.benchmark:q} 2>&1 | tee {log.text:q}"
