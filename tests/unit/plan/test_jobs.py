"""The jobs of a plan as they are recorded, and how a stage finds its own."""

from __future__ import annotations

import copy
import json
import os
from types import SimpleNamespace

import pytest
from helpers.plans import CONFIG, fill_root, fingerprints, make_plan
from permafrost.core.errors import PermafrostError
from permafrost.core.identity import canonical_json, fingerprint
from permafrost.plan.jobs import find_job, jobs_file, write_jobs
from permafrost.plan.record import record_plan
from permafrost.stages.cli import main


@pytest.fixture
def root(tmp_path, monkeypatch):
    root = fill_root(tmp_path / "root")
    monkeypatch.chdir(root)
    return root


def one_job(number: int, size: int = 0) -> SimpleNamespace:
    spec, code = canonical_json({"number": number, "padding": "x" * size}), f"{number:032x}"
    return SimpleNamespace(
        spec=spec, code=code, fingerprint=fingerprint(spec, code), places={"n": number}
    )


@pytest.mark.parametrize("count", [0, 1, 2, 3, 100])
@pytest.mark.parametrize("sizes", [[0], [1, 5000, 40]], ids=["alike", "of many sizes"])
def test_every_job_is_found_and_no_other(tmp_path, count, sizes):
    jobs = [one_job(i, sizes[i % len(sizes)]) for i in range(count)]
    write_jobs(tmp_path / "plan.jobs", jobs, "about")
    for number, job in enumerate(jobs):
        found = find_job(tmp_path / "plan.json", job.fingerprint)
        assert found.spec["number"] == number and found.places == {"n": number}
        assert (found.code, found.fingerprint) == (job.code, job.fingerprint)
    for other in ("0" * 32, "f" * 32, one_job(1000).fingerprint):
        with pytest.raises(PermafrostError, match="no job") as caught:
            find_job(tmp_path / "plan.json", other)
        assert "start snakemake again" in caught.value.remedy


def test_a_job_is_found_by_reading_a_small_part_of_the_file(tmp_path, monkeypatch):
    jobs = [one_job(i, 300) for i in range(5000)]
    path = tmp_path / "plan.jobs"
    write_jobs(path, jobs, "about")
    read = []

    class Counting:
        def __init__(self, stream):
            self._stream = stream

        def readline(self, *limit):
            read.append(self._stream.readline(*limit))
            return read[-1]

        def __getattr__(self, name):
            return getattr(self._stream, name)

    from permafrost.plan import jobs as module

    original = module._line
    monkeypatch.setattr(module, "_line", lambda stream, *rest: original(Counting(stream), *rest))
    find_job(tmp_path / "plan.json", jobs[1234].fingerprint)
    assert 0 < sum(map(len, read)) < 20_000 < path.stat().st_size / 50


def test_all_jobs_of_a_plan_are_recorded_beside_it(root):
    plan = make_plan(root)
    recorded = record_plan(plan, "results")
    for made in fingerprints(plan).values():
        assert find_job(recorded, made).fingerprint == made
    job = plan.extract("world", "net")
    assert find_job(recorded, job.fingerprint).spec == json.loads(job.spec)


@pytest.mark.parametrize("harm", ["deleted", "cut short", "emptied", "of another plan"])
def test_a_file_of_jobs_that_is_not_whole_is_written_again(root, harm):
    recorded = record_plan(make_plan(root), "results")
    path, whole = jobs_file(recorded), jobs_file(recorded).read_bytes()
    if harm == "deleted":
        path.unlink()
    else:
        path.write_bytes({"cut short": whole[:-9], "emptied": b""}.get(harm, b"x" + whole))
    record_plan(make_plan(root), "results")
    assert path.read_bytes() == whole


def test_recording_the_same_plan_again_leaves_the_jobs_alone(root):
    path = jobs_file(record_plan(make_plan(root), "results"))
    before = os.stat(path).st_mtime_ns, os.stat(path).st_ino
    record_plan(make_plan(root), "results")
    assert (os.stat(path).st_mtime_ns, os.stat(path).st_ino) == before


def test_a_job_that_was_altered_is_refused(root):
    plan = make_plan(root)
    recorded = record_plan(plan, "results")
    job = plan.probe("world", "net", "knn", 0)
    path = jobs_file(recorded)
    path.write_text(path.read_text().replace('"k":5', '"k":6'))
    with pytest.raises(PermafrostError, match="is damaged"):
        find_job(recorded, job.fingerprint)


def test_a_comparison_of_two_thousand_backbones_is_told_on_a_short_command_line(root):
    names = [f"backbone-with-a-long-name-{i:04d}" for i in range(2000)]
    config = copy.deepcopy(CONFIG)
    config["extra_backbones"] = {name: {"kind": "rcf", "seed": i} for i, name in enumerate(names)}
    config |= {"backbones": names, "datasets": ["world"], "probes": {"knn": {"kind": "knn"}}}
    plan = make_plan(root, config)
    job = plan.compare("world", "knn")
    assert len(job.spec) > 128 * 1024, "more than Linux takes in one argument"
    found = find_job(record_plan(plan, "results"), job.fingerprint)
    assert len(found.spec["inputs"]["predictions"]) == 2000


def test_a_stage_refuses_a_job_it_cannot_find_and_says_how_to_go_on(root, capsys):
    recorded = record_plan(make_plan(root), "results")
    command = ["bootstrap", "--predictions", "none", "--output", "none"]
    assert main([*command, "--job", "0" * 32, "--plan", recorded]) == 1
    assert "start snakemake again" in capsys.readouterr().err
    assert main([*command, "--job", "0" * 32]) == 1
    assert "give --plan" in capsys.readouterr().err
    assert main([*command, "--spec", "{}"]) == 1
    assert "give --code" in capsys.readouterr().err
