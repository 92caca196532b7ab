rule prepare:
    output:
        **{s: directory(p) for s, p in stores("images/{dataset}").items()},
        card=f"{RESULTS}/images/{{dataset}}/card.json",
    log:
        f"{RESULTS}/logs/prepare/{{dataset}}.log",
    threads: RUNTIME["workers"]
    resources:
        **asks("prepare"),
    params:
        **of_run("plan", "data"),
        job=job("prepare", "dataset"),
    shell:
        "permafrost prepare --job {params.job} --plan {params.plan:q} --data {params.data:q} "
        "--workers {threads} "
        "--output {output.train:q} {output.val:q} {output.test:q} --card {output.card:q} "
        "2>&1 | tee {log:q}"
