"""What is missing of a dataset, by its entry, and getting it from a server on this machine."""

from __future__ import annotations

import hashlib
import os

import pytest
from helpers.file_server import Served, zipped
from permafrost.core.errors import PermafrostError
from permafrost.data.download import fetching
from permafrost.data.download.fetching import check_room, fetch, missing_steps, with_sizes
from permafrost.data.download.steps import Get, Unpack
from permafrost.plan.validation import validate

IMAGES = {"one.tif": b"image one", "two.tif": b"image two"}


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def entry_of(folder, *items: dict) -> dict:
    """An entry with these downloads, as the schema takes it."""
    source = {"kind": "folder", "path": str(folder)}
    entry = {"task": "classification", "source": source, "download": list(items)}
    validate(entry, "dataset", where="here")
    return entry


def get_all(entry: dict) -> None:
    fetch(entry, with_sizes(missing_steps(entry, where="here")), where="here")


def test_a_file_and_an_archive_come_to_their_places_and_then_nothing_is_missing(server, tmp_path):
    archive, table = zipped(IMAGES, "outermost/"), b"file,label\n"
    server.files |= {"/images.zip": Served(archive), "/table.csv": Served(table)}
    entry = entry_of(
        tmp_path / "set",
        {"url": f"{server.url}/table.csv", "path": str(tmp_path / "table.csv")},
        {
            "url": f"{server.url}/images.zip",
            "path": str(tmp_path / "set"),
            "unpack": True,
            "sha256": sha256(archive),
        },
    )
    download = with_sizes(missing_steps(entry, where="here"))
    assert download.size == len(archive) + len(table) and not download.unknown
    assert [type(step) for step in download.steps] == [Get, Get, Unpack]
    fetch(entry, download, where="here")
    assert sorted(os.listdir(tmp_path)) == ["set", "table.csv"]
    assert {name: (tmp_path / "set" / name).read_bytes() for name in IMAGES} == IMAGES
    asked = len(server.asked)
    assert missing_steps(entry, where="here") == [] and len(server.asked) == asked


def test_an_archive_whose_unpacking_failed_is_not_fetched_again(server, tmp_path, monkeypatch):
    server.files["/images.zip"] = Served(zipped(IMAGES))
    item = {"url": f"{server.url}/images.zip", "path": str(tmp_path / "set"), "unpack": True}
    entry = entry_of(tmp_path, item)
    with monkeypatch.context() as patched:
        patched.setattr(fetching, "unpack", lambda step: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            get_all(entry)
    assert not (tmp_path / "set").exists()
    get_all(entry)
    assert sorted(os.listdir(tmp_path / "set")) == sorted(IMAGES)
    assert len(server.gets()) == 1


def test_a_file_that_is_not_to_be_had_is_known_before_the_first_byte(server, tmp_path):
    server.files["/one"] = Served(b"one")
    items = [
        {"url": f"{server.url}/{name}", "path": str(tmp_path / name)} for name in ("one", "two")
    ]
    with pytest.raises(PermafrostError, match="two: the server has no such file"):
        with_sizes(missing_steps(entry_of(tmp_path, *items), where="here"))
    assert server.gets() == []


def test_a_disk_that_is_too_small_is_known_before(server, tmp_path, monkeypatch):
    server.files["/images.zip"] = Served(bytes(1000))
    item = {"url": f"{server.url}/images.zip", "path": str(tmp_path / "set"), "unpack": True}
    download = with_sizes(missing_steps(entry_of(tmp_path, item), where="here"))
    usage = type("Usage", (), {"free": 1999})
    monkeypatch.setattr(fetching.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(PermafrostError, match="2 kB are needed, and 2 kB are free"):
        check_room(download, tmp_path / "not" / "yet")
    usage.free = 2000
    assert check_room(download, tmp_path / "not" / "yet") == 2000


def test_files_of_the_hub_are_chosen_by_name_with_the_hubs_sizes_and_checksums(hub, tmp_path):
    files = {"part.0.tortilla": b"first", "part.1.tortilla": b"second", "README.md": b"text"}
    sums = {name: sha256(content) for name, content in files.items() if name != "README.md"}
    hub.add_hub("owner/name", files, sums)
    entry = entry_of(
        tmp_path, {"hub": "owner/name", "files": ["*.tortilla"], "path": str(tmp_path / "set")}
    )
    steps = missing_steps(entry, where="here")
    assert [(get.path.name, get.size, get.checksum[1]) for get in steps] == [
        (name, len(files[name]), sums[name]) for name in sums
    ]
    get_all(entry)
    assert sorted(os.listdir(tmp_path / "set")) == sorted(sums)
    assert missing_steps(entry, where="here") == []


def test_files_that_are_here_are_not_looked_up_on_the_hub(hub, tmp_path):
    hub.add_hub("owner/name", {"a b.zip": zipped(IMAGES)}, {})
    entry = entry_of(
        tmp_path,
        {"hub": "owner/name", "file": "a b.zip", "path": str(tmp_path / "set"), "unpack": True},
        {"hub": "owner/name", "files": ["a b.zip"], "path": str(tmp_path)},
        {"hub": "owner/name", "file": "a b.zip", "path": str(tmp_path / "c.zip")},
    )
    get_all(entry)
    assert sorted(os.listdir(tmp_path)) == ["a b.zip", "c.zip", "set"]
    asked = len(hub.asked)
    assert missing_steps(entry, where="here") == [] and len(hub.asked) == asked


def test_a_token_is_sent_to_the_hub(hub, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    hub.add_hub("owner/name", {"a": b"a"}, {})
    item = {"hub": "owner/name", "file": "a", "path": str(tmp_path / "a")}
    get_all(entry_of(tmp_path, item))
    assert {
        headers.get("authorization", headers.get("Authorization")) for *_, headers in hub.asked
    } == {"Bearer hf_secret"}


@pytest.mark.parametrize(
    ("changes", "problem", "remedy"),
    [
        ({"sha256": "0" * 64}, "another version of a: sha256 is", "revision"),
        ({"bytes": 7}, "another version of a: bytes is 1, and not 7", "revision"),
        ({"file": "b"}, "has no file b", "correct the entry"),
        ({"hub": "owner/none"}, "denies access to owner/none", "HF_TOKEN"),
    ],
)
def test_what_the_hub_has_not_is_said_before(hub, tmp_path, changes, problem, remedy):
    hub.add_hub("owner/name", {"a": b"a"}, {"a": sha256(b"a")})
    item = {"hub": "owner/name", "file": "a", "path": str(tmp_path / "a"), **changes}
    with pytest.raises(PermafrostError, match=problem) as caught:
        missing_steps(entry_of(tmp_path, item), where="here")
    assert remedy in caught.value.remedy and caught.value.where == "here"


def test_without_a_network_the_hub_cannot_be_asked(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    # the hub's client tries six times, with pauses of 23 s in sum
    pauses = []
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", pauses.append)
    item = {"hub": "owner/name", "file": "a", "path": str(tmp_path / "a")}
    with pytest.raises(PermafrostError, match="the hub cannot be reached for owner/name") as caught:
        missing_steps(entry_of(tmp_path, item), where="here")
    assert "network" in caught.value.remedy and pauses


def test_an_entry_that_says_nothing_is_to_be_got_by_hand_from_its_page(tmp_path):
    entry = entry_of(tmp_path, {"url": "http://a/b", "path": "c"})
    del entry["download"]
    with pytest.raises(PermafrostError, match="does not say where") as caught:
        missing_steps({**entry, "url": "http://page"}, where="here")
    assert caught.value.remedy == "get the data by hand (http://page)"


@pytest.mark.parametrize(
    "item",
    [
        {"path": "a"},
        {"url": "file:///a", "path": "a"},
        {"url": "http://a", "hub": "a/b", "file": "c", "path": "a"},
        {"hub": "a/b", "path": "a"},
        {"url": "http://a", "path": "a", "sha256": "short"},
    ],
)
def test_an_item_that_cannot_be_fetched_is_refused_by_the_schema(tmp_path, item):
    with pytest.raises(PermafrostError, match="download"):
        entry_of(tmp_path, item)
