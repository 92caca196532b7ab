"""What changed between planning and running: named, and nothing is sealed."""

from __future__ import annotations

import json
import shutil

import pytest
from helpers.datasets.images import class_files, validated, write_folder
from helpers.stores.images import Dataset
from permafrost.core.errors import PermafrostError
from permafrost.core.identity import code_digest, file_digest
from permafrost.core.promised import Promised, file_state
from permafrost.core.specification import SPLITS
from permafrost.data.digest import source_digest
from permafrost.data.files import folders
from permafrost.plan.sources import code_hash
from permafrost.stages.cli import main


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "weights.pt"
    path.write_bytes(b"one")
    return path


def promised_file(path, digests: list, expected=None) -> Promised:
    def digest():
        digests.append(file_digest(path))
        return digests[-1]

    state = lambda: file_state(path)  # noqa: E731
    return Promised("the file", expected or file_digest(path), digest, state, where="here")


def test_content_is_read_once_while_its_state_stays(file):
    digests = []
    promised = promised_file(file, digests)
    for _ in range(3):
        promised.check()
    assert len(digests) == 1
    file.touch()
    promised.check()
    assert len(digests) == 2


@pytest.mark.parametrize("moment", ["before", "between"])
@pytest.mark.parametrize("harm", ["edited", "deleted"])
def test_changed_content_is_refused_at_any_check(file, moment, harm):
    promised = promised_file(file, [])
    if moment == "between":
        promised.check()
    file.write_bytes(b"two") if harm == "edited" else file.unlink()
    with pytest.raises(PermafrostError, match="the file") as caught:
        promised.check()
    assert "start snakemake again" in caught.value.remedy and caught.value.where == "here"


EDITING = """
from pathlib import Path
from torch import nn

class Editing(nn.Module):
    def forward(self, images):
        with Path({path!r}).open("a") as stream:
            stream.write("EDITED = 1")
        return images.mean(dim=(2, 3))

def build(inputs):
    return Editing()
"""


def test_a_file_edited_while_features_are_made_seals_nothing(tmp_path):
    helper, own = tmp_path / "helper.py", tmp_path / "own.py"
    helper.write_text("")
    own.write_text(EDITING.format(path=str(helper)))
    files = {str(path): code_digest(path) for path in (own, helper)}
    entry = {"kind": "entrypoint", "entrypoint": f"{own}:build"}
    with pytest.raises(PermafrostError, match="helper.py changed since this run was planned"):
        Dataset(tmp_path).extract(entry, files=files, extraction={"size": 32}, device="cpu")
    assert not list((tmp_path / "features").glob("*"))


def prepare_arguments(folder, place) -> list[str]:
    entry = {
        "task": "classification",
        "source": {"kind": "folder", "path": str(place)},
        "sensor": "rgb",
        "bands": ["red", "green", "blue"],
        "units": {"unit": "uint8"},
        "splits": {"method": "random", "fractions": [0.6, 0.2, 0.2]},
    }
    entry = validated(entry)
    spec = {"stage": "prepare", "dataset": "set", "entry": entry, "source": source_digest(entry)}
    stores = [str(folder / "out" / f"{split}.zarr") for split in SPLITS]
    return [
        "prepare",
        "--spec",
        json.dumps(spec),
        "--code",
        code_hash("prepare", spec),
        "--workers",
        "1",
        "--output",
        *stores,
        "--card",
        str(folder / "out" / "card.json"),
    ]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write_folder(tmp_path / "set", class_files(count=10))


def test_a_dataset_is_prepared_from_the_data_that_were_planned(tmp_path, place):
    assert main(prepare_arguments(tmp_path, place)) == 0
    assert (tmp_path / "out" / "card.json").is_file()


def test_data_that_changed_since_the_plan_are_refused_before_they_are_read(tmp_path, place, capsys):
    arguments = prepare_arguments(tmp_path, place)
    shutil.copy(*sorted((place / "field").iterdir())[:2])
    assert main(arguments) == 1
    said = capsys.readouterr().err
    assert "dataset set: the source's data changed since this run was planned" in said
    assert "start snakemake again" in said
    assert not (tmp_path / "out").exists()


def test_data_that_change_while_they_are_read_seal_nothing(tmp_path, place, capsys, monkeypatch):
    from permafrost.data.store import prepare as module

    arguments = prepare_arguments(tmp_path, place)
    reading = module.read_pixels

    def read_and_change(*given, **named):
        fits = reading(*given, **named)
        shutil.copy(*sorted((place / "field").iterdir())[:2])
        return fits

    monkeypatch.setattr(module, "read_pixels", read_and_change)
    assert main(arguments) == 1
    assert "changed since this run was planned" in capsys.readouterr().err
    assert not list((tmp_path / "out").glob("[!.]*"))


def test_data_are_hashed_once_for_both_checks(tmp_path, place, monkeypatch):
    arguments, count = prepare_arguments(tmp_path, place), []
    original = folders.file_digest
    monkeypatch.setattr(folders, "file_digest", lambda path: count.append(path) or original(path))
    assert main(arguments) == 0
    assert len(count) == len(set(count)) > 0
