"""profiles/kubernetes: its plan, and a run whose pods a stand-in for a cluster runs in folders of their own."""

from __future__ import annotations

import subprocess

import pytest
from helpers.kubernetes import running
from helpers.object_store import BUCKET, PREFIX, serving
from helpers.project import REPOSITORY

pytestmark = pytest.mark.xdist_group("object_store")
JOBS = {
    "prepare": 1,
    "extract": 2,
    "probe_embeddings": 4,
    "bootstrap": 4,
    "compare": 2,
    "aggregate": 1,
    "report": 1,
}


@pytest.fixture
def bucket(monkeypatch):
    with serving() as bucket:
        # as the profile says: these are handed to pods
        for name in ("ACCESS", "SECRET"):
            monkeypatch.setenv(f"SNAKEMAKE_STORAGE_S3_{name}_KEY", "test")
        yield bucket


@pytest.fixture
def there(fresh_project):
    """A project that git tracks, with the profile's words in capitals filled in."""
    fresh_project.set_profile(
        "kubernetes",
        **{
            "container-image": "registry.example/permafrost:1",
            "default-storage-prefix": f"s3://{BUCKET}/{PREFIX}",
            "seconds-between-status-checks": 1,
            "jobs": 2,
        },
    )
    # byte code is sent along, so that no pod makes it again
    fresh_project.path(".gitignore").write_text("results/\n.snakemake/\n")
    for command in (["init", "--quiet"], ["add", "--all"]):
        subprocess.run(["git", *command], cwd=fresh_project.folder, check=True)
    return fresh_project


def test_a_plan_needs_no_cluster(there, bucket):
    assert there.pending(profile="profiles/kubernetes") == JOBS


def test_the_image_that_the_profile_asks_for_is_the_one_that_is_described():
    profile = (REPOSITORY / "profiles/kubernetes/config.yaml").read_text()
    assert "containers/Dockerfile" in profile
    lines = (REPOSITORY / "containers/Dockerfile").read_text()
    # pods run `python -m snakemake` and `pip` as the image finds them, in a folder that anybody may write
    assert "PATH=/home/permafrost/venv/bin:$PATH" in lines and "FROM python:3.12" in lines


# each pod starts Snakemake three times, so only what leads to scores of one backbone is made: three pods
SCORES = "results/scores/tiny-landcover/tiny-network/seed0/knn.parquet"
# a probe and its bootstrap are one
PODS = {"prepare": 1, "extract": 1, "bootstrap": 1}


@pytest.mark.slow
def test_a_run_in_pods_without_a_shared_folder_leaves_the_same_results(
    there, bucket, tmp_path, project
):
    with running(tmp_path / "cluster") as cluster:
        done = there.snakemake(SCORES, profile="profiles/kubernetes", check=False)
    assert done.returncode == 0, done.stdout + done.stderr + cluster.logs()
    objects = bucket.objects(snakemakes=False)
    results = project.path("results")
    compared = [path for path in objects if path.startswith("results/") and "/logs/" not in path]
    assert len(compared) > 20 and SCORES in compared
    for path in compared:
        assert objects[path] == (results.parent / path).read_bytes(), path
    # made once and fetched, not made again in every pod
    fetched = (
        f"Retrieving from storage: s3://{BUCKET}/{PREFIX}/results/images/tiny-landcover/train.zarr"
    )
    assert cluster.logs().count(fetched) >= 1
    assert {rule: len(cluster.asked(rule)) for rule in PODS} == PODS
    assert cluster.refused == []
    for container in cluster.asked("extract"):
        assert container["image"] == "registry.example/permafrost:1"
        wanted = container["resources"]
        assert wanted["limits"]["nvidia.com/gpu"] == wanted["requests"]["nvidia.com/gpu"] == "1"
        assert wanted["limits"]["memory"] == "6000M"
    for rule in ("prepare", "bootstrap"):
        (container,) = cluster.asked(rule)
        assert container["resources"]["requests"].get("nvidia.com/gpu", "0") == "0"
    assert there.pending("--", SCORES, profile="profiles/kubernetes") == {}
