"""Run the short jobs of a run in allocations of a cluster, from a thread of Snakemake's process.

A worker is one allocation, held by one ``srun``, in which `permafrost.operate.light_agent` runs many
jobs. Their clients (`light_client`) run beside Snakemake and only wait, so a login node computes
nothing. Workers start when jobs wait, share their cores and memory among jobs, and end when idle. If
jobs wait for long although all workers are busy, their number doubles.

If Snakemake itself runs in an allocation, or ``light_jobs_on: driver`` is set, the only worker is a
child process on the same machine.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import shlex
import shutil
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from permafrost.core.cores import usable_cores
from permafrost.operate.light_client import (
    ASKS,
    WORKERS,
    address_of,
    folder_of,
    receive,
    this_process,
)

_CORES = 4  # of one worker: fewer start sooner, and more share one start
_GATHERED = 0.5  # seconds in which jobs come, before the size of a worker is chosen
_IDLE = 20  # seconds without jobs until a worker ends
_BUSY = 30  # seconds that jobs wait for busy workers until more start
_SPARE = 30  # minutes that a worker lives beyond what its first job asks for
_END = 5  # seconds for a worker to end at the end of the run
_SLOWEST = 10  # seconds for a client to send its request
_CHUNK = 1 << 16
#: resource of a rule -> option of srun
_OPTIONS = {
    "slurm_partition": "--partition",
    "slurm_account": "--account",
    "qos": "--qos",
    "constraint": "--constraint",
    "clusters": "--clusters",
}


def asks(resources, threads: int, settings=None) -> str:
    """What a job asks for, as text for its client (`light_client.ASKS`).

    Parameters
    ----------
    resources : Snakemake's resources of the job.
    settings : settings of Snakemake's Slurm executor, which apply to all jobs.
    """
    options = [
        f"{option}={value}"
        for name, option in _OPTIONS.items()
        if (value := resources.get(name) or getattr(settings, name, None))
    ]
    if reservation := getattr(settings, "reservation", None):
        options.append(f"--reservation={reservation}")
    options += shlex.split(resources.get("slurm_extra") or "")
    needs = {
        "memory": resources.get("mem_mb"),
        "minutes": resources.get("runtime"),
        "threads": threads,
    }
    return json.dumps({**needs, "options": options})


@dataclass
class _Request:
    """A job that a client waits for.

    Attributes
    ----------
    folder, argv, environment : of the job; the environment as far as it differs from Snakemake's.
    client : connection to its client; output : descriptor of the client's standard output.
    memory, minutes, threads, options : what it asks for (MB; options of srun).
    since : when it came; gone : whether its client has ended before it.
    """

    folder: str
    argv: list[str]
    environment: dict[str, str]
    client: socket.socket
    output: int
    memory: int
    minutes: int
    threads: int
    options: tuple[str, ...]
    since: float = field(default_factory=time.monotonic)
    gone: bool = False

    def answer(self, status: int, text: str = "") -> None:
        """Tell the client the exit status of its job, and close the connection."""
        with contextlib.suppress(OSError):
            if text:
                os.write(self.output, f"{text}\n".encode())
            self.client.sendall(b"%d" % status)
        self.client.close()
        os.close(self.output)


@dataclass(eq=False)
class _Worker:
    """An allocation.

    Attributes
    ----------
    options : of srun; None for the machine of Snakemake.
    cores, memory : its size; memory in MB.
    minutes : its limit of time, if it has one.
    log : file of what srun and the agent print.
    jobs : number -> job that runs.
    ready_since, idle_since : None before it is ready, or while jobs run.
    """

    options: tuple[str, ...] | None
    cores: int
    memory: int
    minutes: int | None
    log: Path
    jobs: dict[int, _Request] = field(default_factory=dict)
    ready_since: float | None = None
    idle_since: float | None = None
    unread: bytes = b""

    def __post_init__(self) -> None:
        agent = [sys.executable, "-m", "permafrost.operate.light_agent"]
        asked = [f"-c{self.cores}", f"--mem={self.memory}", f"--time={self.minutes}"]
        command = [
            "srun",
            "--job-name=permafrost-light",
            "--mpi=none",
            "-n1",
            *asked,
            *(self.options or ()),
        ]
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("wb") as errors:
            self.process = subprocess.Popen(
                agent if self.options is None else [*command, *agent],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        self.input, self.output = self.process.stdin.fileno(), self.process.stdout.fileno()

    def may_take(self, job: _Request) -> bool:
        """Whether a job may run here once others have ended."""
        used = 0.0 if self.ready_since is None else (time.monotonic() - self.ready_since) / 60
        in_time = self.minutes is None or used + job.minutes <= self.minutes
        here = self.options is None
        fits = job.memory <= self.memory and job.threads <= self.cores
        return in_time and (here or (fits and self.options == job.options))

    def has_room(self, job: _Request) -> bool:
        """Whether a job may start here now; a job larger than this machine runs alone."""
        if self.ready_since is None or not self.may_take(job):
            return False
        memory = sum(one.memory for one in self.jobs.values()) + job.memory
        cores = sum(one.threads for one in self.jobs.values()) + job.threads
        return not self.jobs or (memory <= self.memory and cores <= self.cores)

    def send(self, **message) -> None:
        line = json.dumps(message).encode() + b"\n"
        with contextlib.suppress(BrokenPipeError):
            while line:
                line = line[os.write(self.input, line) :]

    def cause_of_end(self) -> str:
        """The first error in its log, else the first line."""
        lines = self.log.read_text(errors="replace").split("\n")
        errors = [line for line in lines if "error:" in line] or [line for line in lines if line]
        return errors[0] if errors else "no message"

    def end(self) -> None:
        """Ask it to end; `close` waits for that."""
        if self.ready_since is None:
            # a request that waits in the queue does not read
            self.process.terminate()
        with contextlib.suppress(OSError):
            self.process.stdin.close()

    def close(self, patience: float = _END) -> None:
        self.end()
        try:
            self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


class Workers(threading.Thread):
    """Accepts jobs of clients, and runs them in workers.

    Parameters
    ----------
    folder : for the socket; only this user may enter it.
    logs : folder for what Slurm says about each worker.
    here : whether the only worker is a process on this machine.
    """

    def __init__(self, folder: Path, logs: Path, *, here: bool) -> None:
        super().__init__(daemon=True, name="light workers")
        self.logs, self.here = logs, here
        self.waiting: list[_Request] = []
        self.workers: list[_Worker] = []
        self.ending: list[_Worker] = []
        self.cores = _CORES
        self.lost: Counter[tuple[str, ...]] = Counter()
        self.numbers = 0
        self.open = True
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(address_of(folder))
        self.listener.listen(1024)

    def run(self) -> None:
        try:
            while self.open:
                self._step()
        except Exception:
            traceback.print_exc()
        finally:
            self.listener.close()
            for worker in self.workers:
                worker.end()
            # a client without an answer reports that its job did not run
            for job in [*self.waiting, *(j for w in self.workers for j in w.jobs.values())]:
                job.client.close()

    def close(self) -> None:
        """End all workers; called when the run ends."""
        self.open = False
        self.join(_END)
        for worker in [*self.workers, *self.ending]:
            worker.close()

    def _step(self) -> None:
        ready = self._wait()
        if self.listener.fileno() in ready:
            self._accept()
        for worker in list(self.workers):
            if worker.output in ready:
                self._read(worker)
            for number, job in worker.jobs.items():
                if job.client.fileno() in ready:
                    job.gone = True
                    worker.send(job=number, kill=True)
        for job in [one for one in self.waiting if one.client.fileno() in ready]:
            self.waiting.remove(job)
            job.answer(1)
        self._place()
        self._start_and_end_workers()

    def _wait(self) -> set[int]:
        """Readable descriptors, after at most one second."""
        poll = select.poll()
        poll.register(self.listener, select.POLLIN)
        running = [job for worker in self.workers for job in worker.jobs.values()]
        for job in [*self.waiting, *(one for one in running if not one.gone)]:
            poll.register(job.client, select.POLLIN)
        for worker in self.workers:
            poll.register(worker.output, select.POLLIN)
        return {descriptor for descriptor, _ in poll.poll(1000)}

    def _accept(self) -> None:
        client, _ = self.listener.accept()
        client.settimeout(_SLOWEST)
        try:
            (folder, count, *rest), descriptors = receive(client)
        except (OSError, ValueError):
            client.close()
            return
        argv = rest[: int(count)]
        environment = dict(line.split("=", 1) for line in rest[int(count) :])
        asked = json.loads(environment.pop(ASKS))
        changed = {k: v for k, v in environment.items() if os.environ.get(k) != v and k != "TMPDIR"}
        for other in (descriptors[0], descriptors[2]):
            os.close(other)
        # a job that comes again after it failed asks for more, as those of the cluster do
        attempt = 1 + self.lost[tuple(argv)]
        self.waiting.append(
            _Request(
                folder,
                argv,
                changed,
                client,
                descriptors[1],
                memory=asked["memory"] * attempt,
                minutes=asked["minutes"] * attempt,
                threads=asked["threads"],
                options=tuple(asked["options"]),
            )
        )

    def _read(self, worker: _Worker) -> None:
        """Take in what a worker says; output goes to the client, and an end to both sides."""
        read = os.read(worker.output, _CHUNK)
        if not read:
            self._lose(worker)
            return
        *lines, worker.unread = (worker.unread + read).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "ready" in message:
                worker.ready_since = worker.idle_since = time.monotonic()
            elif "text" in message:
                text = message["text"].encode("utf-8", "surrogateescape")
                with contextlib.suppress(OSError):
                    os.write(worker.jobs[message["job"]].output, text)
            else:
                job = worker.jobs.pop(message["job"])
                self.lost[tuple(job.argv)] += message["status"] != 0
                job.answer(message["status"])
                if not worker.jobs:
                    worker.idle_since = time.monotonic()

    def _lose(self, worker: _Worker) -> None:
        """A worker has ended by itself: its jobs have failed, or Slurm refused it."""
        self.workers.remove(worker)
        worker.close()
        cause = worker.cause_of_end()
        for job in worker.jobs.values():
            self.lost[tuple(job.argv)] += 1
            job.answer(1, f"permafrost: error: the allocation of this job has ended ({cause})")
        if worker.ready_since is not None:
            return
        if worker.cores > 1 and not self.here:
            self.cores = worker.cores // 2
            return
        for job in [one for one in self.waiting if one.options == worker.options or self.here]:
            self.waiting.remove(job)
            job.answer(1, f"permafrost: error: Slurm gave no allocation for this job ({cause})")

    def _place(self) -> None:
        """Start waiting jobs where there is room, in the order in which they came."""
        for job in list(self.waiting):
            worker = next((one for one in self.workers if one.has_room(job)), None)
            if worker is None:
                continue
            self.waiting.remove(job)
            self.numbers += 1
            worker.jobs[self.numbers], worker.idle_since = job, None
            worker.send(
                job=self.numbers, folder=job.folder, argv=job.argv, environment=job.environment
            )

    def _start_and_end_workers(self) -> None:
        now = time.monotonic()
        for job in list(self.waiting):
            able = [worker for worker in self.workers if worker.may_take(job)]
            if not able and now - job.since > _GATHERED:
                self._start(job)
            elif not able:
                continue
            elif not self.here and all(
                worker.ready_since is not None and now - max(worker.ready_since, job.since) > _BUSY
                for worker in able
            ):
                for _ in range(min(len(able), -(-len(self.waiting) // self.cores))):
                    self._start(job)
        for worker in [] if self.here else list(self.workers):
            needless = worker.ready_since is None and not self.waiting
            if needless or (worker.idle_since is not None and now - worker.idle_since > _IDLE):
                self.workers.remove(worker)
                self.ending.append(worker)
                worker.end()
        for worker in [one for one in self.ending if one.process.poll() is not None]:
            self.ending.remove(worker)
            worker.close()

    def _start(self, job: _Request) -> None:
        if self.here:
            cores, memory = _cores_here(), _memory_here()
            options = minutes = None
        else:
            alike = sum(one.options == job.options for one in self.waiting)
            several = min(alike, max(1, self.cores // job.threads), _together_on_a_node(job))
            cores, memory = several * job.threads, several * job.memory
            options, minutes = job.options, job.minutes + _SPARE
        log = self.logs / f"light-{os.getpid()}-{time.time_ns()}.log"
        self.workers.append(_Worker(options, cores, memory, minutes, log))


def _together_on_a_node(job: _Request) -> int:
    """How many jobs like this one the largest node of its partition holds; 1 if Slurm does not say.

    A request for more would wait in the queue for ever.
    """
    partition = [one for one in job.options if one.startswith("--partition=")]
    command = ["sinfo", "-h", "-e", "-o", "%c %m", *partition]
    try:
        shown = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
        nodes = [tuple(map(int, line.split())) for line in shown.splitlines()]
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return 1
    held = [min(cores // job.threads, memory // job.memory) for cores, memory in nodes]
    return max([1, *held])


def start_workers(logs: Path, *, here: bool) -> None:
    """Make short jobs of this process's run use workers; they end with it."""
    folder = Path(folder_of(this_process())) / "workers"
    folder.mkdir(mode=0o700, parents=True)
    folder.parent.chmod(0o700)
    workers = Workers(folder, logs, here=here)
    os.environ[WORKERS] = str(folder)
    workers.start()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(workers.close)


def _cores_here() -> int:
    granted = os.environ.get("SLURM_CPUS_ON_NODE", "")
    cores = usable_cores()
    return min(cores, int(granted)) if granted.isdecimal() else cores


def _memory_here() -> int:
    """Megabytes of the allocation on this node, or of the machine."""
    granted = os.environ.get("SLURM_MEM_PER_NODE", "")
    if granted.isdecimal() and int(granted):
        return int(granted)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
