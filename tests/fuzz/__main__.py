"""Fuzz every reader of the library, guided by coverage, and print a table of what was done and found.

    envs/run python tests/fuzz --seconds 600
    envs/run python tests/fuzz --seconds 60 --readers image tiff
    envs/run python tests/fuzz --replay build/fuzz/found/image/exception-1a2b3c4d

`--seconds` are CPU seconds of all readers together; each gets the same share, in a process of its own at the
lowest priority. An input that breaks a promise is shortened and kept in `build/fuzz/found`, with what happened,
and the exit status is 1. What reached new branches is kept in `build/fuzz/corpus`, and the next night begins
with it. `bounds.attempt` of tests/helpers/fuzzing has the promises. A finding that was mended belongs in
`tests/fuzz/corpus/READER`, which the ordinary tests replay.

The library atheris, which counts the branches, is installed into build/fuzz/tools at the first run.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import resource
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parents[1] / "build" / "fuzz"
sys.path.insert(0, str(HERE.parent))

from helpers.fuzzing import NAMES, reader_of  # noqa: E402
from helpers.fuzzing.bounds import Finding, attempt  # noqa: E402

# a reader that dies again and again would otherwise be started for ever
_MOST_DEATHS = 5


@dataclass
class Done:
    """What was done with one reader."""

    name: str
    cpu_s: float = 0.0
    executions: int = 0
    branches: int = 0
    findings: list[str] = field(default_factory=list)


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests/fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600, help="CPU seconds of all readers")
    parser.add_argument("--readers", nargs="+", default=list(NAMES), choices=list(NAMES))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="readers at a time")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="for corpus, findings, table")
    parser.add_argument("--replay", type=Path, help="a kept input; its folder names the reader")
    options = parser.parse_args()
    if options.replay:
        return replay(options.replay)
    tools = install_atheris(options.folder)
    share = options.seconds / len(options.readers)
    with ThreadPoolExecutor(options.jobs) as pool:
        done = list(
            pool.map(lambda name: fuzz(name, share, options.folder, tools), options.readers)
        )
    text = table(done)
    print(text)
    (options.folder / "table.md").write_text(text + "\n")
    return 1 if any(each.findings for each in done) else 0


def replay(path: Path) -> int:
    """Read one input again, and say what happens."""
    reader = reader_of(path.resolve().parent.name)
    # good files are made here, outside the sandbox
    list(reader.seeds())
    try:
        attempt(reader.read, path.read_bytes(), reader.accepted)
    except Finding as finding:
        print(finding)
        return 1
    print("it keeps all promises")
    return 0


def install_atheris(folder: Path) -> Path | None:
    """The folder with atheris; None where the environment has it."""
    if importlib.util.find_spec("atheris") is not None:
        return None
    tools = (folder / "tools").resolve()
    if not (tools / "atheris").is_dir():
        uv = Path(sys.executable).parent / "uv"
        program = [str(uv)] if uv.exists() else [shutil.which("uv") or "uv"]
        command = [*program, "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
        command += ["--python", sys.executable, "--target", str(tools)]
        subprocess.run([*command, "-r", str(HERE / "atheris.lock")], check=True)
    return tools


def fuzz(name: str, seconds: float, folder: Path, tools: Path | None) -> Done:
    """Fuzz one reader for so many CPU seconds, with a new process after each that died."""
    own = {part: folder / part / name for part in ("corpus", "found", "work")}
    for path in own.values():
        path.mkdir(parents=True, exist_ok=True)
    done, deaths = Done(name), 0
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(tools or "")}
    while done.cpu_s < seconds and deaths < _MOST_DEATHS:
        work = own["work"]
        (work / "state.json").unlink(missing_ok=True)
        command = [sys.executable, str(HERE / "inside.py"), name, str(seconds - done.cpu_s)]
        command += [str(own[part]) for part in ("corpus", "found", "work")]
        with open(work / "log.txt", "wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
            _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        done.cpu_s += usage.ru_utime + usage.ru_stime
        take(done, work)
        if process.returncode:
            deaths += 1
            keep_deadly(own["found"], work, process.returncode)
    shutil.rmtree(own["work"] / "scratch", ignore_errors=True)
    done.findings = sorted(path.name for path in own["found"].iterdir() if path.suffix != ".txt")
    return done


def take(done: Done, work: Path) -> None:
    """Add what a process wrote of itself."""
    if (work / "state.json").exists():
        done.executions += json.loads((work / "state.json").read_text())["executions"]
    log = (work / "log.txt").read_text(errors="replace")
    done.branches = max([done.branches, *map(int, re.findall(r"cov: (\d+) ft:", log))])


def keep_deadly(found: Path, work: Path, status: int) -> None:
    """Keep the input during which the process died."""
    last = (work / "log.txt").read_text(errors="replace")[-4000:]
    deadly = [
        path for path in work.iterdir() if path.name.split("-")[0] in ("crash", "timeout", "oom")
    ]
    for path in deadly:
        kept = found / f"death-{path.name[:40]}"
        shutil.move(path, kept)
        kept.with_name(f"{kept.name}.txt").write_text(f"ended with status {status}\n{last}")
    if not deadly:
        (found / "death-without-input").write_bytes(b"")
        (found / "death-without-input.txt").write_text(f"ended with status {status}\n{last}")


def table(done: list[Done]) -> str:
    """Markdown: one row for each reader, and their sum."""
    lines = ["| reader | CPU hours | executions | branches | findings |", "|---|--:|--:|--:|---|"]
    for each in done:
        findings = ", ".join(each.findings) or "none"
        lines.append(
            f"| {each.name} | {each.cpu_s / 3600:.3f} | {each.executions} | {each.branches} | {findings} |"
        )
    hours = sum(each.cpu_s for each in done) / 3600
    count = sum(len(each.findings) for each in done)
    executions = sum(each.executions for each in done)
    return "\n".join([*lines, f"| all | {hours:.3f} | {executions} | | {count} |"])


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.exit(main())
