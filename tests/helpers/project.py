"""A copy of the project with a tiny configuration, in which whole runs take seconds."""

from __future__ import annotations

import copy
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import yaml
from permafrost.plan.resources import asked

from helpers import forked

REPOSITORY = Path(__file__).resolve().parents[2]
# byte code and what was read of the sources are copied, so that no project makes them again; not what another
# process is just writing
UNFINISHED = shutil.ignore_patterns("*.pyc.*", "sources.[0-9a-f]*")

# small scenes, as most of the time of `prepare` goes into generating them
SCENES = {"scene_size": 128, "scenes": {"train": 6, "val": 3, "test": 5}}
BASE = {
    "probes": {"knn": {"kind": "knn"}, "linear": {"kind": "linear"}},
    "bootstrap": {"resamples": 200},
}
TINY = {
    "backbones": ["imagestats", "tiny-network"],
    "datasets": ["tiny-landcover"],
    "extra_backbones": {
        "tiny-network": {
            "kind": "timm",
            "model": "test_resnet",
            "weights": {"source": "random"},
            "input": {"bands": "rgb", "size": 32, "normalization": "dataset"},
        }
    },
    "extra_datasets": {
        "tiny-landcover": {
            "task": "classification",
            "source": {
                "kind": "demo",
                "chips": {"train": 60, "val": 24, "test": 36},
                "chip_size": 32,
                **SCENES,
            },
        }
    },
    "runtime": {"device": "cpu", "batch_size": 16, "workers": 2},
}
# what runs again when one backbone of the tiny project changes
ONE_BACKBONE = {
    "extract": 1,
    "probe_embeddings": 2,
    "bootstrap": 2,
    "compare": 2,
    "aggregate": 1,
    "report": 1,
}


def asked_of_a_chain(kind: str) -> tuple[int, int]:
    """Megabytes and minutes of a probe of a kind and its bootstrap in one job: those of the larger part, of both."""
    probe, bootstrap = asked("probe", kind=kind), asked("bootstrap")
    return max(probe.memory_mb, bootstrap.memory_mb), probe.minutes + bootstrap.minutes


class Project:
    """A checkout in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        from permafrost.report.sections.overview import _bundle

        self.folder = folder
        folder.mkdir()
        # kept beside the byte code and copied with it, so that no project makes it again
        _bundle()
        for name in ("workflow", "config", "profiles", "envs", "Snakefile"):
            source = REPOSITORY / name
            if source.is_dir():
                shutil.copytree(source, folder / name, symlinks=True, ignore=UNFINISHED)
            else:
                shutil.copy2(source, folder / name)
        for name in ("local", "slurm"):
            (folder / name).symlink_to(f"profiles/{name}")
        self.config = copy.deepcopy(BASE)
        self.configure(**copy.deepcopy(TINY))

    @classmethod
    def finished(cls, folder: Path, config: dict) -> Project:
        """A project with `config` over the tiny one, run once."""
        project = cls(folder)
        project.configure(**copy.deepcopy(config))
        project.snakemake()
        return project

    def copied(self, folder: Path) -> Project:
        """The same with all its results, in a folder of its own."""
        shutil.copytree(self.folder, folder, symlinks=True)
        project = copy.copy(self)
        project.folder, project.config = folder, copy.deepcopy(self.config)
        return project

    def leaderboard(self) -> list[dict]:
        import pyarrow.parquet as pq

        return pq.read_table(self.path("results/leaderboard.parquet")).to_pylist()

    def configure(self, **changes) -> None:
        """Write config/config.yaml with `changes` over what it holds."""
        self.config.update(changes)
        (self.folder / "config/config.yaml").write_text(
            yaml.safe_dump(self.config, sort_keys=False)
        )

    def snakemake(self, *arguments: str, check: bool = True, profile: str = "local"):
        """Run ``snakemake --profile PROFILE ARGUMENTS`` as a user would; returns the finished process."""
        environment = {**os.environ, "PYTHONPATH": str(self.folder / "workflow")}
        environment.pop("SNAKEMAKE_PROFILE", None)
        command = ["--profile", profile, *arguments]
        done = forked.snakemake(command, self.folder, environment, timeout=900)
        if check and done.returncode:
            raise AssertionError(f"snakemake failed:\n{done.stdout}\n{done.stderr}")
        return done

    def set_profile(self, name: str, **changes) -> None:
        """Change keys of a profile; a nested mapping is laid over the one there."""
        path = self.path(f"profiles/{name}/config.yaml")
        profile = yaml.safe_load(path.read_text())
        for key, value in changes.items():
            profile[key] = {**profile[key], **value} if isinstance(value, dict) else value
        path.write_text(yaml.safe_dump(profile))

    def permafrost(self, *arguments: str) -> str:
        """What ``permafrost ARGUMENTS`` prints in this project, by its own sources."""
        environment = {**os.environ, "PYTHONPATH": str(self.folder / "workflow")}
        command = [sys.executable, "-m", "permafrost.stages.cli", *arguments]
        done = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout

    def pending(self, *arguments: str, profile: str = "local") -> dict[str, int]:
        """What ``snakemake -n`` says would run: rule to number of jobs; empty when nothing is left."""
        done = self.snakemake("-n", "--quiet", "host", *arguments, profile=profile)
        output = done.stdout + done.stderr
        counts = dict(re.findall(r"^(\w+)\s+(\d+)\s*$", output, flags=re.MULTILINE))
        counts.pop("total", None)
        counts.pop("all", None)
        return {rule: int(count) for rule, count in counts.items()}

    def path(self, name: str) -> Path:
        return self.folder / name

    def stores(self) -> dict[str, bytes]:
        """Path to bytes of all files of image and feature stores, and of cards, without Snakemake's marks."""
        results = self.path("results")
        return {
            str(path.relative_to(results)): path.read_bytes()
            for folder in ("images", "features")
            for path in sorted((results / folder).rglob("*"))
            if path.is_file() and not path.name.startswith(".")
        }

    def report_text(self) -> str:
        """All pages of the report, one after the other."""
        pages = sorted(self.path("results/report").rglob("*.html"))
        return "\n".join(page.read_text() for page in pages)

    def edit(self, name: str, old: str, new: str) -> None:
        path = self.path(name)
        text = path.read_text()
        assert old in text, f"{old!r} is not in {name}"
        path.write_text(text.replace(old, new, 1))
