"""Runs a light job in a warm process of its run, or directly where there is none.

Called as ``python -I -S light_client.py CODE COMMAND …``, where CODE is the hash of the job's sources: jobs of one code
have a warm process of their own, `permafrost.stages.serve`, so that none finds imported what it would not import. No
job waits for it: the third starts it, and until it answers, and whenever it does not, jobs run as without it. This is
what a job costs beside its work, so it imports little: no ``socket``, which takes longer than starting Python.
"""

import _socket
import array
import os
import sys

#: process of the run (its number, and when it began) that warm processes serve; without it, jobs run directly
RUN = "PERMAFROST_WARM_RUN"
STARTED_BY = 3  # the job of a code that starts its process: for fewer it is not worth its while
SOCKET, BEGUN, LOCK = "socket", "begun", "started"
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def folder_of(run):
    """Where the warm processes of a run listen: a folder that only this user can enter."""
    base = os.environ.get("TMPDIR") or "/tmp"
    return os.path.join(base, f"permafrost-{os.getuid()}-{run}")


def own_folder(path):
    """Whether the folder is there, or could be made, and nobody else can write into it."""
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
    """The address of the socket in a folder, which stays open: a path of more than 107 bytes would be none."""
    return f"/proc/self/fd/{os.open(path, os.O_RDONLY | os.O_DIRECTORY)}/{SOCKET}"


def serve(path, argv):
    """Exit status of a job in the warm process; None where that is not there, refuses, or dies with the job."""
    environment = [f"{name}={value}" for name, value in os.environ.items()]
    lines = [os.getcwd(), str(len(argv)), *argv, *environment]
    text = "\0".join(lines).encode("utf-8", "surrogateescape")
    descriptors = array.array("i", [0, 1, 2])
    try:
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        connection.connect(address_of(path))
        rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptors)
        connection.sendmsg([b"%16d" % len(text)], [rights])
        connection.sendall(text)
        # the job ends with this process, or with the warm one
        answer = connection.recv(16)
    except OSError:
        return None
    return int(answer) if answer else None


def start(path):
    """Start the warm process once in a run, when some jobs have begun."""
    with open(os.path.join(path, BEGUN), "ab") as begun:
        begun.write(b".")
        begun.flush()
        if os.fstat(begun.fileno()).st_size < STARTED_BY:
            return
    try:
        os.close(os.open(os.path.join(path, LOCK), os.O_CREAT | os.O_EXCL, 0o600))
    except OSError:
        return
    if os.fork():
        return
    # outlives the job, and holds none of its pipes open
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    os.environ.update(dict.fromkeys(THREADS, "1"))
    # it forks: the allocator of pyarrow may have no thread
    os.environ["JE_ARROW_MALLOC_CONF"] = "background_thread:false"
    run(["serve", "--folder", path])


def run(argv):
    """Become the command itself."""
    os.execvp("permafrost", ["permafrost", *argv])


def main(code, argv):
    if "--threads" not in argv:
        # one core is what the rule asked for, and the warm process has one
        os.environ.update(dict.fromkeys(THREADS, "1"))
    run_of = os.environ.get(RUN)
    alone = argv[argv.index("--threads") + 1] == "1" if "--threads" in argv else True
    if run_of and alone:
        folder = folder_of(run_of)
        path = os.path.join(folder, code)
        if own_folder(folder) and own_folder(path):
            status = serve(path, argv)
            if status is not None:
                return status
            start(path)
    run(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
