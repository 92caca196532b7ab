"""Time per image from the logs of extraction jobs, on the page of a run without profiles."""

from __future__ import annotations

import io
import json
import re
import time
from contextlib import redirect_stderr

import pytest
from helpers.results.pages import build_report, prepare, small
from permafrost.core.progress import LogProgress
from permafrost.report.material.extraction_times import (
    ExtractionTime,
    brief_ms,
    read_extraction_times,
    typical_times,
)

LOG = """net on eurosat/train: 50/120 images, 10.0/s
some warning
net on eurosat/train: 120/120 images, 40.0/s
net on eurosat/val: 40/40 images, 20.0/s
net on eurosat/test: 7/30 images, 9.0/s
"""


def test_times_are_those_of_whole_splits(tmp_path):
    logs = {}
    for name, text in (("net", LOG), ("cached", "taken from the cache\n"), ("zero", LOG[:45])):
        logs["eurosat", name] = tmp_path / f"{name}.log"
        logs["eurosat", name].write_text(text)
    logs["eurosat", "gone"] = tmp_path / "gone.log"
    about = [
        {"dataset": "eurosat", "backbone": "net", "device": "Abacus"},
        {"dataset": "x", "backbone": "y"},
    ]
    found = read_extraction_times(logs, about)
    # 120 images in 3 s, and 40 in 2 s
    assert found == {("eurosat", "net"): ExtractionTime(5000 / 160, 160, "Abacus")}


@pytest.mark.parametrize("seconds", [2.0, 64.0, 1000.0])
def test_the_progress_of_a_job_is_read(tmp_path, monkeypatch, seconds):
    clock = iter([0.0, 1.0, seconds])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    with (
        redirect_stderr(io.StringIO()) as said,
        LogProgress(None, 8, "net on a/train", "image") as bar,
    ):
        bar.update(8)
    (tmp_path / "log").write_text(said.getvalue())
    (found,) = read_extraction_times({("a", "net"): tmp_path / "log"}, []).values()
    assert (found.milliseconds, found.images) == (1000 * seconds / 8, 8)


def test_typical_times_are_of_shared_datasets():
    times = {("a", "x"): 1.0, ("b", "x"): 9.0, ("c", "x"): 3.0, ("a", "y"): 2.0, ("c", "y"): 6.0}
    times = {names: ExtractionTime(ms, 1, "") for names, ms in times.items()}
    assert typical_times(times) == {"x": 2.0, "y": 4.0}
    del times["a", "x"], times["c", "x"]
    assert typical_times(times) == typical_times({}) == {}


@pytest.mark.parametrize(
    ("ms", "words"), [(0.0, "0"), (0.034, "0.034"), (0.87, "0.87"), (2.44, "2.4"), (31.3, "31")]
)
def test_words_have_two_digits(ms, words):
    assert brief_ms(ms) == words


def test_page_shows_times_where_nothing_was_profiled(tmp_path):
    inputs = prepare(tmp_path, datasets={"eurosat": small()}, backbones=["a", "b"])
    (tmp_path / "a.log").write_text(LOG)
    build_report(**inputs | {"logs": {("eurosat", "a"): tmp_path / "a.log"}})
    page = (tmp_path / "report/datasets/eurosat.html").read_text()
    table = page[page.index('id="cost"') :]
    assert '<a href="#cost">' in page and "<td>31</td><td>160</td>" in table
    index = (tmp_path / "report/index.html").read_text()
    data = json.loads(re.search(r'id="data">(.*?)</script>', index, re.DOTALL)[1])
    assert {one["name"]: one["extraction_ms"] for one in data["backbones"]} == {
        "a": 31.2,
        "b": None,
    }
