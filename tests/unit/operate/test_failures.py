"""What failed in a run: read from Snakemake's jobs and their logs, and said in words."""

from __future__ import annotations

import errno
import json
import logging
import os
import time
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from permafrost.core.errors import PermafrostError
from permafrost.operate import failures
from permafrost.operate.failures import (
    LIGHT_JOBS,
    Failure,
    check_executor,
    check_groups,
    error_in,
    failures_of,
    light_jobs_of,
    read_failures,
)
from permafrost.operate.snakemake_process import RunEvents
from permafrost.report.explanations.leaderboard_state import (
    GATE,
    describe,
    format_failures,
    headline,
    mark_incomplete,
)
from permafrost.report.sections.run import incomplete_section

SENTENCE = "backbone b on d: no such model. Remedy: correct the name"


def make_job(folder: Path, rule: str, number: int = 1, *, made=False, fed=True, log="", **names):
    """A job of Snakemake as far as it is looked at; `fed`: its input is there, `made`: its output."""
    place = folder / "-".join([rule, *map(str, names.values())])
    place.mkdir(parents=True, exist_ok=True)
    if fed:
        (place / "input").touch()
    if made:
        (place / "output").touch()
    if log is not None:
        (place / "log").write_text(log)
    return SimpleNamespace(
        rule=SimpleNamespace(name=rule),
        wildcards=names,
        jobid=number,
        is_group=lambda: False,
        input=[str(place / "input")],
        output=[str(place / "output")],
        log=[str(place / "log")],
    )


def logged(folder: Path, text: str, name: str = "job.log") -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (f"d: 10/20\npermafrost extract: error: {SENTENCE}\n", SENTENCE),
        ("Traceback (most recent call last):\n  File x\nValueError: odd\n",
         "unexpected error: ValueError: odd"),
        ("d: 10/20\n", "it ended without an error message: killed, out of memory, or out of time"),
        ("", "it ended without an error message: killed, out of memory, or out of time"),
    ],
)  # fmt: skip
def test_the_error_of_a_log(tmp_path, text, error):
    found = error_in(logged(tmp_path, text), since=time.time())
    assert found.text == error


def test_a_disk_that_took_no_log_is_named(tmp_path, monkeypatch):
    """tee stops writing the log when the disk is full, and the job's error is only on the terminal."""
    log = logged(tmp_path, "d: 10/20\n")

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    found = error_in(log, since=time.time())
    assert found.text.startswith("No space left on device") and str(tmp_path) in found.text


def test_failures_are_named_where_the_disk_takes_no_record(tmp_path, monkeypatch, capsys):
    def refuse(*_):
        raise PermafrostError(
            "it cannot be written (No space left on device)", where="failures.json"
        )

    monkeypatch.setattr(failures, "record_failures", refuse)
    job = make_job(tmp_path, "extract", log="", dataset="d", backbone="b")
    workflow = SimpleNamespace(
        scheduler=SimpleNamespace(failed=[job], running=[]), dag=SimpleNamespace(jobs=[])
    )
    failures.end_failed_run(workflow, None, "plan", "results", {}, since=0.0)
    said = capsys.readouterr().out
    assert "1 job failed:" in said and "it ended without" in said
    assert "b         d        extract" in said and "No space left on device" in said


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EIO])
def test_the_table_of_failures_is_printed_whatever_the_record_meets(
    tmp_path, monkeypatch, capsys, code
):
    def refuse(*_, **__):
        raise OSError(code, os.strerror(code), str(tmp_path / "failures.json"))

    monkeypatch.setattr(failures, "whole_file", refuse)
    spec = SimpleNamespace(spec="{}", places={})
    plan = SimpleNamespace(aggregate=lambda: spec, report=lambda: spec, compared=list)
    job = make_job(tmp_path, "extract", log="", dataset="d", backbone="b")
    workflow = SimpleNamespace(
        scheduler=SimpleNamespace(failed=[job], running=[]), dag=SimpleNamespace(jobs=[])
    )
    failures.end_failed_run(workflow, plan, "plan", "results", {}, since=0.0)
    said = capsys.readouterr().out
    assert "1 job failed:" in said and os.strerror(code) in said


@pytest.mark.parametrize(
    ("start", "status", "listed"),
    [("permafrost", 1, 0), ("elsewhere", 0, 0), ("elsewhere", 1, 1), (None, 0, 1)],
)
def test_failures_are_listed_here_where_what_gathers_results_elsewhere_fails(
    tmp_path, monkeypatch, start, status, listed
):
    commands = []

    def run(command, **_):
        commands.append(command)
        return SimpleNamespace(returncode=status)

    monkeypatch.setattr(failures, "record_failures", lambda *_: tmp_path / "a b.json")
    monkeypatch.setattr(failures.subprocess, "run", run)
    job = make_job(tmp_path, "extract", log="", dataset="d", backbone="b")
    rules = [] if start is None else [SimpleNamespace(rule=SimpleNamespace(name="aggregate"))]
    workflow = SimpleNamespace(
        scheduler=SimpleNamespace(failed=[job], running=[]), dag=SimpleNamespace(jobs=rules)
    )
    given = {"program": lambda: start}
    failures.end_failed_run(workflow, None, "plan", "results", {}, since=0.0, **given)
    command = f"incomplete --failures '{tmp_path}/a b.json'"
    expected = [] if start is None else [f"{start} {command}"]
    assert commands == expected + [f"permafrost {command} --list"] * listed


def test_a_log_that_tee_could_not_write_is_named_also_when_there_is_room_again(tmp_path):
    """Another job on the same full disk failed meanwhile, and its files are gone."""
    log, printed = logged(tmp_path, ""), tmp_path / "snakemake.log"
    printed.write_text(f"rule a:\ntee: {log}: No space left on device\n")
    found = error_in(log, since=0.0, printed=[tmp_path / "none", printed])
    assert found.text.startswith("No space left on device: its log could not be written")
    other = logged(tmp_path, "", name="other.log")
    assert "killed, out of memory" in error_in(other, since=0.0, printed=[printed]).text


def test_what_the_executor_says_is_added_to_a_silent_end(tmp_path):
    found = error_in(logged(tmp_path, ""), since=0.0, message="Slurm: TIMEOUT")
    assert found.text.endswith("(Slurm: TIMEOUT)")


def test_a_log_of_an_earlier_run_is_not_blamed(tmp_path):
    path = logged(tmp_path, f"permafrost extract: error: {SENTENCE}\n")
    os.utime(path, (1e9, 1e9))
    assert "did not start" in error_in(path, since=time.time()).text
    assert error_in(path, since=time.time(), message="sbatch failed").text == "sbatch failed"


def test_a_failed_job_is_named_by_what_it_worked_on(tmp_path):
    job = make_job(
        tmp_path,
        "sgd_linear",
        log=f"permafrost sgd_linear: error: {SENTENCE}",
        dataset="d",
        backbone="b",
        probe="sgd",
        seed="3",
    )
    (failure,) = failures_of([job], {}, since=0.0)
    assert (failure.stage, failure.dataset, failure.backbone) == ("sgd_linear", "d", "b")
    assert (failure.probe, failure.seed, failure.error) == ("sgd", 3, SENTENCE)


def test_of_a_group_only_the_job_that_failed_counts(tmp_path):
    names = {"dataset": "d", "backbone": "b", "probe": "knn", "seed": "0"}
    failed = make_job(tmp_path, "probe_embeddings", 1, **names)
    waited = make_job(tmp_path, "bootstrap", 2, fed=False, log=None, **names)
    done = make_job(tmp_path, "ridge", 3, made=True, **names)
    group = SimpleNamespace(jobs=[waited, failed, done], is_group=lambda: True)
    assert [failure.stage for failure in failures_of([group], {}, since=0.0)] == ["probe"]


def test_a_job_whose_input_was_lost_while_it_ran_counts(tmp_path):
    job = make_job(
        tmp_path,
        "knn",
        fed=False,
        log=f"permafrost knn: error: {SENTENCE}",
        dataset="d",
        backbone="b",
        probe="knn",
        seed="0",
    )
    assert [failure.error for failure in failures_of([job], {}, since=0.0)] == [SENTENCE]


@pytest.mark.parametrize(
    ("failure", "stage", "names", "stops"),
    [
        ({"stage": "prepare", "dataset": "d"}, "bootstrap", {"dataset": "d", "backbone": "b"}, True),
        ({"stage": "prepare", "dataset": "d"}, "bootstrap", {"dataset": "e", "backbone": "b"}, False),
        ({"stage": "extract", "dataset": "d", "backbone": "b"}, "measure",
         {"dataset": "d", "backbone": "b"}, True),
        ({"stage": "extract", "dataset": "d", "backbone": "b"}, "bootstrap",
         {"dataset": "d", "backbone": "c", "probe": "knn"}, False),
        ({"stage": "views", "dataset": "d", "backbone": "b"}, "measure",
         {"dataset": "d", "backbone": "b"}, True),
        ({"stage": "views", "dataset": "d", "backbone": "b"}, "bootstrap",
         {"dataset": "d", "backbone": "b", "probe": "knn"}, False),
        ({"stage": "mlp", "dataset": "d", "backbone": "b", "probe": "mlp", "seed": 1}, "bootstrap",
         {"dataset": "d", "backbone": "b", "probe": "mlp", "seed": 0}, False),
        ({"stage": "mlp", "dataset": "d", "backbone": "b", "probe": "mlp", "seed": 1}, "bootstrap",
         {"dataset": "d", "backbone": "b", "probe": "mlp", "seed": 1}, True),
        ({"stage": "similarity", "dataset": "d"}, "bootstrap", {"dataset": "d"}, False),
    ],
)  # fmt: skip
def test_which_results_a_failure_stops(failure, stage, names, stops):
    assert Failure(error="e", log="l", **failure).stops(stage, names) is stops


def test_without_a_record_of_failures_the_remedy_is_named(tmp_path):
    with pytest.raises(PermafrostError, match="cannot be read") as caught:
        read_failures(tmp_path / "failures.json")
    assert "snakemake" in caught.value.remedy


# --- in words -----------------------------------------------------------------------------------

FAILURES = [
    {"stage": "prepare", "dataset": "d", "backbone": None, "probe": None, "seed": None,
     "error": "no such file", "log": "logs/prepare/d.log"},
    {"stage": "sgd_linear", "dataset": "e", "backbone": "b", "probe": "sgd", "seed": 2,
     "error": SENTENCE, "log": "logs/probe/e/b.log"},
]  # fmt: skip
MISSING = [
    {"dataset": "d", "backbone": "a", "probe": "knn", "seed": 0, "reason": "no such file"},
    {"dataset": "e", "backbone": "a", "probe": "knn", "seed": 0, "reason": None},
]


def test_an_incomplete_run_counts_backbones_that_lack_nothing():
    about = describe({"plan": "p", "backbones": {"a": {}, "b": {}, "c": {}}}, FAILURES, MISSING)
    assert (
        headline(about)
        == "Incomplete: 2 of 3 backbones have all their results; 2 results are missing."
    )
    section = incomplete_section(json.loads(json.dumps(about)))
    assert [(line["backbone"], line["what"]) for line in section["missing"]] == [
        ("a", "d, knn"),
        ("a", "e, knn"),
    ]
    assert section["missing"][1]["reason"].startswith("not run")
    assert incomplete_section(None) is None


def test_the_table_of_failures_names_each_once_with_its_log():
    lines = format_failures(FAILURES).splitlines()
    assert lines[0] == "2 jobs failed:"
    assert lines[2].split() == ["all", "d", "prepare", "no", "such", "file"]
    assert lines[4].split()[:6] == ["b", "e", "sgd_linear", "of", "sgd", "seed"]
    assert lines[4].endswith(SENTENCE) and lines[5].strip() == "log: logs/probe/e/b.log"
    assert lines[1].index("error") == lines[2].index("no such") == lines[3].index("log:")


def test_long_errors_are_wrapped_for_a_terminal():
    lines = format_failures([{**FAILURES[0], "error": "word " * 40}], width=60).splitlines()
    assert max(map(len, lines)) <= 60 and "word" in lines[3]


def test_rows_that_are_ranked_among_fewer_are_marked():
    table = pa.table(
        {"dataset": ["d", "d", "f"], "probe": ["knn", "mlp", "knn"], "gates": ["one_unit", "", ""]}
    )
    marked = mark_incomplete(table, MISSING)["gates"].to_pylist()
    assert marked == [f"one_unit;{GATE}", "", ""]


# --- what the executor says ----------------------------------------------------------------------


def record(event: str, **fields) -> logging.LogRecord:
    made = logging.LogRecord("snakemake.logging", logging.ERROR, "", 0, "", (), None)
    made.__dict__.update(fields, event=event)
    return made


def test_slurms_own_words_are_kept_for_each_job_of_a_group(tmp_path):
    folder = tmp_path / "logs" / "slurm"
    folder.mkdir(parents=True)
    text = "srun: error: x\nslurmstepd-n1: error: Job 5 exceeded memory limit\nslurmstepd-n1: error: y\n"
    log = logged(folder, text)
    messages = RunEvents(None, None, None)
    messages.filter(record("group_error", aux_logs=[str(log)], job_error_info=[{"jobid": 4}]))
    messages.filter(
        record(
            "job_error",
            rule_msg="SLURM-job '5' failed, SLURM status is: 'FAILED'. x",
            jobid=5,
            log=[str(log)],
        )
    )
    refused = "SLURM sbatch failed. The error message was 'no such partition'."
    messages.filter(
        record("job_error", rule_msg=f"{refused}\n    sbatch call:\n  sbatch …", jobid=6, log=[])
    )
    assert messages.messages.pop(6) == refused
    assert messages.messages == {
        4: "Job 5 exceeded memory limit",
        5: "Slurm: FAILED; Job 5 exceeded memory limit",
    }


def test_slurm_is_refused_where_it_is_not_installed(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    workflow = SimpleNamespace(executor_plugin=SimpleNamespace(name="slurm"))
    with pytest.raises(PermafrostError, match="no sbatch and no squeue"):
        check_executor(workflow)
    workflow.executor_plugin.name = "local"
    check_executor(workflow)


@pytest.mark.parametrize(
    "end",
    ["permafrost: interrupted\n", "Traceback (most recent call last):\n  …\nKeyboardInterrupt\n"],
)
def test_a_job_that_the_user_interrupted_did_not_fail(tmp_path, end):
    log = tmp_path / "job.log"
    log.write_text(f"rcf on demo/train: 3/9 images\n{end}")
    assert error_in(log, since=0).interrupted
    log.write_text(f"{end}permafrost extract: error: x. Remedy: y\n")
    assert not error_in(log, since=0).interrupted


def test_groups_of_rules_that_are_not_submitted_are_refused():
    def of(groups: dict, *, local: bool = False):
        return SimpleNamespace(
            local_exec=local, group_settings=SimpleNamespace(overwrite_groups=groups)
        )

    grouped = {"bootstrap": "evaluate", "measure": "others"}
    with pytest.raises(PermafrostError, match="puts bootstrap into a group.*take `groups` out"):
        check_groups(of(grouped), "driver")
    check_groups(of(grouped), "cluster")
    check_groups(of(grouped, local=True), "driver")
    check_groups(of({"measure": "others"}), "driver")


def test_the_profile_says_where_short_jobs_run_unless_the_configuration_does(monkeypatch):
    monkeypatch.delenv(LIGHT_JOBS, raising=False)
    main = SimpleNamespace(is_main_process=True)
    options = ("auto", "cluster", "driver")
    assert [light_jobs_of(main, option) for option in options] == [None, None, "here"]
    monkeypatch.setenv(LIGHT_JOBS, "workers")
    assert [light_jobs_of(main, option) for option in options] == ["workers", None, "here"]
    job = SimpleNamespace(is_main_process=False)
    assert [light_jobs_of(job, option) for option in options] == [None, None, None]
