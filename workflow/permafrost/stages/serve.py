"""``permafrost serve``: a preloaded process that runs short jobs of one run without import time.

All its jobs have the same hash of sources. A job is a fork of this process with the folder,
environment, files and command line of its client (`light_client`). It ends with its client, and its
failure does not affect others. The process has one thread, imports the modules that its jobs have
needed, and ends with the run or after a minute without jobs. It takes no job after a source file
has changed.

With ``--libraries`` it imports these alone. Its jobs may be of any sources, also of another copy of
this library, which each of them imports anew.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from permafrost.core.opened import is_library
from permafrost.operate.light_client import (
    LOCK,
    REFUSES,
    RUN,
    SOCKET,
    THREADS,
    address_of,
    receive,
)
from permafrost.stages.cli import main

_IDLE = 60  # seconds without jobs until it ends; each process uses about 100 MB
_PATIENCE = 10  # seconds for a job to end after its client is gone
_SLOWEST = 10  # seconds for a client to send its request
_PACKAGE = Path(__file__).parents[1]
# never imported here: these may start threads or open devices, which do not survive a fork
_NEVER = {"torch", "triton", "jax", "tensorflow"}
_DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG


def add_arguments(parser) -> None:
    parser.add_argument("--folder", type=Path, required=True, help="folder of the socket")
    parser.add_argument("--libraries", default="", help="modules to import, with commas")
    parser.add_argument(
        "--detached", action="store_true", help="return at once, and serve in another process"
    )


def run(arguments) -> None:
    if not arguments.detached:
        _run(arguments)
    elif _detach(arguments.folder):
        # never return: the callers are those of the job
        try:
            _run(arguments)
        finally:
            os._exit(0)


def _run(arguments) -> None:
    sources = _sources()
    libraries = [name for name in arguments.libraries.split(",") if name]
    if not libraries:
        _import_all(["numpy", "pyarrow.parquet", "permafrost.stages.cli"])
    server = _Server(arguments.folder, sources, learns=not libraries)
    try:
        # after the socket is there, so that jobs wait instead of importing them too
        _import_all(libraries)
        if server.run is not None:
            server.serve()
    finally:
        server.close()
        if server.run is None:
            shutil.rmtree(arguments.folder, ignore_errors=True)


@dataclass
class _Job:
    """A running job.

    Attributes
    ----------
    process : its process number.
    ended : descriptor that is readable after its end.
    client : connection to its client.
    told : descriptor for reading the names of modules that it imported; names : those read so far.
    deadline : time to kill it after its client is gone; None: the client is alive.
    """

    process: int
    ended: int
    client: socket.socket
    told: int
    names: bytes = b""
    deadline: float | None = None


@dataclass
class _Server:
    """Forks a process for each job that a client sends.

    Attributes
    ----------
    folder : folder of the socket.
    sources : file of the library -> its state when this process started.
    learns : whether it imports the modules that its jobs have imported.
    jobs : the running jobs.
    open : whether new jobs are accepted.
    """

    folder: Path
    sources: dict[str, tuple[int, int]]
    learns: bool = True
    jobs: list[_Job] = field(default_factory=list)
    open: bool = True

    def __post_init__(self) -> None:
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        (self.folder / SOCKET).unlink(missing_ok=True)
        self.listener.bind(address_of(self.folder))
        self.listener.listen(256)
        self.run = _opened_run(os.environ.get(RUN, ""))

    def close(self) -> None:
        """Accept no more jobs; another process may be started for later ones."""
        self.open = False
        self.listener.close()
        for name in (SOCKET, LOCK):
            (self.folder / name).unlink(missing_ok=True)

    def serve(self) -> None:
        """Run jobs until the run has ended, or no job came for `_IDLE` seconds."""
        idle_since = time.monotonic()
        while self.open or self.jobs:
            if self.jobs:
                idle_since = time.monotonic()
            elif time.monotonic() - idle_since > _IDLE:
                return
            for descriptor in self._wait():
                if self.open and descriptor == self.listener.fileno():
                    self._accept()
                elif descriptor == self.run:
                    self.run = None
                    self.close()
            self._look_after()

    def _wait(self) -> list[int]:
        """Readable descriptors, after at most one second."""
        poll = select.poll()
        watched = [self.listener.fileno()] if self.open else []
        watched += [] if self.run is None else [self.run]
        for job in self.jobs:
            watched += [job.ended, job.told]
            watched += [job.client.fileno()] if job.deadline is None else []
        for descriptor in watched:
            poll.register(descriptor, select.POLLIN)
        return [descriptor for descriptor, _ in poll.poll(1000)]

    def _accept(self) -> None:
        """Fork a client's job; if that is not possible, the client gets no answer and runs it."""
        client, _ = self.listener.accept()
        client.settimeout(_SLOWEST)
        try:
            request, descriptors = receive(client)
        except (OSError, ValueError):
            client.close()
            return
        if self._may_fork():
            self.jobs.append(_fork(request, descriptors, client, anew=not self.learns))
        else:
            # before the client gets no answer, after which it may start another process
            self.close()
            client.close()
        for descriptor in descriptors:
            os.close(descriptor)

    def _may_fork(self) -> bool:
        """Whether the loaded sources are unchanged on disk, and a fork of this process is whole.

        Threads and open devices do not survive a fork.
        """
        loaded = _files_loaded()
        if self.learns and any(self.sources.get(file) != _state(file) for file in loaded):
            return False
        whole = len(os.listdir("/proc/self/task")) == 1 and not _has_gpu_open()
        if not whole:
            # another process would not be either
            (self.folder / REFUSES).touch()
        return whole

    def _look_after(self) -> None:
        """Answer clients whose jobs have ended, and end jobs whose clients have gone."""
        now = time.monotonic()
        for job in list(self.jobs):
            job.names += _read(job.told)
            if _is_ready(job.ended):
                self.jobs.remove(job)
                self._end(job)
            elif job.deadline is None and _is_ready(job.client.fileno()):
                # clients send nothing after the request, so this one has closed the connection
                job.deadline = now + _PATIENCE
                _kill(job, signal.SIGTERM)
            elif job.deadline is not None and now > job.deadline:
                _kill(job, signal.SIGKILL)

    def _end(self, job: _Job) -> None:
        _, waited = os.waitpid(job.process, 0)
        status = os.waitstatus_to_exitcode(waited)
        with contextlib.suppress(OSError):
            # 128 + signal, as in a shell
            job.client.sendall(b"%d" % (status if status >= 0 else 128 - status))
        job.names += _read(job.told)
        job.client.close()
        os.close(job.told)
        os.close(job.ended)
        if status == 0 and self.learns:
            _import_all(job.names.decode().split())


def _detach(folder: Path) -> bool:
    """Go on in a fork of this process, which outlives it and has none of its files; whether this is the fork.

    This process is a job of another that has imported some of the libraries.
    """
    if process := os.fork():
        (folder / LOCK).write_text(str(process))
        return False
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    return True


def _sources() -> dict[str, tuple[int, int]]:
    return {str(path): _state(str(path)) for path in _PACKAGE.rglob("*.py")}


def _state(file: str) -> tuple[int, int] | None:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _files_loaded() -> list[str]:
    """Files of the library's modules that this process has imported."""
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    root = f"{_PACKAGE}{os.sep}"
    return [file for file in files if file and file.startswith(root)]


def _has_gpu_open() -> bool:
    """Whether a library has opened a GPU of NVIDIA."""
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{descriptor}").startswith("/dev/nvidia"):
                return True
    return False


def _opened_run(text: str) -> int | None:
    """A descriptor that is readable after the run has ended; None: the run does not exist."""
    process, _, began = text.partition("-")
    try:
        found = os.pidfd_open(int(process))
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return None
    return found if fields[19] == began else None


def _fork(request: list[str], descriptors: list[int], client: socket.socket, *, anew: bool) -> _Job:
    told, tell = os.pipe()
    process = os.fork()
    if not process:
        status = 1
        try:
            status = _run_job(request, descriptors, tell, anew=anew)
        finally:
            os._exit(status)
    os.close(tell)
    os.set_blocking(told, False)
    return _Job(process, os.pidfd_open(process), client, told)


def _run_job(request: list[str], descriptors: list[int], tell: int, *, anew: bool) -> int:
    """Run the job in its forked process as its client would; returns the exit status.

    Parameters
    ----------
    anew : import this library again, from where the job has it.
    """
    server = os.getppid()
    ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != server:
        return 1
    os.setpgid(0, 0)
    for place, descriptor in enumerate(descriptors):
        os.dup2(descriptor, place)
    os.closerange(3, tell)
    os.closerange(tell + 1, os.sysconf("SC_OPEN_MAX"))
    folder, count, *rest = request
    argv, environment = rest[: int(count)], rest[int(count) :]
    ours = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ.clear()
    os.environ.update(dict(line.split("=", 1) for line in environment))
    before, status = set(sys.modules), 1
    # the server's temporary folder may be another
    tempfile.tempdir = None
    if argv[:1] != ["serve"]:
        _set_threads()
    sys.argv = ["permafrost", *argv]
    try:
        os.chdir(folder)
        status = (_imported_anew(ours) if anew else main)(argv)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    # a list: asking where a module lies may import others
    new = [name for name in list(sys.modules) if name not in before and not _is_users(name)]
    if not _NEVER & {name.partition(".")[0] for name in new}:
        _write(tell, "\n".join(new).encode())
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    return status


def _imported_anew(before: list[str]) -> Callable[[list[str]], int]:
    """`permafrost.stages.cli.main` from the job's PYTHONPATH instead of the folders `before`."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "permafrost"]:
        del sys.modules[name]
    now = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    # the first is the folder of the script
    sys.path[1:] = [*now, *(folder for folder in sys.path[1:] if folder not in before)]
    importlib.invalidate_caches()
    return importlib.import_module("permafrost.stages.cli").main


def _set_threads() -> None:
    """Let libraries that were loaded with one thread use as many as the job's variables say."""
    threads = os.environ.get(THREADS[0], "1")
    if threads.isdecimal() and int(threads) > 1:
        from threadpoolctl import threadpool_limits

        threadpool_limits(int(threads), user_api="blas")


def _is_users(name: str) -> bool:
    """Whether a module is the user's: each job loads it anew, and keeps which files it reads."""
    file = getattr(sys.modules[name], "__file__", None)
    return file is not None and not is_library(file)


def _import_all(names: list[str]) -> None:
    """Import the modules that a job had imported, for the next jobs."""
    for name in names:
        try:
            __import__(name)
        except Exception:  # a job may have created modules that cannot be imported
            continue


def _kill(job: _Job, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(job.process, number)


def _is_ready(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], 0)[0])


def _read(descriptor: int) -> bytes:
    """The bytes that can be read now; may be empty."""
    try:
        return os.read(descriptor, 1 << 20)
    except BlockingIOError:
        return b""


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
