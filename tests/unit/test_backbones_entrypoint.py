"""Backbones of the user's own, the template among them, and the files that identify a backbone."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from image_cases import Dataset, card_of, rgb_bands
from permafrost.backbones.backbone import Resources
from permafrost.backbones.digest import files_of
from permafrost.backbones.registry import build, plan_input
from permafrost.core.errors import PermafrostError
from project import REPOSITORY

TEMPLATE = REPOSITORY / "config" / "backbones" / "template.py"


def made(entry: dict):
    card = card_of(rgb_bands())
    entry = {"kind": "entrypoint", **entry}
    plan = plan_input(entry, {"size": 32}, card, where="backbone x")
    return build(entry, plan, Resources("backbone x", card, 0, None))


def written(folder, text: str, name="own.py") -> str:
    (folder / name).write_text("import torch\nfrom torch import nn\n" + text)
    return f"{folder / name}:build"


@pytest.mark.parametrize("pooling", [None, "mean", "cls", "both"])
def test_the_template_works_as_it_is(tmp_path, pooling):
    entry = {
        "kind": "entrypoint",
        "entrypoint": f"{TEMPLATE}:build",
        "options": {"patch": 8, "width": 10},
    }
    if pooling:
        entry["pooling"] = pooling
    dataset = Dataset(tmp_path)
    stores = dataset.extract(entry, extraction={"size": 32})
    assert stores["train"].read("embeddings").shape == (20, 20 if pooling == "both" else 10)
    again = dataset.extract(entry, extraction={"size": 32}, out="again")
    assert np.array_equal(stores["test"].read("embeddings"), again["test"].read("embeddings"))


def test_the_template_gives_maps(tmp_path):
    entry = {
        "kind": "entrypoint",
        "entrypoint": f"{TEMPLATE}:build",
        "options": {"patch": 8, "width": 10},
    }
    store = Dataset(tmp_path, masks=True).extract(entry, extraction={"size": 32})["val"]
    assert [layer["name"] for layer in store.attributes["layers"]] == ["mix", "project"]
    assert store.shape("map0")[1:] == store.shape("map1")[1:] == (10, 4, 4)
    pooled = store.read("map0").astype(np.float64).mean(axis=(2, 3))
    np.testing.assert_allclose(store.read("embeddings"), pooled, rtol=1e-2, atol=1e-2)


def test_the_template_loads_weights(tmp_path):
    model = made({"entrypoint": f"{TEMPLATE}:build"}).module
    torch.save(model.state_dict(), tmp_path / "own.pt")
    entry = {
        "entrypoint": f"{TEMPLATE}:build",
        "weights": {"source": "file", "path": str(tmp_path / "own.pt")},
        "seed": 5,
    }
    loaded = made(entry)
    assert torch.equal(loaded.module.project.weight, model.project.weight)
    assert loaded.weights_sha256


def test_the_contract_of_the_template_takes_about_a_dozen_lines():
    contract = TEMPLATE.read_text().partition('"""')[2].partition('"""')[0]
    assert len(contract.strip().splitlines()) <= 24


def test_random_weights_follow_the_seed_of_the_entry():
    first, again, other = (
        made({"entrypoint": f"{TEMPLATE}:build", "seed": seed}).module.project.weight
        for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_an_importable_name_is_looked_for_in_the_working_directory_first(tmp_path, monkeypatch):
    (tmp_path / "mine_once").mkdir()
    written(tmp_path / "mine_once", "def build(inputs):\n    return nn.Flatten()\n", "net.py")
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    assert isinstance(made({"entrypoint": "mine_once.net:build"}).module, torch.nn.Flatten)
    assert sys.path == path


def test_a_file_may_import_its_neighbours(tmp_path):
    (tmp_path / "neighbour_of_own.py").write_text("WIDTH = 3\n")
    entry = written(
        tmp_path,
        "from neighbour_of_own import WIDTH\ndef build(inputs):\n    return nn.Linear(WIDTH, 1)\n",
    )
    assert made({"entrypoint": entry}).module.in_features == 3


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (
            "def build(inputs, width=1):\n    return nn.Identity()\n",
            {"widht": 2},
            "did you mean 'width'",
        ),
        ("def build(inputs):\n    return 3\n", {}, "returned a int"),
        ("def build(inputs):\n    raise OSError('no such thing')\n", {}, "OSError: no such thing"),
        ("def biuld(inputs):\n    pass\n", {}, "no function 'build', did you mean 'biuld'"),
        ("import nothing_like_it\n", {}, "cannot be imported: ModuleNotFoundError"),
        (
            "def build(inputs):\n    m = nn.Linear(2, 2)\n    m.weight.data[0, 0] = torch.nan\n    return m\n",
            {},
            "'weight' holds 1",
        ),
        (
            "def build(inputs):\n    m = nn.Identity()\n    m.layout = 'HWC'\n    return m\n",
            {},
            "layout 'HWC'",
        ),
    ],
)
def test_what_does_not_keep_the_contract_is_told(tmp_path, text, options, message):
    with pytest.raises(PermafrostError, match=message):
        made({"entrypoint": written(tmp_path, text), "options": options})


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(PermafrostError, match=r"none.py does not exist"):
        made({"entrypoint": f"{tmp_path}/none.py:build"})


# --- which files identify a backbone -----------------------------------------------------------------


def test_files_are_weights_entry_point_and_what_the_entry_lists():
    entry = {
        "kind": "entrypoint",
        "entrypoint": "nets/own.py:build",
        "weights": {"source": "file", "path": "{data}/own.pt"},
        "files": ["nets/blocks.py"],
    }
    assert files_of(entry) == ["nets/blocks.py", "{data}/own.pt", "nets/own.py"]


def test_a_module_of_the_repository_counts_by_its_file_and_an_installed_one_does_not(
    tmp_path, monkeypatch
):
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets" / "own.py").write_text("")
    monkeypatch.chdir(tmp_path)
    assert files_of({"kind": "entrypoint", "entrypoint": "nets.own:build"}) == ["nets/own.py"]
    assert files_of({"kind": "entrypoint", "entrypoint": "torch.nn:Identity"}) == []


@pytest.mark.parametrize("weights", [None, "ResNet50_Weights.X", {"source": "random"}])
def test_backbones_without_files_have_none(weights):
    assert files_of({"kind": "timm", "model": "x", "weights": weights}) == []
