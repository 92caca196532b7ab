"""Every code block of README.md and docs/*.md that can run is run as printed, on small data."""

from __future__ import annotations

import copy
import dataclasses
import json
import os
import shlex
import shutil
import subprocess
import sys

import helpers.documents as documents
import pytest
import timm
import torch
import yaml
from helpers.project import REPOSITORY, Project
from permafrost.plan.catalogue import read_yaml
from permafrost.plan.demo import complete
from permafrost.plan.plan import Plan
from permafrost.probes.kinds import KINDS
from safetensors.torch import save_file

CONFIGURATIONS = documents.configurations()
# a command that several documents print is run once
COMMANDS = list({command: (place, command) for place, command in documents.commands()}.values())
# the one configuration that is whole: a backbone and a dataset of one's own
OWN_KEYS = ("extra_backbones:", "extra_datasets:", "datasets: [my-scenes]")
(OWN,) = (
    content
    for _, content in CONFIGURATIONS
    if all(key in content for key in ("extra_backbones", "extra_datasets", "backbones"))
)
# what is not run here, and why
NOT_RUN = {
    "envs/run permafrost run": "minutes; test_configuration.py plans it",
    "envs/run pytest": "this suite",
    "snakemake --profile slurm": "test_slurm.py runs it, through a Slurm",
    "snakemake --profile profiles/generic": "test_generic_cluster.py and test_slurm.py run it",
    "snakemake --profile profiles/kubernetes": "test_kubernetes.py plans it, and runs it in a stand-in",
    "export SNAKEMAKE_STORAGE_S3_ACCESS_KEY=": "the reader's keys; test_object_store.py has its own",
    "snakemake --profile local --default-storage-provider s3": "test_object_store.py runs it",
    "aws s3 sync": "a bucket of the reader's; test_object_store.py copies one",
    "envs/run python benchmarks/": "benchmarks take minutes and need peers",
    "envs/run python -m benchmarks": "tests/workflow/test_simulations.py runs small ones",
    "export PERMAFROST_TORCH_INDEX=": "names an address of the reader's; test_environment.py",
    "source .venv/bin/activate": "the environment is active",
    "permafrost published": "reads a table of others; test_published.py reads the real ones",
    "permafrost fetch": "downloads; test_fetch.py does so from a server of its own",
    "permafrost suite": "whole suites; test_suites.py tries the command",
    "permafrost check": "of a dataset and weights to be downloaded; test_check.py runs one of the demo",
    "rsync": "a cluster of the reader's",
    "cd my-project && permafrost run": "test_tutorials.py runs such a one",
    "HF_HUB_OFFLINE=1 permafrost run": "minutes, like permafrost run",
    "printf": "a package of the reader's; test_environments.py writes such files",
    "envs/lock.sh": "asks the package registry",
    "PERMAFROST_ENV=theirs": "needs that lock; test_environments.py installs such ones",
}


@pytest.fixture(scope="module")
def own(tmp_path_factory) -> Project:
    """The first configuration of one's own, as printed, run once."""
    project = Project(tmp_path_factory.mktemp("own") / "project")
    documents.write_data(project.path("data"))
    (text,) = [text for _, text in documents.blocks("yaml") if all(key in text for key in OWN_KEYS)]
    project.path("config/config.yaml").write_text(text)
    project.snakemake()
    return project


@pytest.mark.slow
def test_the_first_configuration_of_ones_own_runs_as_printed(own):
    rows = [row for row in own.leaderboard() if row["metric"] == "accuracy"]
    assert {(row["backbone"], row["probe"]) for row in rows} == {
        (backbone, probe) for backbone in OWN["backbones"] for probe in OWN["probes"]
    }
    assert max(row["value"] for row in rows) > 1 / 3  # better than chance
    assert own.path("results/report/index.html").is_file()


@pytest.mark.slow
def test_a_run_ends_with_the_answer_the_page_and_what_comes_next(own, monkeypatch, capsys):
    from permafrost.stages import run

    monkeypatch.chdir(own.folder)
    monkeypatch.setattr(run, "SHOWN", 2)
    run.print_end(run.Path("results"))
    printed = capsys.readouterr().out
    assert "my-scenes · linear · accuracy" in printed and "and 1 more: permafrost show" in printed
    *_, page, following = printed.splitlines()
    assert str(own.path("results/report/index.html")) in page and "archive" in following


def test_every_language_of_a_block_is_known():
    assert documents.languages() <= {
        "yaml",
        "bash",
        "python",
        "",
        "text",
        "json",
        "bibtex",
        "mermaid",
    }


@pytest.mark.parametrize(
    ("place", "content"), CONFIGURATIONS, ids=[place for place, _ in CONFIGURATIONS]
)
@pytest.mark.slow
def test_a_configuration_can_be_planned_as_printed(place, content, own):
    folder, defined = own.folder, entries()
    named = {"extra_datasets": {n: defined[n] for n in content.get("datasets", []) if n in defined}}
    config = {**named, **content}
    complete(config, [content], read_yaml(REPOSITORY / "config/demo.yaml"), folder)
    config.setdefault("data", str(folder / "data"))
    plan = Plan(config, folder, where=place)
    assert list(plan.evaluations())
    for probe in content.get("probes", {}):
        assert any(probe in plan.probes_of(dataset) for dataset in plan.datasets)


def entries() -> dict:
    """Datasets that any block defines, which others name."""
    return {
        name: entry
        for _, content in CONFIGURATIONS
        for name, entry in content.get("extra_datasets", {}).items()
    }


@pytest.mark.slow
def test_all_configurations_together_run(own, tmp_path):
    """Every source, probe and measure that a block shows, on one light backbone."""
    # hub-scenes reads the files of my-scenes, and coast those of my-scene
    names = [name for name in entries() if name not in ("hub-scenes", "coast")]
    together = {"backbones": ["imagestats"], "datasets": names, "probes": {}}
    for _, content in CONFIGURATIONS:
        for key, value in content.items():
            if key in ("probes", "extra_datasets"):
                together[key] = {**together.get(key, {}), **copy.deepcopy(value)}
            elif isinstance(value, dict):
                # blocks about one option are alternatives
                together[key] = copy.deepcopy(value)
    # what several blocks show under different names is run once
    of_options = {json.dumps(value, sort_keys=True): n for n, value in together["probes"].items()}
    together["probes"] = {name: together["probes"][name] for name in of_options.values()}
    # this shows that they run, not how well: one epoch of few channels each, and few resamples and views
    together["bootstrap"] = {**together.get("bootstrap", {}), "resamples": 100}
    # a profile of each dataset takes minutes: test_environments.py and test_measures.py run some
    del together["profile"]
    together["measures"]["augmentations"].update(images=10, views=2)
    for options in filter(None, together["probes"].values()):
        names = {field.name for field in dataclasses.fields(KINDS[options["kind"]].options_class())}
        options.update(dict.fromkeys(names & {"epochs", "head_epochs"}, 1))
        options.update(dict.fromkeys(names & {"hidden"}, 8))
        if "warmup_epochs" in options:
            options["warmup_epochs"] = 0
    project = own.copied(tmp_path / "project")
    together["extra_backbones"] = {}
    project.path("config/config.yaml").write_text(yaml.safe_dump(together))
    project.snakemake()
    scored = {(row["dataset"], row["probe"]) for row in project.leaderboard()}
    assert {dataset for dataset, _ in scored} >= set(together["datasets"])
    assert {probe for _, probe in scored} >= set(together["probes"])


@pytest.mark.parametrize(("place", "command"), COMMANDS, ids=[line for _, line in COMMANDS])
@pytest.mark.slow
def test_a_command_runs_as_printed(place, command, request, tmp_path):
    for start, reason in NOT_RUN.items():
        if command.startswith(start):
            pytest.skip(reason)
    words = shlex.split(command)
    if words[0] == "snakemake":
        folder = request.getfixturevalue("own").folder
        if "--report" not in words:
            words.append("-n")
        if "data=FOLDER" in words:
            shared = request.getfixturevalue("shared_data")
            words[words.index("data=FOLDER")] = f"data={shared}"
    elif words[0] == "permafrost" and words[1].startswith("evaluate-"):
        folder = tmp_path
        documents.write_predictions(folder, words[1])
    elif words[:2] == ["permafrost", "init"]:
        folder = tmp_path
    elif words[:2] == ["permafrost", "convert-checkpoint"]:
        folder = tmp_path
        torch.save({"state_dict": {"weight": torch.ones(2)}}, folder / words[2])
        (folder / words[3]).parent.mkdir(parents=True)
    elif words[:3] == ["permafrost", "new", "backbone"]:
        folder = request.getfixturevalue("own").copied(tmp_path / "project").folder
        network = timm.create_model("mobilenetv2_100", pretrained=False)
        save_file(network.state_dict(), folder / words[3])
    elif words[0] == "permafrost" and words[1] in (
        "show",
        "export",
        "stale",
        "verify",
        "list",
        "info",
    ):
        folder = request.getfixturevalue("own").folder
    else:
        pytest.fail(f"{place}: say here how {command!r} is run, or under NOT_RUN why it is not")
    run(words, folder)


@pytest.mark.slow
def test_python_blocks_run(own):
    # in one process, which imports the libraries once; each block has only the names that it gives itself
    blocks = documents.blocks("python")
    each = "exec(compile({!r}, {!r}, 'exec'), {{'__name__': '__main__'}})"
    text = "\n".join(each.format(text, place) for place, text in blocks)
    run([sys.executable, "-c", text], own.folder)


def run(words: list[str], folder, place: str = "") -> None:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "workflow")}
    environment["PATH"] = f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}"
    words[0] = shutil.which(words[0], path=environment["PATH"]) or words[0]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{place} {words}\n{done.stdout}\n{done.stderr}"
