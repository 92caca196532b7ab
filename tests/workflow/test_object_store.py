"""Results on an object store, by Snakemake's storage plugin for S3: the bytes and the reruns of results in a folder."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

import pytest
from helpers.object_store import OPTIONS, serving
from helpers.project import ONE_BACKBONE, Project

pytestmark = pytest.mark.xdist_group("object_store")


class Stored:
    """A project whose results are on the store."""

    def __init__(self, project: Project, bucket) -> None:
        self.project, self.bucket = project, bucket

    def snakemake(self, *arguments: str, check: bool = True):
        return self.project.snakemake(*arguments, *OPTIONS, check=check)

    def start(self) -> subprocess.Popen:
        """The same, in a group of processes of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "snakemake", "--profile", "local", *OPTIONS],
            cwd=self.project.folder,
            env={**os.environ, "PYTHONPATH": str(self.project.path("workflow"))},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def pending(self) -> dict[str, int]:
        return self.project.pending(*OPTIONS)


@pytest.fixture(scope="module")
def _bucket():
    with serving() as bucket:
        yield bucket


@pytest.fixture(scope="module")
def _finished_there(_bucket, tmp_path_factory):
    """The tiny project, run once with its results on the store, and what is there then."""
    project = Project(tmp_path_factory.mktemp("stored") / "project")
    stored = Stored(project, _bucket)
    stored.snakemake()
    return stored, (_bucket.objects(), _bucket.written())


@pytest.fixture
def stored(_finished_there, tmp_path):
    """A copy of it; tests may change it."""
    finished, state = _finished_there
    bucket = finished.bucket
    if bucket.written() != state[1]:
        bucket.restore(*state)
    return Stored(finished.project.copied(tmp_path / "stored"), bucket)


def of_results(project: Project) -> dict[str, bytes]:
    """Path to bytes of the files of a folder of results."""
    folder = project.path("results")
    return {
        str(path.relative_to(project.folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".snakemake")
    }


def records_of_plan(project: Project) -> set[str]:
    """What every machine writes into its own folder, for the jobs that it runs."""
    current = project.path("results/plans/current").read_text().strip()
    return {f"results/plans/{name}" for name in ("current", f"{current}.json", f"{current}.jobs")}


def comparable(files: dict[str, bytes]) -> dict[str, bytes]:
    """All but logs, which name paths and seconds, and what is made of them: pages, and the stamp with their digests.

    Pages also have maps of the images of feature stores in a folder, which a job does not fetch from a store.
    """
    return {
        path: content
        for path, content in files.items()
        if "/logs/" not in path and not path.endswith((".html", ".done"))
    }


@pytest.mark.slow
def test_a_derived_backbone_reads_its_parents_stores_from_there(stored):
    stored.project.configure(derive={"int8": [{"quantise": "int8"}]}, measures={})
    made = [
        "results/predictions/tiny-landcover/imagestats@int8/seed0/knn.parquet",
        "results/measures/tiny-landcover/imagestats@int8.parquet",
    ]
    stored.snakemake(*made)
    assert set(made) <= stored.bucket.objects(snakemakes=False).keys()


def test_a_run_leaves_on_the_store_what_another_leaves_in_its_folder(stored, project):
    there, here = stored.bucket.objects(snakemakes=False), of_results(project)
    assert set(there) == set(here) - records_of_plan(project)
    assert len(comparable(there)) > 50
    assert [path for path, content in comparable(there).items() if content != here[path]] == []
    assert set(of_results(stored.project)) == records_of_plan(project)
    assert stored.pending() == {}


@pytest.mark.slow
def test_a_changed_backbone_reruns_its_jobs_only_and_parts_leave_the_same_features(stored, project):
    changed = {**project.config["extra_backbones"]["tiny-network"]}
    changed["input"] = {**changed["input"], "size": 48}
    for one in (stored.project, project):
        one.configure(extra_backbones={"tiny-network": changed})
    runtime = stored.project.config["runtime"]
    stored.project.configure(runtime={**runtime, "parts": 3})
    assert stored.pending() == {**ONE_BACKBONE, "extract_part": 3}
    before = stored.bucket.written()
    stored.snakemake("results/leaderboard.parquet")
    after = stored.bucket.written()
    others = [path for path in before if "/imagestats/" in path and "/report/" not in path]
    assert len(others) > 10 and all(after[path] == before[path] for path in others)
    project.snakemake("results/leaderboard.parquet")
    here = of_results(project)
    there = comparable(stored.bucket.objects(snakemakes=False))
    # what the first run left of stamps, it left in both
    assert {path: here[path] for path in there} == there
    assert not [path for path in after if path.startswith("results/parts/")]
    assert any("/extract_part/" in path for path in after)
    # as many as they were made of, whatever is asked for now
    stored.project.configure(runtime={**runtime, "parts": 2})
    assert stored.pending() == {"compare": 2, "report": 1}


def test_what_changes_no_number_reruns_nothing(stored):
    runtime = {"device": "cpu", "batch_size": 5, "workers": 1, "parts": 3}
    stored.project.configure(runtime=runtime, data="elsewhere")
    assert stored.pending() == {}


def test_features_may_be_deleted(stored):
    stored.bucket.delete("results/features/")
    assert stored.pending() == {}


@pytest.mark.slow
def test_a_failed_job_is_named_with_its_log_and_the_rest_is_gathered_from_a_copy(stored):
    project = stored.project
    project.config["extra_backbones"]["broken"] = {
        "kind": "entrypoint",
        "entrypoint": "broken.py:build",
        "input": {"bands": "rgb", "size": 16, "normalization": "dataset"},
    }
    project.path("broken.py").write_text(
        "def build(*arguments, **options):\n    raise ValueError('it has no layers')\n"
    )
    project.configure(backbones=["imagestats", "tiny-network", "broken"])
    done = stored.snakemake(check=False)
    assert done.returncode == 1
    assert "Error in rule extract tiny-landcover broken: " in done.stderr
    assert "did not start" not in done.stdout + done.stderr
    table = done.stdout[done.stdout.index("1 job failed:") :]
    log = project.path(re.search(r"log: (\S+)", table)[1])
    assert "it has no layers" in table and "it has no layers" in log.read_text()
    assert log.read_bytes() in stored.bucket.objects().values()
    assert "Copy them into this folder, and `permafrost incomplete`" in table
    stored.bucket.copy_to(project.folder)
    said = project.permafrost("incomplete")
    assert "Incomplete: 2 of 3 backbones" in said
    assert {row["backbone"] for row in project.leaderboard()} == {"imagestats", "tiny-network"}


@pytest.mark.slow
def test_deleted_objects_are_made_again_and_a_run_that_was_killed_goes_on_where_it_stood(stored):
    before = stored.bucket.objects(snakemakes=False)
    score = "results/scores/tiny-landcover/imagestats/seed0/knn.parquet"
    predictions = score.replace("scores", "predictions")
    for path in (score, "results/report/figures/"):
        stored.bucket.delete(path)
    assert stored.pending() == {"bootstrap": 1, "aggregate": 1, "report": 1}
    stored.bucket.delete(predictions)
    missing = {"probe_embeddings": 1, "bootstrap": 1, "compare": 1, "aggregate": 1, "report": 1}
    assert stored.pending() == missing
    killed = stored.start()
    try:
        # what is made of predictions is begun when these are whole, with Snakemake's record of them
        deadline = time.monotonic() + 300
        while score not in stored.bucket.written():
            assert killed.poll() is None, "the run ended"
            assert time.monotonic() < deadline
            time.sleep(0.1)
    finally:
        os.killpg(killed.pid, signal.SIGKILL)
        killed.wait()
    left = stored.bucket.written()
    stored.snakemake("--unlock")
    pending = stored.pending()
    assert "probe_embeddings" not in pending and pending["report"] == 1
    stored.snakemake()
    assert stored.bucket.written()[predictions] == left[predictions]
    assert comparable(stored.bucket.objects(snakemakes=False)) == comparable(before)
    assert stored.pending() == {}


def test_a_copy_of_the_results_is_shown_and_archived(stored):
    stored.bucket.copy_to(stored.project.folder)
    assert "imagestats" in stored.project.permafrost("show")
    said = stored.project.permafrost("archive")
    (archive,) = stored.project.path("results/archive").glob("*.zip")
    assert archive.name in said and "incomplete" not in archive.name


def test_an_archive_is_packed_from_a_copy(stored):
    done = stored.snakemake("archive", check=False)
    assert done.returncode
    assert "copy them into this folder, then run `permafrost archive`" in done.stdout + done.stderr


def test_results_outside_of_the_working_folder_are_refused(stored):
    stored.project.configure(results=str(stored.project.path("elsewhere")))
    done = stored.snakemake("-n", check=False)
    assert done.returncode
    assert "results are below its prefix" in done.stdout + done.stderr
