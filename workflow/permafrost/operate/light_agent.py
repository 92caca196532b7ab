"""Run short jobs in an allocation, as lines on standard input ask for them.

The other end is `permafrost.operate.light_workers` in Snakemake's process; where that is another
machine, Slurm's ``srun`` forwards both streams. Each line is a JSON object:

- in: ``{"job", "folder", "argv", "environment"}`` starts a job, ``{"job", "kill": true}`` ends one;
- out: ``{"ready": true}`` once, then ``{"job", "text"}`` (output) and ``{"job", "status"}`` (its end).

A job is a fork of this process that acts as `light_client` does, so jobs of the same code share a
preloaded process. This process ends when standard input does, and its jobs end with it.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import sys
import time
import traceback

from permafrost.operate import light_client

_DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG
_PATIENCE = 10  # seconds for an unwanted job to end
_CHUNK = 1 << 16


class _Job:
    """A running job: its process, a descriptor of its output, and when to kill it (None: never)."""

    def __init__(self, request: dict) -> None:
        self.output, output = os.pipe()
        self.deadline: float | None = None
        self.process = os.fork()
        if not self.process:
            _run(request, output)
        os.close(output)
        self.ended = os.pidfd_open(self.process)

    def kill(self, number: int) -> None:
        self.deadline = time.monotonic() + _PATIENCE
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process, number)


def main() -> None:
    run = light_client.this_process()
    if light_client.RUN in os.environ:
        os.environ[light_client.RUN] = run
    _say(ready=True)
    try:
        _serve({})
    finally:
        shutil.rmtree(light_client.folder_of(run), ignore_errors=True)


def _serve(jobs: dict[int, _Job]) -> None:
    """Start, follow and end jobs until standard input ends."""
    unread = b""
    while True:
        poll = select.poll()
        for descriptor in [0, *(one for job in jobs.values() for one in (job.output, job.ended))]:
            poll.register(descriptor, select.POLLIN)
        ready = {descriptor for descriptor, _ in poll.poll(1000)}
        if 0 in ready:
            read = os.read(0, _CHUNK)
            if not read:
                return
            *lines, unread = (unread + read).split(b"\n")
            for line in lines:
                _obey(json.loads(line), jobs)
        for number, job in list(jobs.items()):
            if job.output in ready:
                _pass_on(number, job)
            if job.ended in ready:
                _end(number, jobs.pop(number))
            elif job.deadline is not None and time.monotonic() > job.deadline:
                job.kill(signal.SIGKILL)


def _obey(request: dict, jobs: dict[int, _Job]) -> None:
    number = request["job"]
    if "argv" in request:
        jobs[number] = _Job(request)
    elif number in jobs:
        jobs[number].kill(signal.SIGTERM)


def _pass_on(number: int, job: _Job) -> bool:
    """Send output that can be read now; whether there was some."""
    read = os.read(job.output, _CHUNK)
    if read:
        _say(job=number, text=read.decode("utf-8", "surrogateescape"))
    return bool(read)


def _end(number: int, job: _Job) -> None:
    _, waited = os.waitpid(job.process, 0)
    status = os.waitstatus_to_exitcode(waited)
    while select.select([job.output], [], [], 0)[0] and _pass_on(number, job):
        pass
    os.close(job.output)
    os.close(job.ended)
    # 128 + signal, as in a shell
    _say(job=number, status=status if status >= 0 else 128 - status)


def _say(**message) -> None:
    line = json.dumps(message).encode() + b"\n"
    while line:
        line = line[os.write(1, line) :]


def _run(request: dict, output: int) -> None:
    """Act as the client of a job, in the forked process; does not return."""
    status = 1
    try:
        ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, signal.SIGKILL)
        os.setpgid(0, 0)
        nowhere = os.open(os.devnull, os.O_RDONLY)
        for place, descriptor in enumerate((nowhere, output, output)):
            os.dup2(descriptor, place)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        os.environ.update(request["environment"])
        os.chdir(request["folder"])
        code, *argv = request["argv"]
        status = light_client.main(code, argv)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    main()
