"""``--json``: what a program reads says the same as what a person reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from permafrost.stages.cli import main

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def said(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)

    def of(*arguments: str):
        assert main([*arguments, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return of


@pytest.mark.parametrize(
    ("what", "key"), [("datasets", "name"), ("backbones", "name"), ("probes", "kind")]
)
def test_lists_hold_the_rows_of_the_table(said, capsys, what, key):
    rows = said("list", what)
    assert main(["list", what]) == 0
    heading, *lines = capsys.readouterr().out.splitlines()
    assert [row[key] for row in rows] == [line.split()[0] for line in lines]
    assert " ".join(rows[0]) == " ".join(heading.split())


def test_info_holds_the_entry_and_what_goes_with_it(said):
    one = said("info", "demo-landcover")
    assert one["is"] == "dataset" and one["data"] == "generated" and "knn" in one["probes"]
    assert "rcf" in one["fits"] and "demo-landcover" in said("info", "rcf")["fits"]
    assert one["entry"]["task"] == "classification"
    fed = said("info", "rcf", "--dataset", "demo-landcover")
    names = [channel["wanted"] for channel in fed["fed"]["channels"]]
    assert names == ["red", "green", "blue"] and fed["fits"] == ["demo-landcover"]
    assert said("info", "knn")["is"] == "probe"
    # why something does not fit is said as `info` says it
    reasons = said("info", "croma-base")["misfits"]
    assert reasons and all(isinstance(reason, str) for reason in reasons.values())


def test_check_holds_facts_and_channels(said):
    one = said("check", "rcf", "--dataset", "demo-landcover", "--images", "3")
    assert one["facts"]["fed"].startswith("3 images") and one["doubts"] == []
    assert [channel["channel"] for channel in one["channels"]] and len(one["channels"]) == 3
    assert all(row["least"] <= row["mean"] <= row["greatest"] for row in one["channels"])


def test_fetch_holds_what_is_missing_and_asks_nobody(said, capsys, tmp_path):
    (one,) = said("fetch", "eurosat", "--dry-run", "--data", str(tmp_path))
    assert not one["fetched"] and one["name"] == "eurosat"
    assert all(file["path"].startswith(str(tmp_path)) for file in one["files"])
    assert said("fetch", "demo-landcover", "--dry-run") == []
    assert main(["fetch", "eurosat", "--json", "--data", str(tmp_path)]) == 1
    assert "asks for no confirmation" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["info", "nosuch"], ["list", "backbones", "--fits", "nosuch"]]
)
def test_errors_are_words_on_the_other_stream(monkeypatch, capsys, arguments):
    monkeypatch.chdir(ROOT)
    assert main([*arguments, "--json"]) == 1
    printed = capsys.readouterr()
    assert printed.out == "" and "nosuch" in printed.err
