"""What is shown of a run: counts from Snakemake's events, the texts, the time left, and a real toy workflow."""

from __future__ import annotations

import io
import logging
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import snakemake.shell  # noqa: F401  loads the module of that name
from helpers.terminal import on_terminal, seen
from permafrost.operate.estimate.estimate import Machines, estimate
from permafrost.operate.estimate.work import default_rates
from permafrost.operate.progress import drawn, view
from permafrost.operate.progress.counts import Counts, job_of, key_of
from permafrost.operate.progress.left import TimeLeft
from permafrost.operate.progress.view import DryRun, Lines, make_view
from permafrost.operate.snakemake_process import follow_run
from permafrost.plan.configured import read_configuration
from permafrost.plan.grid import LABELS
from snakemake.settings.enums import Quietness
from snakemake_logger_plugin_permafrost import LogHandler

ROOT = Path(__file__).resolve().parents[3]
NAMES = {"dataset": "d", "backbone": "b", "probe": "knn", "seed": "0"}
QUIET = {"verbose": False, "printshellcmds": False, "debug_dag": False, "dryrun": False}
SETTINGS = SimpleNamespace(**QUIET, quiet=None, nocolor=False)


def record(event=None, text="", level=logging.INFO, **fields) -> logging.LogRecord:
    made = logging.LogRecord("snakemake.logging", level, "", 0, text, (), None)
    made.event = event
    made.__dict__.update(fields)
    return made


def job_info(number: int, rule: str, log="log", **names) -> logging.LogRecord:
    reason = "Params have changed since last execution: {" + "x" * 3000 + "}"
    return record(
        "job_info", jobid=number, rule_name=rule, wildcards=names, log=[log], reason=reason
    )


def job_error(number: int, rule: str, log, *, indent=False) -> logging.LogRecord:
    fields = {"jobid": number, "rule_name": rule, "log": [str(log)], "indent": indent}
    return record("job_error", "Error", logging.ERROR, **fields)


def finished(number: int) -> logging.LogRecord:
    return record("job_finished", f"Finished jobid: {number}", job_id=number)


def run_info(**rules: int) -> logging.LogRecord:
    stats = {**rules, "all": 1, "total": 1 + sum(rules.values())}
    return record("run_info", "Job stats: …", stats=stats)


def ours(messages=None) -> SimpleNamespace:
    """A run whose estimate cannot be made."""
    return SimpleNamespace(
        messages=messages or {},
        targets=lambda: {"all"},
        time_left=lambda cores: SimpleNamespace(seconds=lambda counts, now: None),
        log_here=lambda log, since: log,
        printed=list,
    )


@pytest.fixture
def said(capsys, monkeypatch):
    """Shows records as lines, at a clock that stands still; returns what was printed."""
    monkeypatch.setattr(view.time, "time", lambda: 1000.0)
    shown = Lines()
    shown.run = ours({3: "Slurm: TIMEOUT"})

    def show(*records) -> list[str]:
        for one in records:
            shown.show(one)
        return capsys.readouterr().err.splitlines()

    show.view = shown
    return show


# --- counts ---------------------------------------------------------------------------------------


def counted(counts: Counts) -> dict[str, tuple[int, int, int, int]]:
    return {s.name: (s.total, s.done, s.running, s.failed) for s in counts.stages.values()}


def test_jobs_wait_run_end_fail_and_are_tried_again():
    counts = Counts()
    counts.expect({"extract": 2, "probe_maps": 1, "probe_embeddings": 3})
    assert counted(counts) == {"extract": (2, 0, 0, 0), "probe": (4, 0, 0, 0)}
    one, other = (job_of("extract", {"dataset": "d", "backbone": b}, "") for b in "ab")
    counts.start(1, one, 10.0)
    counts.start(2, other, 11.0)
    counts.fail(2)
    assert not counts.finish(7, 12.0), "what never began"
    assert counts.finish(1, 15.0), "the last that could end"
    assert counted(counts)["extract"] == (2, 1, 0, 1)
    counts.fail(2)
    assert counted(counts)["extract"] == (2, 1, 0, 1), "it is counted once"
    counts.start(2, other, 20.0)
    assert counted(counts)["extract"] == (2, 1, 1, 0)
    assert counts.finish(2, 24.0)
    assert counts.spans == {
        ("extract", ("d", "a")): (10.0, 15.0),
        ("extract", ("d", "b")): (20.0, 24.0),
    }
    assert (counts.sum("total"), counts.sum("done"), counts.running) == (6, 2, {})


def test_jobs_are_known_as_estimates_know_them():
    assert key_of("probe_maps", NAMES) == ("probe", ("d", "b", "knn", 0))
    assert key_of("aggregate", {}) == ("aggregate", ())
    assert key_of("own_rule", {"x": "1"}) == ("own_rule", ())
    assert job_of("probe_embeddings", NAMES, "").title == "probe d b knn seed 0"


# --- texts ----------------------------------------------------------------------------------------


def some() -> Counts:
    counts = Counts()
    counts.expect({"prepare": 1, "extract": 3, "report": 1})
    counts.start(1, job_of("prepare", {"dataset": "d"}, ""), 0.0)
    counts.finish(1, 5.0)
    for number, name in ((2, "a"), (3, "b")):
        counts.start(number, job_of("extract", {"dataset": "d", "backbone": name}, ""), 5.0)
    counts.fail(3)
    return counts


def test_a_line_says_how_far_the_run_is():
    assert drawn.planned(some()) == "5 jobs: 1 prepare, 3 extract, 1 report"
    text = "1 of 5 jobs done in 31 s, 1 failed"
    assert drawn.line(some(), 31.0, 720.0) == f"{text}, about 12 min left: prepare 1/1, extract 0/3"
    assert drawn.status(some(), 31.0, None) == text
    assert drawn.status(some(), 31.0, 720.0, ended=True) == f"{text}, 3 not run"
    assert drawn.status(some(), 31.0, 0.2) == text, "it takes longer than was estimated"
    one = Counts()
    one.expect({"report": 1})
    assert drawn.status(one, 1.0, None) == "0 of 1 job done in 1.0 s"


def test_the_table_has_a_row_for_each_stage():
    from rich.console import Console

    output = io.StringIO()
    Console(file=output, width=80).print(drawn.table(some(), 31.0, 720.0))
    heading, *rows, last = output.getvalue().splitlines()
    assert heading.split() == ["stage", "done", "running", "failed"]
    cells = [[cell for cell in row.split() if not cell.startswith("━")] for row in rows]
    assert cells == [["prepare", "1/1"], ["extract", "0/3", "1", "1"], ["report", "0/1"]]
    assert rows[1].index("1", rows[1].index("0/3") + 3) < heading.index("failed")
    assert last == "1 of 5 jobs done in 31 s, 1 failed, about 12 min left"


# --- lines ----------------------------------------------------------------------------------------


def test_a_run_is_a_few_lines(said, monkeypatch):
    assert said(
        record("workflow_started", "Workflow has started!"),
        record(None, "Building DAG of jobs..."),
        record("resources_info", "Provided cores: 2", cores=2),
        run_info(prepare=1, probe_maps=1, probe_embeddings=2),
    ) == ["4 jobs: 1 prepare, 3 probe"]
    started = record("job_started", "Execute 1 jobs...", jobs=[1])
    assert said(started, job_info(1, "prepare", dataset="d")) == []
    assert said(finished(1), record("progress", done=1, total=5)) == [
        "1 of 4 jobs done in 0.0 s: prepare 1/1"
    ]
    assert said(job_info(2, "probe_maps", **NAMES), finished(2)) == [], "another follows soon"
    monkeypatch.setattr(view.time, "time", lambda: 1031.0)
    assert said(job_info(3, "probe_embeddings", **NAMES), finished(3)) == [
        "3 of 4 jobs done in 31 s: prepare 1/1, probe 2/3"
    ]
    assert said(job_info(4, "probe_embeddings", **NAMES), finished(4)) == [], "the end says it"
    said(job_info(5, "all"), finished(5))
    assert said(record("progress", done=5, total=5)) == ["4 of 4 jobs done in 31 s"]
    assert said(record(None, "Complete log(s): x"), record(None, "Elapsed time: 0:00:09")) == []
    submitted = "Job 39b4038a-349f has been submitted with SLURM jobid 155 (log: x)."
    assert said(record(None, submitted)) == []
    assert said(record(None, "Nothing to be done.")) == ["Nothing to be done."]


def test_a_failure_is_named_at_once_without_its_command(said, tmp_path):
    log = tmp_path / "job.log"
    log.write_text("")
    said(run_info(extract=2), job_info(3, "extract", str(log), dataset="d", backbone="b"))
    command = "RuleException:\nCalledProcessError in file x, line 3:\nCommand 'y'"
    (line,) = said(record("error", command, logging.ERROR), job_error(3, "extract", log))
    assert line.startswith("Error in rule extract d b: it ended without") and str(log) in line
    assert "TIMEOUT" in line
    failed = record("job_error", jobid=9, rule_name="own", log=[], indent=False)
    assert said(failed) == ["Error in rule own, which has no log of its own, log: .snakemake/log"]
    log.write_text("permafrost extract: error: no such model. Remedy: correct it\n")
    (line,) = said(job_error(3, "extract", log))
    assert line == f"Error in rule extract d b: no such model. Remedy: correct it, log: {log}"
    text = "Exiting because a job execution failed. Look above for error messages"
    assert said(record(None, text, logging.ERROR)) == [
        "0 of 2 jobs done in 0.0 s, 1 failed, 1 not run"
    ]
    last = "WorkflowError:\nAt least one job did not complete successfully."
    assert said(record("error", last, logging.ERROR)) == []
    other = "WorkflowError in file common.smk, line 1:\nunknown key"
    assert said(record("error", other, logging.ERROR)) == other.splitlines()


def test_a_job_that_gathers_says_where_its_result_is(said, tmp_path):
    log = tmp_path / "job.log"
    log.write_text("9 files\nresults/archive/x.zip\n\n")
    said(run_info(archive=1, extract=1), job_info(1, "archive", str(log)))
    said(job_info(2, "extract", str(log), dataset="d", backbone="b"))
    assert said(finished(1))[0] == "results/archive/x.zip"
    assert said(finished(2)) == []


def test_what_is_interrupted_has_not_failed(said, tmp_path):
    said(run_info(extract=1), job_info(3, "extract", str(tmp_path), dataset="d", backbone="b"))
    (line,) = said(
        record(None, "Terminating processes on user request, this might take some time.")
    )
    assert line.startswith("Terminating")
    assert said(job_error(3, "extract", tmp_path)) == []
    said.view.end()
    assert said() == ["0 of 1 job done in 0.0 s, 1 not run"]


def test_of_a_group_that_failed_the_jobs_and_the_log_are_named(said):
    said(run_info(probe_embeddings=1, bootstrap=1))
    said(job_info(3, "probe_embeddings", **NAMES), job_info(4, "bootstrap", **NAMES))
    both = [{"jobid": 3}, {"jobid": 4}]
    failed = record("group_error", aux_logs=["slurm/5.log"], job_error_info=both)
    title = "d b knn seed 0"
    assert said(failed) == [
        f"Error in group of probe {title} and bootstrap {title}: Slurm: TIMEOUT, log: slurm/5.log"
    ]
    # it waited for the other one, and has no log
    assert said(job_error(4, "bootstrap", "no.log", indent=True)) == []
    assert counted(said.view.counts)["bootstrap"] == (1, 0, 0, 0)


@pytest.mark.parametrize(("quiet", "tables"), [(None, 1), ({Quietness.ALL}, 2)])
def test_a_dry_run_lists_jobs_with_a_short_reason_and_keeps_the_table(capsys, quiet, tables):
    listing = make_view(SimpleNamespace(**{**QUIET, "dryrun": True}, quiet=quiet, nocolor=False))
    # Snakemake logs the table before and after the list, and before only if it is to be quiet
    for one in (run_info(extract=1), job_info(1, "extract", dataset="d", backbone="b")):
        listing.show(one)
    listing.show(run_info(extract=1))
    listing.show(record(None, "Building DAG of jobs..."))
    listing.show(record(None, "This was a dry-run"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[tables - 1] == "extract d b (Params have changed since last execution)"
    assert lines.count("Job stats: …") == tables
    assert lines[-1] == "This was a dry-run" and len(lines) == tables + 2


# --- who shows it ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [
        ({}, True),
        ({"quiet": {Quietness.HOST, Quietness.REASON}}, True),
        ({"quiet": {Quietness.PROGRESS}}, False),
        ({"quiet": {Quietness.ALL}}, False),
        *(({name: True}, name == "dryrun") for name in QUIET),
    ],
)
def test_who_asks_snakemake_for_more_or_less_gets_its_own_output(changed, wanted, monkeypatch):
    settings = SimpleNamespace(**{**vars(SETTINGS), **changed})
    assert isinstance(make_view(settings), DryRun if "dryrun" in changed else Lines) is wanted
    handler = LogHandler(settings, None)
    assert handler.writes_to_stream is wanted
    handler.emit(record(None, "x"))
    handler.close()


@pytest.fixture
def followed(monkeypatch, tmp_path):
    """Snakemake's logger with our filter; what it did before a handler saw an event."""
    logger, done, terminal = logging.getLogger("snakemake.logging"), [], object()
    monkeypatch.setattr(logger, "filters", [])
    handler = LogHandler(SETTINGS, None)
    monkeypatch.setattr(handler.view, "_run_info", lambda record: done.append(handler.view.run))
    monkeypatch.setattr(logger, "handlers", [handler])
    monkeypatch.setattr(logger, "level", logging.INFO)
    monkeypatch.setattr(sys.modules["snakemake.shell"], "STDOUT", terminal)
    settings = SimpleNamespace(**vars(SETTINGS))
    manager = SimpleNamespace(
        get_log_handlers=lambda: [handler], get_logfile=lambda: [tmp_path / "log"]
    )
    workflow = SimpleNamespace(
        output_settings=settings,
        logger_manager=manager,
        dag=SimpleNamespace(needrun_jobs=list),
    )
    events = follow_run(workflow, None, lambda: done.append("started"))
    return SimpleNamespace(
        log=logger.handle, done=done, settings=settings, events=events, terminal=terminal
    )


def test_a_run_starts_before_its_jobs_are_shown_and_its_jobs_print_into_the_log(followed):
    shell = sys.modules["snakemake.shell"]
    followed.log(run_info(extract=1))
    assert followed.done[0] == "started" and followed.done[1].messages == {}
    assert shell.STDOUT is not followed.terminal
    followed.log(record("progress", done=1, total=1))
    assert shell.STDOUT is followed.terminal
    followed.events.wait_for_view()


@pytest.mark.parametrize("nothing", [True, False])
def test_a_dry_run_starts_nothing_and_a_run_without_jobs_is_recorded(followed, nothing):
    event = record(None, "Nothing to be done.") if nothing else run_info(extract=1)
    followed.settings.dryrun = True
    followed.log(event)
    assert "started" not in followed.done
    followed.settings.dryrun = False
    followed.log(event)
    assert followed.done.count("started") == 1


def test_an_event_that_cannot_be_shown_ends_no_run(capsys, monkeypatch):
    handler = LogHandler(SETTINGS, None)
    handler.emit(record("job_finished"))
    assert "AttributeError" in capsys.readouterr().err


# --- the time left --------------------------------------------------------------------------------


@pytest.fixture
def estimated(tmp_path, monkeypatch):
    (tmp_path / "config").mkdir()
    (tmp_path / "Snakefile").write_text("# permafrost\n")
    (tmp_path / "config/config.yaml").write_text(
        f"catalogues: ['{ROOT}/config']\nbackbones: [imagestats, rcf]\ndatasets: [demo-landcover]\n"
        "probes: {knn: {kind: knn}}\n"
    )
    monkeypatch.chdir(tmp_path)
    grid, _ = read_configuration(tmp_path)
    return estimate(grid, default_rates(), Machines(1, 0), results="results", records={})


def time_left(estimated, wanted, *, lost=(), cores=1) -> TimeLeft:
    left = TimeLeft(lambda: estimated, wanted, lambda: lost, cores)
    left.thread.join()
    return left


def keys(estimated, *stages) -> set[tuple]:
    return {(job.stage, job.names) for job in estimated.jobs if job.stage in stages}


def test_the_time_left_is_that_of_the_jobs_of_this_run(estimated):
    wanted = keys(estimated, "extract", "probe")
    seconds = sum(job.seconds for job in estimated.jobs if (job.stage, job.names) in wanted)
    assert time_left(estimated, wanted).seconds(Counts(), 0.0) == pytest.approx(seconds / 0.85)
    lost = keys(estimated, "probe")
    left = sum(job.seconds for job in estimated.jobs if job.stage == "extract") / 0.85
    assert time_left(estimated, wanted, lost=lost).seconds(Counts(), 0.0) == pytest.approx(left)
    assert time_left(estimated, {("own", ())}).seconds(Counts(), 0.0) is None


def test_jobs_that_end_correct_it_and_those_that_run_shorten_it(estimated):
    jobs = [job for job in estimated.jobs if job.stage == "extract"]
    counts = Counts()
    counts.expect({"extract": 2})
    for number, job in enumerate(jobs):
        counts.start(number, SimpleNamespace(stage="extract", key=("extract", job.names)), 0.0)
    counts.finish(0, 4 * jobs[0].estimated)
    now = 4 * jobs[0].estimated
    rest = max(4 * jobs[1].estimated - now, 0.0)
    left = time_left(estimated, keys(estimated, "extract"))
    assert rest > 0 and left.seconds(counts, now) == pytest.approx(rest / 0.85)
    # between two looks the clock runs on
    assert left.seconds(counts, now + 1) == pytest.approx(rest / 0.85 - 1)


def test_where_nobody_knows_the_cores_they_are_as_many_as_were_at_work(estimated):
    wanted = keys(estimated, "extract", "probe")
    jobs = [job for job in estimated.jobs if job.stage == "extract"]
    counts = Counts()
    counts.expect({"extract": 2})
    estimated = replace(estimated, machines=Machines(1, 1))
    left = time_left(estimated, wanted, cores=None)
    assert left.seconds(counts, 0.0) is None, "nothing has ended yet"
    for number, job in enumerate(jobs):
        counts.start(number, SimpleNamespace(stage="extract", key=("extract", job.names)), 0.0)
        counts.finish(number, job.estimated)
    now = max(job.estimated for job in jobs)
    cores = sum(job.estimated for job in jobs) / now
    probes = sum(job.seconds for job in estimated.jobs if job.stage == "probe")
    left = time_left(estimated, wanted, cores=None)
    longest = max(job.seconds for job in estimated.jobs if job.stage == "probe")
    assert left.seconds(counts, now) == pytest.approx(max(probes / cores / 0.85, longest))


@pytest.mark.parametrize("stage", ["prepare", "extract"])
def test_parts_that_are_made_are_not_left(estimated, stage):
    job = next(job for job in estimated.jobs if job.stage == stage)
    parted = replace(estimated, jobs=[replace(job, parts=4, seconds=80.0, estimated=80.0)])
    counts = Counts()
    names = dict(zip(LABELS[stage], job.names, strict=True))
    for number in range(3):
        part = job_of(f"{stage}_part", {**names, "part": f"{number}-of-4"}, "log")
        assert part.title == f"{stage}_part {' '.join(job.names)} {number}-of-4"
        counts.start(number, part, 0.0)
        counts.finish(number, 1.0)
    left = time_left(parted, {(stage, job.names)})
    assert left.seconds(counts, 1.0) == pytest.approx(20.0 / 0.85)


def test_without_an_estimate_none_is_said():
    left = TimeLeft(lambda: 1 / 0, {("extract", ())}, set, 1)
    left.thread.join()
    assert left.seconds(Counts(), 0.0) is None


# --- a real workflow ------------------------------------------------------------------------------

TOY = """
rule all:
    input: "b/1", "b/2"
rule first:
    output: "a/{n}"
    shell: "echo of a job; touch {output}"
rule second:
    input: "a/1", "a/2"
    output: "b/{n}"
    log: "logs/{n}.log"
    shell: "(test {wildcards.n} = 1 && touch {output}) > {log} 2>&1"
"""


@pytest.fixture
def toy(tmp_path):
    (tmp_path / "Snakefile").write_text(TOY)
    python_path = str(ROOT / "workflow")
    environment = {**os.environ, "PYTHONPATH": python_path, "TERM": "xterm", "COLUMNS": "100"}
    options = ["--cores", "1", "--keep-going", "--logger", "permafrost"]
    command = [sys.executable, "-m", "snakemake", *options]
    return command, {"cwd": tmp_path, "env": environment}


FAILED = "Error in rule second: it ended without an error message"


def test_snakemake_finds_the_plugin_and_its_events_are_understood(toy):
    command, where = toy
    done = subprocess.run(command, **where, capture_output=True, text=True)
    assert done.returncode == 1
    lines = [re.sub(r"in [\d.]+ s", "in T", line) for line in done.stderr.splitlines()]
    error = next(n for n in lines if n.startswith(FAILED))
    assert error.endswith("log: logs/2.log")
    lines.remove(error)
    first, second, *_, last = [line for line in lines if "job" in line]
    assert first == "5 jobs: 2 first, 2 second, 1 all"
    assert second == "2 of 5 jobs done in T: first 2/2"
    assert last == "3 of 5 jobs done in T, 1 failed, 1 not run"
    verbose = subprocess.run([*command, "--verbose"], **where, capture_output=True, text=True)
    assert "rule second:" in verbose.stderr and "jobs done" not in verbose.stderr


def test_on_a_terminal_the_table_stays_and_failures_stand_above_it(toy):
    status, written = on_terminal(toy[0], **toy[1])
    text = seen(written)
    assert status == 1
    assert text.index(FAILED) < text.rindex("running  failed")
    last = text[text.rindex("running  failed") :].splitlines()
    assert [line.split()[0] for line in last[1:4]] == ["first", "second", "all"]
    assert last[2].split()[-2:] == ["1/2", "1"] and "1 failed, 1 not run" in last[4]
    # the cursor is hidden while it is drawn, and shown again
    assert written.rindex("\x1b[?25h") > written.rindex("\x1b[?25l")


def test_a_view_loads_nothing_heavy_and_rich_only_on_a_terminal():
    program = (
        "import sys, snakemake_logger_plugin_permafrost, permafrost.operate.progress.view as v\n"
        "from types import SimpleNamespace\n"
        f"v.make_view(SimpleNamespace(quiet=None, **{QUIET}))\n"
        "print(sorted({'rich', 'torch', 'pyarrow', 'pandas'} & set(sys.modules)))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "workflow")}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
