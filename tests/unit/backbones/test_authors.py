"""Models of authors who publish code and no package, built of stand-ins with the interfaces of their code."""

from __future__ import annotations

import sys

import pytest
import torch
from helpers.backbones import backbone_entry
from helpers.catalogue import EXTRACTION, catalogue, feeding
from helpers.project import REPOSITORY
from permafrost.backbones import registry
from permafrost.backbones.backbone import Resources
from permafrost.backbones.digest import identify
from permafrost.core.errors import PermafrostError

CODE = {
    "mmearth": {
        "models/norm_layers.py": """
import torch
from torch import nn


class GRN(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.gamma = nn.Parameter(torch.randn(1, 1, 1, dim))

    def forward(self, x):
        return self.gamma * x
""",
        "models/convnextv2.py": """
from torch import nn
from .norm_layers import GRN


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.dwconv = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.pwconv1 = nn.Linear(width, width)
        self.grn = GRN(width)

    def forward(self, x):
        return self.grn(self.pwconv1(self.dwconv(x).permute(0, 2, 3, 1))).permute(0, 3, 1, 2)


class ConvNeXtV2(nn.Module):
    def __init__(self, patch_size, img_size, in_chans, num_classes, use_orig_stem):
        super().__init__()
        assert (patch_size, img_size, in_chans, use_orig_stem) == (16, 112, 12, False)
        self.initial_conv = nn.Sequential(nn.Conv2d(in_chans, 8, 3))
        self.stem = nn.Sequential(nn.Conv2d(8, 8, 16, 16, groups=8))
        self.stages = nn.ModuleList([nn.Sequential(Block(8)) for _ in range(4)])
        self.head = nn.Linear(8, num_classes)

    def forward(self, x):
        x = self.stem(self.initial_conv(x))
        for stage in self.stages:
            x = stage(x)
        return self.head(x.mean((-2, -1)))


def convnextv2_atto(**options):
    return ConvNeXtV2(**options)
""",
    },
    "terrafm": {
        "terrafm.py": """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.s2, self.s1 = nn.Conv2d(12, 8, 16, 16), nn.Conv2d(2, 8, 16, 16)
        self.cls_token = nn.Parameter(torch.randn(1, 1, 8))
        self.blocks = nn.ModuleList([nn.Linear(8, 8) for _ in range(12)])

    def forward(self, x):
        x = {12: self.s2, 2: self.s1}[x.shape[1]](x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token + x.mean(1, keepdim=True), x], 1)
        for block in self.blocks:
            x = x + block(x)
        return x[:, 0]


terrafm_base = terrafm_large = Model
""",
    },
    "spectralgpt": {
        "util/video.py": """
from torch import nn


class PatchEmbed(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Conv3d(1, 8, (3, 8, 8), (3, 8, 8))

    def forward(self, x):
        return self.proj(x).flatten(3).permute(0, 2, 3, 1)
""",
        "models_vit_tensor.py": """
import torch
from torch import nn
from util.video import PatchEmbed


class Model(nn.Module):
    def __init__(self, sep_pos_embed, cls_embed):
        super().__init__()
        self.input_size = (4, 16, 16)
        self.patch_embed = PatchEmbed()
        if sep_pos_embed:
            self.pos_embed_spatial = nn.Parameter(torch.randn(1, 256, 8))
            self.pos_embed_temporal = nn.Parameter(torch.randn(1, 4, 8))
        else:
            self.pos_embed = nn.Parameter(torch.randn(1, 1024, 8))
        assert not cls_embed
        self.blocks = nn.ModuleList([nn.Linear(8, 8) for _ in range(2)])
        self.head = nn.Linear(8, 10)

    def forward(self, x):
        x = self.patch_embed(x[:, None])
        x = x.flatten(1, 2)
        for block in self.blocks:
            x = block(x)
        return self.head(x[:, 1:].mean(1))


vit_base_patch8_128 = Model
""",
    },
    "anysat": {
        "src/networks.py": """
from torch import nn


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Conv2d(10, 8, 4, 4)

    def forward(self, x, scale, output):
        assert scale == 4 and output == "patch" and sorted(x) == ["s2", "s2_dates"]
        assert x["s2"].ndim == 5 and x["s2_dates"].shape == x["s2"].shape[:2]
        days = x["s2_dates"][:, :, None, None, None].float() / 365
        return self.project((x["s2"] * (1 + days)).mean(1)).permute(0, 2, 3, 1)
""",
        "hubconf.py": """
from torch import nn


class AnySat(nn.Module):
    def __init__(self, model_size="base", flash_attn=True):
        super().__init__()
        assert not flash_attn
        from src.networks import Inner
        self.model = Inner()

    def forward(self, x, patch_size, **options):
        return self.model(x, patch_size // 10, **options)
""",
    },
}
ENTRIES = catalogue()
NAMES = [
    name for name in ENTRIES.names(["all"]) if ENTRIES.written(name).get("kind") == "entrypoint"
]


@pytest.fixture(autouse=True)
def alone():
    """A job imports the code of one backbone; here that of the last one must be forgotten."""
    yield
    for name in list(sys.modules):
        if name.partition(".")[0] in ("models", "util", "src", "hubconf", "terrafm") or (
            name == "models_vit_tensor"
        ):
            del sys.modules[name]


def entry_of(name: str, folder) -> dict:
    entry = ENTRIES.entry(name)
    family = entry["entrypoint"].rpartition(":")[2]
    for file, text in CODE[family].items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text)
    options = {**entry["options"], "code": str(folder)}
    place = f"{REPOSITORY / 'config/backbones/authors.py'}:{family}"
    return {**entry, "entrypoint": place, "options": options, "weights": None}


def built(name: str, entry: dict):
    made = backbone_entry(entry, where=name)
    contract = registry.contract_of(made, EXTRACTION, where=name)
    plan = feeding(name, contract)
    resources = Resources(name, None, 64, lambda _: None)
    return registry.build(made, plan, resources), plan, made


def fed(backbone, plan, entry: dict, **told):
    side = plan.side or 32
    generator = torch.Generator().manual_seed(0)
    dates = (3,) if entry["input"].get("dates") == "all" else ()
    images = torch.rand(2, *dates, len(plan), side, side, generator=generator)
    with torch.inference_mode():
        return backbone.features_and_maps(images, **told)


@pytest.mark.parametrize("name", NAMES)
def test_an_entry_feeds_the_authors_interface_and_gives_maps(tmp_path, name):
    entry = entry_of(name, tmp_path)
    backbone, plan, made = built(name, entry)
    backbone.make_maps(made.layers, torch.float32)
    features, maps = fed(backbone, plan, entry)
    assert features.shape == (2, 8) and features.isfinite().all()
    assert maps and all(one.ndim == 4 and one.shape[:2] == (2, 8) for one in maps)
    # code that Python compiled would change the folder that identifies the backbone
    assert not list(tmp_path.rglob("__pycache__"))


def test_what_stands_under_files_is_the_authors_code():
    """A change of their code runs the jobs again: the entry names what lies where the function looks."""
    for name in NAMES:
        entry = ENTRIES.entry(name)
        files = identify(entry, REPOSITORY, lambda path: REPOSITORY / path).files
        assert all(path.startswith(entry["options"]["code"]) for path in entry["files"]), name
        assert {f"file {path}" for path in entry["files"]} <= {*files}


def test_anysat_is_told_days_of_the_year_counted_from_zero(tmp_path):
    entry = entry_of("anysat-base", tmp_path)
    backbone, plan, _ = built("anysat-base", entry)
    seen = []
    backbone.module.network.register_forward_pre_hook(
        lambda _, fed: seen.append(fed[0]["s2_dates"])
    )
    dates = torch.tensor([[[2020, 1], [2020, 32], [0, 0]]] * 2)
    fed(backbone, plan, entry, dates=dates)
    assert seen[0].tolist() == [[0, 31, 195]] * 2
    fed(backbone, plan, entry)
    assert seen[1].unique().tolist() == [195]


def test_mmearth_takes_its_sparse_checkpoint(tmp_path):
    """Kernels (k², in, out) and (k², channels), names with .ln and .linear, a decoder: the authors' own mapping."""
    entry = entry_of("mmearth-atto", tmp_path)
    backbone, plan, _ = built("mmearth-atto", entry)
    expected = fed(backbone, plan, entry)[0]
    state = {}
    for key, value in backbone.module.state_dict().items():
        if "stem" in key or "initial_conv" in key:
            state[f"encoder.{key}"] = value
        elif key.endswith("dwconv.weight"):
            state[f"encoder.{key.removesuffix('weight')}kernel"] = (
                value[:, 0].transpose(-1, -2).flatten(1).T.contiguous()
            )
        elif "pwconv" in key:
            before, _, last = key.rpartition(".")
            state[f"encoder.{before}.linear.{last}"] = value
        elif "grn" in key:
            state[f"encoder.{key}"] = value[0, 0]
        else:
            state[f"encoder.{key}"] = value[None] if key.endswith("bias") else value
    state |= {"mask_token": torch.zeros(1), "decoder.0.weight": torch.zeros(2)}
    path = tmp_path / "mmearth.pth"
    torch.save({"model": state}, path)
    entry = {**entry, "weights": {"source": "file", "path": str(path)}, "seed": 9}
    again, _, _ = built("mmearth-atto", entry)
    torch.testing.assert_close(fed(again, plan, entry)[0], expected)
    assert again.weights_sha256
    torch.save({"model": {k: v for k, v in state.items() if "stem" not in k}}, path)
    with pytest.raises(PermafrostError, match=r"stem\.0"):
        built("mmearth-atto", entry)


def test_spectralgpt_takes_both_kinds_of_position_embedding(tmp_path):
    entry = entry_of("spectralgpt", tmp_path)
    state = dict(built("spectralgpt", entry)[0].module.network.state_dict())
    state.pop("pos_embed")
    state |= {"pos_embed_spatial": torch.ones(1, 256, 8), "pos_embed_temporal": torch.ones(1, 4, 8)}
    path = tmp_path / "spectral.pth"
    torch.save({"model": {**state, "decoder_embed.weight": torch.zeros(1)}}, path)
    backbone, _, _ = built(
        "spectralgpt", {**entry, "weights": {"source": "file", "path": str(path)}}
    )
    assert backbone.module.network.pos_embed_temporal.eq(1).all()


def test_code_that_is_not_there_is_named(tmp_path):
    entry = entry_of("terrafm-base", tmp_path)
    (tmp_path / "terrafm.py").unlink()
    with pytest.raises(PermafrostError, match="the authors' code lacks a module"):
        built("terrafm-base", entry)
