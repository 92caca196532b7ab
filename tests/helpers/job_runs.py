"""Jobs of a plan, run in this process by the commands that Snakemake calls."""

from __future__ import annotations

import copy
import sys
from pathlib import Path

from permafrost.core.specification import SPLITS
from permafrost.plan.plan import Plan
from permafrost.plan.record import plan_file, record_plan
from permafrost.stages.cli import main

SMALL = {
    "task": "classification",
    "source": {
        "kind": "demo",
        "chips": {"train": 20, "val": 10, "test": 10},
        "chip_size": 16,
        "scene_size": 128,
        "scenes": {"train": 3, "val": 2, "test": 2},
    },
    "allow_missing_classes": True,
}


class JobRuns:
    """A project in the working directory, whose results are in ``results``."""

    def __init__(self, config: dict) -> None:
        self.config = config

    def plan(self) -> Plan:
        return Plan(copy.deepcopy(self.config), Path.cwd(), where="config.yaml")

    def prepare(self, dataset: str, *more: str) -> None:
        plan, folder = self.plan(), f"results/images/{dataset}"
        outputs = [f"{folder}/{split}.zarr" for split in SPLITS]
        made = ["--output", *outputs, "--card", f"{folder}/card.json", *more]
        self.run("prepare", plan, plan.prepare(dataset), made)

    def prepare_part(self, dataset: str, part: str) -> None:
        plan = self.plan()
        self.run(
            "prepare", plan, plan.prepare(dataset), ["--part", f"results/parts/{dataset}/{part}"]
        )

    def extract(self, dataset: str, backbone: str, *more: str) -> None:
        folder = f"results/features/{dataset}/{backbone}"
        outputs = [f"{folder}/{split}.zarr" for split in SPLITS]
        self.on_images("extract", dataset, backbone, ["--output", *outputs, *more])

    def extract_part(self, dataset: str, backbone: str, part: str) -> None:
        folder = f"results/parts/{dataset}/{backbone}/{part}"
        self.on_images("extract", dataset, backbone, ["--part", folder])

    def views(self, dataset: str, backbone: str) -> None:
        made = ["--output", f"results/views/{dataset}/{backbone}.zarr"]
        self.on_images("views", dataset, backbone, made)

    def on_images(self, stage: str, dataset: str, backbone: str, made: list[str]) -> None:
        plan = self.plan()
        card = ["--card", f"results/images/{dataset}/card.json", "--device", "cpu"]
        self.run(stage, plan, getattr(plan, stage)(dataset, backbone), [*card, *made])

    def run(self, command: str, plan: Plan, job, arguments: list[str]) -> None:
        """Run a command for a job of a plan, with modules of the user loaded anew."""
        record_plan(plan, "results")
        before, search = set(sys.modules), list(sys.path)
        named = ["--job", job.fingerprint, "--plan", plan_file(plan, "results")]
        try:
            status = main([command, *named, *arguments])
        finally:
            sys.path[:] = search
            here = str(Path.cwd().parent)
            for name in set(sys.modules) - before:
                found = vars(sys.modules[name])
                places = [found.get("__file__"), *found.get("__path__", ())]
                if any(str(place).startswith(here) for place in places):
                    del sys.modules[name]
        if status:
            raise AssertionError(f"permafrost {command} ended with {status}")
