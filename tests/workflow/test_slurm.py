"""The same job through a real one-node Slurm, which is installed and started for these tests."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from helpers.environments import add_small_and_broken, living
from helpers.project import asked_of_a_chain
from permafrost.core.identity import file_digest
from permafrost.plan.resources import asked

pytestmark = [pytest.mark.slow, pytest.mark.slurm, pytest.mark.xdist_group("slurm")]

# the jobs of these tests take seconds
SOONER = {"slurm-init-seconds-before-status-checks": 1, "latency-wait": 20}
SCRIPT = Path(__file__).resolve().parents[1] / "slurm" / "slurm.sh"
NO_SLURM = str(SCRIPT.parent / "not_running")
NODE = os.uname().nodename.partition(".")[0]


@pytest.fixture(scope="module")
def _started():
    """A running Slurm; skips where none can be installed, and says why."""
    if os.geteuid():
        pytest.skip("starting a Slurm needs root")
    if not shutil.which("apt-get"):
        pytest.skip("starting a Slurm needs Debian's package manager")
    with pytest.MonkeyPatch.context() as patch:
        # without the stand-in of tests/conftest.py
        path = [place for place in os.environ["PATH"].split(os.pathsep) if place != NO_SLURM]
        patch.setenv("PATH", os.pathsep.join(path))
        ran_before = not subprocess.run(["sh", "-c", "sinfo -h"], capture_output=True).returncode
        started = subprocess.run(["bash", str(SCRIPT), "start"], capture_output=True, text=True)
        if started.returncode:
            pytest.skip(f"Slurm could not be started here: {started.stderr.strip()[-400:]}")
        yield
        if not ran_before:
            subprocess.run(["bash", str(SCRIPT), "stop"], check=True)


def jobs_listed(*states: str) -> list[tuple[str, str]]:
    """Number and folder of Slurm's jobs in these states; of all that wait or run, without any."""
    chosen = ["-t", ",".join(states)] if states else []
    listed = subprocess.run(
        ["squeue", "-h", *chosen, "-o", "%i %Z"], capture_output=True, text=True
    ).stdout
    return [tuple(line.split(maxsplit=1)) for line in listed.splitlines()]


def node_is_up() -> bool:
    """Whether the node takes jobs."""
    shown = subprocess.run(["sinfo", "-h", "-o", "%T"], capture_output=True, text=True).stdout
    return bool(shown.split()) and set(shown.split()) <= {"idle", "mixed", "allocated"}


def resume_node() -> None:
    """Bring the node back, and have what it lost start at once and not in two minutes."""
    deadline = time.monotonic() + 60
    while not node_is_up() and time.monotonic() < deadline:
        # refused where the node came back by itself
        subprocess.run(
            ["scontrol", "update", f"NodeName={NODE}", "State=RESUME"], capture_output=True
        )
        time.sleep(0.5)
    for job, _ in jobs_listed("PD"):
        subprocess.run(["scontrol", "update", f"JobId={job}", "StartTime=now"], capture_output=True)


@pytest.fixture
def slurm(_started):
    """The same, as one test finds it: the node takes jobs, and none of the test before is left."""
    for job, where in jobs_listed():
        if "pytest" in where:
            subprocess.run(["scancel", job], capture_output=True)
    resume_node()
    assert node_is_up(), subprocess.run(
        ["scontrol", "show", "node"], capture_output=True, text=True
    ).stdout


def set_profile(project, **changes) -> None:
    """Change keys of profiles/slurm/config.yaml; a nested mapping is laid over the one there."""
    shutil.copy(SCRIPT.with_name("ask_each_second.py"), project.path("workflow/sitecustomize.py"))
    project.set_profile("slurm", **changes)


def jobs_of(project) -> dict[str, tuple[str, int, int]]:
    """Slurm's jobs of the project: id to folder of the log, megabytes and minutes.

    The allocations of short jobs have no log; they have their name instead.
    """
    shown = subprocess.run(
        ["scontrol", "show", "job", "--oneliner"], capture_output=True, text=True, check=True
    ).stdout
    jobs = {}
    for line in shown.splitlines():
        field = dict(part.split("=", 1) for part in line.split() if "=" in part)
        if field.get("WorkDir") == str(project.folder):
            hours, minutes, _ = field["TimeLimit"].split(":")
            memory = int(field["MinMemoryNode"].removesuffix("M"))
            limit = 60 * int(hours) + int(minutes)
            log = field.get("StdOut")
            name = Path(log).parent.name if log else field["JobName"]
            jobs[field["JobId"]] = (name, memory, limit)
    return jobs


SHORT = "permafrost-light"


def make_probes_slow(project) -> None:
    """Have each probe take some seconds, so that something can happen to it."""
    path = project.path("workflow/permafrost/probes/knn/probe.py")
    path.write_text(f"{path.read_text()}\n\nimport time\n\ntime.sleep(10)\n")


def test_slurm_gives_the_same_leaderboard_bit_for_bit(slurm, fresh_project, project):
    set_profile(fresh_project, **SOONER)
    fresh_project.snakemake(profile="slurm")
    for name in ("results/leaderboard.csv", "results/leaderboard.parquet"):
        assert fresh_project.path(name).read_bytes() == project.path(name).read_bytes()
    names = {name for name, *_ in jobs_of(fresh_project).values()}
    extracted = {f"tiny-landcover_{name}" for name in fresh_project.config["backbones"]}
    assert names == {SHORT, "tiny-landcover", *extracted, "rule_aggregate", "rule_report"}


def test_parts_are_jobs_of_their_own(slurm, project):
    whole = project.stores()
    shutil.rmtree(project.path("results/features/tiny-landcover/imagestats"))
    project.configure(runtime={**project.config["runtime"], "parts": 2}, backbones=["imagestats"])
    set_profile(project, **SOONER)
    project.snakemake("features", profile="slurm")
    assert project.stores() == whole
    submitted = [folder for folder, *_ in jobs_of(project).values()]
    assert len(submitted) == 3 and sum("-of-2" in folder for folder in submitted) == 2


def test_light_jobs_beside_snakemake_are_not_submitted(slurm, project):
    path = "results/scores/tiny-landcover/imagestats/seed0/knn.parquet"
    before = project.path(path).read_bytes()
    for folder in ("scores", "predictions", "comparisons"):
        shutil.rmtree(project.path("results") / folder)
    runtime = project.config["runtime"]
    project.configure(runtime={**runtime, "light_jobs_on": "driver"})
    set_profile(project, groups=["probe_embeddings=evaluate"], **SOONER)
    refused = project.snakemake("scores", profile="slurm", check=False)
    assert refused.returncode and "take `groups` out of the profile" in refused.stderr
    set_profile(project, groups=["measure=others"])
    project.snakemake("scores", profile="slurm")
    assert project.path(path).read_bytes() == before
    assert jobs_of(project) == {}


def test_in_an_allocation_short_jobs_run_there(slurm, project):
    path = "results/scores/tiny-landcover/imagestats/seed0/knn.parquet"
    before = project.path(path).read_bytes()
    for folder in ("scores", "predictions"):
        shutil.rmtree(project.path("results") / folder)
    snakemake = [sys.executable, "-m", "snakemake", "--profile", "slurm", "scores"]
    environment = {**os.environ, "PYTHONPATH": str(project.folder / "workflow")}
    command = ["srun", "-c2", "--mem=6000", "--time=60", *snakemake]
    subprocess.run(command, cwd=project.folder, env=environment, check=True)
    assert project.path(path).read_bytes() == before
    assert len(jobs_of(project)) == 1


def test_a_failing_bootstrap_costs_neither_its_probe_nor_other_scores(slurm, project):
    for folder in ("scores", "predictions"):
        shutil.rmtree(project.path("results") / folder)
    stage = project.path("workflow/permafrost/stages/bootstrap.py")
    whole = stage.read_text()
    broken = 'if "imagestats" in str(arguments.predictions):\n        raise ValueError("broken")\n'
    head = "def run(arguments) -> None:\n"
    assert head in whole
    stage.write_text(whole.replace(head, f"{head}    {broken}"))
    set_profile(project, retries=0, **SOONER)
    done = project.snakemake("scores", profile="slurm", check=False)
    assert done.returncode == 1 and "2 jobs failed" in done.stdout and "broken" in done.stdout
    made = {
        folder: sorted(
            path.parts[-3:] for path in project.path("results").glob(f"{folder}/**/*.parquet")
        )
        for folder in ("predictions", "scores")
    }
    assert len(made["predictions"]) == 4 and len(made["scores"]) == 2
    assert all("tiny-network" in path for path in made["scores"])
    stage.write_text(whole)
    # what was scored was scored by other code
    pending = project.pending()
    assert pending["bootstrap"] == 4 and "probe_embeddings" not in pending


def test_a_job_out_of_time_is_reported_by_name(slurm, project):
    project.config["extra_backbones"]["slow"] = {
        "kind": "entrypoint",
        "entrypoint": "slow.py:build",
        "input": {"bands": "rgb", "size": 16, "normalization": "dataset"},
    }
    project.path("slow.py").write_text(
        "import time\n\n\ndef build(*arguments, **options):\n    time.sleep(600)\n"
    )
    project.configure(backbones=["imagestats", "slow"])
    set_profile(project, retries=0, **SOONER, **{"set-resources": {"extract": {"runtime": 1}}})
    done = project.snakemake("features", profile="slurm", check=False)
    output = done.stdout + done.stderr
    assert done.returncode != 0
    assert "TIMEOUT" in output
    assert "Error in rule extract" in output and "extract/tiny-landcover/slow.log" in output
    assert not list(project.path("results/features/tiny-landcover/slow").glob("*"))
    (log,) = project.path("results/logs/slurm").rglob("*.log")
    assert "rule_extract/tiny-landcover_slow" in str(log)


def first_running(project, act) -> threading.Thread:
    """Start a thread that calls `act` with the number of the first job of the project that runs."""

    def watch():
        deadline = time.monotonic() + 600
        while time.monotonic() < deadline:
            for job, folder in jobs_listed("R"):
                if folder == str(project.folder):
                    act(job)
                    return
            time.sleep(0.2)

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def test_a_cancelled_allocation_is_noticed_and_run_again_with_more_memory_and_time(slurm, project):
    project.config["probes"] = {"knn": {"kind": "knn", "k": 3}}
    project.configure(backbones=["imagestats"])
    make_probes_slow(project)
    set_profile(project, **SOONER)
    cancelled: list[str] = []

    def cancel(job):
        time.sleep(4)
        subprocess.run(["scancel", job], check=True)
        cancelled.append(job)

    thread = first_running(project, cancel)
    project.snakemake("scores", profile="slurm")
    thread.join()
    assert cancelled
    asked_first, asked_then, *_ = [job[1:] for job in jobs_of(project).values() if job[0] == SHORT]
    probe = asked("probe", kind="knn")
    # and half an hour for jobs that come later
    assert asked_first == (probe.memory_mb, probe.minutes + 30)
    assert asked_then == (2 * probe.memory_mb, 2 * probe.minutes + 30)
    assert not {"probe_embeddings", "bootstrap"} & set(project.pending())


def test_a_lost_node_costs_its_jobs_another_start(slurm, project):
    path = "results/scores/tiny-landcover/imagestats/seed0/knn.parquet"

    def scores():
        # the slower code has another fingerprint
        return pq.read_table(project.path(path)).to_pandas().drop(columns="fingerprint")

    before = scores()
    for folder in ("scores", "predictions"):
        shutil.rmtree(project.path("results") / folder)
    make_probes_slow(project)
    set_profile(project, **SOONER)
    lost: list[str] = []

    def lose_node(job):
        down = ["scontrol", "update", f"NodeName={NODE}", "State=DOWN", "Reason=test"]
        subprocess.run(down, check=True)
        lost.append(job)
        time.sleep(3)
        resume_node()

    thread = first_running(project, lose_node)
    project.snakemake("scores", profile="slurm")
    thread.join()
    assert lost
    shown = subprocess.run(
        ["scontrol", "show", "job", lost[0]], capture_output=True, text=True, check=True
    ).stdout
    assert "NODE_FAIL" in shown
    assert scores().equals(before)
    assert not {"probe_embeddings", "bootstrap"} & set(project.pending())


def test_after_a_killed_driver_the_same_command_ends_the_run(slurm, project):
    """Jobs of the killed one may still run beside those of the next; what they write appears whole."""
    path = "results/scores/tiny-landcover/imagestats/seed0/knn.parquet"
    before = project.path(path).read_bytes()
    for folder in ("scores", "predictions"):
        shutil.rmtree(project.path("results") / folder)
    set_profile(project, **SOONER)
    command = [sys.executable, "-m", "snakemake", "--profile", "slurm", "scores"]
    environment = {**os.environ, "PYTHONPATH": str(project.folder / "workflow")}
    with subprocess.Popen(
        command,
        cwd=project.folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as driver:
        first_running(project, lambda job: driver.kill()).join()
        assert driver.wait(60) == -signal.SIGKILL
    # the allocation ends by itself
    deadline = time.monotonic() + 60
    while any(folder == str(project.folder) for _, folder in jobs_listed()):
        assert time.monotonic() < deadline
        time.sleep(0.5)
    locked = project.snakemake("scores", profile="slurm", check=False)
    assert locked.returncode and "Directory cannot be locked" in locked.stdout + locked.stderr
    project.snakemake("--unlock", profile="slurm")
    project.snakemake("scores", profile="slurm")
    assert project.path(path).read_bytes() == before
    assert not {"probe_embeddings", "bootstrap"} & set(project.pending())


def test_jobs_that_fail_cost_only_their_own_backbones_in_any_environment(slurm, fresh_project):
    """Killed, out of memory, an environment that cannot be installed; beside the main and another environment."""
    project = fresh_project
    sources = {
        "killed": "import os, signal\n\n\ndef build(inputs, **options):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n",
        "greedy": "import time\n\n\ndef build(inputs, **options):\n"
        "    taken = b'1' * (3 << 30)\n    time.sleep(600)\n",
    }
    for name, source in sources.items():
        project.path(f"{name}.py").write_text(source)
        project.config["extra_backbones"][name] = {
            "kind": "entrypoint",
            "entrypoint": f"{name}.py:build",
            "input": {"bands": "rgb", "size": 16, "normalization": "dataset"},
        }
    add_small_and_broken(project)
    # what the first of them installs serves the second, which waits for it or comes later
    small = ("in-small", "in-small-too")
    own = {**dict.fromkeys(small, "small"), "nowhere": "broken"}
    for name, environment in own.items():
        project.config["extra_backbones"][name] = living(environment, "pandas")
    probes = {"knn": {"kind": "knn", "k": 3}, "linear": None}
    project.configure(
        backbones=["imagestats", "tiny-network", *sources, *own],
        probes=probes,
    )
    # what gathers the others' results says where it runs
    gathers = project.path("workflow/permafrost/stages/incomplete.py")
    says = 'import os\n\nprint("gathered in allocation", os.environ.get("SLURM_JOB_ID", "none"))\n'
    gathers.write_text(f"{gathers.read_text()}\n{says}")
    resources = {"extract": {"mem_mb": 2000, "slurm_partition": "cpu", "gpu": 0}}
    set_profile(project, retries=0, **SOONER, **{"set-resources": resources})
    done = project.snakemake(profile="slurm", check=False)
    assert done.returncode == 1
    assert re.findall(r"gathered in allocation (\w+)", done.stdout) not in ([], ["none"])
    table = done.stdout[done.stdout.index("3 jobs failed:") :]
    errors = {}
    for name in (*sources, "nowhere"):
        (line,) = [n for n in table.splitlines() if n.lstrip().startswith(f"{name} ")]
        assert "extract" in line
        errors[name] = line
        assert table.count(f"log: results/logs/extract/tiny-landcover/{name}.log") == 1
    assert all("killed, out of memory, or out of time" in errors[name] for name in sources)
    assert "memory" in errors["greedy"].partition("(")[2]
    assert "envs/broken.lock could not be installed" in errors["nowhere"]
    assert not project.path(".venv-broken").exists()
    # each of these fails outside of its environment
    logs = "".join(
        project.path(f"results/logs/extract/tiny-landcover/{name}.log").read_text()
        for name in small
    )
    assert logs.count("installing the small environment") == 1
    assert file_digest(project.path(".venv-small/permafrost.lock")) == file_digest(
        project.path("envs/small.lock")
    )
    shutil.rmtree(project.path(".venv-small"))
    assert "Incomplete: 4 of 7 backbones" in table
    scored = {row["backbone"] for row in project.leaderboard()}
    assert scored == {"imagestats", "tiny-network", *small}
    metadata = pq.read_schema(project.path("results/leaderboard.parquet")).metadata
    assert len(json.loads(metadata[b"permafrost"])["incomplete"]["missing"]) == 3
    assert "Incomplete: 4 of 7" in project.path("results/report/index.html").read_text()


def test_the_generic_profile_as_it_stands_runs_on_slurm(slurm, fresh_project, project):
    fresh_project.set_profile("generic", **{"latency-wait": 20, "seconds-between-status-checks": 1})
    fresh_project.snakemake(profile="profiles/generic")
    table = "results/leaderboard.parquet"
    assert fresh_project.path(table).read_bytes() == project.path(table).read_bytes()
    jobs = submitted(fresh_project)
    assert jobs.count(("extract", "6000M", "02:00:00")) == 2
    chains = []
    for kind in ("knn", "linear"):
        memory, minutes = asked_of_a_chain(kind)
        chains += [("GROUP", f"{memory}M", f"{minutes // 60:02}:{minutes % 60:02}:00")] * 2
    assert sorted(job for job in jobs if job[0] == "GROUP") == sorted(chains)


def submitted(project) -> list[tuple[str, str, str]]:
    """Name, memory and limit of time of Slurm's jobs of the project."""
    shown = subprocess.run(
        ["scontrol", "show", "job", "--oneliner"], capture_output=True, text=True, check=True
    ).stdout
    fields = [
        dict(part.split("=", 1) for part in line.split() if "=" in part)
        for line in shown.splitlines()
    ]
    return [
        (field["JobName"], field["MinMemoryNode"], field["TimeLimit"])
        for field in fields
        if field.get("WorkDir") == str(project.folder)
    ]
