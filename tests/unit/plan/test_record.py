"""The plan as it is written down."""

from __future__ import annotations

import copy
import os

import pytest
from helpers.plans import CONFIG, fill_root, fingerprints, make_plan
from permafrost.core.errors import PermafrostError
from permafrost.operate.stale import find_stale
from permafrost.plan.record import record_plan
from permafrost.plan.recorded import current_plan, encode_plan, planned, read_plan


@pytest.fixture
def root(tmp_path):
    return fill_root(tmp_path / "root")


@pytest.fixture
def config():
    return copy.deepcopy(CONFIG)


@pytest.fixture
def results(root, monkeypatch):
    monkeypatch.chdir(root)
    return root / "results"


def test_the_recorded_plan_lists_every_output_with_its_fingerprint(root, results):
    plan = make_plan(root)
    recorded = read_plan(record_plan(plan, "results"))
    expected = fingerprints(plan)
    for stage, files in (("prepare", 3), ("extract", 3), ("probe", 1), ("bootstrap", 1)):
        rows = planned(recorded, stage)
        jobs = [job for job in expected if job[0] == stage]
        assert len(rows) == len(jobs) * files
        assert {row["fingerprint"] for row in rows} == {expected[job] for job in jobs}
    paths = [row["path"] for row in recorded["outputs"]]
    assert len(set(paths)) == len(paths)
    assert "results/predictions/world/net/seed0/knn.parquet" in paths


def test_recording_a_plan_again_touches_no_file(root, results):
    plan = make_plan(root)
    files = [record_plan(plan, "results"), results / "plans" / "current"]
    before = [os.stat(file).st_mtime_ns for file in files]
    record_plan(make_plan(root), "results")
    assert [os.stat(file).st_mtime_ns for file in files] == before


def test_the_plan_recorded_last_is_the_current_one_even_if_it_was_known_before(
    root, results, config
):
    first = record_plan(make_plan(root), "results")
    config["probes"]["knn"]["k"] = 7
    second = record_plan(make_plan(root, config), "results")
    assert first != second
    assert current_plan(results) == root / second
    record_plan(make_plan(root), "results")
    assert current_plan(results) == root / first


def test_a_new_title_is_recorded_under_the_same_hash(root, results, config):
    first = record_plan(make_plan(root), "results")
    config["extra_backbones"]["net"]["title"] = "A net"
    assert record_plan(make_plan(root, config), "results") == first
    assert read_plan(first)["backbones"]["net"]["title"] == "A net"


def test_without_a_record_the_remedy_is_named(results):
    with pytest.raises(PermafrostError, match="no plan was recorded") as caught:
        current_plan(results)
    assert "run snakemake" in caught.value.remedy


def broken(whole: bytes, how: str) -> bytes:
    if how == "edited":
        return whole.replace(b'"seed": 0', b'"seed": 1', 1)
    cut = {"empty": 0, "one character": 1, "half": len(whole) // 2, "the last byte": len(whole) - 1}
    return b"\xff\xfe" + whole if how == "not text" else whole[: cut[how]]


@pytest.mark.parametrize(
    "how", ["empty", "one character", "half", "the last byte", "edited", "not text"]
)
def test_a_damaged_record_is_named_and_made_again(root, results, how):
    plan = make_plan(root)
    path = record_plan(plan, "results")
    whole = (root / path).read_bytes()
    (root / path).write_bytes(broken(whole, how))
    assert (root / path).read_bytes() != whole
    with pytest.raises(PermafrostError, match="cannot be read|was altered") as caught:
        read_plan(path)
    assert "run snakemake" in caught.value.remedy
    record_plan(plan, "results")
    assert (root / path).read_bytes() == whole


@pytest.mark.parametrize("content", [b"", b"0123", b"\xff", b"two\nlines\n"])
def test_a_damaged_name_of_the_current_plan_is_written_again(root, results, content):
    path = record_plan(make_plan(root), "results")
    (results / "plans/current").write_bytes(content)
    record_plan(make_plan(root), "results")
    assert current_plan(results) == root / path


@pytest.mark.parametrize("place", ["results/../own.py", "own.py", "results//etc/passwd"])
def test_what_a_plan_names_outside_of_its_results_is_not_looked_at(root, results, place):
    """An archive of somebody else may bring a plan, and `permafrost stale --delete` deletes what it names."""
    path = root / record_plan(make_plan(root), "results")
    recorded = read_plan(path)
    recorded["outputs"][0]["path"] = place
    path.write_bytes(encode_plan(recorded["about"], recorded))
    with pytest.raises(PermafrostError, match="outside of its results"):
        find_stale(path, results)
