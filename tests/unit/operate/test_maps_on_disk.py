"""Extractions of maps start while there is room, in order; what no job reads makes room."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from permafrost.core.errors import PermafrostError
from permafrost.operate.maps_on_disk import MapsOnDisk, _parents_first, limit_maps

RULES = ("extract", "extract_part")
#: bytes of each pair's maps
SIZES = {("d", "a"): 40.0, ("d", "b"): 40.0, ("d", "c"): 70.0, ("d", "e"): 20.0}


class Job(SimpleNamespace):
    """A job of a rule for a pair; it is compared by identity."""

    def __init__(self, rule: str, pair: tuple[str, str], output=()) -> None:
        wildcards = SimpleNamespace(dataset=pair[0], backbone=pair[1])
        super().__init__(rule=SimpleNamespace(name=rule), wildcards=wildcards, output=list(output))

    __hash__ = object.__hash__

    def __eq__(self, other) -> bool:
        return self is other

    def is_group(self) -> bool:
        return False


class Run:
    """A run that extracts maps of all pairs, each read by one probe."""

    def __init__(self, results: Path, most: float) -> None:
        self.jobs = {
            pair: Job("extract", pair, [str(results / f"{pair[1]}-{split}") for split in "tv"])
            for pair in SIZES
        }
        self.probes = {pair: Job("probe_maps", pair) for pair in SIZES}
        self.finished: set[Job] = set()
        dag = SimpleNamespace(
            depending={job: {self.probes[pair]: []} for pair, job in self.jobs.items()},
            needrun=lambda job: True,
            finished=self.finished.__contains__,
        )
        self.scheduler = SimpleNamespace(running=set(), failed=set())
        workflow = SimpleNamespace(dag=dag, scheduler=self.scheduler)
        self.maps = MapsOnDisk(workflow, self.jobs, RULES, str(results), most, SIZES.__getitem__)

    def start(self, *ready: Job) -> list[str]:
        """Names of the backbones whose jobs may start among the ready ones; they do."""
        allowed = self.maps.allowed(ready)
        self.scheduler.running.update(allowed)
        return [job.wildcards.backbone for job in allowed]

    def end(self, job: Job, *, size: int = 0) -> None:
        """End a job; an extraction leaves so many bytes in each of its two stores."""
        self.scheduler.running.remove(job)
        self.finished.add(job)
        for path in job.output:
            Path(path).mkdir()
            (Path(path) / "values").write_bytes(bytes(size))


@pytest.fixture
def run(tmp_path) -> Run:
    return Run(tmp_path, 100)


def remove(job: Job) -> None:
    for path in job.output:
        (Path(path) / "values").unlink()
        Path(path).rmdir()


def test_extractions_start_in_order_while_there_is_room(run):
    a, b, c, e = run.jobs.values()
    # e would fit, but c is before it and would wait for ever
    assert run.start(e, c, b, a) == ["a", "b"]
    run.end(a, size=10)  # 20 bytes, not the 40 that were expected
    probe = run.probes["d", "a"]
    assert run.start(c, e, probe) == ["a"], "60 are taken, of which 40 are being written"
    run.end(probe)
    remove(a)
    assert run.start(c, e) == []
    run.end(b, size=15)
    assert run.start(c, e) == ["c"]
    run.end(c, size=30)
    assert run.start(e, run.probes["d", "b"]) == ["b"]
    remove(b)
    assert run.start(e) == ["e"]


def test_parts_of_a_pair_count_once_and_until_they_are_joined(run, tmp_path):
    parts = [Job("extract_part", ("d", "c")) for _ in range(3)]
    a = run.jobs["d", "a"]
    assert run.start(*parts[:2], a) == ["a"], "a is before c, and there is no room for both"
    run.scheduler.running.clear()
    assert run.start(*parts[:2]) == ["c", "c"]
    (tmp_path / "parts/d/c").mkdir(parents=True)
    run.scheduler.running.clear()
    assert run.start(parts[1], a) == ["c"], "parts of c are on disk, and its last one may start"


def test_maps_of_failed_jobs_and_of_earlier_runs_make_room_when_nothing_else_can_run(run):
    a, b, c, _ = run.jobs.values()
    run.start(a, b)
    run.end(a, size=20)
    run.end(b, size=20)
    run.start(run.probes["d", "a"], run.probes["d", "b"], c)
    run.scheduler.failed.add(run.probes["d", "a"])
    run.scheduler.running.remove(run.probes["d", "a"])
    assert run.start(c) == [] and Path(a.output[0]).exists(), "a job is still running"
    run.end(run.probes["d", "b"])
    remove(b)
    assert run.start(c) == ["c"]
    assert not any(Path(path).exists() for path in a.output)


def test_what_is_too_large_alone_starts_alone_and_is_named(tmp_path, capsys):
    run = Run(tmp_path, 30)
    a, b, c, e = run.jobs.values()
    assert run.start(a, b, e) == ["a"]
    assert run.start(b, e) == []
    said = "permafrost: runtime.keep_maps (30 bytes) is exceeded: the maps of"
    assert capsys.readouterr().err == f"{said} a on d take about 40 bytes\n"
    run.end(a, size=5)
    # its reader waits for another extraction, such as a similarity of all backbones
    assert run.start(c) == ["c"]
    told = "70 bytes, 10 bytes of others wait for the same job"
    assert capsys.readouterr().err == f"{said} c on d take about {told}\n"


def limited(keep, *, read_by: str = "scores", on_store: bool = False) -> tuple[set, bool]:
    """Backbones whose stores are removed after use with this option, and whether extractions can wait."""
    jobs = [Job("extract", ("d", "a"), [Flagged("a")]), Job("extract", ("d", "b"), [Flagged("b")])]
    jobs.append(Job("extract", ("classes", "a"), [Flagged("classes")]))
    readers = {job: {Job("reads", ("d", ""), [read_by] if read_by else []): []} for job in jobs}
    chosen = object()
    workflow = SimpleNamespace(
        dag=SimpleNamespace(jobs=jobs, depending=readers),
        scheduler=SimpleNamespace(job_selector=chosen),
    )
    grid = SimpleNamespace(
        config={"runtime": {"keep_maps": keep}},
        mapped=lambda: [("d", "a"), ("d", "b")],
        harder={},
    )
    limit_maps(workflow, grid, "results", RULES[:1], RULES[1:], on_store=on_store)
    removed = {str(job.output[0]) for job in jobs if job.output[0].flags.get("temp")}
    return removed, workflow.scheduler.job_selector is not chosen


class Flagged(str):
    """A path with flags, as Snakemake's."""

    def __init__(self, path: str) -> None:
        self.flags: dict = {}


def test_only_stores_with_maps_are_removed_and_only_where_no_target_asks_for_them():
    assert limited(True) == (set(), False)
    assert limited(False) == ({"a", "b"}, False)
    assert limited("2.5 GB") == ({"a", "b"}, True)
    assert limited(False, read_by="") == (set(), False)


def test_maps_on_an_object_store_are_not_removed():
    assert limited(True, on_store=True) == (set(), False)
    for keep in (False, "1 TB"):
        with pytest.raises(PermafrostError, match=r"runtime\.keep_maps.*keep_maps: true"):
            limited(keep, on_store=True)


def test_jobs_that_make_no_maps_are_never_held_back(run):
    others = [Job("extract", ("classes", "a")), Job("bootstrap", ("d", "a"))]
    others += run.probes.values()
    assert len(run.start(*others)) == len(others)


def test_harder_images_follow_the_images_whose_maps_they_read():
    grid = SimpleNamespace(
        harder={"d-noise-1": 0, "e-noise-1": 0}, origins={"d-noise-1": ["d"], "e-noise-1": ["e"]}
    )
    pairs = [(one, "a") for one in ("d-noise-1", "c", "d", "e-noise-1")]
    ordered = [one for one, _ in _parents_first(pairs, grid)]
    assert ordered == ["c", "d", "d-noise-1", "e-noise-1"]
