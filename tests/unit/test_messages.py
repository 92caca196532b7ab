"""What new users meet: each mistake is one message that says what is wrong, where, and what to do."""

from __future__ import annotations

import copy

import pytest
from helpers.plans import CONFIG, fill_root, make_plan
from permafrost.core.errors import PermafrostError
from permafrost.operate.failures import check_executor
from permafrost.stages.cli import main


def changed(**changes) -> dict:
    return {**copy.deepcopy(CONFIG), **changes}


def entry(of: str, called: str, **changes) -> dict:
    config = copy.deepcopy(CONFIG)
    config[f"extra_{of}s"][called] |= changes
    return config


# configuration -> what is said of what is wrong, and where
PLANNED = {
    "misspelt key": (changed(backbonez=["net"]), "backbonez", "did you mean 'backbones'"),
    "misspelt backbone": (changed(backbones=["nett"]), "'nett'", "did you mean 'net'"),
    "misspelt dataset": (changed(datasets=["wrld"]), "'wrld'", "did you mean 'world'"),
    "misspelt kind": (
        changed(probes={"a": {"kind": "liner"}}),
        "probes.a",
        "did you mean 'linear'",
    ),
    "misspelt option": (
        changed(probes={"knn": {"kind": "knn", "neighbours": 3}}),
        "probes.knn.neighbours",
        "known: ",
    ),
    "wrong type": (changed(bootstrap={"resamples": "many"}), "bootstrap.resamples", "'many'"),
    "no backbones": (changed(backbones=[]), "backbones", "empty"),
    "null for a list": (changed(datasets=None), "datasets", "a list in [ ]"),
    "named twice": (changed(backbones=["net", "net"]), "backbones", "twice"),
    "unknown kind of backbone": (
        entry("backbone", "net", kind="huggingface"),
        "net",
        "'huggingface'",
    ),
    "data that are missing": (
        entry("dataset", "pictures", source={"kind": "folder", "path": "{data}/none.zip"}),
        "pictures",
        "none.zip does not exist",
    ),
    "weights that are missing": (
        entry("backbone", "net", weights={"source": "file", "path": "{data}/none.safetensors"}),
        "net",
        "none.safetensors",
    ),
    "file of an entry point": (entry("backbone", "own", entrypoint="none.py:build"), "own", "none"),
    "model of timm": (entry("backbone", "net", model="resnet5"), "net: model", "'resnet50'"),
    "band that nobody has": (
        entry("backbone", "net", input={"bands": ["B99"], "size": 64}),
        "net on pictures",
        "no band 'B99'",
    ),
    "bands that are not declared": (entry("dataset", "pictures", bands=None), "bands", "pictures"),
    "fractions above 1": (
        entry("dataset", "pictures", splits={"method": "random", "fractions": [0.6, 0.3, 0.2]}),
        "pictures",
        "sum 1",
    ),
    "probe that serves nothing": (
        changed(probes={"seg": {"kind": "segmentation", "head": "linear"}}),
        "seg",
        "fits none of the datasets",
    ),
}


@pytest.mark.parametrize("mistake", PLANNED)
def test_a_plan_says_what_is_wrong_where_and_what_to_do(mistake, tmp_path):
    config, *words = PLANNED[mistake]
    with pytest.raises(PermafrostError) as caught:
        make_plan(fill_root(tmp_path), config)
    said = str(caught.value)
    assert [word for word in words if word not in said] == [], said
    assert "Remedy: " in said and caught.value.where


COMMANDS = {
    "misspelt command": (["sho"], 2, "did you mean 'show'?"),
    "no results to show": (["show"], 1, "Remedy: "),
    "no plan": (["stale"], 1, "no project was found: no folder"),
    "no methods": (["methods"], 1, "no project was found: no folder"),
    "nothing to export": (["export"], 1, "Remedy: "),
    "no archive": (["restore", "none.zip"], 1, "none.zip"),
    "unknown dataset": (
        ["check", "--here", "rcf", "--dataset", "eurosatt"],
        1,
        "did you mean 'eurosat'",
    ),
    "data that are not here": (
        ["check", "--here", "rcf", "--dataset", "geobench-eurosat", "--data", "none"],
        1,
        "Remedy: ",
    ),
    "weights without a network": (
        [
            "check",
            "--here",
            "mobilenetv2-imagenet",
            "--dataset",
            "demo-landcover",
            "--data",
            "none",
        ],
        1,
        "Remedy: ",
    ),
    "wrong bands": (
        ["check", "--here", "croma-base", "--dataset", "demo-detection"],
        1,
        "has no band",
    ),
    "no GPU": (
        ["check", "--here", "rcf", "--dataset", "demo-landcover", "--device", "cuda:7"],
        1,
        "there is no device cuda:7",
    ),
    "folder without labels": (["new", "dataset", "."], 1, "Remedy: use a folder for each class"),
    "configuration that is nowhere": (
        ["list", "datasets", "--config", "none.yaml"],
        1,
        "none.yaml: cannot be read",
    ),
    "configuration that is no YAML": (
        ["list", "datasets", "--config", "broken.yaml"],
        1,
        "broken.yaml: cannot be read as YAML",
    ),
    "truth that is nowhere": (
        ["evaluate-boxes", "--truth", "none.csv", "--predictions", "none.csv"],
        1,
        "none.csv: the file does not exist. Remedy: check --truth",
    ),
}


@pytest.mark.parametrize("mistake", COMMANDS)
def test_a_command_says_it_in_one_message_without_a_traceback(
    mistake, tmp_path, monkeypatch, capsys
):
    arguments, status, words = COMMANDS[mistake]
    (tmp_path / "broken.yaml").write_text("datasets: [a\n")
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == status
    printed = capsys.readouterr()
    said = [line for line in printed.err.splitlines() if line.startswith("permafrost")]
    assert words in printed.err and "Traceback" not in printed.err + printed.out
    assert len([line for line in said if "error" in line or "no command" in line]) == 1


def test_slurm_that_is_not_here_is_said_before_the_first_job(monkeypatch, tmp_path):
    class Workflow:
        class executor_plugin:
            name = "slurm"

    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PermafrostError, match="no sbatch and no squeue.*Remedy: .*--profile local"):
        check_executor(Workflow)


def test_several_mistakes_are_told_at_once(tmp_path):
    config = changed(backbones=["nett"], datasets=["wrld"], backbonez=[])
    with pytest.raises(PermafrostError, match="3 mistakes were found") as caught:
        make_plan(fill_root(tmp_path), config)
    assert all(word in str(caught.value) for word in ("'nett'", "'wrld'", "backbonez"))
