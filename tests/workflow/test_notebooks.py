"""Notebooks of the documentation: each runs as it is printed, and its page has its texts and code."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from pathlib import Path

import pytest
from helpers.project import REPOSITORY

FOLDER = REPOSITORY / "docs/notebooks"


@pytest.fixture(scope="module")
def notebooks():
    """The program that executes notebooks."""
    found = importlib.util.spec_from_file_location("notebooks", FOLDER / "run.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def _told(page: str) -> str:
    """A page without what was printed, whose last digits depend on the machine."""
    return re.sub(r"```text\n.*?\n```", "```text```", page, flags=re.DOTALL)


def _check(notebooks, name: str, tmp_path: Path, monkeypatch, results: Path | None = None) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    text, figures = notebooks.page(name, tmp_path, results)
    assert _told(text) == _told((FOLDER / f"{name}.md").read_text()), "run docs/notebooks/run.py"
    assert all((REPOSITORY / "docs/images" / file).is_file() for file in figures)


@pytest.mark.parametrize("name", ["own_embeddings", "score_predictions"])
def test_a_notebook_of_generated_data_runs(notebooks, name, tmp_path, monkeypatch):
    _check(notebooks, name, tmp_path, monkeypatch)


def test_a_finished_study_is_read(notebooks, project, tmp_path, monkeypatch):
    _check(notebooks, "read_a_study", tmp_path, monkeypatch, project.path("results"))


def test_all_notebooks_are_tested_and_have_a_page(notebooks):
    scripts = {path.stem for path in FOLDER.glob("*.py")} - {"run"}
    assert scripts == {*notebooks.NAMES} == {path.stem for path in FOLDER.glob("*.md")}


def test_a_cell_that_fails_is_an_error(notebooks):
    assert list(notebooks.cells("# %% [markdown]\n# # A\n#\n# b\n\n# %%\nx = 1\nx\n")) == [
        (True, "# A\n\nb"),
        (False, "x = 1\nx"),
    ]
    assert notebooks._run("print(2)\n3", {}) == ("2", 3)
    with pytest.raises(ZeroDivisionError):
        notebooks._run("1 / 0", {})
