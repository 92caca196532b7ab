"""A new project is written whole, into an empty folder, or not at all."""

from __future__ import annotations

import os

import pytest
from permafrost.core.errors import PermafrostError
from permafrost.core.home import HOME
from permafrost.operate import new_project
from permafrost.operate.offers import read_offers, state_of
from permafrost.stages import cli


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("new") / "deep" / "mine"
    assert cli.main(["init", str(folder)]) == 0
    return folder


def test_its_entries_and_those_of_the_workflow_are_known(written):
    offers = read_offers(written)
    assert offers.backbones.entry("my-backbone")["entrypoint"].startswith("config/backbones/")
    assert state_of(offers.dataset("my-scenes")) == "here"
    assert offers.backbones.entry("rcf")
    # an entry of the workflow names a file beside it, not one of the project
    place = offers.backbones.entry("terrafm-base")["entrypoint"].rpartition(":")[0]
    assert place == str(HOME / "config/backbones/authors.py")


def test_every_file_that_its_readme_names_is_there(written):
    text = (written / "README.md").read_text()
    for name in ("config/config.yaml", "config/backbones/own.yaml", "data/my-scenes", "Snakefile"):
        assert f"`{name}`" in text and (written / name).exists()
    assert (written / ".gitignore").is_file() and not (written / "module.smk").exists()
    assert (written / "profiles/slurm/config.yaml").is_file()


def test_only_the_snakefile_differs_for_a_module(written, tmp_path):
    new_project.write_project(tmp_path / "other", module=True)
    names = {path.relative_to(written) for path in written.rglob("*") if path.is_file()}
    other = tmp_path / "other"
    assert names == {path.relative_to(other) for path in other.rglob("*") if path.is_file()}
    differing = {n for n in names if (other / n).read_bytes() != (written / n).read_bytes()}
    assert {str(name) for name in differing} == {"Snakefile"}


def test_an_empty_folder_is_filled_and_stays_the_same_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = os.stat(tmp_path).st_ino
    assert cli.main(["init", "."]) == 0
    assert os.stat(tmp_path).st_ino == before
    assert (tmp_path / "Snakefile").is_file() and not (tmp_path / ".init").exists()


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_what_is_there_is_left_alone(tmp_path, capsys, kind):
    place = tmp_path / "mine"
    file = place if kind == "file" else place / "notes.txt"
    file.parent.mkdir(exist_ok=True)
    file.write_text("mine")
    assert cli.main(["init", str(place)]) == 1
    assert "nothing is overwritten" in capsys.readouterr().err
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [file]


@pytest.mark.parametrize("exists", [False, True])
def test_a_failure_leaves_nothing(tmp_path, monkeypatch, exists):
    def fail(folder):
        raise PermafrostError("no images")

    monkeypatch.setattr(new_project, "_write_images", fail)
    if exists:
        (tmp_path / "mine").mkdir()
    assert cli.main(["init", str(tmp_path / "mine")]) == 1
    assert list(tmp_path.rglob("*")) == ([tmp_path / "mine"] if exists else [])


def test_a_folder_that_cannot_be_made_is_named(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert cli.main(["init", str(tmp_path / "file" / "mine")]) == 1
    assert str(tmp_path / "file") in capsys.readouterr().err
