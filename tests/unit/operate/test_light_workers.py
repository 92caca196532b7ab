"""Short jobs in allocations of a cluster whose ``srun`` is a script; test_slurm.py has a real one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from permafrost.operate import light_client, light_workers
from permafrost.operate.light_workers import Workers, asks

# drops what is for Slurm, and becomes the agent
SRUN = f"""#!/bin/sh
echo "$@" >> "$CALLS"
while [ "$1" != {sys.executable} ]; do
    case "$1" in -c*) [ "${{1#-c}}" -le "$LARGEST" ] || {{ echo "srun: error: too large" >&2; exit 1; }} ;; esac
    shift
done
echo $$ >> "$CALLS.pids"
exec "$@"
"""
PROGRAMS = {
    "srun": SRUN,
    "sinfo": "#!/bin/sh\necho 4 16000\n",
    "permafrost": '#!/bin/sh\nexec "$@"\n',
}


class Cluster:
    """A cluster of one node with 4 cores and 16,000 MB, and the workers of a run on it."""

    def __init__(self, folder: Path, monkeypatch) -> None:
        self.folder = folder
        programs = folder / "bin"
        programs.mkdir()
        for name, text in PROGRAMS.items():
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
        monkeypatch.setenv("CALLS", str(folder / "calls"))
        monkeypatch.setenv("LARGEST", "4")
        monkeypatch.delenv(light_client.RUN, raising=False)
        library = Path(light_client.__file__).parents[2]
        monkeypatch.setenv("PYTHONPATH", str(library))
        self.socket = folder / "workers"
        self.socket.mkdir(mode=0o700)
        self.workers: Workers | None = None

    def start(self, *, here: bool = False) -> None:
        self.workers = Workers(self.socket, self.folder / "logs", here=here)
        self.workers.start()

    def client(self, script: str, *, memory: int = 1000, minutes: int = 10, options=()):
        """The client of a job that runs a shell script."""
        asked = {"memory": memory, "minutes": minutes, "threads": 1, "options": options}
        named = {light_client.WORKERS: str(self.socket), light_client.ASKS: json.dumps(asked)}
        command = [sys.executable, "-I", "-S", light_client.__file__, "code", "sh", "-c", script]
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env={**os.environ, **named},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, script: str, **asked) -> tuple[int, str]:
        client = self.client(script, **asked)
        output, _ = client.communicate(timeout=60)
        return client.returncode, output

    @property
    def calls(self) -> list[list[str]]:
        """The arguments of each call of srun."""
        return [line.split() for line in (self.folder / "calls").read_text().splitlines()]

    def await_file(self, name: str) -> None:
        deadline = time.monotonic() + 60
        while not (self.folder / name).exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    made = Cluster(tmp_path, monkeypatch)
    yield made
    if made.workers is not None:
        made.workers.close()


def test_output_and_status_of_a_job_come_back_from_one_allocation(cluster):
    cluster.start()
    assert cluster.run("echo 'a \"b\"'; pwd; echo c >&2; exit 3") == (
        3,
        f'a "b"\n{cluster.folder}\nc\n',
    )
    status, output = cluster.run("head -c 300000 /dev/zero | tr '\\0' x; kill -9 $$")
    assert (status, len(output)) == (137, 300000)
    (call,) = cluster.calls
    assert {"-c1", "--mem=1000", "--time=40"} <= set(call)


def test_jobs_share_an_allocation_and_take_no_more_than_its_memory(cluster):
    cluster.start()
    (cluster.folder / "running").mkdir()
    script = "mkdir running/$$; ls running | wc -l >> together; sleep 0.3; rmdir running/$$"
    clients = [cluster.client(script, memory=6000) for _ in range(6)]
    assert [client.wait(60) for client in clients] == [0] * 6
    assert max(map(int, (cluster.folder / "together").read_text().split())) <= 2
    # the node holds two of them
    assert all(
        int(part[6:]) <= 12000 for call in cluster.calls for part in call if "--mem=" in part
    )


def test_jobs_of_other_partitions_and_larger_ones_have_allocations_of_their_own(cluster):
    cluster.start()
    assert cluster.run("true", options=["--partition=a"])[0] == 0
    assert cluster.run("true", options=["--partition=b"])[0] == 0
    assert cluster.run("true", options=["--partition=a"], memory=9000)[0] == 0
    assert cluster.run("true", options=["--partition=a"], minutes=500)[0] == 0
    asked = [tuple(call[3:]) for call in cluster.calls]
    assert [(one[1], one[2], one[3]) for one in asked] == [
        ("--mem=1000", "--time=40", "--partition=a"),
        ("--mem=1000", "--time=40", "--partition=b"),
        ("--mem=9000", "--time=40", "--partition=a"),
        ("--mem=1000", "--time=530", "--partition=a"),
    ]


def test_a_lost_allocation_fails_its_job_which_then_asks_for_more(cluster):
    cluster.start()
    script = "touch begun; sleep 100"
    client = cluster.client(script)
    cluster.await_file("begun")
    os.kill(int((cluster.folder / "calls.pids").read_text()), signal.SIGKILL)
    output, _ = client.communicate(timeout=60)
    assert client.returncode == 1
    assert output == "permafrost: error: the allocation of this job has ended (no message)\n"
    (cluster.folder / "begun").unlink()
    client = cluster.client(script)
    cluster.await_file("begun")
    client.kill()
    client.communicate()
    assert {"--mem=2000", "--time=50"} <= set(cluster.calls[1])


def test_a_failed_job_leaves_others_alone_and_asks_for_more_when_it_comes_again(cluster):
    cluster.start()
    other = cluster.client("sleep 1; echo whole")
    assert cluster.run("exit 1")[0] == 1
    assert other.communicate(timeout=60) == ("whole\n", None) and other.returncode == 0
    assert cluster.run("exit 1")[0] == 1
    assert "--mem=2000" in cluster.calls[-1]


def test_a_refused_request_is_repeated_for_fewer_cores_and_then_reported(cluster, monkeypatch):
    monkeypatch.setenv("LARGEST", "1")
    cluster.start()
    clients = [cluster.client("true") for _ in range(4)]
    assert [client.wait(60) for client in clients] == [0] * 4
    assert cluster.calls[-1][3] == "-c1"
    monkeypatch.setenv("LARGEST", "0")
    cluster.workers.close()
    (cluster.socket / light_client.SOCKET).unlink()
    cluster.start()
    status, output = cluster.run("touch computed")
    assert status == 1 and "gave no allocation for this job (srun: error: too large)" in output
    assert not (cluster.folder / "computed").exists()


def test_a_job_ends_with_its_client(cluster):
    cluster.start()
    client = cluster.client(
        "touch begun; trap 'touch ended; exit' TERM; while :; do sleep 0.1; done"
    )
    cluster.await_file("begun")
    client.kill()
    client.communicate()
    cluster.await_file("ended")


def test_idle_allocations_are_given_back(cluster, monkeypatch):
    monkeypatch.setattr(light_workers, "_IDLE", 0.2)
    cluster.start()
    assert cluster.run("echo one") == (0, "one\n")
    agent = int((cluster.folder / "calls.pids").read_text())
    deadline = time.monotonic() + 60
    while Path(f"/proc/{agent}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert cluster.run("echo two") == (0, "two\n")
    assert len(cluster.calls) == 2


def test_more_allocations_start_where_jobs_wait(cluster, monkeypatch):
    monkeypatch.setattr(light_workers, "_BUSY", 0.2)
    monkeypatch.setattr(light_workers, "_CORES", 1)
    cluster.start()
    clients = [cluster.client("sleep 4") for _ in range(5)]
    assert [client.wait(60) for client in clients] == [0] * 5
    assert 2 <= len(cluster.calls) <= 5


def test_beside_snakemake_there_is_no_srun(cluster):
    cluster.start(here=True)
    assert cluster.run("echo here", memory=10**9) == (0, "here\n")
    assert not (cluster.folder / "calls").exists()


def test_without_workers_a_job_fails_and_computes_nothing(cluster):
    status, output = cluster.run("touch computed")
    assert status == 1 and output.startswith("permafrost: error: no worker ran this job")
    assert not (cluster.folder / "computed").exists()


def test_all_jobs_end_with_the_run(cluster):
    cluster.start()
    client = cluster.client("touch begun; sleep 100")
    cluster.await_file("begun")
    cluster.workers.close()
    assert client.wait(60) == 1
    agent = int((cluster.folder / "calls.pids").read_text())
    assert not Path(f"/proc/{agent}").exists()


def test_what_a_rule_and_the_profile_say_reaches_srun():
    resources = {"mem_mb": 2000, "runtime": 30, "slurm_partition": "cpu", "slurm_account": "me"}
    extra = {**resources, "slurm_extra": "--nice=5 '--comment=a b'", "constraint": "new"}
    asked = json.loads(asks(extra, 2))
    assert (asked["memory"], asked["minutes"], asked["threads"]) == (2000, 30, 2)
    assert asked["options"] == [
        "--partition=cpu",
        "--account=me",
        "--constraint=new",
        "--nice=5",
        "--comment=a b",
    ]
