"""Writing the plan down: what stages with thousands of inputs read, and what an archive keeps."""

from __future__ import annotations

from pathlib import Path

from permafrost.core.identity import fingerprint
from permafrost.core.outputs import whole_file
from permafrost.core.specification import SPLITS
from permafrost.plan.jobs import jobs_are_recorded, jobs_file, write_jobs
from permafrost.plan.plan import Plan
from permafrost.plan.probes import leaves
from permafrost.plan.recorded import CURRENT, encode_plan, says


def outputs(plan: Plan, results: str) -> list[dict]:
    """Every output of the plan with the fingerprint it must carry, in the order of the flow."""
    rows: list[dict] = []

    def add(stage: str, path: str, fingerprint: str, **names) -> None:
        rows.append(
            {"stage": stage, "path": f"{results}/{path}", "fingerprint": fingerprint, **names}
        )

    for dataset in plan.datasets:
        made = plan.prepare(dataset).fingerprint
        for split in SPLITS:
            add("prepare", f"images/{dataset}/{split}.zarr", made, dataset=dataset, split=split)
        add("card", f"images/{dataset}/card.json", made, dataset=dataset)
        for backbone in plan.backbones:
            made = plan.extract(dataset, backbone).fingerprint
            for split in SPLITS:
                path = f"features/{dataset}/{backbone}/{split}.zarr"
                add("extract", path, made, dataset=dataset, backbone=backbone, split=split)
    for dataset, backbone in plan.viewed():
        made = plan.views(dataset, backbone).fingerprint
        path = f"views/{dataset}/{backbone}.zarr"
        add("views", path, made, dataset=dataset, backbone=backbone)
    for dataset, backbone in plan.measured():
        made = plan.measure(dataset, backbone).fingerprint
        path = f"measures/{dataset}/{backbone}.parquet"
        add("measure", path, made, dataset=dataset, backbone=backbone)
    for dataset in plan.paired():
        made = plan.similarity(dataset).fingerprint
        add("similarity", f"similarity/{dataset}.parquet", made, dataset=dataset)
    for dataset, backbone in plan.profiled():
        made = plan.profile(dataset, backbone).fingerprint
        path = f"profiles/{dataset}/{backbone}.parquet"
        add("profile", path, made, dataset=dataset, backbone=backbone)
    for names in plan.evaluations():
        dataset, backbone, probe, seed = names
        path = f"{dataset}/{backbone}/seed{seed}/{probe}.parquet"
        labels = {"dataset": dataset, "backbone": backbone, "probe": probe, "seed": seed}
        made = plan.probe(*names).fingerprint
        add("probe", f"predictions/{path}", made, **labels)
        if folder := leaves(plan.probes[probe]):
            add(folder, f"{folder}/{dataset}/{backbone}/seed{seed}/{probe}", made, **labels)
        add("bootstrap", f"scores/{path}", plan.bootstrap(*names).fingerprint, **labels)
    for dataset, probe in plan.compared():
        made = plan.compare(dataset, probe).fingerprint
        add("compare", f"comparisons/{dataset}/{probe}.parquet", made, dataset=dataset, probe=probe)
    add("aggregate", "leaderboard.parquet", plan.aggregate().fingerprint)
    return rows


def record_plan(plan: Plan, results: str) -> str:
    """Write ``{results}/plans/{hash}.json``, its jobs beside it and the hash in ``plans/current``; return the path.

    A file that says the same already is left alone, so a dry run and the many jobs that read the
    configuration again change nothing. They may write at once: each of them writes the same.
    """
    folder = Path(results) / "plans"
    path = folder / f"{plan.hash}.json"
    content = {
        "plan": plan.hash,
        "results": results,
        "config": plan.config,
        "data": plan.data_root,
        "backbones": plan.backbones,
        "datasets": plan.datasets,
        "probes": plan.probes,
    }
    # titles, runtime options and the data folder are recorded too, but do not change the plan's hash
    about = fingerprint(content)
    if not says(_content(path), about):
        content["outputs"] = outputs(plan, results)
        with whole_file(path, exclusive=False) as partial:
            partial.write_bytes(encode_plan(about, content))
    if not jobs_are_recorded(jobs_file(path), about):
        write_jobs(jobs_file(path), plan.jobs(), about)
    if _content(folder / CURRENT) != f"{plan.hash}\n".encode():
        with whole_file(folder / CURRENT, exclusive=False) as partial:
            partial.write_text(f"{plan.hash}\n")
    return str(path)


def _content(path: Path) -> bytes:
    """The bytes of a file, none if it cannot be read: it is written anew then."""
    try:
        return path.read_bytes()
    except OSError:
        return b""
