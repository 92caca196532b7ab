"""The process that fuzzes one reader: inside.py READER CPU_SECONDS CORPUS FOUND WORK; `__main__` starts it."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import atheris

# the readers' own branches, and those of parsers in Python
_COUNTED = ["permafrost", "PIL", "yaml", "zarr"]
# CPU seconds for shortening one finding
_SHORTENING_S = 30


class Session:
    """Executions and findings of this process."""

    def __init__(self, name: str, seconds: float, found: Path, work: Path) -> None:
        from helpers.fuzzing import kept, reader_of
        from helpers.fuzzing.bounds import Finding, attempt

        self.reader, self.seconds, self.found, self.work = reader_of(name), seconds, found, work
        self._attempt, self._finding = attempt, Finding
        self.seeds = [*self.reader.seeds(), *(path.read_bytes() for path in kept(name))]
        self.executions = 0
        self._known: dict[str, int] = {}

    def one(self, data: bytes) -> None:
        """Try one input; ends the process when its time is over."""
        self.executions += 1
        finding = self.finding_of(data)
        if finding is not None:
            self._keep(finding, data)
        if self.executions % 64 == 0:
            over = time.process_time() > self.seconds
            if over or self.executions % 1024 == 0:
                self.work.joinpath("state.json").write_text(
                    json.dumps({"executions": self.executions})
                )
            if over:
                os._exit(0)

    def finding_of(self, data: bytes):
        try:
            self._attempt(self.reader.read, data, self.reader.accepted)
        except self._finding as finding:
            return finding
        return None

    def _keep(self, finding, data: bytes) -> None:
        """Keep the shortest input of each kind and place."""
        name = f"{finding.kind}-{hashlib.sha256(finding.place.encode()).hexdigest()[:8]}"
        first = name not in self._known
        if not first and len(data) >= self._known[name]:
            return
        if first and finding.kind == "exception":
            data = self._shortened(data, finding.place)
        self._known[name] = len(data)
        path = self.found / name
        if path.exists() and len(path.read_bytes()) <= len(data):
            return
        path.write_bytes(data)
        path.with_name(f"{name}.txt").write_text(str(finding))

    def _shortened(self, data: bytes, place: str) -> bytes:
        """The input without all that the same finding does not need."""
        until, size = time.process_time() + _SHORTENING_S, len(data) // 2
        while size and time.process_time() < until:
            start = 0
            while start < len(data) and time.process_time() < until:
                shorter = data[:start] + data[start + size :]
                finding = self.finding_of(shorter)
                if finding is not None and finding.place == place:
                    data = shorter
                else:
                    start += size
            size //= 2
        return data


def main(name: str, seconds: str, corpus: str, found: str, work: str) -> None:
    os.nice(19)
    scratch = Path(work, "scratch")
    scratch.mkdir(exist_ok=True)
    tempfile.tempdir = os.environ["TMPDIR"] = str(scratch)
    warnings.simplefilter("ignore")
    with atheris.instrument_imports(include=_COUNTED):
        session = Session(name, float(seconds), Path(found), Path(work))
        # what is imported late is imported here
        for number, seed in enumerate(session.seeds):
            Path(corpus, f"seed-{number:03d}").write_bytes(seed)
            session.one(seed)
    from helpers.fuzzing.bounds import limit_memory

    limit_memory()
    words = Path(work, "words")
    words.write_text("\n".join(_quoted(word) for word in session.reader.words))
    longest = max(map(len, session.seeds))
    atheris.Setup(
        [
            sys.argv[0],
            corpus,
            *([f"-dict={words}"] if session.reader.words else []),
            f"-artifact_prefix={work}/",
            f"-max_len={max(2048, 2 * longest)}",
            # real seconds, of an input that does not return to Python; `bounds` counts CPU seconds
            "-timeout=600",
            # `limit_memory` bounds it
            "-rss_limit_mb=0",
        ],
        session.one,
    )
    atheris.Fuzz()


def _quoted(word: str) -> str:
    """A word of libFuzzer's dictionary."""
    return (
        '"'
        + "".join(
            c if c.isalnum() else "".join(f"\\x{b:02x}" for b in c.encode("latin-1")) for c in word
        )
        + '"'
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
