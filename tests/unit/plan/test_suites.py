"""Suites: frozen contents, what a run changes of one, and what the results say of it."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
import yaml
from permafrost.core.errors import PermafrostError
from permafrost.plan.catalogue import read_yaml
from permafrost.plan.configuration import Configuration
from permafrost.plan.configured import read_configuration
from permafrost.plan.demo import complete
from permafrost.plan.grid import Grid
from permafrost.plan.plan import Plan
from permafrost.plan.suites import digest, find_suite, read_suite, suite_files
from permafrost.report.explanations.leaderboard_state import suite_words
from permafrost.stages.cli import main

ROOT = Path(__file__).resolve().parents[3]
DEMO = read_yaml(ROOT / "config/demo.yaml")
#: (name, version) to the digest of its content: a version that was published is never changed
PUBLISHED = {
    ("geobench-v1", 2): "552ec7605b74893de204546de3be2a2e",
    ("geobench2", 3): "52fbf5ec85200744acb9d699db5e4b4c",
    ("torchgeo", 2): "0f577b9af15b94576b5e5642407b324c",
    ("open-images", 1): "d7457f56ecc6f38853b54113203fed58",
}
MINE = {
    "suite": {"name": "mine", "version": 3, "title": "My suite"},
    "datasets": ["demo-landcover", "demo-multilabel"],
    "extraction": {"size": 64},
    "probes": {"knn": {"kind": "knn", "k": 5}},
    "seeds": [0],
}
CHOICE = {"backbones": ["rcf"]}


def merged(*layers: dict) -> dict:
    config: dict = {}
    for layer in copy.deepcopy(layers):
        for key, value in layer.items():
            whole = not isinstance(value, dict) or not isinstance(config.get(key), dict)
            config[key] = value if whole else {**config[key], **value}
    complete(config, [*layers], DEMO, ROOT)
    return config


def test_a_changed_suite_has_a_new_version():
    for name, path in suite_files(ROOT).items():
        suite = read_suite(path)
        named = suite["suite"]
        assert named["name"] == name
        assert PUBLISHED.get((name, named["version"])) == digest(suite), (
            f"{path.name} is not what version {named['version']} was: give it the next version, and add that here"
        )


def test_the_digest_is_of_all_but_the_title():
    for key in MINE:
        other = copy.deepcopy(MINE)
        other[key] = {**other[key], "more": 1} if isinstance(other[key], dict) else [*other[key], 7]
        assert digest(other) != digest(MINE), key
    assert digest({**MINE, "suite": {"name": "mine", "version": 3}}) == digest(MINE)


@pytest.mark.parametrize("name", sorted(suite_files(ROOT)))
def test_a_suite_can_be_planned_and_each_probe_serves_a_dataset(name):
    config = merged(read_suite(suite_files(ROOT)[name]), {"backbones": ["imagestats-all"]})
    grid = Grid(Configuration(config, ROOT, where=name, checked=False, identify=False))
    probes = {(dataset, probe) for dataset, _, probe, _ in grid.evaluations()}
    assert {dataset for dataset, _ in probes} == set(config["datasets"])
    assert {probe for _, probe in probes} == set(config["probes"])
    assert config["suite"]["changed"] == []


def test_backbones_folders_and_machines_are_no_change_of_a_suite():
    free = {"results": "r", "data": "d", "runtime": {"device": "cpu"}, "report": {"title": "x"}}
    suite = merged({"data": "standing"}, MINE, {**CHOICE, **free, "profile": {}})["suite"]
    assert suite["changed"] == [] and suite["digest"] == digest(MINE)
    own = {"extra_datasets": {"a": {"task": "classification"}}}
    more = {"extra_datasets": {"b": {"task": "classification"}}}
    suite = merged({**MINE, **own, "datasets": ["a"]}, CHOICE, more)["suite"]
    assert suite["changed"] == []
    other = {"extra_datasets": {"a": {"task": "multilabel"}}}
    suite = merged({**MINE, **own, "datasets": ["a"]}, CHOICE, other)["suite"]
    assert suite["changed"] == ["extra_datasets.a.task: multilabel instead of classification"]
    # a default that is written out is none either
    assert merged(MINE, CHOICE, {"extraction": {"dtype": "float32"}})["suite"]["changed"] == []


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        ({"extraction": {"size": 32}}, "extraction.size: 32 instead of 64"),
        ({"seeds": [0, 1]}, "seeds: [0, 1] instead of [0]"),
        ({"datasets": ["demo-landcover"]}, "datasets: without demo-multilabel"),
        ({"datasets": [*MINE["datasets"], "demo-height"]}, "datasets: also demo-height"),
        ({"probes": {"knn": {"kind": "knn", "k": 9}}}, "probes.knn.k: 9 instead of 5"),
        ({"bootstrap": {"resamples": 50}}, "bootstrap.resamples: 50 instead of 200"),
        ({"ranking": {"missing": "worst"}}, "ranking.missing: worst instead of common"),
    ],
)
@pytest.mark.parametrize("above", [True, False])
def test_what_a_run_changes_is_named(layer, words, above):
    if not above and layer.keys() & MINE.keys():
        assert merged(layer, MINE, CHOICE)["suite"]["changed"] == []
        return
    changed = merged(*((MINE, CHOICE, layer) if above else (layer, MINE, CHOICE)))["suite"]
    assert changed["changed"] == [words]
    assert words in suite_words(changed) and "Not comparable" in suite_words(changed)


def test_what_is_no_suite_is_refused():
    for more in ({"backbones": ["rcf"]}, {"seeds": "0"}, {"suite": {"name": "mine"}}):
        with pytest.raises(PermafrostError, match="suite.schema.yaml"):
            merged({**MINE, **more})
    with pytest.raises(PermafrostError, match="did you mean 'geobench2'"):
        find_suite("geobench-2", ROOT)


def test_the_plan_identifies_the_data_and_the_leaderboard_says_the_suite():
    plans = [
        Plan(merged(MINE, CHOICE), ROOT),
        Plan(merged(MINE, {"backbones": ["imagestats"]}), ROOT),
    ]
    first, second = (plan.config["suite"] for plan in plans)
    assert first == second and len(first["data"]) == 32
    spec = json.loads(plans[0].aggregate().spec)
    assert spec["suite"] == {key: first[key] for key in first if key != "title"}
    words = suite_words(first)
    assert "Suite mine, version 3" in words and first["data"][:12] in words
    assert (
        words == suite_words(second) and "comparable with every run that states the same" in words
    )
    fewer = merged({**MINE, "datasets": ["demo-landcover"]}, CHOICE)
    assert Plan(fewer, ROOT).config["suite"]["data"] != first["data"]


def test_suites_are_listed_and_described(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(ROOT)
    assert main(["suite"]) == 0
    listed = capsys.readouterr().out
    assert all(f"{name}, version {version}" in listed for name, version in PUBLISHED)
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(MINE))
    assert main(["suite", str(path)]) == 0
    assert "mine, version 3: My suite" in capsys.readouterr().out
    path.write_text(yaml.safe_dump({**MINE, "unfit": "leave-out", "fit": "autors"}))
    assert main(["suite", str(path)]) == 1
    said = capsys.readouterr().err
    assert "unfit: 'leave-out' is not one of" in said and "did you mean 'authors'?" in said
    assert main(["suite", "geobench3"]) == 1
    assert "did you mean 'geobench2'" in capsys.readouterr().err


def test_two_suites_of_one_name_are_refused(tmp_path):
    (tmp_path / "config/suites").mkdir(parents=True)
    text = "catalogues: ['{permafrost}/config', config]\n"
    (tmp_path / "config/config.yaml").write_text(text)
    (tmp_path / "config/suites/mine.yaml").write_text(yaml.safe_dump(MINE))
    assert {"mine", "torchgeo"} <= suite_files(tmp_path).keys()
    (tmp_path / "config/suites/torchgeo.yaml").write_text(yaml.safe_dump(MINE))
    with pytest.raises(PermafrostError, match="there is a suite 'torchgeo' in"):
        suite_files(tmp_path)


def test_outside_of_a_project_nothing_is_written(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({**MINE, "suite": {"name": "nowhere", "version": 1}}))
    assert main(["suite", str(path)]) == 0
    assert main(["suite", str(path), "--backbones", "rcf", "--plan"]) == 1
    assert "no project was found" in capsys.readouterr().err
    assert not (ROOT / "results/nowhere").exists()


@pytest.fixture
def called(monkeypatch, tmp_path):
    """The commands that a suite calls, in their order, of a project in a folder of its own."""
    from permafrost.stages import cli

    (tmp_path / "config/suites").mkdir(parents=True)
    (tmp_path / "Snakefile").write_text("# permafrost\n")
    (tmp_path / "config/config.yaml").write_text("{}\n")
    (tmp_path / "config/suites/mine.yaml").write_text(yaml.safe_dump(MINE))
    (tmp_path / "results/mine").mkdir(parents=True)
    (tmp_path / "results/mine/leaderboard.parquet").touch()
    monkeypatch.chdir(tmp_path)
    commands = []

    def called(argv):
        commands.append(argv)
        return 0

    def typed(*arguments: str) -> list[list[str]]:
        stage, parser, _ = cli.stage_of("suite")
        with monkeypatch.context() as patched:
            patched.setattr(stage, "main", called)
            assert stage.run(cli.parse(stage, parser, ["mine", *arguments])) == 0
        return commands

    return typed


def test_a_suite_is_run_by_the_commands_there_are_and_ends_with_a_table(called, tmp_path):
    commands = called("--backbones", "rcf, imagestats,", "--cores", "2", "--format", "latex")
    (choice,) = (tmp_path / "results/mine").glob("choice-*.yaml")
    files = [str(tmp_path / "config/suites/mine.yaml"), str(choice)]
    results = str(tmp_path / "results/mine")
    assert commands == [
        ["run", "--cores", "2", "--configfile", *files],
        ["export", results, "--format", "latex", "--mark-tied"],
    ]
    asked = {"results": "results/mine", "backbones": ["rcf", "imagestats"]}
    assert read_yaml(choice) == asked
    # a plan of other backbones leaves the file of a run that is under way
    called("--backbones", "rcf", "--plan")
    assert read_yaml(choice) == asked


@pytest.mark.parametrize(
    ("given", "before", "after"),
    [
        (["--plan"], ["plan", "--config"], []),
        (["--fetch", "-n"], ["fetch"], ["--dry-run"]),
        (["--fetch", "--yes"], ["fetch"], ["--yes"]),
        (["-n", "--forceall"], ["run", "--forceall", "--dry-run", "--configfile"], []),
    ],
)
def test_plan_fetch_and_a_dry_run_take_the_same_files(called, tmp_path, given, before, after):
    over = tmp_path / "over.yaml"
    over.write_text("seeds: [1]\n")
    (command,) = called("--backbones", "rcf", *given, "--configfile", "over.yaml")
    (choice,) = (tmp_path / "results/mine").glob("choice-*.yaml")
    files = [tmp_path / "config/suites/mine.yaml", over, choice]
    assert command == [*before, *map(str, files), *after]


def test_a_matrix_of_six_kinds_and_all_samples_is_one_plan_whose_misfits_have_reasons(shared_data):
    """At least 12 backbones on all samples of GEO-Bench-2: each pair is run, or left out with a sentence."""
    grid, lacking = read_configuration(ROOT, [ROOT / "config/examples/matrix.yaml"], shared_data)
    assert lacking is None and len(grid.backbones) >= 12
    assert len({entry["kind"] for entry in grid.backbones.values()}) == 6
    samples = {path.name for path in (shared_data / "geobench2_samples").glob("*.tortilla")}
    assert {file for one in grid.datasets.values() for file in one["source"]["files"]} == samples
    run, left_out = set(grid.pairs()), set(grid.misfits)
    assert run and left_out and not run & left_out
    assert run | left_out == {(d, b) for d in grid.datasets for b in grid.backbones}
    assert all(len(reason) > 20 for reason in grid.misfits.values())
    served = {dataset: probe for dataset, _, probe, _ in grid.evaluations()}
    assert served.keys() == grid.datasets.keys()
