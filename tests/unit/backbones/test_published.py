"""Published weights: where they are found, how they come here, and that a name means one content."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

import huggingface_hub.constants
import pytest
import timm
import torch
import yaml
from helpers.backbones import build, plan_input
from helpers.file_server import Served, file_server
from helpers.stores.images import card_of, rgb_bands, sentinel2_bands
from permafrost.backbones.backbone import Resources
from permafrost.backbones.weights import published
from permafrost.backbones.weights.published import PublishedFile
from permafrost.core.errors import PermafrostError
from permafrost.data.download import transfer
from permafrost.stages.cli import main
from safetensors.torch import save, save_file

NAME = "test_resnet.r160_in1k"
ON_HUB = f"/timm/{NAME}/resolve/main/model.safetensors"


def model(seed: int = 0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return timm.create_model("test_resnet", num_classes=1000).eval()


CONTENT = save(model().state_dict())


@pytest.fixture(autouse=True)
def caches(tmp_path, monkeypatch):
    """Empty caches of the hub and of torch, and no waiting between tries."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(transfer, "PAUSES_S", (0.0, 0.0, 0.0))
    before = torch.hub.get_dir()
    torch.hub.set_dir(str(tmp_path / "torch"))
    yield tmp_path
    torch.hub.set_dir(before)


@pytest.fixture
def server(monkeypatch):
    with file_server() as server:
        server.files[ON_HUB] = Served(CONTENT)
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        yield server


@pytest.fixture
def offline(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def made(folder: Path, entry: dict | None = None, bands=None):
    entry = entry or {"kind": "timm", "model": NAME, "weights": {"source": "pretrained"}}
    card = card_of(bands or rgb_bands())
    plan = plan_input(entry, {"size": 64}, card)
    return build(entry, plan, Resources("backbone x", card, 0, None, folder / "weights"))


def gives_the_models_features(backbone) -> bool:
    pixels = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        wanted = model().forward_head(model().forward_features(pixels), pre_logits=True)
        return torch.equal(backbone.features(pixels), wanted)


def gets(server) -> list[str | None]:
    """The ranges of the weights' file that were asked for; the hub's library asks other things too."""
    return [
        headers.get("Range")
        for method, path, headers in server.asked
        if (method, path) == ("GET", ON_HUB)
    ]


def put(path: Path, content: bytes = CONTENT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def in_hub_cache(folder: Path, content: bytes = CONTENT, digest: str | None = None) -> Path:
    root = folder / "hub" / f"models--timm--{NAME}"
    blob = put(root / "blobs" / (digest or hashlib.sha256(content).hexdigest()), content)
    put(root / "refs" / "main", b"0" * 40)
    place = root / "snapshots" / ("0" * 40) / "model.safetensors"
    place.parent.mkdir(parents=True)
    place.symlink_to(blob)
    return place


def test_the_data_folder_serves_without_a_network(tmp_path, offline):
    put(tmp_path / "weights" / f"{NAME}.safetensors")
    backbone = made(tmp_path)
    assert gives_the_models_features(backbone)
    assert backbone.weights_sha256 == hashlib.sha256(CONTENT).hexdigest()


def test_the_hubs_cache_comes_first_and_the_content_counts_not_the_place(tmp_path, offline):
    in_hub_cache(tmp_path)
    cached = made(tmp_path)
    assert gives_the_models_features(cached)
    put(tmp_path / "weights" / f"{NAME}.safetensors", b"not read")
    assert made(tmp_path).weights_sha256 == cached.weights_sha256


def test_weights_are_downloaded_once_by_the_job_that_needs_them(tmp_path, server):
    backbone = made(tmp_path)
    assert gives_the_models_features(backbone)
    names = [f"{NAME}.safetensors", f"{NAME}.safetensors.sha256"]
    assert sorted(os.listdir(tmp_path / "weights")) == names
    asked = len(server.asked)
    assert gives_the_models_features(made(tmp_path)) and len(server.asked) == asked


def test_a_download_that_breaks_off_goes_on_from_there(tmp_path, server):
    server.files[ON_HUB].breaks_after = [100_000, 50_000]
    assert gives_the_models_features(made(tmp_path))
    assert gets(server) == [None, "bytes=100000-", "bytes=150000-"]


def test_without_a_network_the_error_says_which_file_to_put_where(tmp_path, offline):
    with pytest.raises(PermafrostError) as error:
        made(tmp_path)
    said = str(error.value)
    place = tmp_path / "weights" / f"{NAME}.safetensors"
    for word in (
        "HF_HUB_OFFLINE",
        f"https://huggingface.co{ON_HUB}",
        str(place),
        "permafrost fetch",
    ):
        assert word in said
    assert not place.exists()
    put(place)
    assert gives_the_models_features(made(tmp_path))


def test_other_content_under_the_same_name_is_refused(tmp_path, offline):
    place = put(tmp_path / "weights" / f"{NAME}.safetensors")
    made(tmp_path)
    save_file(model(1).state_dict(), place)
    with pytest.raises(PermafrostError, match="differ from those first used under this name"):
        made(tmp_path)
    place.unlink()
    in_hub_cache(tmp_path, save(model(1).state_dict()))
    with pytest.raises(PermafrostError, match="differ from those first used under this name"):
        made(tmp_path)


def test_a_damaged_file_of_the_hubs_cache_is_refused(tmp_path, offline):
    in_hub_cache(tmp_path, CONTENT[:-1], hashlib.sha256(CONTENT).hexdigest())
    with pytest.raises(PermafrostError, match="are damaged: .* the hub says"):
        made(tmp_path)


def test_the_hash_in_a_name_is_held_against_the_content(tmp_path):
    digest = hashlib.sha256(b"right").hexdigest()
    file = PublishedFile("a", f"https://x.org/resnet18_all-{digest[:8]}.pth")
    assert published.check(file, put(tmp_path / "a", b"right"), tmp_path) == digest
    with pytest.raises(PermafrostError, match=f"its name says|their SHA-256 .* {digest[:8]}"):
        published.check(file, put(tmp_path / "a", b"wrong"), tmp_path)
    assert os.listdir(tmp_path) == ["a"], "the name says it: nothing is recorded"


@pytest.mark.parametrize(
    ("url", "digits"),
    [
        ("https://x.org/a_moco-59bfdff9.pth", "59bfdff9"),
        ("https://x.org/vit_dino-36bcc127", "36bcc127"),
        ("https://x.org/filename-" + "ab" * 32 + ".pth", "ab" * 32),
        ("https://x.org/aurora-0.25-pretrained.ckpt", None),
        ("https://x.org/abc-59bfdff9/B2_rn50_softcon.pth", None),
    ],
)
def test_hashes_in_names(url, digits):
    assert PublishedFile("a", url).sha256 == digits


def test_torchgeo_takes_its_weights_from_the_data_folder(tmp_path, offline):
    from torchgeo.models import TileNet_Weights, tilenet

    weights = TileNet_Weights.NAIP_ALL_TILE2VEC
    entry = {"kind": "torchgeo", "weights": str(weights)}
    entry["input"] = {"bands": ["red", "green", "blue", "nir"]}
    name = weights.url.rpartition("/")[2]
    with pytest.raises(PermafrostError) as error:
        made(tmp_path, entry, sentinel2_bands())
    assert weights.url in str(error.value) and str(tmp_path / "weights" / name) in str(error.value)
    state = tilenet().state_dict()
    torch.save(state, put(tmp_path / "weights" / name, b""))
    before = torch.hub.get_dir()
    backbone = made(tmp_path, entry, sentinel2_bands())
    loaded = backbone.module.state_dict()
    assert torch.hub.get_dir() == before and len(backbone.weights_sha256) == 64
    found = [loaded.get(key, loaded.get(f"model.{key}")) for key in state]
    assert all(torch.equal(*pair) for pair in zip(found, state.values(), strict=True))


# --- permafrost fetch CONFIG -----------------------------------------------------------------------


@pytest.fixture
def command(server, tmp_path):
    rows = b"one,two\n"
    server.files["/rows.csv"] = Served(rows)
    scenes = {
        "task": "classification",
        "source": {"kind": "folder", "path": "{data}/scenes"},
        "download": [{"url": f"{server.url}/rows.csv", "path": "{data}/scenes/rows.csv"}],
    }
    timm_entry = {"kind": "timm", "model": NAME, "weights": {"source": "pretrained"}}
    config = {
        "backbones": ["imagestats", "mine", "mine-again"],
        "datasets": ["scenes"],
        "extra_datasets": {"scenes": scenes},
        "extra_backbones": {"mine": timm_entry, "mine-again": {**timm_entry, "pooling": "mean"}},
    }
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(config))
    return lambda *more: main(["fetch", str(path), "--data", str(tmp_path / "data"), *more])


def test_a_configurations_weights_and_datasets_are_fetched_once(command, server, tmp_path, capsys):
    assert command("--yes") == 0
    said = capsys.readouterr().out
    assert said.count(f"{server.url}{ON_HUB}") == 1 and "scenes: fetched" in said
    assert said.index("together: ") < said.index("weights of mine: fetched")
    assert re.search(r"size +1 file, [\d.]+ MB", said)
    place = tmp_path / "data" / "weights" / f"{NAME}.safetensors"
    assert place.read_bytes() == CONTENT
    assert (tmp_path / "data" / "scenes" / "rows.csv").exists()
    asked = len(server.asked)
    assert command() == 0
    assert len(server.asked) == asked and "mine: nothing to fetch" in capsys.readouterr().out
    assert gives_the_models_features(made(tmp_path / "data")) and len(server.asked) == asked


def test_a_dry_run_asks_nobody(command, server, tmp_path, capsys):
    assert command("--dry-run") == 0
    assert f"https://huggingface.co{ON_HUB}" in capsys.readouterr().out
    assert server.asked == [] and not (tmp_path / "data").exists()


def test_nothing_comes_before_somebody_agreed(command, server, tmp_path, capsys):
    assert command() == 1
    assert "give --yes" in capsys.readouterr().err and gets(server) == []
