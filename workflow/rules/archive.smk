# Asked for by name: `snakemake --profile local archive`.


rule archive:
    input:
        lazy(finished),
    output:
        f"{RESULTS}/archive/{PLAN.hash[:12]}.zip",
    log:
        f"{RESULTS}/logs/archive.log",
    params:
        **of_run("plan"),
        hash=PLAN.hash,
        stores="--include-stores" if config["archive"]["include_stores"] else "",
    message:
        "Pack the archive"
    shell:
        "permafrost archive --plan {params.plan:q} {params.stores} --output {output:q} "
        "2>&1 | tee {log:q}"
