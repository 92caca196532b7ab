"""Kill whole runs at random moments, type the same command again, and compare all bytes with an undisturbed run.

    envs/run python tests/reliability/kills.py --kills 200

The project is the tests' tiny one. A pass begins without results, is killed a few times, and goes on to its end.
After each kill that ends the driver, the lock is removed and the same command begins again. Then every file of the
results must be that of the undisturbed run, and nothing may be left in TMPDIR or running. Not compared are logs,
members of the archive that hold dates, and the content of pages, which name the seconds of the logs. A wrong file
counts for every mode of its pass. One pass costs about as much as two undisturbed runs.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers.project import Project
from permafrost.operate import light_client

MODES = {
    "group": "kill -9 of the whole process group",
    "job": "kill -9 of one job",
    "client": "kill -9 of the client of a light job",
    "server": "kill -9 of the warm process",
    "driver": "kill -9 of Snakemake alone; its jobs go on",
    "interrupt": "Ctrl-C",
}
# pages, and the stamp with their digests
TIMED = (".html", ".done")
COUNTED = ("differing", "missing", "extra", "leftovers", "survivors", "failed")
MARK = "PERMAFROST_KILLS"
# seconds: for Ctrl-C to end a run, and for processes of a run to end after it
_PATIENCE = 600
_POLL = 0.05


@dataclass
class Outcome:
    """Kills of one pass by mode, and what was wrong at its end."""

    kills: Counter = field(default_factory=Counter)
    wrong: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in COUNTED})


class Runs:
    """Runs of one project in a folder of its own, with a TMPDIR of its own."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder, self.chance, self.counts = folder, chance, Counter()
        self.project = Project(folder / "project")
        self.temporary = folder / "tmp"
        self.results = self.project.path("results")
        self.log = folder / "output.txt"
        begun = time.monotonic()
        self._start().wait()
        self.seconds = time.monotonic() - begun
        self.expected = contents(self.results)
        # caches of other libraries
        self.usual = {path.name for path in self.temporary.iterdir()}
        if not self.expected:
            sys.exit(f"the undisturbed run failed:\n{self.log.read_text()[-3000:]}")

    def one_pass(self, kills: int) -> Outcome:
        """Begin without results, kill at most so many times, go on to the end, compare."""
        for path in (self.results, self.project.path(".snakemake")):
            shutil.rmtree(path, ignore_errors=True)
        outcome, driver, status = Outcome(), None, 1
        while sum(outcome.kills.values()) < kills and status:
            driver = driver or self._start()
            mode, ended = self._kill(driver)
            outcome.kills.update([mode] if mode else [])
            if ended:
                status, driver = driver.returncode, None
        # a run whose job was killed goes on with the others, and fails
        status = driver.wait() if driver is not None else status
        left = self._age_leftovers()
        if (status or left) and self._start().wait():
            outcome.wrong["failed"].append(self.log.read_text(errors="replace")[-3000:])
        self._compare(outcome)
        return outcome

    def _age_leftovers(self) -> bool:
        """Let what lies in TMPDIR be hours old, so that the next run removes it; whether there is any."""
        left = list(self.temporary.iterdir())
        for path in left:
            os.utime(path, (time.time() - 9000,) * 2)
        return any(path.name.startswith("permafrost-") for path in left)

    def _start(self) -> subprocess.Popen:
        # what the user does after a kill
        shutil.rmtree(self.project.path(".snakemake/locks"), ignore_errors=True)
        self.temporary.mkdir(exist_ok=True)
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.project.path("workflow")),
            "TMPDIR": str(self.temporary),
            MARK: str(self.folder),
        }
        # of the tests' own session: as for a user, what a run starts ends with the run
        for name in ("SNAKEMAKE_PROFILE", light_client.SESSION):
            environment.pop(name, None)
        with open(self.log, "ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "snakemake", "--profile", "local", "all", "archive"],
                cwd=self.project.folder,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _kill(self, driver: subprocess.Popen) -> tuple[str | None, bool]:
        """Kill at a random moment. Returns the mode, None if the run ended before; and whether the driver has ended."""
        until = time.monotonic() + self.chance.uniform(0, 0.6 * self.seconds)
        while time.monotonic() < until and driver.poll() is None:
            time.sleep(_POLL)
        # the rarest mode so far, if there is something to kill soon; else the next
        modes = sorted(MODES, key=lambda mode: (self.counts[mode], self.chance.random()))
        until += 0.1 * self.seconds
        while driver.poll() is None:
            for mode in modes[: 1 if time.monotonic() < until else None]:
                if victims := self._victims(driver, mode):
                    self.counts[mode] += 1
                    return mode, self._end(driver, mode, victims)
            time.sleep(_POLL)
        return None, True

    def _end(self, driver: subprocess.Popen, mode: str, victims: list[int]) -> bool:
        """Whether the driver has ended."""
        with contextlib.suppress(ProcessLookupError):
            if mode == "group":
                os.killpg(driver.pid, signal.SIGKILL)
            elif mode == "interrupt":
                os.killpg(driver.pid, signal.SIGINT)
            else:
                os.kill(self.chance.choice(victims), signal.SIGKILL)
        if mode not in ("group", "driver", "interrupt"):
            return False
        driver.wait(_PATIENCE)
        # its jobs may still run when the next command begins
        time.sleep(self.chance.uniform(0, 5) if mode == "driver" else 0)
        return True

    def _victims(self, driver: subprocess.Popen, mode: str) -> list[int]:
        if mode in ("group", "driver", "interrupt"):
            return [driver.pid]
        found = []
        for pid, command in self.processes():
            names = [Path(part).name for part in command[:8]]
            client = "light_client.py" in names
            called = names[names.index("permafrost") + 1 :][:1] if "permafrost" in names else []
            kind = (
                "client" if client else "server" if called == ["serve"] else "job" if called else ""
            )
            if kind == mode:
                found.append(pid)
        # the first is the warm process, the others are jobs that it forked
        return found[:1] if mode == "server" else found

    def processes(self) -> Iterator[tuple[int, list[str]]]:
        """Process ids and commands of all processes of these runs."""
        mark = f"{MARK}={self.folder}".encode()
        for path in sorted(Path("/proc").glob("[0-9]*"), key=lambda one: int(one.name)):
            with contextlib.suppress(OSError):
                if mark in (path / "environ").read_bytes().split(b"\0"):
                    command = (path / "cmdline").read_bytes().decode(errors="replace")
                    yield int(path.name), command.split("\0")

    def _compare(self, outcome: Outcome) -> None:
        wrong, found = outcome.wrong, contents(self.results)
        wrong["missing"] = sorted(self.expected.keys() - found.keys())
        wrong["extra"] = sorted(found.keys() - self.expected.keys())
        both = found.keys() & self.expected.keys()
        wrong["differing"] = sorted(name for name in both if found[name] != self.expected[name])
        until = time.monotonic() + _PATIENCE
        while (left := list(self.processes())) and time.monotonic() < until:
            time.sleep(1)
        wrong["survivors"] = [f"{pid} {' '.join(command)[:200]}" for pid, command in left]
        for pid, _ in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wrong["leftovers"] = sorted(
            path.name
            for path in self.temporary.iterdir()
            # Snakemake's own folder of a killed driver
            if path.name not in self.usual and not path.name.startswith("snakemake")
        )
        shutil.rmtree(self.temporary)


def contents(results: Path) -> dict[str, str]:
    """Path or member of the archive to SHA-256, without logs; of what holds dates or seconds, that of no bytes."""
    found = {}
    for path in results.rglob("*"):
        name = path.relative_to(results).as_posix()
        if not path.is_file() or name.startswith("logs/"):
            continue
        if name.startswith("archive/") and path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                for member in archive.namelist():
                    kept = member.startswith("results/") and not member.endswith(TIMED)
                    own = archive.read(member) if kept else b""
                    found[f"{name}: {member}"] = hashlib.sha256(own).hexdigest()
        elif not name.startswith("archive/"):
            own = b"" if name.endswith(TIMED) else path.read_bytes()
            found[name] = hashlib.sha256(own).hexdigest()
    return found


def table(passes: list[Outcome]) -> str:
    """Markdown: one row for each mode, and the sum."""
    lines = [f"| mode | kills | {' | '.join(COUNTED)} |", f"|---|{'--:|' * (1 + len(COUNTED))}"]
    for mode, words in [*MODES.items(), (None, "all")]:
        concerned = [one for one in passes if mode is None or one.kills[mode]]
        kills = sum(one.kills[mode] if mode else one.kills.total() for one in concerned)
        counts = [sum(len(one.wrong[name]) for one in concerned) for name in COUNTED]
        lines.append(f"| {words} | {kills} | {' | '.join(map(str, counts))} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--per-pass", type=int, default=5, help="most kills before a run may end")
    parser.add_argument("--seed", type=int, default=None, help="of modes and moments")
    parser.add_argument(
        "--folder", type=Path, default=None, help="kept; by default a temporary one"
    )
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        runs, passes, done = Runs(folder.resolve(), random.Random(options.seed)), [], 0
        print(f"undisturbed: {len(runs.expected)} files, {runs.seconds:.0f} s", flush=True)
        while done < options.kills:
            passes.append(runs.one_pass(min(options.per_pass, options.kills - done)))
            done += passes[-1].kills.total()
            bad = {name: texts for name, texts in passes[-1].wrong.items() if texts}
            words = " ".join(f"{mode} {count}" for mode, count in passes[-1].kills.items())
            print(f"pass {len(passes)}: {done} kills ({words}) {bad or 'all equal'}", flush=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(table(passes))
    print(f"{(used.ru_utime + used.ru_stime) / max(done, 1):.0f} CPU s for each kill")
    return 1 if any(texts for one in passes for texts in one.wrong.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
