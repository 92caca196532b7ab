"""Versions of packages: recorded beside every result, a mixture is said, and on request they count."""

from __future__ import annotations

import copy
import subprocess
import sys
from types import SimpleNamespace

import pyarrow as pa
import pytest
from helpers.plans import CONFIG, changed, fill_root, fingerprints, make_plan
from permafrost.core.stores import Store, write_store
from permafrost.core.tables import read_metadata, write_table
from permafrost.core.versions import (
    gather_versions,
    imported_versions,
    installed_versions,
    joined_versions,
    mixture_words,
)
from permafrost.plan import store_jobs
from permafrost.plan.record import record_plan
from permafrost.plan.recorded import read_plan
from permafrost.stages.cli import main

ROWS = pa.table({"sample_id": ["a", "b"]})


def test_every_table_and_store_records_what_it_was_computed_with(tmp_path):
    write_table(tmp_path / "scores.parquet", ROWS, {"fingerprint": "f"})
    with write_store(tmp_path / "train.zarr", fingerprint="f") as writer:
        writer.array("x", (2, 1), "float32", rows_per_chunk=2)[:] = 0
        writer.samples(ROWS)
        writer.attributes["versions"] = {"permafrost": "0.1.0", "numpy": "of another notation"}
    table = read_metadata(tmp_path / "scores.parquet")["versions"]
    store = Store(tmp_path / "train.zarr").attributes["versions"]
    assert table["pyarrow"] == store["pyarrow"] == pa.__version__
    assert store == {"permafrost": "0.1.0", **imported_versions()}
    assert table["python"] == ".".join(map(str, sys.version_info[:3]))


def test_recording_imports_nothing():
    program = (
        "import sys\n"
        "from permafrost.core.versions import COMPUTING, imported_versions\n"
        "assert set(imported_versions()) == {'python'}\n"
        "assert not {*COMPUTING, 'importlib.metadata', 'platform'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_faiss_has_the_name_of_the_distribution_that_is_installed(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", SimpleNamespace(__version__="1.14"))
    folder = tmp_path / "faiss_gpu_cu12-1.14.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: faiss-gpu-cu12\nVersion: 1.14\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert imported_versions()["faiss-gpu-cu12"] == "1.14"
    assert "faiss-cpu" not in imported_versions()
    assert installed_versions(["faiss"])["faiss-gpu-cu12"] == "1.14"
    assert joined_versions([imported_versions()]) == imported_versions()


def test_versions_of_all_results_are_gathered_and_a_mixture_is_put_in_words():
    recorded = [
        {"versions": {"numpy": "2.0"}, "feature_versions": {"torch": "2.5", "numpy": "2.0"}},
        {"versions": {"numpy": "2.0"}, "feature_versions": None},
        {"score_versions": {"scipy": ["1.1", "1.2"]}},
    ]
    met = gather_versions(recorded)
    assert met == {"numpy": ["2.0"], "scipy": ["1.1", "1.2"], "torch": ["2.5"]}
    assert mixture_words(recorded, {}) == "scipy 1.1 and 1.2"
    assert mixture_words(recorded[:2], {}) == ""


def test_another_environment_has_its_own_versions():
    homes = {"a": None, "b": "other", "c": "other"}
    table = {"versions": {"numpy": "2.0"}, "feature_versions": {"torch": "2.5", "numpy": "2.0"}}
    other = {"torch": "2.4", "numpy": "1.26"}
    recorded = [
        {"backbone": "a", **table},
        {"backbone": "b", **table, "feature_versions": other},
        # a feature store, and a table without features, as of fine-tuning
        {"backbone": "b", "versions": other},
        {"backbone": "c", "versions": other, "feature_versions": None},
        {"score_versions": {"numpy": ["2.0"]}},
    ]
    assert mixture_words(recorded, homes) == ""
    assert mixture_words(recorded, {}) == "numpy 1.26 and 2.0; torch 2.4 and 2.5"
    newer = [*recorded, {"backbone": "c", "versions": {"torch": "2.6"}}]
    assert mixture_words(newer, homes) == "torch 2.4 and 2.6"
    assert mixture_words([*recorded, {"versions": {"numpy": "2.1"}}], homes) == "numpy 2.0 and 2.1"


@pytest.fixture
def root(tmp_path, monkeypatch):
    root = fill_root(tmp_path / "root")
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def upgraded(monkeypatch):
    """A function that pretends that a package is installed in another version."""
    from importlib import metadata

    original = metadata.version

    def upgrade(name: str) -> None:
        monkeypatch.setattr(
            metadata, "version", lambda one: "99.0" if one == name else original(one)
        )
        store_jobs._versions_of.cache_clear()

    yield upgrade
    store_jobs._versions_of.cache_clear()


def test_an_upgrade_changes_nothing_unless_versions_count(root, upgraded):
    before = make_plan(root)
    upgraded("numpy")
    assert changed(before, make_plan(root)) == set()


@pytest.mark.parametrize("package", ["numpy", "timm", "faiss-cpu"])
def test_an_upgrade_reruns_the_stages_that_use_the_package_where_versions_count(
    root, upgraded, package
):
    config = copy.deepcopy(CONFIG) | {"versions": "rerun", "probes": {"knn": {"kind": "knn"}}}
    before = make_plan(root, copy.deepcopy(config))
    assert changed(before, make_plan(root, copy.deepcopy(config))) == set()
    upgraded(package)
    kept = {job[0] for job in fingerprints(before)} - {
        job[0] for job in changed(before, make_plan(root, config))
    }
    expected = {"numpy": set(), "timm": {"prepare"}, "faiss-cpu": {"prepare", "extract"}}
    assert kept == expected[package]


def test_stale_says_that_versions_are_mixed(root, monkeypatch, capsys):
    plan = root / record_plan(make_plan(root), "results")
    rows = [row for row in read_plan(plan)["outputs"] if row["stage"] == "bootstrap"]
    write_table(root / rows[0]["path"], ROWS, {"fingerprint": rows[0]["fingerprint"]})
    assert main(["stale"]) == 0
    assert "mixed" not in capsys.readouterr().out
    monkeypatch.setattr(
        "permafrost.core.tables.imported_versions", lambda: {"pyarrow": "1.0", "python": "3.12"}
    )
    write_table(root / rows[1]["path"], ROWS, {"fingerprint": rows[1]["fingerprint"]})
    assert main(["stale"]) == 0
    said = capsys.readouterr().out
    assert "mixed versions" in said and f"pyarrow 1.0 and {pa.__version__}" in said
