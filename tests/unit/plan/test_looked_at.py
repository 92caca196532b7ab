"""What the files of a configuration show is said while planning, and what is said is not looked for again."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from permafrost.core.errors import PermafrostError
from permafrost.data import sampled
from permafrost.operate import failures
from permafrost.plan.checks import check_entrypoint
from permafrost.plan.plan import Plan
from PIL import Image

RANDOM = np.random.default_rng(0)
TABLE = {"kind": "table", "table": "{data}/list.csv", "images": "{data}/scenes", "path": "file"}


def images(root, count: int = 24, channels: int = 3, dtype=np.uint8) -> None:
    for number in range(count):
        path = root / "data/scenes" / "ab"[number % 2] / f"{number:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        shape = (16, 16, channels) if channels > 1 else (16, 16)
        Image.fromarray(RANDOM.integers(0, 200, shape).astype(dtype)).save(path)


def listed(root, *, separator=",", row=lambda n: f"{'ab'[n % 2]}/{n:02d}.png,{'ab'[n % 2]},{n}"):
    lines = ["file,label,number", *map(row, range(24))]
    (root / "data/list.csv").write_text("\n".join(lines).replace(",", separator) + "\n")


def planned(root, **dataset) -> Plan:
    entry = {
        "task": "classification",
        "source": {"kind": "folder", "path": "{data}/scenes"},
        "sensor": "rgb",
        "bands": ["red", "green", "blue"],
        "units": {"unit": "uint8"},
        "splits": {"method": "random"},
        **dataset,
    }
    entry = {key: value for key, value in entry.items() if value is not None}
    config = {
        "catalogues": [],
        "backbones": ["stats"],
        "datasets": ["mine"],
        "extra_backbones": {"stats": {"kind": "imagestats", "input": {"bands": "all"}}},
        "extra_datasets": {"mine": entry},
        "probes": {"knn": {"kind": "knn"}},
    }
    return Plan(config, root, where="config.yaml")


def refused(root, **dataset) -> str:
    with pytest.raises(PermafrostError) as caught:
        planned(root, **dataset)
    text = str(caught.value)
    assert text.startswith("extra_datasets in the configuration: mine: ") and "Remedy: " in text
    return text


def test_a_good_dataset_is_looked_at_once(tmp_path, monkeypatch):
    images(tmp_path)
    looks = []
    check = sampled.check_samples
    monkeypatch.setattr(sampled, "check_samples", lambda *a, **k: looks.append(check(*a, **k)))
    planned(tmp_path)
    planned(tmp_path)
    assert len(looks) == 1
    # another reading of the same files is another question
    planned(tmp_path, gsd_m=10)
    assert len(looks) == 2


def test_one_damaged_image_of_those_that_are_sampled(tmp_path):
    images(tmp_path)
    path = tmp_path / "data/scenes/a/00.png"
    path.write_bytes(path.read_bytes()[:60])
    assert "1 of 8 images cannot be used: a/00.png" in refused(tmp_path)
    # who allows some has them counted by the job
    planned(tmp_path, on_error={"skip_up_to": 0.1})


def test_images_that_are_other_than_the_entry_says(tmp_path):
    images(tmp_path, channels=4)
    assert "convert: [alpha]" in refused(tmp_path)
    images(tmp_path, channels=1, dtype=np.uint16)
    text = refused(tmp_path, sensor=None, bands=[{"name": "pan"}])
    assert "uint16" in text and "uint8" in text


def test_a_folder_of_a_class_that_holds_nothing(tmp_path):
    images(tmp_path)
    (tmp_path / "data/scenes/c").mkdir()
    assert "the folder c of " in refused(tmp_path)
    planned(tmp_path, allow_missing_classes=True)
    (tmp_path / "data/scenes/c").rename(tmp_path / "data/scenes/.c")
    planned(tmp_path)


def test_too_few_images_to_divide(tmp_path):
    images(tmp_path, count=2)
    assert "2 images cannot be divided" in refused(tmp_path)


@pytest.mark.parametrize(
    ("row", "source", "words"),
    [
        (lambda n: f"x/{n}.png,{'ab'[n % 2]},1", {"label": "label"}, "24 of 24 files listed in"),
        (lambda n: f"a/00.png,{'ab'[n % 2]},1", {"label": "label"}, "listed more than once"),
        (lambda n: f"{'ab'[n % 2]}/{n:02d}.png,,1", {"label": "label"}, "an empty cell in label"),
    ],
)
def test_rows_of_a_table_that_cannot_be_used(tmp_path, row, source, words):
    images(tmp_path)
    listed(tmp_path, row=row)
    assert words in refused(tmp_path, source={**TABLE, **source})


def test_a_number_that_is_none_and_a_list_with_another_separator(tmp_path):
    images(tmp_path)
    number = {"task": "regression", "target": {"name": "height"}}
    listed(tmp_path, row=lambda n: f"{'ab'[n % 2]}/{n:02d}.png,a,{n if n != 7 else 'tall'}")
    assert "has 'tall' in number" in refused(
        tmp_path, source={**TABLE, "target": "number"}, **number
    )
    listed(tmp_path, separator=";")
    text = refused(tmp_path, source={**TABLE, "label": "label"})
    assert "file;label;number" in text


def test_labels_that_are_missing_are_no_empty_list(tmp_path):
    images(tmp_path)
    listed(
        tmp_path,
        row=lambda n: (
            f"{'ab'[n % 2]}/{n:02d}.png,{'' if n == 5 else 'field;water'[: 5 + n % 2 * 6]},1"
        ),
    )
    labels = {"column": "label"}
    text = refused(tmp_path, task="multilabel", source={**TABLE, "labels": labels})
    assert "1 of 24 samples have nothing in label" in text and "missing: empty" in text
    planned(tmp_path, task="multilabel", source={**TABLE, "labels": {**labels, "missing": "empty"}})


# --- what an entry point and a machine show -----------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ("def build(): ...", "build", "takes no argument"),
        ("def build(*, size=1): ...", "build", "takes no argument"),
        (
            "class Net(nn.Module):\n    def __init__(self): ...",
            "Net",
            "a class that takes no inputs",
        ),
        ("class Net(torch.nn.Module):\n    x = 1", "Net", "a class that takes no inputs"),
        ("import surely_not_installed\ndef build(inputs): ...", "build", "surely_not_installed"),
        ("from surely_not_installed.x import y\ndef build(inputs): ...", "build", "not installed"),
    ],
)
def test_an_entry_point_that_cannot_be_called(tmp_path, text, name, words):
    (tmp_path / "own.py").write_text(text)
    with pytest.raises(PermafrostError, match=words) as caught:
        check_entrypoint({"entrypoint": f"own.py:{name}", "options": {}}, tmp_path, "mine")
    assert "mine: entrypoint" in str(caught.value) and "Remedy: " in str(caught.value)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("def build(inputs): ...", "build"),
        ("def build(*given): ...", "build"),
        ("class Net(nn.Module):\n    def __init__(self, inputs): ...", "Net"),
        ("class Net(Other): ...", "Net"),
        ("import json, numpy, helper\nfrom .x import y\ndef build(inputs): ...", "build"),
        (
            "try:\n    import surely_not_installed\nexcept ImportError: ...\ndef build(i): ...",
            "build",
        ),
        ("def build(inputs):\n    import surely_not_installed", "build"),
    ],
)
def test_an_entry_point_that_may_be_called(tmp_path, text, name):
    (tmp_path / "helper.py").touch()
    (tmp_path / "own.py").write_text(text)
    check_entrypoint({"entrypoint": f"own.py:{name}", "options": {}}, tmp_path, "mine")


def test_a_gpu_that_is_named_and_not_here(monkeypatch):
    here = SimpleNamespace(local_exec=True)
    monkeypatch.setattr(failures, "gpu_is_visible", lambda: False)
    with pytest.raises(PermafrostError, match="device is cuda:1, and no driver shows a GPU"):
        failures.check_gpu(here, "cuda:1")
    failures.check_gpu(here, "auto")
    failures.check_gpu(SimpleNamespace(local_exec=False), "cuda")
    monkeypatch.setattr(failures, "gpu_is_visible", lambda: True)
    failures.check_gpu(here, "cuda")


def test_a_guessed_key_of_a_table_is_answered_with_all(tmp_path):
    text = refused(tmp_path, source={"kind": "table", "csv": "list.csv", "file": "file"})
    for words in ("table (the CSV", "path (the column of file names)", "images (the folder", "lon"):
        assert words in text
    assert text.count("its keys are") == 1
