"""Write the plan to a file, for stages with thousands of inputs and for archives."""

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
# stage -> its outputs: name in the recorded plan, path below the results, and split
_OUTPUTS: dict[str, list[tuple[str, str, str | None]]] = {
    "prepare": [
        *(("prepare", f"images/{{dataset}}/{split}.zarr", split) for split in SPLITS),
        ("card", "images/{dataset}/card.json", None),
    ],
    "extract": [
        ("extract", f"features/{{dataset}}/{{backbone}}/{split}.zarr", split) for split in SPLITS
    ],
    # listed as images and features, which all of their readers look for
    "resplit": [
        *(("prepare", f"images/{{dataset}}/{split}.zarr", split) for split in SPLITS),
        ("card", "images/{dataset}/card.json", None),
    ],
    "extract_harder": [
        ("extract", f"features/{{dataset}}/{{backbone}}/{split}.zarr", split) for split in SPLITS
    ],
    "select": [
        ("extract", f"features/{{dataset}}/{{backbone}}/{split}.zarr", split) for split in SPLITS
    ],
    "derive": [
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
    # the report is a folder without a fingerprint
    "report": [],
}


def outputs(plan: Plan, results: str) -> list[dict]:
    """A row for every output of the plan, in the order of the data flow.

    Keys: ``stage``, ``path``, ``fingerprint`` (which the output must have), the labels of the job,
    and ``split`` of a store.
    """
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
    """The outputs of a job: name in the recorded plan, path below the results, and split or None.

    Some probes also write a folder, their second output.
    """
    second = leaves(grid.probes[labels["probe"]]) if stage == "probe" else None
    own = [*_OUTPUTS[stage], *([(second, f"{second}/{_EVALUATION}", None)] if second else [])]
    return [(listed, path.format(**labels), split) for listed, path, split in own]


def plan_file(plan: Plan, results: str) -> str:
    """The path that `record_plan` writes to."""
    return str(Path(results) / "plans" / f"{plan.hash}.json")


def record_plan(plan: Plan, results: str) -> str:
    """Write ``{results}/plans/{hash}.json``, its jobs next to it, the hash to ``plans/current``.

    Files with the same content are not rewritten, so jobs that plan again change nothing. They may
    write at the same time, because they write the same bytes.

    Returns
    -------
    The path of the plan.
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
    # includes titles, runtime options and the data folder, which do not affect the plan's hash
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
    """The bytes of a file; empty if it cannot be read, so that it is rewritten."""
    try:
        return path.read_bytes()
    except OSError:
        return b""
