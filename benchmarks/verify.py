"""`permafrost verify` against `sha256sum` over the same files: CPU seconds per gigabyte.

    envs/run python benchmarks/verify.py [--gigabytes 1] [--chunk 1.0] [--repeats 3]

Writes the image stores of one dataset of the demo's plan, of random bytes, into a temporary folder.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from permafrost.core.stores import write_store
from permafrost.plan.catalogue import read_yaml
from permafrost.plan.plan import Plan
from permafrost.plan.record import record_plan
from permafrost.plan.recorded import planned, read_plan

ROW = 1 << 16  # bytes of a sample


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--chunk", type=float, default=1.0, help="megabytes of a chunk's file")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder, "results")
        write_stores(results, arguments.gigabytes, arguments.chunk)
        files = [path for path in results.rglob("*") if path.is_file()]
        size = sum(path.stat().st_size for path in files)
        ours = [sys.executable, "-m", "permafrost.stages.cli", "verify", str(results)]
        peer = ["xargs", "-0", "sha256sum"]
        names = "\0".join(map(str, files)).encode()
        runs = [(cpu_of(ours, b""), cpu_of(peer, names)) for _ in range(arguments.repeats + 1)][1:]
        started = cpu_of([*ours[:-1], "--help"], b"")
    own, other = (statistics.median(column) / size * 1e9 for column in zip(*runs, strict=True))
    print(f"{len(files)} files, {size / 1e9:.2f} GB, {arguments.chunk:g} MB a chunk")
    print(f"permafrost verify {own:.2f} CPU s a GB (its start {started:.2f} s in all)")
    print(f"sha256sum         {other:.2f} CPU s a GB; ratio {own / other:.2f}")


def write_stores(results: Path, gigabytes: float, chunk: float) -> None:
    """Record the demo's plan, and write the three stores of its first dataset."""
    plan = Plan(read_yaml(Path("config/demo.yaml")), Path.cwd())
    recorded = read_plan(record_plan(plan, str(results)))
    rows = int(gigabytes * 1e9 / ROW / 3)
    rows_per_chunk = max(1, int(chunk * 1e6 / ROW))
    values = np.random.default_rng(0).integers(0, 256, (rows_per_chunk, ROW), np.uint8)
    for row in planned(recorded, "prepare")[:3]:
        with write_store(row["path"], fingerprint=row["fingerprint"]) as store:
            store.attributes["split"] = row["split"]
            array = store.array(
                "images", (rows, ROW), np.uint8, rows_per_chunk=rows_per_chunk, compress=False
            )
            for first in range(0, rows, rows_per_chunk):
                last = min(first + rows_per_chunk, rows)
                array[first:last] = values[: last - first]
            store.samples(pa.table({"sample_id": [str(number) for number in range(rows)]}))


def cpu_of(command: list[str], given: bytes) -> float:
    """CPU seconds of a command and the processes that it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, input=given, capture_output=True, check=False, env=os.environ)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
