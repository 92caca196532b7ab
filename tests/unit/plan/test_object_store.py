"""Where results lie, and what of them is fetched, by stand-ins for Snakemake's workflow and its storage plugins."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from permafrost.core.errors import PermafrostError
from permafrost.plan.object_store import Places, bring, bring_shown, check_archive, is_there


class Object:
    """An object of a store that is a dictionary: address -> (bytes, time)."""

    def __init__(self, store: dict, folder: Path, query: str) -> None:
        self._store, self.query, self.print_query = store, query, query
        self._copy = folder / query.partition("://")[2]

    def set_local_path(self, path: Path) -> None:
        self._copy = path

    def local_path(self) -> Path:
        return self._copy

    def exists(self) -> bool:
        if self.query.endswith("/refused"):
            raise RuntimeError("403")
        return self.query in self._store

    def mtime(self) -> float:
        return self._store[self.query][1]

    def retrieve_object(self) -> None:
        self._copy.write_bytes(self._store[self.query][0])


class File(str):
    """A file of a job, as Snakemake flags it."""

    is_storage = True

    def __new__(cls, wanted: Object):
        made = super().__new__(cls, wanted.local_path())
        made.storage_object = wanted
        return made


@pytest.fixture
def stored(tmp_path):
    store = {"s3://b/p/results/a.log": (b"text", 100.0)}

    def wanted(query):
        return Object(store, tmp_path, query)

    return SimpleNamespace(
        wanted=wanted,
        workflow=SimpleNamespace(
            storage_registry=SimpleNamespace(
                default_storage_provider=SimpleNamespace(object=wanted)
            ),
            storage_settings=SimpleNamespace(default_storage_prefix="s3://b/p"),
        ),
    )


@pytest.fixture
def files():
    return SimpleNamespace(
        storage_registry=SimpleNamespace(default_storage_provider=None),
        storage_settings=SimpleNamespace(default_storage_prefix=None),
    )


def test_without_a_store_results_lie_in_their_folder(files, tmp_path):
    places = Places(files, "/anywhere/results")
    assert (places.on_store, places.folder) == (False, "/anywhere/results")
    assert places.stored("a/b") == places.copy("a/b") == "a/b"
    (tmp_path / "file").write_bytes(b"1")
    assert places.read(str(tmp_path / "file")) == b"1"
    assert is_there(str(tmp_path / "file")) and not is_there(str(tmp_path / "other"))
    assert bring_shown(files, "a.log (in storage)", since=0) == "a.log (in storage)"
    check_archive(places, {"archive"})


@pytest.mark.parametrize("prefix", ["s3://b/p", "s3://b/p/"])
def test_on_a_store_they_lie_below_its_prefix(stored, tmp_path, prefix):
    stored.workflow.storage_settings.default_storage_prefix = prefix
    places = Places(stored.workflow, "results/")
    assert places.on_store and places.folder == str(tmp_path / "b/p/results")
    assert places.stored("results/x.zarr") == "s3://b/p/results/x.zarr"
    assert places.copy("results/x.zarr") == str(tmp_path / "b/p/results/x.zarr")
    assert places.read("results/a.log") == b"text"
    assert not (tmp_path / "b").exists()
    for missing in ("results/b.log", "results/refused"):
        with pytest.raises(OSError):
            places.read(missing)
    with pytest.raises(PermafrostError, match="packed from files"):
        check_archive(places, {"archive", "report"})
    check_archive(places, {"report"})


@pytest.mark.parametrize("results", ["/anywhere/results", "../results", "a/../../results"])
def test_results_that_no_store_can_hold_are_refused(stored, results):
    with pytest.raises(PermafrostError, match="below its prefix"):
        Places(stored.workflow, results)


def test_a_log_is_fetched_where_it_is_of_this_run_and_not_here(stored, tmp_path):
    log = File(stored.wanted("s3://b/p/results/a.log"))
    assert is_there(log)
    bring(log, since=101.0)  # of an earlier run
    assert not os.path.exists(log)
    bring(log, since=100.0)
    assert Path(log).read_bytes() == b"text"
    Path(log).write_bytes(b"of this machine")
    bring(log, since=0.0)
    assert Path(log).read_bytes() == b"of this machine"
    Path(log).unlink()
    shown = "s3://b/p/results/a.log (send to storage)"
    assert bring_shown(stored.workflow, shown, since=100.0) == log
    assert Path(log).read_bytes() == b"text"
    for name in ("none", "refused"):
        bring(File(stored.wanted(f"s3://b/p/results/{name}")), since=0.0)
        assert not (tmp_path / "b/p/results" / name).exists()
