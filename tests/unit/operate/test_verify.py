"""`permafrost verify` names every file that is not as it was written, and finds nothing else."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import pytest
from helpers.plans import CONFIG, fill_root, make_plan
from helpers.results.written import write, write_outputs
from permafrost.core.errors import PermafrostError
from permafrost.operate.stale import find_stale, refuse_stale
from permafrost.operate.verify.verify import verify
from permafrost.plan.record import record_plan
from permafrost.plan.recorded import read_plan, stamp_of, stamped
from permafrost.stages.cli import main

DEMO = {"kind": "demo", "chip_size": 32}
STUDY = {
    **CONFIG,
    "backbones": ["stats"],
    "datasets": ["world", "pixels", "crowns"],
    "seeds": [0],
    "extra_datasets": {
        "world": {"task": "classification", "source": DEMO},
        "pixels": {"task": "segmentation", "source": DEMO},
        "crowns": {"task": "detection", "source": DEMO},
    },
    "probes": {
        "knn": {"kind": "knn"},
        "tif": {"kind": "dense_knn", "masks": "geotiff"},
        "zarr": {"kind": "dense_knn", "masks": "zarr"},
        "det": {"kind": "detection"},
    },
}
# a file of each kind, and one of the same kind to swap it with
FILES = {
    "images/world/card.json": "images/pixels/card.json",
    "images/world/train.zarr/zarr.json": "images/world/val.zarr/zarr.json",
    "images/world/train.zarr/inventory.json": "images/world/val.zarr/samples.parquet",
    "images/world/train.zarr/samples.parquet": "images/world/train.zarr/images/zarr.json",
    "images/world/train.zarr/images/zarr.json": "images/world/train.zarr/samples.parquet",
    "features/world/stats/train.zarr/images/c/0/0": "features/world/stats/train.zarr/images/c/1/0",
    "predictions/world/stats/seed0/knn.parquet": "predictions/pixels/stats/seed0/tif.parquet",
    "scores/world/stats/seed0/knn.parquet": "scores/pixels/stats/seed0/tif.parquet",
    "masks/pixels/stats/seed0/tif/a.tif": "masks/pixels/stats/seed0/tif/b.tif",
    "masks/pixels/stats/seed0/tif/samples.parquet": "masks/pixels/stats/seed0/tif/inventory.json",
    "masks/pixels/stats/seed0/zarr/images/c/0/0": "masks/pixels/stats/seed0/zarr/images/c/1/0",
    "detections/crowns/stats/seed0/det/truth.json": "detections/crowns/stats/seed0/det/detections.json",
    "leaderboard.parquet": "scores/world/stats/seed0/knn.parquet",
    "leaderboard.csv": "standings.csv",
    "standings.parquet": "leaderboard.parquet",
    "report/index.html": "report/datasets/world.html",
    "report/figures/a.png": "report/index.html",
    "plans/GATHERED.done": "plans/REPORTED.done",
    "plans/PLAN.json": None,
    "plans/PLAN.jobs": None,
    "plans/current": None,
}


@pytest.fixture(scope="session")
def study(tmp_path_factory):
    """The results folder of a whole run, with its recorded plan."""
    root = fill_root(tmp_path_factory.mktemp("verify") / "root")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        plan = root / record_plan(make_plan(root, STUDY), "results")
        write_outputs(plan, root / "results")
    return root / "results"


@pytest.fixture
def results(study, tmp_path):
    return Path(shutil.copytree(study, tmp_path / "results"))


def place(results: Path, name: str) -> Path:
    (plan,) = (results / "plans").glob("*.json")
    gathered, reported = stamped(read_plan(plan))
    for word, value in (("GATHERED", gathered), ("REPORTED", reported), ("PLAN", plan.stem)):
        name = name.replace(word, value)
    return results / name


def damaged(results: Path) -> dict[Path, str]:
    return {one.path: one.kind for one in verify(results).damage}


def test_nothing_is_found_in_results_as_they_were_written(results):
    found = verify(results, complete=True)
    assert found.findings == []
    files = [path for path in results.rglob("*") if path.is_file()]
    assert (found.files, found.unchecked) == (len(files), 0)
    assert found.bytes == sum(path.stat().st_size for path in files)
    assert "0 damaged or missing" in found.summary()


@pytest.mark.parametrize("name", FILES)
def test_a_file_with_one_other_bit_or_byte_more_or_less_or_none_is_named(results, name):
    path = place(results, name)
    whole = path.read_bytes()
    middle = len(whole) // 2
    flipped = bytes([*whole[:middle], whole[middle] ^ 1, *whole[middle + 1 :]])
    for content in (flipped, whole[:-1], whole[:middle], whole + b"\n", b""):
        path.write_bytes(content)
        assert damaged(results).keys() == {path}, content
    path.unlink()
    (found,) = verify(results).findings
    if name == "plans/PLAN.json":
        assert found.path.name == "current" and path.name in found.reason
    else:
        assert found.path == path
        assert found.kind == ("absent" if path.suffix == ".jobs" else "missing")
    path.write_bytes(whole)
    assert damaged(results) == {}


@pytest.mark.parametrize(("name", "other"), [pair for pair in FILES.items() if pair[1]])
def test_two_files_that_were_swapped_are_named(results, name, other):
    one, two = place(results, name), place(results, other)
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)
    found = damaged(results)
    # whose seal is damaged, its files cannot be checked
    assert one in found or two in found
    seals = ("zarr.json", "inventory.json", "samples.parquet")
    assert {one, two} <= found.keys() or one.name in seals or two.name in seals


def test_folders_that_were_swapped_are_named(results):
    folder = results / "images/world"
    (folder / "train.zarr").rename(folder / "kept")
    (folder / "test.zarr").rename(folder / "train.zarr")
    (folder / "kept").rename(folder / "test.zarr")
    assert damaged(results).keys() == {folder / f"{n}.zarr/zarr.json" for n in ("train", "test")}


@pytest.mark.parametrize(
    ("name", "kind"),
    [("features/world/stats/train.zarr/images/c/2/0", "unexpected"),
     ("masks/pixels/stats/seed0/tif/c.tif", "unexpected"),
     ("detections/crowns/stats/seed0/det/more.json", "unexpected"),
     ("report/figures/b.png", "unexpected"),
     ("scores/world/stats/seed0/mine.parquet", "unexpected"),
     ("published.csv", "unexpected"),
     ("notes.txt", "foreign"),
     ("scores/notes.txt", "foreign"),
     ("features/world/.x.zarr.partial-0123/zarr.json", "foreign"),
     ("parts/world/0-of-2/train.zarr/zarr.json", "foreign")],
)  # fmt: skip
def test_what_no_run_wrote_is_named_and_is_damage_only_where_outputs_lie(results, name, kind):
    path = results / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("mine")
    (found,) = verify(results).findings
    assert path == found.path or path.is_relative_to(found.path)
    assert (found.kind, found.is_damage) == (kind, kind == "unexpected")


def test_an_output_of_another_plan_is_a_note_and_a_copy_of_one_is_not(results):
    other = results / "scores/old/net/seed0/knn.parquet"
    write(other, "0" * 32)
    store = results / "images/old/train.zarr"
    write(store, "0" * 32)
    assert {one.path: one.kind for one in verify(results).findings} == {
        other: "other plan",
        store: "other plan",
    }
    shutil.copyfile(results / "scores/world/stats/seed0/knn.parquet", other)
    assert damaged(results) == {other: "unexpected"}


def test_stores_may_be_absent_together_but_not_one_of_them(results):
    shutil.rmtree(results / "features")
    shutil.rmtree(results / "masks")
    found = verify(results)
    assert {one.kind for one in found.findings} == {"absent"}
    absent, summary = found.lines()
    assert absent.startswith("absent: 9 in features, 2 in masks.") and "11 absent" in summary
    assert {one.kind for one in verify(results, complete=True).findings} == {"missing"}
    shutil.rmtree(results / "images/world/train.zarr")
    assert damaged(results) == {results / "images/world/train.zarr": "missing"}


def test_logs_are_counted_and_not_checked(results):
    (results / "logs").mkdir()
    (results / "logs/failures.json").write_text("{")
    found = verify(results)
    assert (found.findings, found.unchecked) == ([], 1)


def test_a_damaged_archive_beside_the_results_is_named(results):
    (results / "archive").mkdir()
    with zipfile.ZipFile(results / "archive/a.zip", "w") as packed:
        packed.writestr("x", "y")
    assert damaged(results) == {results / "archive/a.zip": "changed"}


def test_without_its_stamp_the_report_is_not_checked_and_the_stamp_is_named(results):
    (plan,) = (results / "plans").glob("*.json")
    stamp = stamp_of(results, plan.stem)
    stamp.unlink()
    (results / "report/index.html").write_text("mine")
    assert damaged(results) == {stamp: "missing"}


def test_a_truncated_chunk_is_stale_and_an_archive_with_it_is_refused(results):
    (plan,) = (results / "plans").glob("*.json")
    chunk = results / "features/world/stats/train.zarr/images/c/0/0"
    chunk.write_bytes(bytes(len(chunk.read_bytes())))
    assert find_stale(plan, results) == [], "only sizes are compared"
    [(store, reason)] = find_stale(plan, results, deep=True)
    assert store.name == "train.zarr" and reason.startswith("images/c/0/0: altered")
    refuse_stale(plan, results, stores=False)
    with pytest.raises(PermafrostError, match=r"train\.zarr: images/c/0/0: altered") as refused:
        refuse_stale(plan, results, stores=True)
    assert "stale --deep --delete" in refused.value.remedy


@pytest.mark.parametrize("link", ["broken", "loop"])
def test_links_are_followed_once_and_broken_ones_are_named(results, link):
    moved = results.with_name("elsewhere")
    shutil.move(results / "features", moved)
    (results / "features").symlink_to(moved)
    assert damaged(results) == {}
    if link == "loop":
        (moved / "back").symlink_to(results)
        assert damaged(results) == {}
        return
    chunk = moved / "world/stats/train.zarr/images/c/0/0"
    chunk.unlink()
    chunk.symlink_to("nowhere")
    assert list(damaged(results).values()) == ["changed"]


def test_the_command_prints_a_line_per_file_and_says_by_its_status_what_it_found(
    results, capsys, monkeypatch
):
    monkeypatch.chdir(results.parent)
    assert main(["verify"]) == 0
    (results / "leaderboard.csv").write_text("mine")
    (results / "notes.txt").write_text("mine")
    capsys.readouterr()
    assert main(["verify", str(results.parent)]) == 1
    changed, foreign, summary = capsys.readouterr().out.splitlines()
    assert "leaderboard.csv (" in changed and "Remedy: " in changed
    assert foreign.startswith("foreign: ") and "1 damaged or missing" in summary
    assert main(["verify", "--json"]) == 1
    content = json.loads(capsys.readouterr().out)
    assert [row["path"] for row in content["damaged"]] == ["results/leaderboard.csv"]
    assert main(["verify", "nowhere"]) == 2
    assert "there is no such folder" in capsys.readouterr().err
