"""The cache that projects share: whole entries, checked when they are taken, for many users and for readers."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from permafrost.core.errors import PermafrostError
from permafrost.core.shared_cache import CACHE, taken_or_made

NAME = "f1"


def check(path: Path) -> None:
    text = (path / "chunks/0").read_text() if path.is_dir() else path.read_text()
    if json.loads(text) != NAME:
        raise PermafrostError("it is damaged", where=path)


class Project:
    """A job with a store and a card, and how often it was really run."""

    def __init__(self, folder: Path) -> None:
        self.outputs = [folder / "train.zarr", folder / "card.json"]
        self.made = 0

    def make(self) -> None:
        self.made += 1
        (self.outputs[0] / "chunks").mkdir(parents=True)
        (self.outputs[0] / "chunks/0").write_text(json.dumps(NAME))
        (self.outputs[0] / ".snakemake_timestamp").touch()
        self.outputs[1].write_text(json.dumps(NAME))

    def run(self) -> int:
        taken_or_made(self.outputs, NAME, check, self.make)
        for path in self.outputs:
            check(path)
        return self.made


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv(CACHE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_without_a_cache_a_job_is_run(tmp_path, monkeypatch):
    monkeypatch.delenv(CACHE, raising=False)
    assert [Project(tmp_path / name).run() for name in "ab"] == [1, 1]


def test_what_one_project_made_the_others_take(tmp_path, cache):
    first, second = Project(tmp_path / "a"), Project(tmp_path / "b")
    assert (first.run(), second.run()) == (1, 0)
    assert sorted(path.name for path in (tmp_path / "b/train.zarr").iterdir()) == ["chunks"]
    # links take no room
    assert (tmp_path / "b/card.json").stat().st_nlink == 3
    assert [path.name for path in cache.iterdir()] == [NAME]


@pytest.mark.parametrize("file", ["card.json", "train.zarr/chunks/0"])
def test_a_damaged_entry_is_made_again_and_replaced(tmp_path, cache, file):
    Project(tmp_path / "a").run()
    (cache / NAME / file).unlink()
    (cache / NAME / file).write_text('"another"')
    assert Project(tmp_path / "b").run() == 1
    assert Project(tmp_path / "c").run() == 0


def test_a_reader_takes_and_leaves_nothing(tmp_path, cache, monkeypatch, capsys):
    def closed(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "rename", closed)
    assert Project(tmp_path / "a").run() == 1
    assert list(cache.iterdir()) == [] and "Permission denied" in capsys.readouterr().out


def test_where_links_cannot_be_made_files_are_copied(tmp_path, cache, monkeypatch):
    Project(tmp_path / "a").run()

    def refused(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    assert Project(tmp_path / "b").run() == 0
    assert (tmp_path / "b/card.json").stat().st_nlink == 1


def test_projects_that_finish_at_the_same_time_leave_one_whole_entry(tmp_path, cache):
    projects = [Project(tmp_path / str(number)) for number in range(8)]
    with ThreadPoolExecutor(8) as executor:
        assert set(executor.map(Project.run, projects)) <= {0, 1}
    assert [path.name for path in cache.iterdir()] == [NAME]
    assert Project(tmp_path / "last").run() == 0
