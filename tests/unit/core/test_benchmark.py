"""Time and peak memory of a job, in the columns of Snakemake's own benchmarks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from permafrost.core.benchmark import COLUMNS, write_benchmark
from snakemake.benchmark import BenchmarkRecord


def test_the_columns_are_those_of_snakemake(tmp_path):
    assert list(COLUMNS) == BenchmarkRecord.get_header()
    write_benchmark(tmp_path / "folder/job.tsv", 3725.5)
    header, row = (tmp_path / "folder/job.tsv").read_text().splitlines()
    assert header.split("\t") == list(COLUMNS)
    values = dict(zip(COLUMNS, row.split("\t"), strict=True))
    assert values["s"] == "3725.5000" and values["h:m:s"] == "1:02:05"
    assert values["max_uss"] == "NA"
    assert float(values["mean_load"]) == pytest.approx(
        100 * float(values["cpu_time"]) / 3725.5, abs=0.01
    )


def test_the_peak_is_kept_after_memory_was_freed(tmp_path):
    program = (
        "from pathlib import Path; from permafrost.core.benchmark import write_benchmark\n"
        "held = bytearray(b'x') * (200 << 20); del held\n"
        f"write_benchmark(Path({str(tmp_path / 'job.tsv')!r}), 1.0)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    row = (tmp_path / "job.tsv").read_text().splitlines()[1].split("\t")
    assert 200 < float(row[COLUMNS.index("max_rss")]) < 400


@pytest.mark.parametrize("place", ["/proc/none/job.tsv", "/dev/full"])
def test_a_job_whose_times_cannot_be_written_has_still_succeeded(place, capsys):
    write_benchmark(Path(place), 1.0)
    assert f"{place}: time and memory could not be written (" in capsys.readouterr().err
