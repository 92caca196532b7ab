"""torchgeo's classes are asked what they would download, and their data come from a server on this machine."""

from __future__ import annotations

import hashlib
import os
import urllib.request
from pathlib import Path

import pytest
import torchgeo.datasets
import torchgeo.datasets.utils as library
from helpers.file_server import Served, zipped
from permafrost.core.errors import PermafrostError
from permafrost.core.specification import substitute
from permafrost.data.download.fetching import fetch, missing_steps, with_sizes
from permafrost.data.download.steps import Get, Unpack, fetchable
from permafrost.data.download.torchgeo_downloads import ask_torchgeo
from permafrost.plan.catalogue import read_yaml

ROOT = Path(__file__).resolve().parents[4]
CATALOGUE = read_yaml(ROOT / "config" / "datasets" / "torchgeo.yaml")
TO_FETCH = [name for name, entry in CATALOGUE.items() if fetchable(entry)]
# of which torchgeo has no checksum
UNCHECKED = {"samples.csv", "sample_df.csv"}


def entry_of(name: str, data: Path, **arguments) -> dict:
    """An entry of the catalogue, or one of the class `name`."""
    if name in CATALOGUE:
        return substitute(CATALOGUE[name], str(data))
    source = {"kind": "torchgeo", "name": name, "arguments": {"root": str(data), **arguments}}
    return {"task": "classification", "source": source}


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*_):
        raise AssertionError("the network was used")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)


@pytest.mark.parametrize("name", TO_FETCH)
def test_every_entry_to_fetch_tells_addresses_and_checksums(name, tmp_path, no_network):
    data = tmp_path / "data"
    steps = missing_steps(entry_of(name, data), where=name)
    gets = [step for step in steps if isinstance(step, Get)]
    assert gets and all(get.url.startswith("https://") for get in gets)
    assert {get.path.name for get in gets if get.checksum is None} <= UNCHECKED
    archives = [step.archive for step in steps if isinstance(step, Unpack)]
    assert archives and set(archives) <= {get.path for get in gets}
    assert len({get.path for get in gets}) == len(gets) and not data.exists()


@pytest.mark.parametrize(
    ("name", "problem", "remedy"),
    [
        ("so2sat", "downloads nothing", "by hand"),
        ("tropical-cyclone", "another program", "azcopy sync"),
        ("fair1m", "not files", "drive.google.com"),
    ],
)
def test_what_must_be_got_by_hand_is_said_with_how(name, problem, remedy, tmp_path, no_network):
    with pytest.raises(PermafrostError, match=problem) as caught:
        missing_steps(entry_of(name, tmp_path / "data"), where=name)
    assert remedy in caught.value.remedy and not (tmp_path / "data").exists()
    if "root" in remedy:
        assert str(tmp_path) in caught.value.remedy


def test_a_dataset_comes_from_the_hub_and_its_class_finds_it(hub, tmp_path, monkeypatch):
    cls = torchgeo.datasets.EuroSAT100
    names = [f"Forest/Forest_{i}.tif" for i in range(3)]
    archive = zipped({f"{cls.base_dir}/{name}": b"" for name in names})
    files = {cls.filename: archive}
    for split, name in zip(("train", "val", "test"), names, strict=True):
        files[cls.split_filenames[split]] = Path(name).name.replace(".tif", ".jpg").encode()
    for name, content in files.items():
        hub.files[f"{cls.url.partition('hf.co')[2]}{name}"] = Served(content)
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    hub.files[f"{cls.url.partition('hf.co')[2]}{cls.filename}"].breaks_after = [100]
    monkeypatch.setattr(cls, "sha256", sums[cls.filename])
    monkeypatch.setattr(
        cls, "split_sha256s", {split: sums[name] for split, name in cls.split_filenames.items()}
    )
    entry = entry_of("eurosat-100", tmp_path)
    download = with_sizes(missing_steps(entry, where="here"))
    assert len(download.files) == 4 and download.size == sum(map(len, files.values()))
    fetch(entry, download, where="here")
    root = tmp_path / "torchgeo" / "eurosat100"
    assert sorted(os.listdir(root)) == sorted([*files, cls.base_dir.split("/")[0]])
    assert missing_steps(entry, where="here") == []
    assert len(cls(str(root), "val")) == 1 and hub.gets().count("bytes=100-") == 1


class Empty(torchgeo.datasets.NonGeoDataset):
    def __len__(self):
        return 0

    def __getitem__(self, index):
        raise IndexError


class InTwoRounds(Empty):
    """Says what it wants next only once it has its list."""

    def __init__(self, root, split="train", download=False, url="", again=False):
        listed = os.path.join(root, "list.txt")
        if not os.path.exists(listed):
            library.download_url(f"{url}/list.txt", root)
        for name in Path(listed).read_text().split():
            if not os.path.exists(os.path.join(root, "set", name)) or again:
                library.download_and_extract_archive(f"{url}/{name}.zip", root)


@pytest.fixture
def two_rounds(monkeypatch, server):
    monkeypatch.setattr(torchgeo.datasets, "InTwoRounds", InTwoRounds, raising=False)
    server.files["/list.txt"] = Served(b"one two")
    for name in ("one", "two"):
        server.files[f"/{name}.zip"] = Served(zipped({f"set/{name}": b"image"}))
    return server


def test_what_a_class_asks_for_later_is_fetched_as_well(two_rounds, tmp_path):
    entry = entry_of("InTwoRounds", tmp_path / "root", url=two_rounds.url)
    fetch(entry, with_sizes(missing_steps(entry, where="here")), where="here")
    assert sorted(os.listdir(tmp_path / "root" / "set")) == ["one", "two"]
    assert len(two_rounds.gets()) == 3 and missing_steps(entry, where="here") == []


def test_a_class_that_asks_for_what_it_was_given_does_not_go_on_for_ever(two_rounds, tmp_path):
    entry = entry_of("InTwoRounds", tmp_path, url=two_rounds.url, again=True)
    with pytest.raises(PermafrostError, match="one.zip is still missing"):
        fetch(entry, with_sizes(missing_steps(entry, where="here")), where="here")


class Greedy(Empty):
    def __init__(self, root, split="train", download=False, outside=False):
        if outside:
            library.download_url("https://a/b", os.path.join(root, ".."), "c")
        urllib.request.urlopen("http://127.0.0.1:9/a")


@pytest.mark.parametrize("outside", [True, False])
def test_a_class_that_leaves_its_root_or_uses_the_network_itself_is_refused(
    tmp_path, monkeypatch, outside
):
    monkeypatch.setattr(torchgeo.datasets, "Greedy", Greedy, raising=False)
    problem = "outside of its root" if outside else "downloads by its own means"
    with pytest.raises(PermafrostError, match=problem):
        missing_steps(entry_of("Greedy", tmp_path, outside=outside), where="here")


def test_torchgeo_is_as_it_was_afterwards(tmp_path):
    before = {name: value for name, value in vars(library).items()}
    ask_torchgeo(entry_of("eurosat", tmp_path), tmp_path, where="here")
    assert all(vars(library)[name] is value for name, value in before.items())
    assert torchgeo.datasets.eurosat.download_url is library.download_url
