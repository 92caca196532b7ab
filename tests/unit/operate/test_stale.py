from __future__ import annotations

import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.plans import CONFIG, fill_root, make_plan
from helpers.results.written import write, write_detections, write_masks
from permafrost.core.errors import PermafrostError
from permafrost.core.specification import SPLITS
from permafrost.core.stamps import write_stamp
from permafrost.core.stores import write_store
from permafrost.operate.stale import delete, find_stale, refuse_stale
from permafrost.plan.record import record_plan
from permafrost.plan.recorded import read_plan, stamped

FIRST = "scores/world/net/seed0/knn.parquet"


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """(results folder, recorded plan); some of the plan's outputs are there, made from it."""
    root = fill_root(tmp_path / "root")
    monkeypatch.chdir(root)
    plan = root / record_plan(make_plan(root, {**CONFIG, "datasets": ["world"]}), "results")
    for row in read_plan(plan)["outputs"]:
        if row["stage"] in ("prepare", "bootstrap"):
            write(root / row["path"], row["fingerprint"])
    return root / "results", plan


def test_nothing_is_stale_when_all_that_is_there_belongs_to_the_plan(recorded):
    results, plan = recorded
    assert find_stale(plan, results) == []


@pytest.mark.parametrize(
    "name",
    [FIRST, "images/world/train.zarr", "images/world/card.json"],
    ids=["table", "store", "card"],
)
def test_an_output_of_another_plan_is_found(recorded, name):
    results, plan = recorded
    if name.endswith(".zarr"):
        shutil.rmtree(results / name)
    write(results / name, "0" * 32)
    [(path, reason)] = find_stale(plan, results)
    assert path == results / name
    assert "made from another plan" in reason


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\xff"])
@pytest.mark.parametrize("name", [FIRST, "images/world/card.json"])
def test_a_damaged_output_is_found(recorded, name, content):
    results, plan = recorded
    (results / name).write_bytes(content)
    assert [path for path, _ in find_stale(plan, results)] == [results / name]


def test_stores_that_were_swapped_and_cards_that_were_edited_are_found(recorded):
    results, plan = recorded
    folder = results / "images" / "world"
    for split in SPLITS:
        shutil.rmtree(folder / f"{split}.zarr")
        with write_store(
            folder / f"{split}.zarr", fingerprint=read_plan(plan)["outputs"][0]["fingerprint"]
        ) as writer:
            writer.array("images", (2, 3), "uint8", rows_per_chunk=1)[:] = 1
            writer.samples(pa.table({"sample_id": ["a", "b"]}))
            writer.attributes["split"] = split
    write(folder / "card.json", read_plan(plan)["outputs"][0]["fingerprint"])
    assert find_stale(plan, results) == []
    (folder / "train.zarr").rename(folder / "kept")
    (folder / "test.zarr").rename(folder / "train.zarr")
    (folder / "kept").rename(folder / "test.zarr")
    card = folder / "card.json"
    card.write_text(card.read_text().replace("red", "green"))
    found = {path.name: reason for path, reason in find_stale(plan, results)}
    assert found.keys() == {"train.zarr", "test.zarr", "card.json"}
    assert "holds the split 'test'" in found["train.zarr"]


def test_a_damaged_store_is_found(recorded):
    results, plan = recorded
    shutil.rmtree(results / "images/world/val.zarr/images")
    assert [path.name for path, _ in find_stale(plan, results)] == ["val.zarr"]


def test_results_that_were_moved_are_found_where_they_lie(recorded, tmp_path, monkeypatch):
    results, plan = recorded
    shutil.move(results, tmp_path / "elsewhere")
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "elsewhere" / FIRST, "0" * 32)
    found = find_stale(tmp_path / "elsewhere" / "plans" / plan.name, tmp_path / "elsewhere")
    assert [path for path, _ in found] == [tmp_path / "elsewhere" / FIRST]


def test_deleting_removes_files_and_stores_and_nothing_else(recorded):
    results, plan = recorded
    shutil.rmtree(results / "images/world/train.zarr")
    for name in (FIRST, "images/world/train.zarr"):
        write(results / name, "0" * 32)
    before = {path for path in results.rglob("*.parquet") if "zarr" not in str(path)}
    delete(path for path, _ in find_stale(plan, results))
    after = {path for path in results.rglob("*.parquet") if "zarr" not in str(path)}
    assert before - after == {results / FIRST}
    assert not (results / "images/world/train.zarr").exists()
    assert (results / "images/world/val.zarr").exists()
    assert find_stale(plan, results) == []


@pytest.fixture
def finished(recorded):
    """The same with the leaderboard and the report, as their stamps say."""
    results, plan = recorded
    gathered, reported = stamped(read_plan(plan))
    write(results / "leaderboard.parquet", gathered)
    for name in ("leaderboard.csv", "standings.csv", "report/index.html", "report/figures/a.png"):
        (results / name).parent.mkdir(parents=True, exist_ok=True)
        (results / name).write_text(name)
    tables = [results / f"leaderboard.{kind}" for kind in ("parquet", "csv")]
    plans = results / "plans"
    write_stamp(plans / f"{gathered}.done", gathered, [*tables, results / "standings.csv"])
    pages = [results / "report/index.html", results / "report/figures/a.png"]
    write_stamp(plans / f"{reported}.done", reported, pages)
    assert find_stale(plan, results) == []
    return results, plan


@pytest.mark.parametrize(
    ("name", "removed"),
    [("leaderboard.csv", "leaderboard.csv"), ("standings.csv", "standings.csv"),
     ("report/index.html", "report"), ("report/figures/a.png", "report")],
)  # fmt: skip
def test_a_file_that_was_altered_by_hand_is_found_and_deleting_lets_it_be_made_again(
    finished, name, removed
):
    results, plan = finished
    (results / name).write_text("my own numbers")
    [(path, reason)] = find_stale(plan, results)
    assert path == results / removed and "altered since it was written" in reason
    with pytest.raises(PermafrostError, match="altered since") as caught:
        refuse_stale(plan, results, stores=False)
    assert "stale --deep --delete" in caught.value.remedy
    delete([path])
    assert find_stale(plan, results) == []


def test_an_edited_leaderboard_is_found_once(finished):
    results, plan = finished
    table = pq.read_table(results / "leaderboard.parquet").slice(1)
    pq.write_table(table, results / "leaderboard.parquet")
    assert [path.name for path, _ in find_stale(plan, results)] == ["leaderboard.parquet"]


def test_a_figure_that_lacks_makes_the_report_stale(finished):
    results, plan = finished
    (results / "report/figures/a.png").unlink()
    assert find_stale(plan, results) == [(results / "report", "figures/a.png is missing")]
    shutil.rmtree(results / "report")
    (results / "leaderboard.csv").unlink()
    assert find_stale(plan, results) == [], "snakemake makes again what is missing as a whole"


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"fingerprint": 3, "files": {}}', '{"fingerprint": "F", "files": {"../x": "0"}}',
     '{"fingerprint": "F", "files": {"/etc/passwd": "0"}}', '{"fingerprint": "0", "files": {}}',
     '{"fingerprint": "F", "files": []}'],
)  # fmt: skip
def test_a_stamp_that_is_damaged_or_speaks_of_other_files_is_itself_what_is_stale(
    finished, content
):
    results, plan = finished
    gathered, _ = stamped(read_plan(plan))
    stamp = results / "plans" / f"{gathered}.done"
    stamp.write_text(content.replace("F", gathered))
    assert [path for path, _ in find_stale(plan, results)] == [stamp]


def test_stores_are_left_out_where_they_do_not_matter(recorded):
    results, plan = recorded
    shutil.rmtree(results / "images/world/val.zarr/images")
    assert find_stale(plan, results, stores=False) == []
    refuse_stale(plan, results, stores=False)


@pytest.mark.parametrize("form", ["zarr", "geotiff"])
def test_masks_of_another_plan_are_found(tmp_path, monkeypatch, form):
    root = fill_root(tmp_path / "root")
    monkeypatch.chdir(root)
    config = {
        **CONFIG,
        "datasets": ["pixels"],
        "extra_datasets": {"pixels": {"task": "segmentation", "source": {"kind": "demo"}}},
        "probes": {"seg-knn": {"kind": "dense_knn", "masks": form}},
    }
    plan = root / record_plan(make_plan(root, config), "results")
    [row, *_] = [row for row in read_plan(plan)["outputs"] if row["stage"] == "masks"]
    assert row["path"] == "results/masks/pixels/stats/seed0/seg-knn"
    write_masks(root / row["path"], form, row["fingerprint"])
    assert find_stale(plan, root / "results") == []
    shutil.rmtree(root / row["path"])
    write_masks(root / row["path"], form, "0" * 32)
    [(path, reason)] = find_stale(plan, root / "results")
    assert path == root / row["path"] and "made from another plan" in reason


def test_detections_of_another_plan_damaged_or_in_part_are_found(tmp_path, monkeypatch):
    root = fill_root(tmp_path / "root")
    monkeypatch.chdir(root)
    config = {
        **CONFIG,
        "datasets": ["crowns"],
        "extra_datasets": {"crowns": {"task": "detection", "source": {"kind": "demo"}}},
        "probes": {"det": {"kind": "detection"}},
    }
    plan = root / record_plan(make_plan(root, config), "results")
    [row, *_] = [row for row in read_plan(plan)["outputs"] if row["stage"] == "detections"]
    assert row["path"] == "results/detections/crowns/stats/seed0/det"
    table = "results/predictions/crowns/stats/seed0/det.parquet"
    folder = root / row["path"]
    write_detections(folder, row["fingerprint"])
    assert find_stale(plan, root / "results") == []
    for name, content, reason in (
        ("truth.json", '{"info": {}}', "truth.json: altered"),
        ("truth.json", None, "truth.json is missing"),
        ("detections.json", "[{}]", "detections.json: altered since it was written"),
    ):
        whole = (folder / name).read_bytes()
        (folder / name).unlink() if content is None else (folder / name).write_text(content)
        [(path, said)] = find_stale(plan, root / "results")
        assert path == folder and said.startswith(reason)
        (folder / name).write_bytes(whole)
    shutil.rmtree(folder)
    write_detections(folder, "0" * 32)
    found = dict(find_stale(plan, root / "results"))
    assert found.keys() == {root / table, folder}
    assert "made from another plan" in found[root / table]
