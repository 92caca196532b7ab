"""A small configuration with files of its own, from which plans are made."""

from __future__ import annotations

import copy
from pathlib import Path

from permafrost.plan.plan import Plan

CONFIG = {
    "catalogues": [],
    "data": "data",
    "backbones": ["stats", "net", "own"],
    "datasets": ["world", "pictures"],
    "extra_backbones": {
        "stats": {"kind": "imagestats"},
        "net": {
            "kind": "timm",
            "model": "resnet18",
            "weights": {"source": "file", "path": "{data}/net.safetensors"},
            "input": {"size": 64, "normalization": "dataset"},
        },
        "own": {"kind": "entrypoint", "entrypoint": "own.py:build"},
    },
    "extra_datasets": {
        "world": {"task": "multilabel", "source": {"kind": "demo", "chip_size": 32}},
        "pictures": {
            "task": "classification",
            "source": {"kind": "folder", "path": "{data}/pictures.zip"},
            "sensor": "rgb",
            "bands": ["red", "green", "blue"],
            "units": {"unit": "uint8"},
            "splits": {"method": "random", "fractions": [0.6, 0.2, 0.2]},
        },
    },
    "probes": {"knn": {"kind": "knn"}, "linear": {"kind": "linear"}},
    "seeds": [0, 1],
}


def fill_root(root: Path) -> Path:
    """Write the files that `CONFIG` names."""
    (root / "data").mkdir(parents=True)
    (root / "data" / "net.safetensors").write_bytes(b"weights")
    (root / "data" / "pictures.zip").write_bytes(b"pictures")
    (root / "own.py").write_text("def build(inputs): ...\n")
    return root


def make_plan(root: Path, config: dict | None = None) -> Plan:
    return Plan(copy.deepcopy(CONFIG if config is None else config), root, where="config.yaml")


def fingerprints(plan: Plan) -> dict[tuple, str]:
    """(stage, names of the job …) to fingerprint, for every job of a plan."""
    found = {("aggregate",): plan.aggregate(), ("report",): plan.report()}
    for dataset in plan.datasets:
        found["prepare", dataset] = plan.prepare(dataset)
        for backbone in plan.backbones:
            found["extract", dataset, backbone] = plan.extract(dataset, backbone)
    for names in plan.evaluations():
        found["probe", *names] = plan.probe(*names)
        found["bootstrap", *names] = plan.bootstrap(*names)
    for dataset, probe in plan.compared():
        found["compare", dataset, probe] = plan.compare(dataset, probe)
    return {names: job.fingerprint for names, job in found.items()}


def changed(before: Plan, after: Plan) -> set[tuple]:
    """Names of the jobs whose fingerprint differs between two plans of the same jobs."""
    one, other = fingerprints(before), fingerprints(after)
    assert one.keys() == other.keys()
    return {names for names in one if one[names] != other[names]}
