"""How one module is read for what it uses: imports, names in text, and what is kept of both."""

from __future__ import annotations

import json

import pytest
from permafrost.plan import sources
from permafrost.plan.sources import stage_files, stage_modules


def forget() -> None:
    """Nothing of the library was read yet."""
    for function in vars(sources).values():
        if hasattr(function, "cache_clear"):
            function.cache_clear()


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A function that writes a toy library and returns the modules that stage ``s`` uses."""

    def write(**files: str) -> set[str]:
        for name, text in {"__init__": "", "stages/__init__": "", **files}.items():
            path = tmp_path / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        monkeypatch.setattr(sources, "ROOT", tmp_path)
        forget()
        found = {name.removeprefix("permafrost.") for name in stage_modules("s")}
        return found - {"permafrost", "stages", "stages.s"}

    yield write
    monkeypatch.undo()
    forget()


def test_a_damaged_record_is_made_anew(toy, tmp_path):
    files = {"stages/s": "from .. import a", "a": ""}
    toy(**files)
    kept = tmp_path / "__pycache__" / "sources.json"
    before = sources.code_hash("s")
    for damage in ("", "{", "[]", "null", '{"library": 1}'):
        kept.write_text(damage)
        toy(**files)
        assert sources.code_hash("s") == before
        assert json.loads(kept.read_text())["files"]


@pytest.mark.parametrize(
    "text",
    [
        "from ..a import b",
        "from ..a.b import thing",
        "from .. import a\nfrom ..a import b",
        "import permafrost.a.b",
        "from permafrost.a import b",
        "def f():\n    from ..a.b import thing",
        "import importlib\nimportlib.import_module('permafrost.a.b')",
        "KIND = 'permafrost.a.b:build'",
    ],
)
def test_every_way_of_importing_is_followed(toy, text):
    files = {"stages/s": text, "a/__init__": "from . import c", "a/b": "", "a/c": "", "a/d": ""}
    assert toy(**files) == {"a", "a.b", "a.c"}


def test_relative_names_in_text_are_followed(toy):
    files = {"stages/s": "from .. import a", "a/__init__": "KINDS = {'b': '.b:build'}", "a/b": ""}
    assert toy(**files) == {"a", "a.b"}


def test_a_folder_without_init_is_a_package_too(toy):
    assert toy(**{"stages/s": "from ..a import b", "a/b": ""}) == {"a.b"}


def test_circular_imports_come_to_an_end(toy):
    files = {"stages/s": "from .. import a", "a": "from . import b", "b": "from . import a"}
    assert toy(**files) == {"a", "b"}


def test_what_only_type_checkers_see_is_not_used(toy):
    text = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .. import a\n"
    assert toy(**{"stages/s": text, "a": ""}) == set()


@pytest.mark.parametrize(
    "text", [".", "..", "...", ".zarr", ".t.lock", "permafrost.", "permafrost..a", "a b.c", ""]
)
def test_text_that_names_no_module_is_passed_over(toy, text):
    assert toy(**{"stages/s": f"TEXT = {text!r}", "stages/t": "", "a": ""}) == set()


def test_files_named_in_text_belong_to_the_stage(toy, tmp_path):
    (tmp_path / "stages/template").mkdir(parents=True)
    for name in ("page.j2", "template/a.css", "unused.txt"):
        (tmp_path / "stages" / name).write_text("")
    toy(**{"stages/s": "FILES = 'page.j2', 'template'"})
    names = {file.name for file in stage_files.__wrapped__("s")} - {"__init__.py"}
    assert names == {"s.py", "page.j2", "a.css"}
