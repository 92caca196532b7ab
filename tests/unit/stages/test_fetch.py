"""`permafrost fetch`: what it says, asks and leaves."""

from __future__ import annotations

import hashlib
import os

import pytest
import yaml
from helpers.file_server import Served, file_server, zipped
from permafrost.data.download import fetching, hub, transfer
from permafrost.stages import fetch
from permafrost.stages.cli import main

ARCHIVE = zipped({"river/1.png": b"one", "forest/2.png": b"two"})


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setattr(transfer, "PAUSES_S", (0.0, 0.0))
    with file_server() as server:
        server.files["/scenes.zip"] = Served(ARCHIVE)
        item = {
            "url": f"{server.url}/scenes.zip",
            "path": "{data}/scenes",
            "unpack": True,
            "sha256": hashlib.sha256(ARCHIVE).hexdigest(),
        }
        entry = {
            "title": "My scenes",
            "licence": "CC BY 4.0",
            "citation": "Nobody 2026",
            "task": "classification",
            "source": {"kind": "folder", "path": "{data}/scenes"},
            "download": [item],
            "size_bytes": 2_070_000_000,
        }
        by_hand = {key: value for key, value in entry.items() if key != "download"}
        by_hand["url"] = "https://example.org/scenes"
        extra = {"mine": entry, "by-hand": by_hand}
        (tmp_path / "mine.yaml").write_text(yaml.safe_dump({"extra_datasets": extra}))
        yield server


@pytest.fixture
def command(server, tmp_path):
    def typed(*arguments: str) -> int:
        data = str(tmp_path / "data")
        return main(["fetch", *arguments, "--config", str(tmp_path / "mine.yaml"), "--data", data])

    return typed


def test_it_says_what_comes_and_brings_it_once(command, server, tmp_path, capsys):
    assert command("mine", "--yes") == 0
    said = capsys.readouterr().out
    for word in (
        "My scenes",
        "CC BY 4.0",
        "Nobody 2026",
        "1 file, 230 bytes",
        "are free",
        "sha256",
    ):
        assert word.replace("230", str(len(ARCHIVE))) in said
    assert "size unknown" not in said
    assert said.index("Nobody 2026") < said.index("mine: fetched")
    assert sorted(os.listdir(tmp_path / "data")) == ["scenes"]
    assert (tmp_path / "data" / "scenes" / "river" / "1.png").read_bytes() == b"one"
    asked = len(server.asked)
    assert command("mine") == 0 and len(server.asked) == asked
    assert "nothing to fetch" in capsys.readouterr().out


def test_a_dry_run_gets_nothing(command, server, tmp_path, capsys):
    assert command("mine", "--dry-run") == 0
    said = capsys.readouterr().out
    assert f"{server.url}/scenes.zip" in said and "1 file of unknown size, about 2.07 GB" in said
    assert server.asked == [] and not (tmp_path / "data").exists()


@pytest.mark.parametrize(("answer", "status"), [("y", 0), ("", 1), ("n", 1)])
def test_it_asks_before_it_starts(command, server, monkeypatch, answer, status):
    monkeypatch.setattr(fetch.sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda _: answer)
    assert command("mine") == status and len(server.gets()) == 1 - status


def test_nobody_to_ask_is_a_refusal(command, server, monkeypatch, capsys):
    monkeypatch.setattr(fetch.sys.stdin, "isatty", lambda: False, raising=False)
    assert command("mine") == 1 and server.gets() == []
    assert "give --yes" in capsys.readouterr().err


def test_a_disk_that_is_too_small_is_refused_before_it_starts(command, server, monkeypatch, capsys):
    usage = type("Usage", (), {"free": 100})
    monkeypatch.setattr(fetching.shutil, "disk_usage", lambda _: usage)
    assert command("mine", "--yes") == 1 and server.gets() == []
    assert "100 bytes are free" in capsys.readouterr().err


def test_a_wrong_checksum_and_an_unknown_name_are_errors(command, server, tmp_path, capsys):
    server.files["/scenes.zip"].content = ARCHIVE[:-1] + b"\xff"
    assert command("mine", "--yes") == 1
    assert "its sha256 is" in capsys.readouterr().err
    assert os.listdir(tmp_path / "data") == []
    assert command("mien") == 1 and "did you mean 'mine'" in capsys.readouterr().err


def test_what_cannot_be_had_hides_nothing_else(command, server, tmp_path, capsys):
    for option, count in (("--dry-run", 0), ("--yes", 1)):
        assert command("by-hand", "mine", option) == 1
        said = capsys.readouterr()
        assert "get the data by hand" in said.err and f"{server.url}/scenes.zip" in said.out
        assert len(server.gets()) == count


def test_a_dry_run_says_from_the_entry_alone_what_the_hub_has(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(hub, "_all_files", lambda item: pytest.fail("the hub was asked"))
    monkeypatch.setenv("HF_ENDPOINT", "https://huggingface.co")
    named = ["geobench2-pastis-s2", "m-eurosat", "geobench2-kuro-siwo"]
    assert main(["fetch", *named, "-n", "--data", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    for name in named:
        steps = [line for line in said.split(f"{name}: ")[1].splitlines() if "  from " in line]
        assert steps and all("https://huggingface.co/datasets/" in line for line in steps)
    assert "recursix/geo-bench-1.0/resolve/main/classification_v1.0/m-eurosat.zip" in said


def test_data_to_get_by_hand_are_named_with_their_page(command, capsys):
    assert command("by-hand", "--yes") == 1
    assert "get the data by hand (https://example.org/scenes)" in capsys.readouterr().err
