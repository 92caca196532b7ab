"""What lists of datasets, backbones and probes say, and what is said of one."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from permafrost.core.errors import PermafrostError
from permafrost.core.tasks import TASKS
from permafrost.operate.chosen import Choice, parameter_count, weights_state
from permafrost.operate.described import describe, facts
from permafrost.operate.offers import (
    Offers,
    backbone_lines,
    dataset_lines,
    misfits,
    probe_lines,
    read_offers,
    state_of,
)
from permafrost.probes.kinds import KINDS

ROOT = Path(__file__).resolve().parents[3]
MINE = {
    "extra_datasets": {
        "mine": {
            "title": "My \x1b[31mscenes",
            "task": "classification",
            "source": {"kind": "folder", "path": "{data}/scenes"},
            "sensor": "rgb",
            "bands": ["red", "green", "blue"],
            "units": {"unit": "uint8"},
            "splits": {"method": "random"},
            "download": [{"hub": "owner/scenes", "file": "a.zip", "path": "{data}/scenes"}],
            "size_bytes": 2_070_000_000,
        },
        "broken": {"task": "classification"},
    },
    "extra_backbones": {
        "checkpoint": {
            "kind": "timm",
            "model": "resnet18",
            "weights": {"source": "file", "path": "{data}/mine.pth"},
        }
    },
}


@pytest.fixture
def offers(tmp_path) -> Offers:
    mine = tmp_path / "mine.yaml"
    mine.write_text(yaml.safe_dump(MINE))
    return read_offers(ROOT, [mine], tmp_path / "data")


def line_of(lines: list[str], name: str) -> str:
    (line,) = (line for line in lines if line.split("  ")[0] == name)
    return line


def test_every_entry_and_every_kind_of_probe_is_listed(offers):
    datasets, backbones = dataset_lines(offers), backbone_lines(offers)
    assert len(datasets) - 1 == len(offers.datasets.names(["all"]))
    assert len(backbones) - 1 == len(offers.backbones.names(["all"]))
    assert [line.split()[0] for line in probe_lines()[1:]] == list(KINDS)
    assert all(line.isprintable() for line in [*datasets, *backbones])
    for word in ("multilabel", "sentinel2-l1c", "13", "10 m", "MIT", "to fetch, 2.07 GB"):
        assert word in line_of(datasets, "eurosat") or word == "multilabel"
    assert line_of(datasets, "demo-height").endswith("generated")
    assert line_of(datasets, "so2sat").endswith("to get by hand")


def test_the_task_chooses_datasets_and_the_probes_that_serve_it(offers):
    chosen = dataset_lines(offers, "segmentation")[1:]
    assert {line.split()[1] for line in chosen} == {"segmentation"} and len(chosen) > 3
    for task in TASKS:
        listed = [line.split()[0] for line in probe_lines(task)[1:]]
        assert listed == [name for name, kind in KINDS.items() if task in kind.tasks]


def test_a_broken_entry_does_not_hide_the_others(offers):
    assert "broken entry" in line_of(dataset_lines(offers), "broken")
    with pytest.raises(PermafrostError, match="source"):
        describe(offers, "broken")


def test_a_line_says_whether_data_and_weights_are_here(offers):
    assert line_of(dataset_lines(offers), "mine").endswith("to fetch, 2.07 GB")
    assert "missing" in line_of(backbone_lines(offers), "checkpoint")
    scenes = offers.data / "scenes"
    scenes.mkdir(parents=True)
    # an empty folder, or one with what an interrupted download left, is not the data
    (scenes / ".a.zip.download").touch()
    assert state_of(offers.dataset("mine")).startswith("to fetch")
    (scenes / "1.png").touch()
    (offers.data / "mine.pth").touch()
    assert line_of(dataset_lines(offers), "mine").endswith("here")
    assert " here" in line_of(backbone_lines(offers), "checkpoint")


def test_fetched_weights_are_here(offers, monkeypatch, tmp_path):
    for name in ("TORCH_HOME", "HF_HOME", "HF_HUB_CACHE"):
        monkeypatch.setenv(name, str(tmp_path / "caches"))
    folder = offers.data / "weights"
    folder.mkdir(parents=True)
    named = ["croma-base", "croma-large", "resnet18-imagenet", "resnet50-imagenet"]
    states = {name: weights_state(offers, offers.backbones.entry(name)) for name in named}
    assert set(states.values()) == {"to download"}
    model = offers.backbones.entry("resnet18-imagenet")["model"]
    (folder / f"{model}.safetensors.sha256").touch()
    assert weights_state(offers, offers.backbones.entry("resnet18-imagenet")) == "to download"
    (folder / f"{model}.safetensors").touch()
    (folder / "CROMA_base-0238d814.pt").touch()
    states = {name: weights_state(offers, offers.backbones.entry(name)) for name in named}
    assert [name for name, state in states.items() if state == "here"] == [
        "croma-base",
        "resnet18-imagenet",
    ]


@pytest.mark.parametrize(
    ("choice", "among", "not_among"),
    [
        (Choice(pattern="*dinov3*"), "vit-base-dinov3", "vit-base-dinov2"),
        (Choice(pattern="Prithvi or SAM"), None, None),
        (Choice(pattern="siglip 2"), "vit-large-siglip2", "vit-large-clip"),
        (Choice(kind="rcf"), "rcf-all", "imagestats"),
        (Choice(bands="sentinel1"), "resnet50-s1-closp", "croma-base"),
        (Choice(bands="13"), "resnet50-s2-all-moco", "croma-base"),
        (Choice(bands="all"), "dofa-base", "croma-base"),
        (Choice(most_parameters=12_000_000), "resnet18-imagenet", "resnet50-imagenet"),
        (Choice(licence="cc0"), "resnet18-landsat-oli-sr-moco", "croma-base"),
        (Choice(fits="eurosat"), "croma-base", "resnet50-s1-closp"),
        (Choice(here=True), "resnet50-untrained", "checkpoint"),
    ],
)
def test_backbones_are_chosen_by_what_is_known_of_them(offers, choice, among, not_among):
    if among is None:
        with pytest.raises(PermafrostError, match="no backbone matches"):
            backbone_lines(offers, choice)
        return
    listed = {line.split()[0] for line in backbone_lines(offers, choice)[1:]}
    assert among in listed and not_among not in listed


def test_numbers_of_parameters_are_read_and_refused():
    assert [parameter_count(text) for text in ("86M", "1.1b", "300k", "7")] == [
        86_000_000,
        1_100_000_000,
        300_000,
        7,
    ]
    with pytest.raises(PermafrostError, match="is not a number of parameters"):
        parameter_count("many")


def test_what_a_dataset_feeds_a_backbone_is_said(offers):
    text = " ".join(" ".join(describe(offers, "remoteclip-vit-large", "dota")).split())
    assert "channel 1 red (red, 665 nm): (stored - 122.771) x 0.0145984" in text
    assert "trained on images of this dataset (dota)" in text and "224 px (bilinear)" in text
    with pytest.raises(PermafrostError, match="has no band 'B1', 'B9'"):
        describe(offers, "croma-base", "demo-landcover")
    with pytest.raises(PermafrostError, match="there is no backbone 'eurosat'"):
        describe(offers, "eurosat", "eurosat")


def test_what_fits_is_what_a_plan_would_take(offers):
    found = misfits(offers, ["demo-landcover", "eurosat"], ["rcf", "croma-base"])
    assert found["eurosat", "croma-base"] is None and found["eurosat", "rcf"] is None
    assert found["demo-landcover", "rcf"] is None
    assert "has no band 'B1', 'B9'" in found["demo-landcover", "croma-base"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mine", ["My \\x1b[31mscenes", "owner/scenes on the hub: a.zip", "2.07 GB to download"]),
        ("mine", ["3: red, green, blue", "licence not given", "method: random", "data/scenes"]),
        ("eurosat", ["doi:10.1109", "EuroSAT says where from", " backbones", "knn, "]),
        ("croma-base", ["fits ", " of ", "CROMABase_Weights.CROMA_VIT", "has no band 'B1', 'B9'"]),
        ("checkpoint", ["source: file", "resnet18"]),
        ("knn", ["tasks classification, multilabel, regression", "option k (default: 5)"]),
    ],
)
def test_one_is_described_with_all_that_is_known(offers, name, words):
    text = " ".join(" ".join(describe(offers, name)).split())
    assert [word for word in words if word not in text] == []


def test_an_unknown_name_is_refused_with_near_ones(offers):
    with pytest.raises(PermafrostError, match="did you mean 'eurosat'"):
        describe(offers, "eurosatt")


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ("prithvi", ["prithvi-eo-1-100m", "prithvi-eo-2-300m"]),
        ("dinov2", ["vit-base-dinov2", "vit-large-dinov2"]),
        ("DINO v2", ["vit-base-dinov2", "vit-large-dinov2"]),
        ("dofa", ["dofa-base", "dofa-large"]),
        ("crops with clouds", []),
    ],
)
def test_a_part_of_a_name_is_answered_with_a_short_list(offers, asked, names):
    if not names:
        with pytest.raises(PermafrostError, match="nor one like it; `permafrost list ") as caught:
            describe(offers, asked)
        assert len(str(caught.value)) < 300
        return
    first, _, *rows, last = describe(offers, asked)
    assert first.endswith(f"{len(rows)} are like it:") and last.startswith("permafrost info ")
    listed = [row.split()[0] for row in rows]
    assert set(names) <= set(listed) and len(listed) == len(set(listed)) < 20
    with pytest.raises(PermafrostError, match="did you mean"):
        facts(offers, asked)


def test_a_list_of_what_is_like_a_name_is_cut_and_says_how_to_see_the_rest(offers):
    *rows, more, _ = describe(offers, "resnet")
    assert len(rows) == 22 and "`permafrost list backbones resnet`" in more


def test_a_part_of_one_name_alone_is_that_name(offers):
    assert describe(offers, "checkp") == describe(offers, "checkpoint")
    assert facts(offers, "checkp")["name"] == "checkpoint"
    assert describe(offers, "dofa-larg", "eurosat") == describe(offers, "dofa-large", "eurosat")


def test_backbones_that_fit_a_dataset_are_counted_and_cannot_be_those_that_nobody_made(offers):
    text = " ".join(" ".join(describe(offers, "demo-landcover")).split())
    assert (
        f" of {len(offers.backbones.names(['all']))} backbones: " in text
        and " torchgeo, " in text
        and len(text) < 2000
    )
    assert "permafrost list backbones --fits demo-landcover" in text
    found = misfits(offers, ["m-pv4ger", "m-pv4ger-seg"], ["major-tom"])
    assert found["m-pv4ger", "major-tom"] is None
    assert "needs maps" in found["m-pv4ger-seg", "major-tom"]
    found = misfits(offers, ["demo-landcover", "eurosat"], ["alphaearth", "major-tom", "rcf"])
    assert found["eurosat", "alphaearth"] is None and found["demo-landcover", "rcf"] is None
    for name in ("alphaearth", "major-tom"):
        assert "generated images" in found["demo-landcover", name]
    # somebody who has made some of the generated world has them in the folder
    (offers.data / "alphaearth").mkdir(parents=True)
    assert (
        misfits(offers, ["demo-landcover"], ["alphaearth"])["demo-landcover", "alphaearth"] is None
    )


def test_lists_load_neither_torch_nor_what_validates():
    heavy = "'torch', 'torchgeo', 'numpy', 'jsonschema', 'urllib.request', 'huggingface_hub'"
    code = (
        "import sys; from permafrost.stages.cli import main; main(['list', sys.argv[1]]);"
        f"sys.exit(str([name for name in ({heavy}) if name in sys.modules] or ''))"
    )
    for what in ("datasets", "backbones", "probes"):
        done = subprocess.run(
            [sys.executable, "-c", code, what], cwd=ROOT, capture_output=True, text=True
        )
        assert done.stderr.strip() == "" and len(done.stdout.splitlines()) > 10


def test_info_loads_no_table():
    code = (
        "import sys; from permafrost.stages.cli import main; main(['info', 'eurosat']);"
        "sys.exit('loaded' if 'pyarrow.parquet' in sys.modules else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stderr.strip() == "" and "EuroSAT" in done.stdout


def test_a_wrong_policy_is_named_and_not_passed_over(offers):
    for wrong, words in (("autors", "did you mean 'authors'"), (["strict"], "fit: ")):
        asked = replace(offers, config={**offers.config, "fit": wrong})
        with pytest.raises(PermafrostError, match=words):
            asked.extraction()
    options = replace(offers, config={"fit": "authors"}).extraction()
    assert replace(offers, config={}).extraction() | {"fit": "authors"} == options
