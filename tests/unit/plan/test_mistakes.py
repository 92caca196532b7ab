"""What is wrong with a configuration is said while planning, all at once, and before anything heavy is imported."""

from __future__ import annotations

import copy
import json
import subprocess
import sys

import pytest
from helpers.plans import CONFIG, fill_root, make_plan
from permafrost.core.errors import PermafrostError
from permafrost.plan import installed

FOLDER = CONFIG["extra_datasets"]["pictures"]
S2 = {
    "task": "classification",
    "source": {"kind": "folder", "path": "{data}/pictures.zip"},
    "sensor": "sentinel2-l2a",
    "bands": ["B02", "B03", "B04", "B08"],
    "units": {"unit": "digital_number", "scale": 1.0e-4},
    "splits": {"method": "random"},
}
RADAR = {
    **FOLDER,
    "sensor": "sentinel1",
    "bands": ["VV", "VH"],
    "units": {"unit": "db"},
}
#: a centre that Sentinel-2 has no band at, and no width
SHORT_WAVE = {
    **{key: value for key, value in S2.items() if key != "sensor"},
    "bands": [{"name": "B1", "wavelength_nm": 1300}],
}


@pytest.fixture
def root(tmp_path):
    return fill_root(tmp_path / "root")


@pytest.fixture
def config():
    return copy.deepcopy(CONFIG)


def refused(root, config) -> str:
    with pytest.raises(PermafrostError) as caught:
        make_plan(root, config)
    return str(caught.value)


def with_backbone(config, entry, *datasets) -> dict:
    """The configuration with one backbone `entry`, called tried, and these datasets, called d0, d1, …"""
    config["extra_backbones"], config["backbones"] = {"tried": entry}, ["tried"]
    if datasets:
        config["extra_datasets"] = {f"d{number}": one for number, one in enumerate(datasets)}
        config["datasets"] = list(config["extra_datasets"])
    return config


def with_dataset(config, **changes) -> dict:
    """The configuration with one dataset, called tried: a folder of pictures, with changes; None drops a key."""
    entry = {key: value for key, value in {**FOLDER, **changes}.items() if value is not None}
    return {**config, "extra_datasets": {"tried": entry}, "datasets": ["tried"]}


# --- all at once --------------------------------------------------------------------------------------


def test_all_mistakes_are_one_numbered_list(root, config):
    config["backbones"] += ["stat", "nett", "typo", "moco", "far"]
    config["datasets"] += ["wrld", "bare"]
    config["extra_backbones"] |= {
        "typo": {"kind": "timm", "model": "resnet5", "weights": {"source": "random"}},
        "moco": {"kind": "torchgeo", "weights": "ResNet50_Weights.SENTINEL2_RGB_MOCOO"},
        "far": {"kind": "imagestats", "input": {"bands": ["B02", "B99"]}},
    }
    config["extra_backbones"]["net"]["weights"]["path"] = "{data}/nowhere.pt"
    config["extra_datasets"]["bare"] = {
        "task": "classification",
        "source": {"kind": "folder", "path": "{data}/pictures.zip"},
        "splits": {"method": "random", "fractions": [0.6, 0.3, 0.2]},
    }
    config["extraction"] = {"sise": 64}
    text = refused(root, config)
    lines = text.splitlines()
    wanted = (
        "extraction.sise: unknown key",
        "no backbone 'stat'",
        "no backbone 'nett'",
        "no dataset 'wrld'",
        "nowhere.pt cannot be read",
        "no model 'resnet5', did you mean 'resnet50'",
        "no weights 'ResNet50_Weights.SENTINEL2_RGB_MOCOO', did you mean",
        "bare: the entry has no bands",
        "bare: splits: fractions [0.6, 0.3, 0.2]",
        "far on world: the dataset 'world' has no band 'B99'",
        "far on pictures: the dataset 'pictures' has no band 'B99'",
    )
    for sentence in wanted:
        assert sum(sentence in line for line in lines) == 1, (sentence, text)
    assert lines[0] == "config.yaml: 11 mistakes were found while planning, and nothing was run"
    assert [line.split(".")[0].strip() for line in lines[1:]] == [str(n) for n in range(1, 12)], (
        text
    )
    assert all("Remedy: " in line for line in lines[1:]), text


def test_one_mistake_is_no_list(root, config):
    config["backbones"].append("stat")
    text = refused(root, config)
    assert text.startswith("backbones in the configuration: there is no backbone 'stat'")


def test_faults_of_the_schema_hide_no_mistake_in_entries(root, config):
    config["datasets"].append("wrld")
    config["probes"] = {"knn": {"kind": "knn", "neighbours": 3}}
    config["seeds"] = "many"
    text = refused(root, config)
    assert (
        "probes.knn.neighbours: unknown key" in text
        and "seeds: must be a list in [ ], not the text 'many'" in text
    )
    assert "no dataset 'wrld'" in text
    # what follows from another mistake is none of its own
    assert "3 mistakes" in text and "no probe" not in text


def test_a_configuration_of_wrong_types_is_judged_as_far_as_it_goes(root):
    text = refused(root, {"backbones": "rcf", "datasets": [1], "probes": [], "catalogues": []})
    assert "backbones: must be a list in [ ], not the text 'rcf'" in text
    assert "datasets.0: must be a text, not the number 1" in text


def test_a_catalogue_that_is_not_there_is_the_one_mistake(root, config):
    config["catalogues"] = ["/nowhere"]
    text = refused(root, config)
    assert (
        text.startswith("/nowhere: the catalogue folder does not exist") and "mistakes" not in text
    )


def test_a_misplaced_brace_does_not_hide_the_rest(root, config):
    config["extra_backbones"] = []
    config["datasets"].append("wrld")
    text = refused(root, config)
    assert (
        "extra_backbones: must be a mapping (key: value), not the list []" in text
        and "no dataset 'wrld'" in text
    )


# --- names ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"kind": "timm", "model": "resnet50.a1_in1", "weights": {"source": "random"}},
         "tried: model: timm .* has no weights 'resnet50.a1_in1', did you mean 'resnet50.a1_in1k'"),
        ({"kind": "timm", "model": "tv_resnet50", "weights": {"source": "random"}},
         "former name .* write resnet50.tv_in1k"),
        ({"kind": "timm", "model": "botnet50ts_256", "weights": {"source": "pretrained"}},
         "no pretrained weights for 'botnet50ts_256'"),
        ({"kind": "torchgeo", "weights": None}, "needs the key 'model'"),
        ({"kind": "torchgeo", "weights": None, "model": "resnet5"}, "did you mean 'resnet50'"),
        ({"kind": "torchgeo", "weights": "Aurora_Weights.HRES_T0_AURORA"},
         "forecasts weather fields"),
        ({"kind": "torchgeo", "model": "resnet18", "weights": "ResNet50_Weights.SENTINEL2_RGB_MOCO"},
         "the weights are for resnet50, not for resnet18"),
        ({"kind": "entrypoint", "entrypoint": "own.py:biuld"}, "no function 'biuld', did you mean 'build'"),
        ({"kind": "entrypoint", "entrypoint": "own.py:build", "options": {"depht": 1}},
         "takes no option 'depht', did you mean 'depth'"),
        ({"kind": "entrypoint", "entrypoint": "broken.py:build"}, "cannot be parsed .*broken.py"),
    ],
)  # fmt: skip
def test_a_backbone_that_cannot_be_built_is_known(root, config, entry, message):
    (root / "own.py").write_text("import os\nSIZE = 3\ndef build(inputs, *, depth=2): ...\n")
    (root / "broken.py").write_text("def build(inputs:\n")
    with pytest.raises(PermafrostError, match=message):
        make_plan(root, with_backbone(config, entry))


@pytest.mark.parametrize(
    "source",
    [
        "from os import path as build",
        "from os.path import *",
        "if True:\n    def build(inputs): ...",
        "build = print",
        "def build(inputs, **options): ...",
        "import functools\n@functools.cache\ndef build(inputs): ...",
    ],
)
def test_a_function_that_is_made_in_another_way_is_left_to_its_job(root, config, source):
    (root / "own.py").write_text(source + "\n")
    entry = {"kind": "entrypoint", "entrypoint": "own.py:build", "options": {"depth": 1}}
    make_plan(root, with_backbone(config, entry))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"name": "EuroSat"}, "no dataset of images named 'EuroSat', did you mean 'EuroSAT'"),
        (
            {"name": "EuroSAT", "arguments": {"rot": "x"}},
            "takes no argument 'rot', did you mean 'root'",
        ),
        ({"name": "EuroSAT", "split_arguments": {"train": {"splt": "x"}}}, "did you mean 'split'"),
    ],
)
def test_a_class_of_torchgeo_is_known_by_name_and_arguments(root, config, source, message):
    with pytest.raises(PermafrostError, match=message):
        make_plan(root, with_dataset(config, source={"kind": "torchgeo", **source}))


# --- bands and units -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "dataset", "message"),
    [
        ({"kind": "imagestats", "input": {"bands": ["nir"]}}, FOLDER, "no band 'nir'"),
        ({"kind": "rcf"}, RADAR, "no band 'red', 'green', 'blue'"),
        ({"kind": "torchgeo", "weights": "ResNet50_Weights.SENTINEL2_ALL_MOCO"}, S2, "no band 'B1'"),
        ({"kind": "timm", "model": "resnet18", "weights": {"source": "pretrained"},
          "input": {"bands": "all"}}, S2, "mean has 3 values, but 4 channels are fed"),
        ({"kind": "timm", "model": "resnet18", "weights": {"source": "pretrained"},
          "input": {"bands": "all", "mean": [1, 1], "std": [1, 1]}}, RADAR,
         "the weights want unit_interval, but the band VV holds db"),
        ({"kind": "torchgeo", "weights": None, "model": "copernicusfm_base"},
         {**RADAR, "sensor": "dem", "bands": ["elevation"]},
         "needs the wavelength of every band.* elevation"),
        ({"kind": "torchgeo", "weights": None, "model": "copernicusfm_base"}, SHORT_WAVE,
         "needs the bandwidth of every band.* B1"),
        ({"kind": "torchgeo", "weights": None, "model": "copernicusfm_base", "bandwidths_nm": [9, 9]},
         SHORT_WAVE, "needs the bandwidth of every band.* B1"),
        ({"kind": "torchgeo", "weights": "ResNet50_Weights.SENTINEL2_RGB_MOCO",
          "input": {"bands": "all", "normalization": "dataset"}}, S2,
         "trained with 3 channels, 4 are fed"),
    ],
)  # fmt: skip
def test_what_a_dataset_cannot_give_a_backbone_is_known(root, config, entry, dataset, message):
    with pytest.raises(PermafrostError, match=message) as caught:
        make_plan(root, with_backbone(config, entry, dataset))
    assert "tried on d0" in caught.value.where


def test_what_fits_is_no_mistake(root, config):
    entry = {"kind": "torchgeo", "weights": "ResNet50_Weights.SENTINEL2_RGB_MOCO"}
    make_plan(root, with_backbone(config, entry, S2, S2))
    filled = {"kind": "torchgeo", "weights": "ResNet50_Weights.SENTINEL2_ALL_MOCO"}
    filled["input"] = {"missing": "zero"}
    make_plan(root, with_backbone(config, filled, S2))
    widths = {
        "kind": "torchgeo",
        "weights": None,
        "model": "copernicusfm_base",
        "bandwidths_nm": [9],
    }
    make_plan(root, with_backbone(config, widths, SHORT_WAVE))
    radar = {"kind": "torchgeo", "weights": None, "model": "dofa_base_patch16_224"}
    make_plan(root, with_backbone(config, radar, RADAR))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bands": None, "units": None}, "has no bands.* bands: .* units: "),
        ({"units": None}, "band red has no unit"),
        ({"units": {"unit": "digital_number"}}, "needs a scale"),
        ({"sensor": "sentinl2"}, "unknown sensor 'sentinl2'"),
        ({"bands": ["red", "gren", "blue"]}, "no band 'gren'"),
        ({"bands": ["red", "red", "blue"]}, "declared twice: red"),
        ({"select": ["nir"]}, "select: there is no band 'nir'"),
        ({"splits": {"method": "random", "fractions": [0.5, 0.4, 0.2]}}, "sum 1"),
        ({"splits": {"method": "block"}}, "need block_km"),
        ({"splits": {"map": {"train": ["a"], "val": ["a"]}}}, "mapped twice"),
        ({"splits": {"method": "random", "map": {"train": ["a"]}}}, "do not use map"),
        ({"splits": None}, "the split of images into train.*split_folders"),
        ({"task": "multilabel"}, "a source of kind 'folder' offers .*, not multilabel"),
        ({"task": "segmentation"}, "masks need the list of classes"),
        ({"ignore_index": 255}, "ignore_index has no meaning here"),
        ({"tiles": {"size": 32}}, "tiles has no meaning here"),
        ({"classes": ["a", "b"], "dead_classes": ["a"]}, "dead_classes has no meaning here"),
        ({"source": {"kind": "demo", "bands": ["B02", "B77"]}}, "no band 'B77'"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_dataset_by_itself_is_known(root, config, changes, message):
    with pytest.raises(PermafrostError, match=message) as caught:
        make_plan(root, with_dataset(config, **changes))
    assert ": tried: " in str(caught.value) and "Remedy: " in str(caught.value)


# --- probes --------------------------------------------------------------------------------------------


def test_a_probe_that_serves_no_dataset_is_a_mistake(root, config):
    config["probes"]["seg"] = {"kind": "segmentation", "head": "linear"}
    text = refused(root, config)
    assert text.startswith(
        "config.yaml: probes.seg: the probe 'seg' of kind segmentation fits none"
    )
    assert "tasks are classification, multilabel" in text
    assert "add a dataset of the task change or segmentation" in text


def test_a_probe_of_series_needs_a_dataset_of_series(root, config):
    config["probes"]["when"] = {"kind": "ltae"}
    text = refused(root, config)
    assert (
        "probes.when: the probe 'when' of kind ltae fits none of the datasets,"
        " none of whose samples are series of dates"
    ) in text
    assert "with dates: series, or remove the probe" in text


def test_a_dataset_of_single_dates_needs_more_than_a_probe_of_series(root, config):
    config["probes"] = {"when": {"kind": "ltae"}}
    text = refused(root, config)
    assert "no probe of this configuration serves the task 'classification' of dataset" in text
    assert "add a probe of kind few_shot" in text and "or ltae" not in text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"probes": {"seg": {"kind": "segmentation", "head": "linear", "learning_rate": 1.0e-7}}},
         "probes.seg: the learning rate 1e-07 is below min_learning_rate 1e-06"),
        ({"probes": {"ft": {"kind": "fine_tune", "epochs": 2, "warmup_epochs": 3}}},
         "probes.ft: warmup_epochs: a warm-up of 3 of 2 epochs"),
        ({"probes": {"seg": {"kind": "segmentation", "head": "linear", "ltae": {"heads": 3}}}},
         "probes.seg.ltae: 256 hidden channels cannot be divided equally among 3 heads"),
        ({"probes": {"linear": {"kind": "linear", "c_min": 1.0, "c_max": 1.0}}},
         "probes.linear: c_min and c_max are both 1"),
        ({"extraction": {"precision": "fp16"}, "runtime": {"device": "cpu"}},
         "extraction: precision: fp16 needs a GPU"),
        ({"extra_backbones": {"stats": {"kind": "rcf", "kernel_size": 225}}, "backbones": ["stats"]},
         "stats: kernel_size: 225 exceeds the image of 224 pixels"),
    ],
)  # fmt: skip
def test_options_that_exclude_each_other_are_known(root, config, changes, message):
    config["extra_datasets"]["pixels"] = {"task": "segmentation", "source": {"kind": "demo"}}
    seg = {"seg": {"kind": "segmentation", "head": "linear"}, "knn": {"kind": "knn"}}
    config["datasets"].append("pixels")
    config |= {**changes, "probes": {**seg, **changes.get("probes", {})}}
    with pytest.raises(PermafrostError, match=message):
        make_plan(root, config)


# --- how it is known -----------------------------------------------------------------------------------

PROGRAM = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from permafrost.core.errors import PermafrostError
from permafrost.plan.plan import Plan
try:
    Plan(json.loads(sys.argv[3]), Path(sys.argv[2]))
    print("planned")
except PermafrostError as error:
    print("refused")
print(sorted({"torch", "timm", "torchgeo", "torchvision"} & set(sys.modules)))
"""


@pytest.mark.parametrize(("model", "end"), [("resnet18", "planned"), ("resnet5", "refused")])
def test_planning_imports_nothing_heavy(root, config, model, end):
    config["extra_backbones"]["net"]["model"] = model
    config["extra_backbones"]["moco"] = {
        "kind": "torchgeo",
        "weights": "ResNet50_Weights.SENTINEL2_RGB_MOCO",
        "input": {"normalization": "dataset"},
    }
    config["backbones"].append("moco")
    library = str(installed.FILE.parents[2])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, library, str(root), json.dumps(config)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [end, "[]"], done.stderr


@pytest.fixture
def other_versions(monkeypatch):
    """Other versions than the locked ones are installed; counts how often they are asked."""
    content = json.loads(installed.FILE.read_text())
    content["versions"] = dict.fromkeys(installed.PACKAGES, "99.0")
    content["timm"]["models"]["oldnet"] = {"": 0}
    asked = []

    def run(command, **_):
        asked.append(command)
        return subprocess.CompletedProcess(command, 0, stdout=json.dumps(content), stderr="")

    monkeypatch.setattr(installed, "version", lambda _: "99.0")
    monkeypatch.setattr(installed.subprocess, "run", run)
    return asked


def test_other_versions_are_asked_once(root, config, other_versions):
    config["extra_backbones"]["net"]["model"] = "oldnet"
    make_plan(root, config)
    make_plan(root, config)
    assert len(other_versions) == 1
    config["extra_backbones"]["net"]["model"] = "oldnett"
    assert "timm 99.0 has no model 'oldnett', did you mean 'oldnet'" in refused(root, config)


def test_versions_that_cannot_be_asked_leave_it_to_the_jobs(root, config, monkeypatch):
    failed = subprocess.CompletedProcess([], 1, stdout="", stderr="ImportError")
    monkeypatch.setattr(installed, "version", lambda _: "99.0")
    monkeypatch.setattr(installed.subprocess, "run", lambda *_, **__: failed)
    config["extra_backbones"]["net"]["model"] = "oldnet"
    make_plan(root, config)
