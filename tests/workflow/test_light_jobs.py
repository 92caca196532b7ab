"""Light jobs as forks of a warm process: the same bytes as processes of their own, each with its log and its error."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.project import Project
from permafrost.operate import light_client

pytestmark = pytest.mark.slow

# the fourth job of a code starts its process, which the fifth finds
PROBES = {
    **{f"knn{k}": {"kind": "knn", "k": k} for k in (3, 5)},
    **{f"linear{count}": {"kind": "linear", "c_count": count} for count in (5, 9)},
}
# a run without the page, where that is compared with nothing
WITHOUT_PAGE = ("--until", "aggregate", "compare")
WRITTEN = ("predictions", "scores", "comparisons", "measures")
STORES = ("images", "features")


def written(project: Project, folders=WRITTEN, pattern: str = "*.parquet") -> dict[str, bytes]:
    results = project.path("results")
    return {
        str(path.relative_to(results)): path.read_bytes()
        for folder in folders
        for path in sorted((results / folder).rglob(pattern))
        if path.is_file() and path.name != ".snakemake_timestamp"
    }


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    made = Project(tmp_path_factory.mktemp("light") / "project")
    made.configure(probes=PROBES, measures={})
    return made


@pytest.fixture
def listened(monkeypatch) -> Iterator[set[str]]:
    """Where warm processes listen during the test."""
    folder, found, ended = Path(tempfile.mkdtemp(dir="/tmp")), set(), threading.Event()
    monkeypatch.setenv("TMPDIR", str(folder))

    def watch() -> None:
        while not ended.wait(0.05):
            found.update(path.parent.name for path in folder.glob("permafrost-*/*/socket"))

    watching = threading.Thread(target=watch)
    watching.start()
    yield found
    ended.set()
    watching.join()
    shutil.rmtree(folder)


def test_all_files_are_those_of_processes_of_their_own(project, listened, monkeypatch):
    runtime = {"device": "cpu", "batch_size": 16, "workers": 2}
    project.configure(runtime={**runtime, "light_jobs": "process"})
    project.snakemake(*WITHOUT_PAGE)
    assert not listened
    alone, stores = written(project), written(project, STORES, "*")
    assert len(alone) == 2 * 4 * 2 + 4 + 2 and len(stores) > 3 * 3
    for folder in (*WRITTEN, *STORES):
        shutil.rmtree(project.path("results") / folder)
    project.configure(runtime={**runtime, "light_jobs": "fork"})
    monkeypatch.delenv(light_client.SESSION)
    project.snakemake()
    assert written(project) == alone and written(project, STORES, "*") == stores
    networks = {name for name in listened if "torch" in name}
    # of knn, linear, bootstrap and compare; first light jobs; images; the page; extraction of one thread or two
    assert len(listened - networks) == 4 + 3 and networks


def test_one_item_that_fails_fails_alone_and_one_change_reruns_one(project):
    project.path("results/scores/tiny-landcover/imagestats/seed0/linear5.parquet").unlink()
    before = written(project)
    assert project.pending()["bootstrap"] == 1
    project.snakemake(*WITHOUT_PAGE)
    assert project.pending(*WITHOUT_PAGE) == {}
    after = written(project)
    assert len(after) == len(before) + 1 and {n: after[n] for n in before} == before
    # a damaged table of predictions: its scores fail with their own words in their own log, the others are made
    table = project.path("results/predictions/tiny-landcover/imagestats/seed0/knn5.parquet")
    whole = table.read_bytes()
    table.write_bytes(whole[: len(whole) // 2])
    shutil.rmtree(project.path("results/scores"))
    done = project.snakemake("--until", "bootstrap", check=False)
    assert done.returncode == 1
    logs = project.path("results/logs/bootstrap/tiny-landcover/imagestats/seed0")
    log = (logs / "knn5.log").read_text()
    assert log.startswith("permafrost bootstrap: error:") and str(table.name) in log
    assert len(list(project.path("results/scores").rglob("*.parquet"))) == 7
    assert "error" not in (logs / "knn3.log").read_text()
