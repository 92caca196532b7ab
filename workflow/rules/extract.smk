rule extract:
    input:
        card=f"{RESULTS}/images/{{dataset}}/card.json",
        images=images,
        parts=parts,
    output:
        **{s: directory(p) for s, p in stores("features/{dataset}/{backbone}").items()},
    log:
        **logs("extract/{dataset}/{backbone}"),
    wildcard_constraints:
        dataset=ROOT_DATASETS,
        backbone=ROOTS,
    conda:
        deployed("conda")
    container:
        deployed("apptainer")
    threads: lambda wildcards: 1 if parts(wildcards) else extraction_cores(wildcards)
    resources:
        **resources_for("extract"),
        gpu=lambda wildcards: 0 if parts(wildcards) else gpu(wildcards),
        batch_size=batch_size,
    params:
        **of_run("plan", "data", "device"),
        **backbone_program(),
        job=job("extract", "dataset", "backbone"),
        prepare_job=job("prepare", "dataset"),
        parts=parts_option,
        layers=layers_option,
    message:
        "Extract features of {wildcards.backbone} on {wildcards.dataset}"
    shell:
        "{params.program} extract --job {params.job} --plan {params.plan:q} --data {params.data:q} "
        "--card {input.card:q} "
        "--prepare-job {params.prepare_job} "
        "--output {output.train:q} {output.val:q} {output.test:q} {params.parts} {params.layers} "
        "--device {params.device} --batch-size {resources.batch_size} --threads {threads} "
        "--benchmark {log.benchmark:q} 2>&1 | tee {log.text:q}"


# a part of what `extract` makes, which joins all of them; see `runtime: parts`
rule extract_part:
    input:
        card=f"{RESULTS}/images/{{dataset}}/card.json",
        images=images,
    output:
        temp(directory(f"{RESULTS}/{FOLDER}/{{dataset}}/{{backbone}}/{{part}}")),
    log:
        **logs("extract_part/{dataset}/{backbone}/{part}"),
    conda:
        deployed("conda")
    container:
        deployed("apptainer")
    threads: extraction_cores
    resources:
        **resources_for("extract"),
        gpu=gpu,
        batch_size=batch_size,
    params:
        **of_run("plan", "data", "device"),
        **backbone_program(),
        job=job("extract", "dataset", "backbone"),
        prepare_job=job("prepare", "dataset"),
        # parts of one store are made of the same batches
        images_together=batch_size,
        layers=layers_option,
    message:
        "Extract features of {wildcards.backbone} on {wildcards.dataset}, part {wildcards.part}"
    shell:
        "{params.program} extract --job {params.job} --plan {params.plan:q} --data {params.data:q} "
        "--card {input.card:q} "
        "--prepare-job {params.prepare_job} "
        "--part {output:q} {params.layers} "
        "--device {params.device} --batch-size {resources.batch_size} --threads {threads} "
        "--benchmark {log.benchmark:q} 2>&1 | tee {log.text:q}"


# Test images of a derived dataset that are degraded when they are read; train and val are those of its parent.
rule extract_harder:
    input:
        read_through,
        origin_images,
        images,
        cards=origin_cards,
        rows=f"{RESULTS}/images/{{dataset}}/card.json",
    output:
        **{s: directory(p) for s, p in stores("features/{dataset}/{backbone}").items()},
    log:
        **logs("extract_harder/{dataset}/{backbone}"),
    wildcard_constraints:
        dataset=HARDER_DATASETS,
        backbone=ROOTS,
    conda:
        deployed("conda")
    container:
        deployed("apptainer")
    threads: extraction_cores
    resources:
        **resources_for("extract_harder"),
        gpu=gpu,
        batch_size=batch_size,
    params:
        **of_run("plan", "data", "device", "results"),
        **backbone_program(),
        job=job("extract_harder", "dataset", "backbone"),
        prepare_job=origin_jobs,
    message:
        "Extract features of {wildcards.backbone} on harder images, {wildcards.dataset}"
    shell:
        "{params.program} extract_harder --job {params.job} --plan {params.plan:q} --data {params.data:q} "
        "--card {input.cards:q} --prepare-job {params.prepare_job} "
        "--rows {params.results:q}/images/{wildcards.dataset} --features {params.results:q}/features "
        "--output {output.train:q} {output.val:q} {output.test:q} "
        "--device {params.device} --batch-size {resources.batch_size} --threads {threads} "
        "--benchmark {log.benchmark:q} 2>&1 | tee {log.text:q}"


# Stores of a derived dataset hold labels, samples and numbers of rows; features are read from those of other datasets.
rule select:
    input:
        read_through,
        card=f"{RESULTS}/images/{{dataset}}/card.json",
        rows=images,
    output:
        **{s: directory(p) for s, p in stores("features/{dataset}/{backbone}").items()},
    log:
        **logs("select/{dataset}/{backbone}"),
    wildcard_constraints:
        dataset=DIVIDED_DATASETS,
        backbone=ROOTS,
    resources:
        **resources_for("select"),
    params:
        **of_run("plan", "results"),
        **light_command("select", "dataset", "backbone"),
        job=job("select", "dataset", "backbone"),
    message:
        "Select features of {wildcards.backbone} for {wildcards.dataset}"
    shell:
        "{params.program} select --job {params.job} --plan {params.plan:q} "
        "--card {input.card:q} --features {params.results:q}/features "
        "--output {output.train:q} {output.val:q} {output.test:q} "
        "--threads {threads} --benchmark {log.benchmark:q} 2>&1 | tee {log.text:q}"


# Stores of a derived backbone hold what its steps learned; features are read from those of its parents.
rule derive:
    input:
        read_through,
    output:
        **{s: directory(p) for s, p in stores("features/{dataset}/{backbone}").items()},
    log:
        **logs("derive/{dataset}/{backbone}"),
    wildcard_constraints:
        backbone=DERIVED,
    resources:
        **resources_for("derive"),
    params:
        **of_run("plan", "results"),
        **light_command("derive", "dataset", "backbone"),
        job=job("derive", "dataset", "backbone"),
    message:
        "Derive features of {wildcards.backbone} on {wildcards.dataset}"
    shell:
        "{params.program} derive --job {params.job} --plan {params.plan:q} "
        "--features {params.results:q}/features/{wildcards.dataset} "
        "--output {output.train:q} {output.val:q} {output.test:q} "
        "--threads {threads} --benchmark {log.benchmark:q} 2>&1 | tee {log.text:q}"
