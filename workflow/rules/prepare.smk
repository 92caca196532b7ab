rule prepare:
    input:
        parts=image_parts,
    output:
        **{s: directory(p) for s, p in stores("images/{dataset}").items()},
        card=f"{RESULTS}/images/{{dataset}}/card.json",
    log:
        **logs("prepare/{dataset}"),
    wildcard_constraints:
        dataset=ROOT_DATASETS,
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


# A derived dataset: stores hold labels, samples and numbers of rows; images are read from those of other datasets.
rule resplit:
    input:
        cards=origin_cards,
        images=origin_images,
    output:
        **{s: directory(p) for s, p in stores("images/{dataset}").items()},
        card=f"{RESULTS}/images/{{dataset}}/card.json",
    log:
        **logs("resplit/{dataset}"),
    wildcard_constraints:
        dataset=DERIVED_DATASETS,
    resources:
        **resources_for("resplit"),
    params:
        **of_run("plan", "data"),
        **light_command("resplit", "dataset"),
        job=job("resplit", "dataset"),
        prepare_jobs=origin_jobs,
    message:
        "Divide images anew, for {wildcards.dataset}"
    shell:
        "{params.program} resplit --job {params.job} --plan {params.plan:q} --data {params.data:q} "
        "--cards {input.cards:q} --prepare-jobs {params.prepare_jobs} "
        "--output {output.train:q} {output.val:q} {output.test:q} --card {output.card:q} "
        "--threads {threads} --benchmark {log.benchmark:q} 2>&1 | tee {log.text:q}"
