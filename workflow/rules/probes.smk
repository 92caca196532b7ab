# One rule per shape of what a probe reads and leaves. Which kinds of probes have which shape, and what their jobs ask
# for, stands in permafrost.probes.kinds. Out comes one row of predictions per test item.


rule probe_embeddings:
    input:
        **stores("features/{dataset}/{backbone}"),
        parents=read_through,
    output:
        table=PREDICTIONS,
    log:
        **logs("probe/{dataset}/{backbone}/seed{seed}/{probe}"),
    wildcard_constraints:
        probe=probes_that_read("embeddings"),
    # before further extractions, so that maps are read, and may go, before more are made
    priority: 1
    resources:
        **resources_for("probe"),
        gpu=probe_gpu,
    params:
        **of_run("plan", "device"),
        **light_command("probe", "dataset", "backbone", "probe", "seed"),
        **TITLE,
        job=job("probe", "dataset", "backbone", "probe", "seed"),
        kind=probe_kind,
        second="",
    message:
        "Run {params.title}"
    shell:
        "{params.program} {params.kind} --job {params.job} --plan {params.plan:q} "
        "--features {input.train:q} {input.val:q} {input.test:q} "
        "--output {output.table:q} {params.second} "
        "--device {params.device} --threads {threads} --benchmark {log.benchmark:q} 2>&1 | tee {log.text:q}"


use rule probe_embeddings as probe_patches with:
    wildcard_constraints:
        probe=probes_that_read("patches"),


use rule probe_embeddings as probe_patches_with_masks with:
    output:
        table=PREDICTIONS,
        second=directory(beside_predictions("masks")),
    wildcard_constraints:
        probe=probes_that_read("patches", "masks"),
    params:
        **of_run("plan", "device"),
        **light_command("probe", "dataset", "backbone", "probe", "seed"),
        **TITLE,
        job=job("probe", "dataset", "backbone", "probe", "seed"),
        kind=probe_kind,
        second=second_output,


use rule probe_embeddings as probe_maps with:
    wildcard_constraints:
        probe=probes_that_read("maps"),


use rule probe_patches_with_masks as probe_maps_with_masks with:
    wildcard_constraints:
        probe=probes_that_read("maps", "masks"),


use rule probe_maps_with_masks as probe_maps_with_detections with:
    output:
        table=PREDICTIONS,
        second=directory(beside_predictions("detections")),
    wildcard_constraints:
        probe=probes_that_read("maps", "detections"),


rule probe_images:
    input:
        card=f"{RESULTS}/images/{{dataset}}/card.json",
        images=images,
    output:
        table=PREDICTIONS,
    log:
        **logs("probe/{dataset}/{backbone}/seed{seed}/{probe}"),
    wildcard_constraints:
        probe=probes_that_read("images"),
    conda:
        deployed("conda")
    container:
        deployed("apptainer")
    threads: 2
    resources:
        **resources_for("probe"),
        gpu=probe_gpu,
    params:
        **of_run("plan", "data", "device"),
        **backbone_program(),
        **TITLE,
        job=job("probe", "dataset", "backbone", "probe", "seed"),
        kind=probe_kind,
        prepare_job=job("prepare", "dataset"),
    message:
        "Run {params.title}"
    shell:
        "{params.program} {params.kind} --job {params.job} --plan {params.plan:q} --data {params.data:q} "
        "--card {input.card:q} "
        "--prepare-job {params.prepare_job} "
        "--output {output.table:q} "
        "--device {params.device} --threads {threads} --benchmark {log.benchmark:q} 2>&1 | tee {log.text:q}"
