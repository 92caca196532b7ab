"""Writing the plan down: what stages with thousands of inputs read, and what an archive keeps."""

from __future__ import annotations

from pathlib import Path

from permafrost.core.identity import fingerprint
from permafrost.core.outputs import whole_file
from permafrost.core.specification import SPLITS
from permafrost.plan.grid import Grid
from permafrost.plan.jobs import jobs_are_recorded, jobs_file, write_jobs
from permafrost.plan.misfits import recorded_misfits
from permafrost.plan.options import leaves
from permafrost.plan.plan import Plan
from permafrost.plan.recorded import CURRENT, encode_plan, says

_EVALUATION = "{dataset}/{backbone}/seed{seed}/{probe}"
# stage -> its outputs below the results: what they are listed as, and their path
_OUTPUTS = {
    "prepare": [
        *(("prepare", f"images/{{dataset}}/{split}.zarr", split) for split in SPLITS),
        ("card", "images/{dataset}/card.json", None),
    ],
    "extract": [
        ("extract", f"features/{{dataset}}/{{backbone}}/{split}.zarr", split) for split in SPLITS
    ],
    "views": [("views", "views/{dataset}/{backbone}.zarr", None)],
    "measure": [("measure", "measures/{dataset}/{backbone}.parquet", None)],
    "similarity": [("similarity", "similarity/{dataset}.parquet", None)],
    "profile": [("profile", "profiles/{dataset}/{backbone}.parquet", None)],
    "probe": [("probe", f"predictions/{_EVALUATION}.parquet", None)],
    "bootstrap": [("bootstrap", f"scores/{_EVALUATION}.parquet", None)],
    "compare": [("compare", "comparisons/{dataset}/{probe}.parquet", None)],
    "aggregate": [("aggregate", "leaderboard.parquet", None)],
    # the report is a folder, which carries no fingerprint
    "report": [],
}


def outputs(plan: Plan, results: str) -> list[dict]:
    """Every output of the plan with the fingerprint it must carry, in the order of the flow."""
    rows = []
    for stage in plan.stages():
        for names in stage.every:
            labels = dict(zip(stage.labels, names, strict=True))
            made = stage.job(*names).fingerprint
            for listed, path, split in outputs_of(plan, stage.name, labels):
                row = {"stage": listed, "path": f"{results}/{path}"}
                of_split = {} if split is None else {"split": split}
                rows.append({**row, "fingerprint": made, **labels, **of_split})
    return rows


def outputs_of(grid: Grid, stage: str, labels: dict) -> list[tuple[str, str, str | None]]:
    """The outputs of a job: what they are listed as, their path below the results, and their split.

    Only some probes leave a folder beside their table.
    """
    second = leaves(grid.probes[labels["probe"]]) if stage == "probe" else None
    own = [*_OUTPUTS[stage], *([(second, f"{second}/{_EVALUATION}", None)] if second else [])]
    return [(listed, path.format(**labels), split) for listed, path, split in own]


def plan_file(plan: Plan, results: str) -> str:
    """Where `record_plan` writes the plan."""
    return str(Path(results) / "plans" / f"{plan.hash}.json")


def record_plan(plan: Plan, results: str) -> str:
    """Write ``{results}/plans/{hash}.json``, its jobs in a second file and the hash in ``plans/current``.

    A file with the same content is not written again, so the many jobs that read the configuration change nothing.
    They may write at the same time, since all of them write the same. Returns the path.
    """
    path = Path(plan_file(plan, results))
    folder = path.parent
    content = {
        "plan": plan.hash,
        "results": results,
        "config": plan.config,
        "data": plan.data_root,
        "backbones": plan.backbones,
        "datasets": plan.datasets,
        "probes": plan.probes,
        **({"left_out": recorded_misfits(plan.misfits)} if plan.misfits else {}),
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
