"""The warm process of light jobs: answers as without it, and no job is lost where it, its client or a source goes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import permafrost
import pytest
from permafrost.operate.light_client import (
    BEGUN,
    LOCK,
    OF_LIGHT_JOBS,
    REFUSES,
    RUN,
    SESSION,
    SOCKET,
    STARTED_BY,
    folder_of,
    own_folder,
    this_process,
)

PACKAGE = Path(permafrost.__file__).parent
pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="Linux alone has it")


def wait_until(met, what: str, seconds: float = 60.0):
    end = time.monotonic() + seconds
    while not (found := met()):
        assert time.monotonic() < end, what
        time.sleep(0.05)
    return found


class Run:
    """A run whose process is a `sleep`, and its light jobs."""

    code = "code"

    def __init__(self, folder: Path, monkeypatch, library: Path = PACKAGE.parent) -> None:
        self.process = subprocess.Popen(["sleep", "600"])
        began = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[19]
        name = f"{self.process.pid}-{began}"
        monkeypatch.setenv("TMPDIR", str(folder))
        self.folder = Path(folder_of(name))
        self.path = self.folder / "code"
        self.client = library / "permafrost/operate/light_client.py"
        bin_folder = Path(sys.executable).parent
        self.environment = {
            **os.environ, RUN: name, "PYTHONPATH": str(library), "PATH": f"{bin_folder}:{os.environ['PATH']}",
        }  # fmt: skip
        # as a user has it
        self.environment.pop(SESSION, None)

    def start(self, *command: str, **options) -> subprocess.Popen:
        line = [sys.executable, "-I", "-S", str(self.client), self.code, *command]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(line, env=self.environment, **pipes, **options)

    def do(self, *command: str, **options) -> tuple[int, str, str]:
        job = self.start(*command, **options)
        out, err = job.communicate(timeout=120)
        return job.returncode, out, err

    def begun(self) -> int:
        """How many jobs were not served."""
        return (self.path / BEGUN).stat().st_size

    def warm(self) -> int:
        """Start the warm process; returns its number."""
        for _ in range(STARTED_BY):
            assert self.do("--version")[0] == 0
        wait_until((self.path / SOCKET).exists, "no warm process was started")
        (found,) = self.servers()
        return found

    def servers(self) -> list[int]:
        found = subprocess.run(
            ["pgrep", "-f", f"serve --folder {self.path}$"],
            capture_output=True,
            text=True,
            check=False,
        )
        return [int(line) for line in found.stdout.split()]


@pytest.fixture
def run(tmp_path, monkeypatch):
    made = Run(tmp_path, monkeypatch)
    yield made
    made.process.kill()
    made.process.wait()
    wait_until(lambda: not made.servers(), "the warm process outlived its run")


def children(process: int) -> list[int]:
    return list(map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split()))


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_jobs_are_the_same_as_alone_and_end_as_they_do(run):
    bootstrap = ("bootstrap", "--job", "x", "--predictions", "p", "--output", "o")
    commands = [("--version",), bootstrap, ("botstrap",)]
    of_run = run.environment.pop(RUN)
    alone = [run.do(*command) for command in commands]
    assert [status for status, _, _ in alone] == [0, 1, 2] and not run.folder.exists()
    assert alone[0][1] == f"permafrost {permafrost.__version__}\n"
    assert "--job needs the recorded plan" in alone[1][2]
    run.environment[RUN] = of_run
    # the first jobs are forks of a process with the libraries of all light jobs
    assert [run.do(*command) for command in commands] == alone and len(commands) < STARTED_BY
    (shared,) = run.folder.glob(f"{OF_LIGHT_JOBS}-*")
    assert (shared / SOCKET).exists() and not (run.path / SOCKET).exists()
    run.warm()
    begun = run.begun()
    assert [run.do(*command) for command in commands] == alone
    # an error of argparse, which ends by an exception
    status, _, said = run.do("bootstrap", "--nonsense")
    assert status == 2 and "usage: permafrost bootstrap" in said
    assert run.begun() == begun


def test_a_job_has_the_folder_the_environment_and_the_files_of_its_client(run, tmp_path):
    run.warm()
    begun = run.begun()
    (tmp_path / "spec.json").write_text("no JSON")
    command = (
        "bootstrap",
        "--spec",
        "spec.json",
        "--code",
        "c",
        "--predictions",
        "p",
        "--output",
        "o",
    )
    status, _, said = run.do(*command, cwd=tmp_path)
    assert status == 1 and "is not valid JSON" in said
    assert "cannot be read" in run.do(*command, cwd="/")[2]
    with open(tmp_path / "out.txt", "w") as stream:
        line = [sys.executable, "-I", "-S", str(run.client), "code", "--version"]
        subprocess.run(line, env=run.environment, stdout=stream, check=True)
    assert (tmp_path / "out.txt").read_text().startswith("permafrost ")
    assert run.begun() == begun


def test_many_jobs_at_once_each_have_their_own_answer(run):
    run.warm()
    begun = run.begun()
    jobs = [run.start("--version") if n % 2 else run.start(f"unknown{n}") for n in range(12)]
    answers = [(*job.communicate(timeout=120), job.returncode) for job in jobs]
    for number, (out, err, status) in enumerate(answers):
        assert (status, bool(out)) == ((0, True) if number % 2 else (2, False))
        assert number % 2 or f"unknown{number}" in err
    assert run.begun() == begun


def long_job(run, tmp_path, server: int) -> tuple[subprocess.Popen, int]:
    """A job that waits (for jobs of its own, which nobody sends), and its process under the warm one."""
    waiting = tmp_path / "waiting"
    waiting.mkdir(0o700)
    client = run.start("serve", "--folder", str(waiting))
    wait_until((waiting / SOCKET).exists, "the job did not begin")
    (job,) = children(server)
    return client, job


def test_a_job_ends_with_its_client(run, tmp_path):
    server = run.warm()
    client, job = long_job(run, tmp_path, server)
    client.terminate()
    wait_until(lambda: not alive(job), "the job outlived its client")
    assert run.do("--version")[0] == 0 and run.servers() == [server]


def test_a_killed_job_fails_as_in_a_shell_and_the_others_go_on(run, tmp_path):
    server = run.warm()
    client, job = long_job(run, tmp_path, server)
    os.kill(job, signal.SIGKILL)
    assert client.wait(60) == 137
    begun = run.begun()
    assert run.do("--version")[0] == 0 and run.begun() == begun


def test_without_the_warm_process_its_jobs_run_alone(run, tmp_path):
    server = run.warm()
    client, job = long_job(run, tmp_path, server)
    (tmp_path / "waiting" / SOCKET).unlink()
    os.kill(server, signal.SIGKILL)
    wait_until(lambda: not alive(job), "the job outlived the warm process")
    # the client has become the command
    wait_until((tmp_path / "waiting" / SOCKET).exists, "the job was not run anew")
    assert client.poll() is None
    client.kill()
    client.wait()
    assert run.do("--version")[0] == 0


def test_a_changed_source_ends_it_and_is_what_runs(tmp_path, monkeypatch):
    library = tmp_path / "library"
    shutil.copytree(PACKAGE, library / "permafrost", ignore=shutil.ignore_patterns("__pycache__"))
    run = Run(tmp_path, monkeypatch, library)
    try:
        server = run.warm()
        assert run.do("nothing")[0] == 2
        source = library / "permafrost/core/errors.py"
        source.write_text(source.read_text() + "\n")
        init = library / "permafrost/__init__.py"
        init.write_text(init.read_text() + '\n__version__ = "99.0"\n')
        assert run.do("--version")[1] == "permafrost 99.0\n"
        wait_until(lambda: not alive(server), "a process with old sources went on")
    finally:
        run.process.kill()
        run.process.wait()


def test_it_ends_with_the_run_and_leaves_nothing(run):
    server = run.warm()
    run.process.kill()
    run.process.wait()
    wait_until(lambda: not alive(server), "the warm process outlived its run")
    assert not run.path.exists()
    # jobs that come later run by themselves, and nothing waits for a run that is over
    for _ in range(STARTED_BY + 1):
        assert run.do("--version")[0] == 0
    time.sleep(1)
    wait_until(lambda: not run.servers(), "a warm process waits for a run that is over")


def test_it_has_one_thread(run):
    assert len(list(Path(f"/proc/{run.warm()}/task").iterdir())) == 1


def test_a_folder_that_others_can_write_is_not_used(run, tmp_path):
    run.folder.mkdir(0o777)
    run.folder.chmod(0o777)
    for _ in range(STARTED_BY + 1):
        assert run.do("--version")[0] == 0
    assert not run.path.exists() and not run.servers()
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    assert not own_folder(link) and own_folder(tmp_path / "own")


def test_jobs_of_several_threads_or_without_a_run_go_alone(run):
    run.warm()
    begun = run.begun()
    command = ("bootstrap", "--job", "x", "--predictions", "p", "--output", "o")
    assert run.do("knn", "--threads", "2", "--help")[0] == 0
    assert run.begun() == begun  # not counted either
    del run.environment[RUN]
    assert run.do(*command)[0] == 1


class Shared(Run):
    """Jobs that share a process which has imported libraries."""

    code = "LIBRARIES=colorsys,numpy"

    def paths(self) -> list[Path]:
        return sorted(self.folder.glob(f"{self.code.partition('=')[2]}-*"))

    def servers(self) -> list[int]:
        line = ["pgrep", "-f", f"serve --folder {self.folder}/"]
        found = subprocess.run(line, capture_output=True, text=True, check=False)
        return [int(line) for line in found.stdout.split()]


@pytest.fixture
def shared(tmp_path, monkeypatch):
    made = Shared(tmp_path, monkeypatch)
    yield made
    made.process.kill()
    made.process.wait()
    wait_until(lambda: not made.servers(), "the shared process outlived its run")


EXPECTED = (0, f"permafrost {permafrost.__version__}\n", "")


def test_the_first_job_starts_the_process_of_its_libraries_and_all_are_served(shared):
    jobs = [shared.start("--version") for _ in range(4)]
    assert [(*job.communicate(timeout=120), job.returncode) for job in jobs] == [
        (EXPECTED[1], "", 0)
    ] * 4
    (path,) = shared.paths()
    (server,) = shared.servers()
    assert (path / SOCKET).exists() and not (path / BEGUN).exists()
    # what only the libraries need is loaded
    assert "numpy" in Path(f"/proc/{server}/maps").read_text()
    status, _, said = shared.do("bootstrap", "--nonsense")
    assert status == 2 and "usage: permafrost bootstrap" in said
    assert shared.servers() == [server]


def test_jobs_of_other_threads_or_variables_have_a_process_of_their_own(shared):
    shared.do("--version")
    shared.environment["HF_HOME"] = "/elsewhere"
    assert shared.do("--version") == EXPECTED
    shared.environment["SNAKEMAKE_NUMBER"] = "1"
    shared.do("--version")
    assert len(shared.paths()) == len(shared.servers()) == 2
    # refused by the command, but by one of two threads
    assert shared.do("knn", "--threads", "2")[0] == 2
    assert [path.name.split("-")[1] for path in shared.paths()] == ["1", "1", "2"]


def test_runs_of_a_session_share_a_process_also_for_their_light_jobs(shared):
    shared.environment |= {SESSION: shared.environment[RUN], RUN: this_process()}
    assert shared.do("--version") == EXPECTED
    shared.environment[RUN] = f"{os.getpid()}-1"
    assert shared.do("--version") == EXPECTED
    assert len(shared.servers()) == 1
    shared.code = "code"
    assert shared.do("--version") == EXPECTED
    assert len(shared.servers()) == 2 and len(list(shared.folder.glob(f"{OF_LIGHT_JOBS}-*"))) == 1
    # without a run, jobs are to be processes of their own
    del shared.environment[RUN]
    shared.code = "LIBRARIES=colorsys"
    assert shared.do("--version") == EXPECTED and len(shared.servers()) == 2


def test_a_process_of_more_libraries_is_a_fork_of_one_of_fewer_and_outlives_it(shared):
    assert shared.do("--version") == EXPECTED
    (fewer,) = shared.servers()
    shared.code += ",wave"
    assert shared.do("--version") == EXPECTED
    (more,) = set(shared.servers()) - {fewer}
    (path,) = shared.paths()
    assert (path / LOCK).read_text() == str(more)
    command = [Path(f"/proc/{process}/cmdline").read_bytes() for process in (fewer, more)]
    assert command[0] == command[1] and b"wave" not in command[0]
    os.kill(fewer, signal.SIGKILL)
    assert shared.do("--version") == EXPECTED
    assert shared.servers() == [more]


def test_a_job_runs_the_library_of_its_own_path(shared, tmp_path):
    shared.do("--version")
    copied = shutil.copytree(
        PACKAGE, tmp_path / "copy/permafrost", ignore=shutil.ignore_patterns("*.pyc")
    )
    about = copied / "__init__.py"
    about.write_text(about.read_text() + '\n__version__ = "of the copy"\n')
    before = shared.environment["PYTHONPATH"]
    shared.environment["PYTHONPATH"] = str(copied.parent)
    assert shared.do("--version") == (0, "permafrost of the copy\n", "")
    shared.environment["PYTHONPATH"] = before
    assert shared.do("--version") == EXPECTED
    assert len(shared.servers()) == 1


@pytest.mark.parametrize(
    "lost", ["killed", "refused", "never started", "run has ended", "elsewhere"]
)
def test_without_their_process_jobs_run_directly(shared, lost):
    if lost == "run has ended":
        shared.process.kill()
        shared.process.wait()
    elif lost == "elsewhere":
        shared.environment[RUN] = "1-1"
    else:
        shared.do("--version")
        (path,) = shared.paths()
        (server,) = shared.servers()
        os.kill(server, signal.SIGKILL)
        wait_until(lambda: not shared.servers(), "it was not killed")
        if lost != "killed":
            (path / SOCKET).unlink()
        if lost == "refused":
            (path / LOCK).unlink()
            (path / REFUSES).touch()
    assert shared.do("--version") == EXPECTED
    assert shared.do("botstrap")[0] == 2
    assert not shared.servers()


def test_a_process_with_a_thread_refuses_and_is_not_started_again(shared, tmp_path):
    (tmp_path / "with_thread.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
    )
    shared.code = "LIBRARIES=with_thread"
    shared.environment["PYTHONPATH"] += f"{os.pathsep}{tmp_path}"
    assert shared.do("--version") == EXPECTED
    (path,) = shared.paths()
    assert (path / REFUSES).exists()
    wait_until(lambda: not shared.servers(), "it serves nobody and stays")
    assert shared.do("--version") == EXPECTED and not shared.servers()
