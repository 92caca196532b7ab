"""``permafrost methods``: every number of the text is the plan's or the tables'."""

from __future__ import annotations

import copy
import re
from pathlib import Path

import pytest
import yaml
from helpers.plans import CONFIG, fill_root, make_plan
from helpers.results.tables import make_comparison_table, make_score_rows, score_table
from permafrost.core.tables import write_table
from permafrost.plan.record import record_plan
from permafrost.probes.kinds import KINDS
from permafrost.report.tables.methods import AUTHORS, TITLE, methods_tables, methods_text
from permafrost.stages.cli import main
from permafrost.statistics.leaderboard.leaderboard import build_leaderboard

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def results(tmp_path, monkeypatch):
    root = fill_root(tmp_path / "root")
    monkeypatch.chdir(root)
    config = copy.deepcopy(CONFIG)
    config["probes"]["mlp"] = {"kind": "mlp", "epochs": 37}
    config["extra_datasets"]["pictures"] |= {
        "title": "My Pictures",
        "citation": "Doe et al. 2024, 50% of Earth",
    }
    record_plan(make_plan(root, config), "results")
    folder = root / "results"
    rows = [
        score_table(make_score_rows(dataset=dataset, backbone=backbone, probe="knn"))
        for dataset in config["datasets"]
        for backbone in config["backbones"]
    ]
    made = make_plan(root, config).aggregate().fingerprint
    about = {"fingerprint": made, "score_versions": {"torch": ["2.9.0", "2.9.1"], "zarr": ["3"]}}
    write_table(folder / "leaderboard.parquet", build_leaderboard(rows), about)
    (folder / "comparisons/world").mkdir(parents=True)
    table = make_comparison_table("world", "knn", config["backbones"])
    write_table(folder / "comparisons/world/knn.parquet", table, {"fingerprint": "c"})
    return folder


def vars_of(plan) -> dict:
    return {name: getattr(plan, name) for name in ("config", "backbones", "datasets", "probes")}


def said(capsys, *options: str) -> str:
    assert main(["methods", *options]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_numbers_are_those_of_plan_and_tables(results, capsys):
    text = said(capsys)
    (row, *_) = make_score_rows(dataset="pictures", backbone="stats", probe="knn")
    for words in (
        "We evaluated 3 frozen backbones (stats, net and own) on 2 datasets",
        "My Pictures: splits drawn at random, stratified (60/20/20 % train/validation/test, seed 0).",
        "world: the splits that come with the data.",
        f"| pictures | classification | {row['n_train']} | {row['n_val']} | {row['n_test']} | splits drawn at random",
        "The probe knn asks the nearest training images and trains nothing. ",
        "The probe linear fits a linear classifier whose regularisation is chosen on validation. ",
        "(epochs 37). ",
        "| probe knn | k | 5 | 5 |",
        "| probe linear | c max | 10000 | 10000 |",
        "| probe mlp | epochs | **37** | 100 |",
        "mlp, in which chance plays a part, ran with seeds 0 and 1.",
        "95 % confidence intervals come from the percentile bootstrap",
        f"({row['resamples']} resamples of test {row['unit']}s)",
        "Results were computed with torch 2.9.0/2.9.1.",
    ):
        assert words in text, words
    (pair, *_) = make_comparison_table("world", "knn", CONFIG["backbones"]).to_pylist()
    assert f"({pair['resamples']} resamples)" in text


def test_options_are_spelled_out_only_if_they_differ(tmp_path):
    """Defaults are those that planning fills in, for every kind that runs on some dataset of the project."""
    config = copy.deepcopy(CONFIG)
    kinds = [
        name for name, kind in KINDS.items() if "classification" in kind.tasks and not kind.series
    ]
    config["probes"] = {name: {"kind": name} for name in kinds}
    config["probes"]["other"] = {"kind": "linear", "c_max": 10}
    config["extraction"] = {"size": 224, "precision": "bf16"}
    plan = make_plan(fill_root(tmp_path / "root"), config)
    recorded = vars_of(plan)
    text = methods_text(recorded, [], [], {}).partition("Features were")[2]
    assert re.findall(r"\(([^()]*)\)\.\s", text) == [
        "precision bf16",
        "c max 10",
    ]
    bold = [line for line in methods_tables(recorded, []).splitlines() if "**" in line]
    assert bold == [
        "| extraction | precision | **bf16** | fp32 |",
        "| probe other | c max | **10** | 10000 |",
    ]


def test_datasets_divided_alike_are_one_sentence_and_degradations_another():
    given = {"task": "classification", "splits": {"method": "given"}}
    harder = {
        f"d-{kind}-{severity}": given
        | {"derived": {"of": "d", "harder": {kind: severity}, "seed": 0}}
        for kind, severity in (("noise", 1), ("haze", 5))
    }
    plan = {
        "config": {},
        "backbones": {"b": {}},
        "datasets": {"d": given, "e": given} | harder,
        "probes": {},
    }
    text = methods_text(plan, [], [], {})
    assert (
        "Permafrost" in text
        and "We used the splits that come with the data. Test images of d were" in text
    )
    assert "(kind and severity: noise 1 and haze 5)." in text
    assert (
        "| d-haze-5 | classification | – | – | – | the splits of d, with test images degraded by haze"
        in (methods_tables(plan, []))
    )


def test_what_was_left_out_is_named_and_counted_where_it_is_much():
    plan = {"config": {}, "backbones": {"b": {}}, "datasets": {}, "probes": {}}
    pair = {"dataset": "d", "backbone": "b", "probe": None, "reason": "no band"}
    plan["left_out"] = [pair, {**pair, "backbone": "a", "probe": "fine"}]
    text = methods_text(plan, [], [], {})
    assert "Left out, because they do not fit each other: a on d with fine and b on d." in text
    plan["left_out"] = [{**pair, "dataset": f"d{number}"} for number in range(20)]
    assert "20 combinations that do not fit each other were left out." in methods_text(
        plan, [], [], {}
    )
    assert "fit each other" not in methods_text({**plan, "left_out": []}, [], [], {})


def test_derived_backbones_are_counted_apart_with_their_steps(tmp_path):
    config = copy.deepcopy(CONFIG)
    config["derive"] = {"small": [{"pca": 8}, {"product": {"parts": 2, "bits": 4}}]}
    config["backbones"] = ["stats", "own", "both"]
    config["extra_backbones"]["both"] = {"kind": "derived", "of": ["stats", "own"]}
    told = vars_of(make_plan(fill_root(tmp_path / "root"), config))
    text = methods_text(told, [], [], {})
    assert "We evaluated 2 frozen backbones (stats and own) on" in text
    assert (
        "3 derived backbones (both, of stats and own; @small: pca 8, product parts 2 bits 4) read these features"
        in text
    )
    assert "and not ranked" in text
    told["config"]["ranking"]["derived"] = True
    assert "were ranked and compared as all others" in methods_text(told, [], [], {})


def test_bibtex_holds_this_tool_and_what_was_used(results, capsys, tmp_path):
    text = said(capsys)
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["title"] == TITLE and cited["authors"] == [{"name": AUTHORS}]
    assert f"@software{{permafrost, title = {{{{{TITLE}}}}}" in text
    assert "@misc{dataset-pictures, title = {My Pictures}" in text and r"50\% of Earth" in text
    path = tmp_path / "used.bib"
    assert "@" not in said(capsys, "--bibtex", str(path))
    bib = path.read_text()
    assert [bib.count(sign) for sign in "{}"] == [bib.count("{")] * 2
    assert re.findall(r"^@\w+", bib, re.MULTILINE) == ["@software", "@misc"]


def test_a_leaderboard_of_another_plan_gives_no_paragraph(results, capsys):
    config = copy.deepcopy(CONFIG)
    config["seeds"] = [5]
    record_plan(make_plan(results.parent, config), "results")
    assert main(["methods"]) == 1
    printed = capsys.readouterr()
    assert printed.out == "" and "NOT of the current plan" in printed.err


def test_results_that_are_nowhere_are_one_error(tmp_path, capsys):
    assert main(["methods", str(tmp_path / "none")]) == 1
    assert "no plan was recorded" in capsys.readouterr().err


def test_every_kind_of_probe_and_split_is_a_sentence(results):
    plan = {
        "backbones": {"a": {}},
        "datasets": {
            "d": {"task": "change", "splits": {"method": "given", "val_from_train": 0.25}},
            "e": {
                "task": "change",
                "splits": {
                    "method": "block",
                    "block_km": 2.5,
                    "fractions": [0.5, 0.25, 0.25],
                    "seed": 3,
                },
            },
        },
        "probes": {name: {"kind": name, "flag": True, "none": None} for name in KINDS},
        "config": {"seeds": [7]},
    }
    text = methods_text(plan, [], [], {})
    assert "with 25 % of training set aside for validation" in text
    assert "squares on the ground of 2.5 km (50/25/25 % train/validation/test, seed 3)" in text
    for name in KINDS:
        assert re.search(rf"The probe {name} [a-z][^.]+ \(flag on, none none\)\.", text), name
    assert "ran with seed 7." in text
