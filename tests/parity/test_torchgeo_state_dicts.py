"""State dicts that torchgeo's own classes and trainers saved load through `like`. Nothing is downloaded."""

from __future__ import annotations

import pytest
import torch
from helpers.backbones import build, plan_input
from helpers.stores.images import band, card_of, rgb_bands, sentinel2_bands
from permafrost.backbones.backbone import Resources
from permafrost.core.errors import PermafrostError

torchgeo_models = pytest.importorskip("torchgeo.models")

RADAR = [
    band(n, common_name=n.lower(), sensor="sentinel1", unit="db", scale=1.0) for n in ("VV", "VH")
]
AERIAL = [*rgb_bands(), band("nir", common_name="nir", unit="uint8", scale=1 / 255)]
S2_RGB = "ResNet18_Weights.SENTINEL2_RGB_MOCO"


def made(path, like, bands=None, *, side=None, **more):
    card = card_of(sentinel2_bands() if bands is None else bands)
    weights = {"source": "file", "path": str(path), "like": like, **more.pop("weights", {})}
    entry = {"kind": "torchgeo", "weights": weights, **more}
    if side:
        entry["input"] = {**entry.get("input", {}), "size": side}
    plan = plan_input(entry, {"size": 224}, card, where="backbone x")
    return build(entry, plan, Resources("backbone x", card, 0, None))


@pytest.fixture
def small(monkeypatch):
    """torchgeo's functions with few layers; how they load a file stays their own."""
    import timm
    from torchgeo.models import copernicusfm, croma, dofa

    tiny = {"embed_dim": 32, "depth": 1, "num_heads": 2}
    for module, name, shape in (
        (dofa, "DOFA", tiny),
        (copernicusfm, "CopernicusFM", tiny),
        (croma, "CROMA", {"encoder_dim": 32, "encoder_depth": 2}),
    ):
        cls = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, c=cls, s=shape, **k: c(*a, **{**k, **s}))
    create = timm.create_model
    monkeypatch.setattr(
        "torchgeo.models.panopticon.timm.create_model",
        lambda name, **k: create(name, **({"depth": 1} if "dinov2" in name else {}), **k),
    )


def saved(tmp_path, model, wrap=lambda state: state):
    path = tmp_path / "own.pth"
    torch.save(wrap(model.state_dict()), path)
    return path


def lightning(beginning, further=()):
    """A checkpoint of Lightning, in which the state dict is a part of a task's."""

    def wrap(state):
        named = {f"{beginning}{key}": value for key, value in state.items()}
        return {"epoch": 3, "state_dict": {**named, **dict(further)}, "hyper_parameters": {}}

    return wrap


FAMILIES = {
    "resnet18": (S2_RGB, {"in_chans": 3}, {}),
    "vit_small_patch16_224": ("ViTSmall16_Weights.SENTINEL2_ALL_MAE", {"in_chans": 13}, {}),
    "swin_v2_t": ("Swin_V2_T_Weights.SENTINEL2_SI_RGB_SATLAS", {}, {}),
    "swin_t": ("Swin_T_Weights.CITYSCAPES_SEMSEG", {}, {"bands": rgb_bands()}),
    "dofa_base_patch16_224": ("DOFABase16_Weights.DOFA_MAE", {}, {}),
    "copernicusfm_base": (
        "CopernicusFM_Base_Weights.CopernicusFM_ViT",
        {},
        {"input": {"bands": ["B08", "B02"]}},
    ),
    "croma_base": ("CROMABase_Weights.CROMA_VIT", {"image_size": 64}, {"side": 64}),
    "panopticon_vitb14": ("Panopticon_Weights.VIT_BASE14", {"img_size": 56}, {"side": 56}),
    "earthloc": ("EarthLoc_Weights.SENTINEL2_RESNET50", {"in_channels": 3}, {}),
    "tilenet": ("TileNet_Weights.NAIP_ALL_TILE2VEC", {"in_channels": 4}, {"bands": AERIAL}),
    "presto": ("Presto_Weights.PRESTO", {}, {}),
    "tessera": ("Tessera_Weights.TESSERA", {}, {"bands": [*sentinel2_bands(), *RADAR]}),
    "unet": (
        "Unet_Weights.NAIP_RGBN_RESNET18_CHESAPEAKERSC",
        {"in_channels": 4, "encoder_name": "resnet18", "classes": 2},
        {"bands": AERIAL},
    ),
}


@pytest.mark.parametrize(
    ("name", "wrapped"),
    [
        *((name, False) for name in FAMILIES),
        *((name, True) for name in ("resnet18", "dofa_base_patch16_224", "croma_base", "presto")),
    ],
)
def test_a_state_dict_of_every_family_loads(small, tmp_path, name, wrapped):
    like, arguments, entry = FAMILIES[name]
    torch.manual_seed(3)
    model = getattr(torchgeo_models, name)(**arguments).eval()
    wrap = lightning("model.", {"criterion.weight": torch.ones(3)}) if wrapped else lambda s: s
    backbone = made(saved(tmp_path, model, wrap), like, **entry)
    theirs = model.state_dict()
    found = flat(backbone.module, theirs)
    # the classifier is cut off, and CROMA's fixed biases follow from the size
    compared = [key for key in theirs if key in found and "attn_bias" not in key]
    assert len(compared) > 0.4 * len(found)
    assert all(torch.equal(theirs[key], found[key]) for key in compared)
    assert not {key for key in found if key not in theirs}
    dropped = backbone.notes.get("dropped", {"names": []})["names"]
    assert ("criterion.weight" in dropped) == wrapped


def flat(module, theirs):
    """Tensors by their names in torchgeo's model, without those of what wraps it here."""
    found = {}
    for key, value in module.state_dict().items():
        names = (key, key.removeprefix("model."), f"encoder.{key.removeprefix('model.')}")
        found[next((name for name in names if name in theirs), key)] = value
    return found


def test_swin_without_a_classifier_or_with_one_of_other_classes_loads(tmp_path):
    like = "Swin_V2_T_Weights.SENTINEL2_SI_RGB_SATLAS"
    for classes in (None, 7):
        model = torchgeo_models.swin_v2_t(**({} if classes is None else {"num_classes": classes}))
        if classes is None:
            model.head = torch.nn.Identity()
        backbone = made(saved(tmp_path, model), like)
        assert torch.equal(
            backbone.module.features[7][0].mlp[0].weight, model.features[7][0].mlp[0].weight
        )


def test_cromas_published_layout_loads_as_before(small, tmp_path):
    from torchgeo.models import croma

    model = croma.CROMA(modalities=["sar", "optical"], image_size=64)

    def published(state):
        parts = ("s1_encoder", "s2_encoder", "s1_GAP_FFN", "s2_GAP_FFN", "joint_encoder")
        return {part: getattr(model, part).state_dict() for part in parts}

    backbone = made(saved(tmp_path, model, published), "CROMABase_Weights.CROMA_VIT", side=64)
    key = "s2_encoder.linear_input.weight"
    assert torch.equal(backbone.module.model.state_dict()[key], model.state_dict()[key])


def test_panopticons_positions_of_another_size_are_resized_from_their_own(small, tmp_path):
    from torchgeo.models.copernicusfm import resize_abs_pos_embed

    like = "Panopticon_Weights.VIT_BASE14"
    model = torchgeo_models.panopticon_vitb14(img_size=56)
    path = saved(tmp_path, model)
    backbone = made(path, like, side=84)
    found = backbone.module.model.pos_embed
    torch.testing.assert_close(found, resize_abs_pos_embed(model.model.pos_embed, 6, 4))
    assert backbone.notes["positions"].startswith("position embeddings interpolated from 4 x 4")
    assert "positions" not in made(path, like, side=56).notes


@pytest.mark.parametrize(
    ("task", "beginning"),
    [
        ("Classification", "model."),
        ("BYOL", "model.backbone.model."),
        ("MoCo", "backbone."),
        ("SimCLR", "backbone."),
    ],
)
def test_checkpoints_of_torchgeos_trainers_load(tmp_path, task, beginning):
    import torchgeo.tasks

    arguments = {
        "Classification": {"num_classes": 4},
        "BYOL": {},
        "MoCo": {"version": 2, "layers": 2, "output_dim": 8},
        "SimCLR": {"version": 1, "layers": 2, "output_dim": 8},
    }[task]
    trainer = getattr(torchgeo.tasks, task)(model="resnet18", in_channels=3, **arguments)
    state = trainer.state_dict()
    torch.save(
        {"state_dict": state, "hyper_parameters": {"model": "resnet18"}}, tmp_path / "a.ckpt"
    )
    backbone = made(tmp_path / "a.ckpt", S2_RGB)
    assert torch.equal(backbone.module.conv1.weight, state[f"{beginning}conv1.weight"])
    kept = [name for name in state if name.startswith(beginning)]
    dropped = backbone.notes.get("dropped", {"count": 0})["count"]
    assert dropped == len(state) - len(kept)


def test_a_masked_autoencoder_of_torchgeos_trainer_loads(tmp_path):
    import torchgeo.tasks

    trainer = torchgeo.tasks.MAE(model="vit_small_patch16_224", in_channels=13)
    torch.save({"state_dict": trainer.state_dict()}, tmp_path / "a.ckpt")
    backbone = made(tmp_path / "a.ckpt", "ViTSmall16_Weights.SENTINEL2_ALL_MAE")
    expected = trainer.state_dict()["backbone.vit.blocks.11.mlp.fc2.weight"]
    assert torch.equal(backbone.module.blocks[11].mlp.fc2.weight, expected)


def test_two_models_in_one_file_are_refused_by_name(tmp_path):
    state = torchgeo_models.resnet18(num_classes=0, in_chans=3).state_dict()
    both = {f"{who}.{key}": value for who in ("student", "teacher") for key, value in state.items()}
    torch.save(both, tmp_path / "two.pth")
    with pytest.raises(PermafrostError, match=r"2 models .*student\., teacher\.") as error:
        made(tmp_path / "two.pth", S2_RGB)
    assert "drop: ['teacher.*']" in str(error.value)
    backbone = made(tmp_path / "two.pth", S2_RGB, weights={"drop": ["teacher.*"]})
    assert torch.equal(backbone.module.conv1.weight, state["conv1.weight"])


def test_a_file_of_another_model_is_refused_by_what_it_lacks(tmp_path):
    path = saved(tmp_path, torchgeo_models.tilenet(in_channels=3))
    with pytest.raises(PermafrostError, match="no tensor 'cls_token', which torchgeo's vit_small"):
        made(path, "ViTSmall16_Weights.SENTINEL2_ALL_MAE")


# --- encoders of U-Nets ------------------------------------------------------------------------------


def unet_file(tmp_path, like):
    from torchgeo.models import get_weight

    meta = get_weight(like).meta
    torch.manual_seed(1)
    model = torchgeo_models.unet(
        encoder_name=meta["encoder"], in_channels=meta["in_chans"], classes=meta["num_classes"]
    ).eval()
    return model, saved(tmp_path, model)


@pytest.mark.parametrize(
    ("like", "bands"),
    [
        ("Unet_Weights.NAIP_RGBN_RESNET18_CHESAPEAKERSC", AERIAL),
        ("Unet_Weights.OAM_RGB_RESNET34_TCD", rgb_bands()),
    ],
)
def test_features_of_a_unets_encoder_are_those_of_its_strides(tmp_path, like, bands):
    model, path = unet_file(tmp_path, like)
    backbone = made(path, like, bands, side=64)
    backbone.make_maps(None, torch.float32)
    pixels = torch.rand(2, len(backbone.plan), 64, 64)
    with torch.inference_mode():
        features, maps = backbone.features_and_maps(pixels)
        theirs = model.encoder(pixels)
    assert backbone.layers == ("stride32", "stride16", "stride8", "stride4")
    assert all(torch.equal(ours, one) for ours, one in zip(maps, theirs[:1:-1], strict=True))
    torch.testing.assert_close(features, theirs[-1].mean((2, 3)))
    assert not [name for name in backbone.module.state_dict() if "decoder" in name]


def test_weights_of_two_dates_are_fed_both_and_a_single_image_twice(tmp_path):
    like = "Unet_Weights.SENTINEL2_3CLASS_FTW"
    model, path = unet_file(tmp_path, like)
    backbone = made(path, like, side=64, input={"dates": "all"})
    assert backbone.plan.names == ["B04", "B03", "B02", "B08"]
    assert backbone.plan.dates == "all"
    assert backbone.plan.channels[0].gain == pytest.approx(1 / 3000)
    assert backbone.notes["dates_fed"] == "2, a single image for each of them"
    two = torch.rand(2, 2, 4, 64, 64)
    with torch.inference_mode():
        expected = model.encoder(two.flatten(1, 2))[-1].mean((2, 3))
        torch.testing.assert_close(backbone.features(two), expected)
        once = backbone.features(two[:, 0])
        twice = model.encoder(torch.cat([two[:, 0], two[:, 0]], 1))[-1].mean((2, 3))
        torch.testing.assert_close(once, twice)
        with pytest.raises(PermafrostError, match="3 dates, and the weights take 2"):
            backbone.features(torch.rand(1, 3, 4, 64, 64))


def test_an_untrained_unet_takes_the_bands_that_are_fed(tmp_path):
    entry = {
        "kind": "torchgeo",
        "model": "unet",
        "weights": None,
        "options": {"encoder_name": "resnet18"},
    }
    card = card_of(sentinel2_bands())
    entry["input"] = {"bands": "all"}
    plan = plan_input(entry, {"size": 224}, card)
    backbone = build(entry, plan, Resources("backbone x", card, 0, None))
    assert backbone.features(torch.rand(1, 13, 64, 64)).shape == (1, 512)


def test_entries_of_unets_count_the_parameters_of_their_encoders():
    from helpers.project import REPOSITORY
    from permafrost.plan.catalogue import read_yaml
    from torchgeo.models import Unet_Weights, get_weight

    entries = read_yaml(REPOSITORY / "config" / "backbones" / "torchgeo.yaml")
    unets = {
        entry["weights"]: entry
        for entry in entries.values()
        if str(entry["weights"]).startswith("Unet_Weights.")
    }
    assert {str(weights) for weights in Unet_Weights} == set(unets)
    shapes = {name: get_weight(name).meta for name in unets}
    counts = {(meta["encoder"], meta["in_chans"]): None for meta in shapes.values()}
    for encoder, channels in counts:
        model = torchgeo_models.unet(encoder_name=encoder, in_channels=channels)
        counts[encoder, channels] = sum(p.numel() for p in model.encoder.parameters())
    for name, meta in shapes.items():
        assert unets[name]["parameters"] == counts[meta["encoder"], meta["in_chans"]], name
