"""Recording which files a process opens."""

from __future__ import annotations

import glob
import importlib
import importlib.metadata
import importlib.util
import json
import os
import py_compile
import runpy
import shutil
import sqlite3
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from permafrost.core.errors import PermafrostError
from permafrost.core.opened import declare, note, recording, recording_apart


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def read_by(action) -> set[str]:
    """Names of the files that `action` opens, relative to the working directory."""
    with recording() as opened:
        action()
    return {os.path.relpath(path) for path in opened.files}


def listed_by(action) -> set[str]:
    with recording() as opened:
        action()
    return {os.path.relpath(path) for path in opened.folders}


def loaded(path: str):
    spec = importlib.util.spec_from_file_location("anything", path)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


def in_thread(action):
    thread = threading.Thread(target=action)
    thread.start()
    thread.join()


def without_buffer(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, 10)
    finally:
        os.close(descriptor)


# ruff: noqa: SIM115
OPENERS = {
    "json": ("a.json", lambda: json.load(open("a.json"))),
    "pathlib": ("a.json", lambda: Path("a.json").read_bytes()),
    "os.open": ("a.json", lambda: without_buffer("a.json")),
    "thread": ("a.json", lambda: in_thread(lambda: open("a.json").read())),
    "bytes": ("a.json", lambda: open(b"a.json").read()),
    "copy": ("a.json", lambda: shutil.copyfile("a.json", "other.json")),
    "numpy": ("a.npy", lambda: np.load("a.npy")),
    "memory map": ("a.npy", lambda: np.load("a.npy", mmap_mode="r")),
    "npz": ("a.npz", lambda: np.load("a.npz")["x"]),
    "torch": ("a.pth", lambda: torch.load("a.pth", weights_only=True)),
    "torch map": ("a.pth", lambda: torch.load("a.pth", weights_only=True, mmap=True)),
    "import": ("part.py", lambda: importlib.import_module("part")),
    "namespace": ("space/inner.py", lambda: importlib.import_module("space.inner")),
    "spec": ("part.py", lambda: loaded("part.py")),
    "runpy": ("part.py", lambda: runpy.run_path("part.py")),
    "exec": ("part.py", lambda: exec(open("part.py").read())),
    "link": ("link.py", lambda: importlib.import_module("link")),
    "sqlite": ("a.db", lambda: sqlite3.connect("./a.db").close()),
    "note": ("a.json", lambda: note("a.json")),
}


@pytest.mark.parametrize("name", OPENERS)
def test_a_file_is_seen_however_it_is_opened(here, name):
    (here / "a.json").write_text("{}")
    (here / "part.py").write_text("X = 1\n")
    (here / "space").mkdir()
    (here / "space/inner.py").write_text("X = 1\n")
    (here / "link.py").symlink_to("part.py")
    np.save(here / "a.npy", np.zeros(3))
    np.savez(here / "a.npz", x=np.zeros(3))
    torch.save({"x": torch.zeros(3)}, here / "a.pth")
    sqlite3.connect(here / "a.db").close()
    importlib.invalidate_caches()
    file, action = OPENERS[name]
    assert read_by(action) == {file}


def test_compiled_code_stands_for_its_source(here):
    (here / "part.py").write_text("X = 1\n")
    assert Path(py_compile.compile("part.py")).suffix == ".pyc"
    importlib.invalidate_caches()
    assert read_by(lambda: importlib.import_module("part")) == {"part.py"}


def test_an_extension_module_is_seen(here):
    name = f"broken{importlib.machinery.EXTENSION_SUFFIXES[0]}"
    (here / name).write_bytes(b"no library")
    importlib.invalidate_caches()

    def attempt():
        with pytest.raises(ImportError):
            importlib.import_module("broken")

    assert read_by(attempt) == {name}


@pytest.mark.parametrize(
    "action",
    [
        lambda: os.listdir("data"),
        lambda: list(os.scandir("data")),
        lambda: glob.glob("data/*.json"),
        lambda: list(Path("data").rglob("*")),
        lambda: list(os.walk("data")),
    ],
)
def test_a_listed_folder_is_seen(here, action):
    (here / "data").mkdir()
    assert listed_by(action) == {"data"}


def test_a_search_for_modules_lists_no_folder(here):
    (here / "part.py").write_text("X = 1\n")
    importlib.invalidate_caches()
    assert listed_by(lambda: importlib.import_module("part")) == set()
    assert listed_by(lambda: list(importlib.metadata.distributions())) == set()


def test_what_the_process_writes_is_no_input(here):
    def action():
        Path("own.txt").write_text("x")
        Path("own.txt").read_text()
        Path("kept.part").write_text("x")
        os.replace("kept.part", "kept.txt")
        Path("kept.txt").read_text()

    assert read_by(action) == set()


def test_libraries_and_the_system_do_not_count(here):
    def action():
        importlib.reload(json)
        open(np.__file__).close()
        open("/proc/self/maps").close()
        open("/etc/hostname").close()

    assert read_by(action) == set()


def test_ignored_paths_and_what_is_missing_do_not_count(here):
    (here / "a.json").write_text("{}")
    os.mkfifo(here / "pipe")
    with recording() as opened:
        open("a.json").close()
        opened.ignore(lambda path: path.endswith("a.json"))
        open("a.json").close()
        note("pipe")
        with pytest.raises(OSError, match="gone"):
            open("gone").close()
    assert not opened.files


def test_a_declared_folder_does_not_count_but_for_files_that_its_identity_leaves_out(here):
    (here / "data/inner").mkdir(parents=True)
    for name in ("data/a.tif", "data/inner/b.tif", "data/c.aux.xml", "data.json"):
        (here / name).write_text(name)
    (here / "linked").symlink_to("data")

    def action():
        for folder, _, names in os.walk("data"):
            for name in names:
                open(f"{folder}/{name}").close()
        open("data.json").close()

    with recording() as opened:
        declare("linked", lambda name: name.endswith(".tif"))
        action()
    assert {os.path.relpath(path) for path in opened.files} == {"data/c.aux.xml", "data.json"}
    assert not opened.folders


def test_a_module_that_is_loaded_already_counts_with_the_files_of_its_first_recording(here):
    (here / "part.py").write_text("X = open('a.json').read()\n")
    (here / "a.json").write_text("{}")
    importlib.invalidate_caches()
    assert read_by(lambda: importlib.import_module("part")) == {"part.py", "a.json"}
    assert read_by(lambda: importlib.import_module("part")) == {"part.py", "a.json"}
    del sys.modules["part"]
    assert read_by(lambda: None) == set()


def test_recordings_see_only_what_happens_within_them(here):
    for name in "abc":
        (here / name).write_text(name)
    open("a").close()
    with recording() as outer:
        open("b").close()
        with recording() as inner:
            open("c").close()
    open("a").close()
    assert [os.path.basename(path) for path in outer.files] == ["b", "c"]
    assert [os.path.basename(path) for path in inner.files] == ["c"]


def test_what_is_recorded_apart_counts_where_it_is_included(here):
    (here / "data").mkdir()
    for name in ("a", "b", "declared"):
        (here / name).write_text(name)
    with recording() as user, recording() as other:
        declare("declared")
        with recording_apart() as apart:
            Path("a").read_text()
            Path("declared").read_text()
            Path("own").write_text("x")
            os.listdir("data")
        Path("b").read_text()
        assert [os.path.basename(path) for path in user.files] == ["b"]
        user.include(apart)
        Path("own").read_text()
    assert [os.path.basename(path) for path in user.files] == ["b", "a"]
    assert [os.path.basename(path) for path in user.folders] == ["data"]
    assert [os.path.basename(path) for path in other.files] == ["b", "own"]
    assert not other.folders
    Path("a").write_text("of now")
    with pytest.raises(PermafrostError, match="changed while it was read"):
        user.check()


@pytest.mark.parametrize("change", ["rewritten", "deleted"])
def test_a_file_that_changes_while_it_is_read_is_refused(here, change):
    (here / "a.json").write_text("{}")
    with recording() as opened:
        open("a.json").close()
        opened.check()
    (here / "a.json").unlink()
    if change == "rewritten":
        (here / "a.json").write_text("[]")
    with pytest.raises(PermafrostError, match="changed while it was read") as error:
        opened.check()
    assert str(here / "a.json") in str(error.value)
