"""Backbones of the user's own, the template among them, and the files that identify a backbone."""

from __future__ import annotations

import sys
from importlib.metadata import version

import numpy as np
import pytest
import torch
from helpers.backbones import build, plan_input
from helpers.project import REPOSITORY
from helpers.stages.specifications import extraction_of
from helpers.stores.images import Dataset, card_of, rgb_bands
from permafrost.backbones.backbone import Resources
from permafrost.backbones.digest import identify
from permafrost.core.errors import PermafrostError
from permafrost.core.identity import code_digest
from permafrost.core.specification import merged
from permafrost.features.promised import PromisedBackbone
from permafrost.features.specification import Extraction, ExtractSpec, OfImages

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
    assert len(contract.strip().splitlines()) <= 28


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


@pytest.mark.parametrize("when", ["at once", "when it is called"])
def test_a_file_may_import_what_lies_in_the_repository(tmp_path, monkeypatch, when):
    (tmp_path / "shared_once.py").write_text("WIDTH = 3\n")
    sys.modules.pop("shared_once", None)
    (tmp_path / "nets").mkdir()
    line = "from shared_once import WIDTH\n"
    first, inside = (line, "") if when == "at once" else ("", f"    {line}")
    text = f"{first}def build(inputs):\n{inside}    return nn.Linear(WIDTH, 1)\n"
    entry = written(tmp_path / "nets", text)
    monkeypatch.chdir(tmp_path)
    assert made({"entrypoint": entry}).module.in_features == 3


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
        ("def biuld(inputs):\n    pass\n", {}, "has no 'build', did you mean 'biuld'"),
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


# --- what identifies a backbone ----------------------------------------------------------------------


def identified(entry: dict, root):
    return identify(entry, root, lambda path: root / path.replace("{data}", "data"))


def laid_out(root, **texts: str) -> None:
    """Write Python files; ``__`` in a name stands for a folder."""
    for name, text in texts.items():
        parts = name.replace("__init__", "INIT").split("__")
        path = root.joinpath(*parts).with_suffix(".py")
        path = path.with_name(path.name.replace("INIT", "__init__"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_files_are_weights_entry_point_and_what_the_entry_lists(tmp_path):
    entry = {
        "kind": "entrypoint",
        "entrypoint": "nets/own.py:build",
        "weights": {"source": "file", "path": "{data}/own.pt"},
        "files": ["./nets//blocks.py", f"{tmp_path}/nets/../table.csv"],
    }
    known = identified(entry, tmp_path)
    assert known.files == {
        "weights": "{data}/own.pt",
        "file nets/blocks.py": "./nets//blocks.py",
        "file table.csv": f"{tmp_path}/nets/../table.csv",
        "entrypoint": "nets/own.py",
    }
    assert known.entry == {
        "kind": "entrypoint",
        "entrypoint": ":build",
        "weights": {"source": "file"},
    }
    assert merged(known.entry, known.places) == entry


@pytest.mark.parametrize(
    "statement",
    [
        "import helper",
        "import helper as other",
        "from helper import WIDTH",
        "from own import helper",
        "from own.helper import *",
        "import own.helper",
        "def build(inputs):\n    from helper import WIDTH",
        "try:\n    import helper\nexcept ImportError:\n    pass",
        "import importlib\nimportlib.import_module('helper')",
        "from importlib import import_module\nimport_module('own.helper')",
        "__import__('helper')",
        "import between",
        "import package",
        "from package import part",
        "import package.part",
    ],
)
def test_the_modules_that_an_entry_point_imports_are_found(tmp_path, statement):
    laid_out(
        tmp_path,
        own__net=statement,
        own__helper="WIDTH = 3",
        own__between="import helper",
        own__package____init__="from . import part",
        own__package__part="from ..package.deep import leaf\nimport helper",
        own__package__deep__leaf="",
        own__unused="",
    )
    files = identified({"kind": "entrypoint", "entrypoint": "own/net.py:build"}, tmp_path).files
    found = set(files.values())
    assert "own/helper.py" in found
    assert "own/unused.py" not in found
    if "package" in statement:
        names = {"own/package/__init__.py", "own/package/part.py", "own/package/deep/leaf.py"}
        assert names <= found
    assert not {path for path in found if not path.startswith("own/")}


def test_a_module_of_the_repository_counts_by_its_files(tmp_path, monkeypatch):
    laid_out(tmp_path, nets____init__="", nets__own="from . import blocks", nets__blocks="")
    monkeypatch.chdir(tmp_path)
    known = identified({"kind": "entrypoint", "entrypoint": "nets.own:build"}, tmp_path)
    assert known.files == {
        "module nets": "nets/__init__.py",
        "module nets.own": "nets/own.py",
        "module nets.blocks": "nets/blocks.py",
    }
    assert known.package == {} and known.entry["entrypoint"] == "nets.own:build"


def test_an_installed_package_counts_by_its_version(tmp_path):
    known = identified({"kind": "entrypoint", "entrypoint": "torch.nn:Identity"}, tmp_path)
    assert known.files == {} and known.package == {"torch": version("torch")}


def test_a_package_that_is_installed_in_place_counts_by_its_files(tmp_path, monkeypatch):
    laid_out(
        tmp_path / "elsewhere",
        mypackage____init__="",
        mypackage__net="import mypackage.part",
        mypackage__part="",
    )
    monkeypatch.syspath_prepend(tmp_path / "elsewhere")
    known = identified({"kind": "entrypoint", "entrypoint": "mypackage.net:build"}, tmp_path / "x")
    assert {path.rpartition("/")[2] for path in known.files.values()} == {
        "__init__.py",
        "net.py",
        "part.py",
    }


@pytest.mark.parametrize("weights", [None, "ResNet50_Weights.X", {"source": "random"}])
def test_backbones_without_files_have_none(weights, tmp_path):
    entry = {"kind": "timm", "model": "x", "weights": weights}
    known = identified(entry, tmp_path)
    assert known.files == known.places == known.package == {} and known.entry == entry


# --- what was planned and what is there ----------------------------------------------------------------


def spec_of(entry: dict, **promises) -> ExtractSpec:
    return ExtractSpec(
        dataset="d",
        backbone="x",
        entry=entry,
        extraction=Extraction(**extraction_of()),
        inputs=OfImages(images=""),
        **promises,
    )


def promised(root, monkeypatch, entry: dict) -> tuple[dict, PromisedBackbone]:
    """The entry as a job knows it, and what it checks."""
    monkeypatch.chdir(root)
    known = identified(entry, root)
    files = {path: code_digest(root / path) for path in known.files.values()}
    return entry, PromisedBackbone(spec_of(entry, files=files), "backbone x")


def build_of(folder, name: str, text: str = "") -> dict:
    laid_out(
        folder, **{name: f"from torch import nn\n{text}\ndef build(inputs): return nn.Flatten()"}
    )
    return {"kind": "entrypoint", "entrypoint": f"{name.replace('__', '/')}.py:build"}


def test_files_as_they_were_planned_pass(tmp_path, monkeypatch):
    laid_out(tmp_path, mine__helper_once="", mine__helper_twice="import helper_once")
    entry = build_of(tmp_path, "mine__net", "import helper_twice\nfrom mine import helper_once")
    entry, check = promised(tmp_path, monkeypatch, entry)
    check.check()
    check.check(made(entry))


@pytest.mark.parametrize("name", ["mine/net.py", "mine/helper_edited.py"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_file_that_was_edited_since_is_named(tmp_path, monkeypatch, name, moment):
    laid_out(tmp_path, mine__helper_edited="")
    entry, check = promised(
        tmp_path, monkeypatch, build_of(tmp_path, "mine__net", "import helper_edited")
    )
    if moment == "after":
        check.check()
    (tmp_path / name).write_text("EDITED = True\n")
    with pytest.raises(PermafrostError, match=f"{name} changed since") as caught:
        check.check()
    assert caught.value.remedy == "start snakemake again"


def test_a_package_of_another_version_than_planned_is_named():
    spec = spec_of({"entrypoint": "torch.nn:Identity"}, package={"torch": "0.1"})
    with pytest.raises(PermafrostError, match="package torch was planned as 0.1"):
        PromisedBackbone(spec, "backbone x").check()
