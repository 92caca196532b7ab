"""Run a short job in a preloaded process of its run, in a worker, or directly.

Called as ``python -I -S light_client.py CODE COMMAND …``, where CODE is the hash of the job's
sources. Each CODE has its own preloaded process (`permafrost.stages.serve`), so a job finds only
modules imported that its own code imports. The fourth job of a CODE starts this process. Jobs never
wait for it: until it answers, they are forks of a process with the libraries of all light jobs.
Imports are kept few, because every short job pays for them; ``socket`` alone takes longer than
starting Python.

Jobs of images, networks and the page take seconds to import their libraries. ``LIBRARIES=torch,…``
in place of CODE names these (`permafrost.plan.preloaded`). Jobs with the same libraries share a
process that has imported them. The first of these jobs starts the process, and they wait for it.
Each imports Permafrost itself.

Where a job says what it asks for (`ASKS`), it runs in a worker (`permafrost.operate.light_workers`),
and never on this machine.
"""

import _socket
import array
import binascii
import os
import sys
import time

#: variable with the process of the run (number and start time); if unset, jobs run directly
RUN = "PERMAFROST_WARM_RUN"
#: variable with a process, such as a suite of tests, whose runs share the processes of libraries; if unset, each
#: run has its own
SESSION = "PERMAFROST_WARM_SESSION"
#: variable with the folder of the socket of the run's workers
WORKERS = "PERMAFROST_WORKERS"
#: variable with what a job asks of a worker, as JSON
ASKS = "PERMAFROST_ASKS"
STARTED_BY = 4  # which job of a code starts the preloaded process, which costs as much as it saves three jobs
SOCKET, BEGUN, LOCK, REFUSES = "socket", "begun", "started", "refuses"
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
LIBRARIES = "LIBRARIES="  # before the names of libraries, in place of a code
# what every light job imports; see `permafrost.plan.preloaded`
OF_LIGHT_JOBS = "numpy,pyarrow.parquet,pydantic"
# variables that differ between jobs or shells, and that no library reads when it is imported
_OF_JOB = ("PERMAFROST_", "SNAKEMAKE_", "PYTEST_", "TMP", "TEMP", "PWD", "OLDPWD", "SHLVL", "_")
_STARTS_WITHIN = 30  # seconds for a process to accept connections


def this_process():
    """Number and start time of this process, as `RUN` names the process of a run."""
    with open("/proc/self/stat") as stat:
        return f"{os.getpid()}-{stat.read().rpartition(')')[2].split()[19]}"


def folder_of(run):
    """The folder of the sockets of a run's preloaded processes; only this user may enter it.

    Machines may share the folder above it.
    """
    base = os.environ.get("TMPDIR") or "/tmp"
    return os.path.join(base, f"permafrost-{os.getuid()}-{run}-{os.uname().nodename}")


def own_folder(path):
    """Create the folder if missing; whether it exists and only this user can use it."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    except OSError:
        return False
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return found.st_uid == os.getuid() and found.st_mode & 0o170077 == 0o040000


def address_of(path):
    """The address of the socket in a folder, through an open descriptor.

    Paths of sockets may have at most 107 bytes.
    """
    return f"/proc/self/fd/{os.open(path, os.O_RDONLY | os.O_DIRECTORY)}/{SOCKET}"


def serve(path, argv, variables=None):
    """Run a job in the preloaded process; its exit status, or None if that process did not run it.

    None: the process does not exist, refuses, or dies.

    variables : of the job, besides those of this process.
    """
    own = {**os.environ, **(variables or {})}
    environment = [f"{name}={value}" for name, value in own.items()]
    lines = [os.getcwd(), str(len(argv)), *argv, *environment]
    text = "\0".join(lines).encode("utf-8", "surrogateescape")
    descriptors = array.array("i", [0, 1, 2])
    try:
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        connection.connect(address_of(path))
        rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptors)
        connection.sendmsg([b"%16d" % len(text)], [rights])
        connection.sendall(text)
        # the job is ended if this process or the preloaded one ends
        answer = connection.recv(16)
    except OSError:
        return None
    return int(answer) if answer else None


def receive(client):
    """Read a request of `serve`: [folder, number of arguments, arguments, environment] and three descriptors.

    Raises
    ------
    ValueError : it is not whole. OSError : the client is too slow, or gone.
    """
    descriptors = array.array("i")
    head, ancillary, _, _ = client.recvmsg(16, _socket.CMSG_SPACE(3 * descriptors.itemsize))
    for level, kind, data in ancillary:
        if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS):
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    if len(descriptors) != 3:
        raise ValueError("a request has three files")
    text, length = b"", int(head)
    while len(text) < length:
        part = client.recv(length - len(text))
        if not part:
            raise ValueError("a client went away")
        text += part
    return text.decode("utf-8", "surrogateescape").split("\0"), descriptors.tolist()


def start(path):
    """Start the preloaded process, once per run, at job number `STARTED_BY`."""
    with open(os.path.join(path, BEGUN), "ab") as begun:
        begun.write(b".")
        begun.flush()
        if os.fstat(begun.fileno()).st_size >= STARTED_BY:
            start_now(path, dict.fromkeys(THREADS, "1"))


def start_now(path, variables, *options, parent=None):
    """Start the preloaded process, unless that was done before.

    parent : folder of another preloaded process; the new one becomes its fork.
    """
    try:
        lock = os.open(os.path.join(path, LOCK), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except OSError:
        return
    command = ["serve", "--folder", path, *options]
    # the fork writes its number into the lock itself
    if parent and serve(parent, [*command, "--detached"], variables) == 0:
        os.close(lock)
        return
    if process := os.fork():
        os.write(lock, b"%d" % process)
        os.close(lock)
        return
    # the process must outlive the job and keep none of its pipes open
    os.close(lock)
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    os.environ.update(variables)
    # the process forks, so pyarrow's allocator must not start a thread
    os.environ["JE_ARROW_MALLOC_CONF"] = "background_thread:false"
    run(command)


def serve_by_code(code, argv):
    """Run a job in the process of its code; None as of `serve`."""
    folder = folder_of(os.environ[RUN])
    path = os.path.join(folder, code)
    if not (own_folder(folder) and own_folder(path)):
        return None
    status = serve(path, argv)
    if status is None:
        start(path)
    return status


def serve_by_libraries(libraries, threads, argv):
    """Run a job in the process that has imported `libraries`, which its first job starts; None as of `serve`."""
    run_of = os.environ.get(SESSION) or os.environ[RUN]
    if not _is_here(run_of):
        return None
    folder = folder_of(run_of)
    path = os.path.join(folder, f"{libraries}-{threads}-{_environment():08x}")
    # as its command sets them, which is too late in a process that has loaded the libraries
    os.environ.update(dict.fromkeys(THREADS, threads))
    if not (own_folder(folder) and own_folder(path)) or os.path.exists(os.path.join(path, REFUSES)):
        return None
    if (status := serve(path, argv)) is not None:
        return status
    # OpenBLAS starts its threads when it is loaded, which a fork would lose; jobs set their number
    variables = {**dict.fromkeys(THREADS, threads), "OPENBLAS_NUM_THREADS": "1", RUN: run_of}
    start_now(path, variables, "--libraries", libraries, parent=_parent_of(path, libraries))
    end = time.monotonic() + _STARTS_WITHIN
    while not os.path.exists(os.path.join(path, SOCKET)):
        if time.monotonic() > end or not _is_starting(path):
            return None
        time.sleep(0.02)
    return serve(path, argv)


def _parent_of(path, libraries):
    """The folder of the process that has imported the most of the first `libraries`; None if there is none."""
    folder, own = os.path.split(path)
    suffix, names = own.removeprefix(libraries), libraries.split(",")
    for count in range(len(names) - 1, 0, -1):
        other = os.path.join(folder, f"{','.join(names[:count])}{suffix}")
        if os.path.exists(os.path.join(other, SOCKET)):
            return other
    return None


def _is_starting(path):
    """Whether the process that holds the lock exists."""
    try:
        with open(os.path.join(path, LOCK)) as lock:
            process = lock.read()
    except OSError:
        return False
    # its number is written a moment after the lock is made
    return not process or os.path.exists(f"/proc/{process}")


def _is_here(run_of):
    """Whether the process of the run is one of this machine."""
    process, _, began = run_of.partition("-")
    try:
        with open(f"/proc/{process}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[19] == began
    except OSError:
        return False


def _environment():
    """A checksum of the variables that a library may read when it is imported."""
    variables = dict(os.environ)
    # where this library lies is no matter
    folders = variables.pop("PYTHONPATH", "").split(os.pathsep)
    kept = [folder for folder in folders if not os.path.exists(f"{folder}/permafrost")]
    kept += [f"{name}={text}" for name, text in variables.items() if not name.startswith(_OF_JOB)]
    return binascii.crc32("\0".join(sorted(kept)).encode("utf-8", "surrogateescape"))


def run(argv):
    """Replace this process by the ``permafrost`` command."""
    os.execvp("permafrost", ["permafrost", *argv])


def work(code, argv):
    """Run a job in a worker; its exit status."""
    folder = os.environ.get(WORKERS, "")
    status = serve(folder, [code, *argv]) if folder and own_folder(folder) else None
    if status is None:
        sys.stderr.write("permafrost: error: no worker ran this job: the run has ended\n")
    return 1 if status is None else status


def main(code, argv):
    if ASKS in os.environ:
        return work(code, argv)
    if "--threads" not in argv:
        # the rule requests one core, and the preloaded process uses one thread
        os.environ.update(dict.fromkeys(THREADS, "1"))
    threads = argv[argv.index("--threads") + 1] if "--threads" in argv else "1"
    libraries = code.removeprefix(LIBRARIES) if code.startswith(LIBRARIES) else ""
    status = None
    if RUN in os.environ and threads == "1" and not libraries:
        status = serve_by_code(code, argv)
        libraries = OF_LIGHT_JOBS
    if RUN in os.environ and status is None and libraries:
        status = serve_by_libraries(libraries, threads, argv)
    if status is not None:
        return status
    run(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
