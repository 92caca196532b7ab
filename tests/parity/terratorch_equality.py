"""Compares backbones of kind terratorch with TerraTorch called directly. Runs in the environment `terratorch`.

Prints a line of JSON for each comparison. Weights are drawn from a seed, inputs are random numbers.
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
warnings.simplefilter("ignore")

from helpers.backbones import build, plan_input  # noqa: E402
from helpers.neighbours import alone_and_beside, same_features  # noqa: E402
from permafrost.backbones.backbone import Resources  # noqa: E402
from permafrost.backbones.input.matching import OfferedBands  # noqa: E402
from permafrost.data.bands.sensors import SENSORS  # noqa: E402

SEED = 7
STATISTICS = {"mean": 0.0, "std": 1.0, "min": 0.0, "max": 1.0, "p2": 0.0, "p98": 1.0}
WHEN = torch.tensor([[2019, 45], [2021, 300]])
WHERE = torch.tensor([[12.5, 41.9], [-70.0, -33.25]])


def card_of(*bands: tuple[str, str, str]) -> OfferedBands:
    """Bands as (sensor, names, unit)."""
    held = []
    for sensor, names, unit in bands:
        for name in names.split():
            band = SENSORS[sensor][name].as_dict() | {"unit": unit, "scale": 1.0, "offset": 0.0}
            held.append(band | STATISTICS)
    return OfferedBands("somewhere", held, [band["name"] for band in held])


S2 = ("sentinel2-l2a", "B01 B02 B03 B04 B05 B06 B07 B08 B8A B09 B11 B12", "reflectance")
L1C = ("sentinel2-l1c", "B01 B02 B03 B04 B05 B06 B07 B08 B8A B09 B10 B11 B12", "reflectance")
RTC = ("sentinel1-rtc", "VV VH", "db")
DEM = ("dem", "elevation", "stored")


def made(card: OfferedBands, **entry):
    entry = {"kind": "terratorch", "weights": None, "seed": SEED, **entry}
    plan = plan_input(entry, {"size": 224}, card)
    return build(entry, plan, Resources("backbone x", card, 0, None))


def directly(name: str, **arguments):
    from terratorch.registry import BACKBONE_REGISTRY

    np.random.seed(SEED)
    torch.manual_seed(SEED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return BACKBONE_REGISTRY.build(name, pretrained=False, **arguments).eval()


def images(channels: int, side: int, *, dates: int | None = None) -> torch.Tensor:
    shape = (2, channels, side, side) if dates is None else (2, dates, channels, side, side)
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


def ours(backbone, batch: torch.Tensor, layers=None, **told):
    backbone.make_maps(layers, torch.float32)
    with torch.inference_mode():
        return backbone.features_and_maps(batch, **told)


def report(name: str, pooled, maps, wanted_pooled, wanted_maps, **more) -> None:
    same = torch.equal(pooled, wanted_pooled)
    layers = len(maps) == len(wanted_maps) and all(map(torch.equal, maps, wanted_maps))
    print(json.dumps({"case": name, "features": same, "maps": layers, **more}), flush=True)


def tokens_to_maps(outputs, places, prefix: int, frames: int = 1):
    """As TerraTorch's own `prepare_features_for_image_model`."""
    made = []
    for place in places:
        tokens = outputs[place][:, prefix:]
        side = int((tokens.shape[1] // frames) ** 0.5)
        grid = tokens.reshape(len(tokens), frames, side, side, -1)
        made.append(grid.permute(0, 1, 4, 2, 3).reshape(len(tokens), -1, side, side))
    return made


def prithvi() -> None:
    batch = images(6, 224)
    backbone = made(card_of(S2), model="prithvi_eo_tiny")
    model = directly("prithvi_eo_tiny", bands=PRITHVI_BANDS)
    with torch.inference_mode():
        outputs = model(batch)
        grids = model.prepare_features_for_image_model(outputs)
    report("prithvi_eo_tiny", *ours(backbone, batch), outputs[-1][:, 1:].mean(1), grids[::-1])

    subset = ["GREEN", "RED", "NIR_NARROW"]
    backbone = made(
        card_of(("sentinel2-l2a", "B03 B04 B8A", "reflectance")), model="prithvi_eo_tiny"
    )
    with torch.inference_mode():
        outputs = directly("prithvi_eo_tiny", bands=subset)(batch[:, :3])
    report(
        "prithvi_eo_tiny of three bands",
        *ours(backbone, batch[:, :3], ["outputs.3"]),
        outputs[-1][:, 1:].mean(1),
        tokens_to_maps(outputs, [3], 1),
        notes=backbone.notes,
    )


PRITHVI_BANDS = ["BLUE", "GREEN", "RED", "NIR_NARROW", "SWIR_1", "SWIR_2"]


def prithvi_told() -> None:
    batch, name = images(6, 224), "prithvi_eo_v2_tiny_tl"
    backbone = made(card_of(S2), model=name)
    model = directly(name, bands=PRITHVI_BANDS)
    told = {"dates": WHEN, "place": WHERE}
    with torch.inference_mode():
        outputs = model(batch, WHEN[:, None].float(), WHERE.flip(1))
        grids = model.prepare_features_for_image_model(outputs)
        untold = model(batch)[-1][:, 1:].mean(1)
    wanted = [grids[place] for place in (11, 8, 5, 2)]
    found = ours(backbone, batch, **told)
    told_matters = not torch.equal(untold, found[0])
    report(name, *found, outputs[-1][:, 1:].mean(1), wanted, told_matters=told_matters)
    backbone = made(card_of(S2), model=name)
    report(
        f"{name} told nothing",
        *ours(backbone, batch, ["outputs.5"]),
        untold,
        tokens_to_maps(model.forward_features(batch), [5], 1),
    )


def prithvi_frames() -> None:
    name, batch = "prithvi_eo_v2_tiny_tl", images(6, 224, dates=4)
    when = torch.stack([WHEN, WHEN + 1, WHEN + 2, WHEN + 3], dim=1)
    there = torch.tensor([[True] * 4, [True] * 3 + [False]])
    backbone = made(card_of(S2), model=name, frames=3, input={"dates": "all"})
    found = ours(backbone, batch, dates=when, present=there, place=WHERE)
    model = directly(name, bands=PRITHVI_BANDS, num_frames=3)
    chosen = [[0, 2, 3], [0, 1, 2]]
    frames = torch.stack([one[rows] for one, rows in zip(batch, chosen, strict=True)])
    days = torch.stack([one[rows] for one, rows in zip(when, chosen, strict=True)])
    with torch.inference_mode():
        outputs = model(frames.transpose(1, 2).contiguous(), days.float(), WHERE.flip(1))
        grids = model.prepare_features_for_image_model(outputs)
    wanted = [grids[place] for place in (11, 8, 5, 2)]
    report(f"{name} of three frames", *found, outputs[-1][:, 1:].mean(1), wanted)


def terramind() -> None:
    name, batch = "terramind_v1_tiny", images(15, 224)
    asked = {"modalities": ["S2L2A", "S1RTC", "DEM"]}
    backbone = made(card_of(S2, RTC, DEM), model=name, **asked)
    model = directly(name, modalities=asked["modalities"])
    with torch.inference_mode():
        outputs = model({"S2L2A": batch[:, :12], "S1RTC": batch[:, 12:14], "DEM": batch[:, 14:]})
    wanted = tokens_to_maps(outputs, (11, 8, 5, 2), 0)
    report(name, *ours(backbone, batch), outputs[-1].mean(1), wanted, notes=backbone.notes)

    backbone = made(
        card_of(("sentinel2-l2a", "B02 B03 B04 B8A", "reflectance"), ("sentinel1-rtc", "VH", "db")),
        model=name,
        modalities=["S2L2A", "S1RTC"],
    )
    bands = {"S2L2A": ["BLUE", "GREEN", "RED", "NIR_NARROW"], "S1RTC": ["VH"]}
    model = directly(name, modalities=["S2L2A", "S1RTC"], bands=bands)
    with torch.inference_mode():
        outputs = model({"S2L2A": batch[:, :4], "S1RTC": batch[:, 4:5]})
    wanted = tokens_to_maps(outputs, (11, 8, 5, 2), 0)
    report(
        f"{name} of five bands",
        *ours(backbone, batch[:, :5]),
        outputs[-1].mean(1),
        wanted,
        notes=backbone.notes,
    )


SMALL_CLAY = {"dim": 192, "depth": 4, "heads": 3}


def clay() -> None:
    from permafrost.backbones.terratorch.building import clay_place, clay_time
    from terratorch.models.backbones.clay_v15.model import Encoder
    from terratorch.models.clay1_5_model_factory import Box, ClayMAEBackbone

    batch, card = images(10, 256), card_of(S2)
    backbone = made(card, model="clay_v1_5", options=SMALL_CLAY)
    torch.manual_seed(SEED)
    sizes = {"dim_head": 64, "mlp_ratio": 4, "patch_size": 8, **SMALL_CLAY}
    encoder = Encoder(mask_ratio=0.0, shuffle=False, **sizes).eval()
    waves = backbone.notes["wavelengths_um"]
    table = {
        "s2": {"gsd": 10, "bands": {"wavelength": dict(zip("abcdefghij", waves, strict=True))}}
    }
    with torch.inference_mode():
        (plain,) = ClayMAEBackbone(encoder, "s2", Box(table))(batch)
    found = ours(backbone, batch, ["outputs.3"])
    report("clay_v1_5 told nothing", *found, plain.flatten(2).mean(2), [plain])

    cube = {
        "pixels": batch,
        "time": clay_time(WHEN),
        "latlon": clay_place(WHERE).float(),
        "gsd": torch.tensor(20.0),
        "waves": torch.tensor(waves),
    }
    with torch.inference_mode():
        tokens = encoder(cube)[0]
    told = {"dates": WHEN, "place": WHERE, "ground_distance_m": torch.full((2,), 20.0)}
    backbone = made(card, model="clay_v1_5", options=SMALL_CLAY)
    found = ours(backbone, batch, ["outputs.3"], **told)
    wanted = tokens[:, 1:].mean(1)
    report(
        "clay_v1_5",
        *found,
        wanted,
        tokens_to_maps([tokens], [0], 1),
        told_matters=not torch.equal(wanted, plain.flatten(2).mean(2)),
    )
    with torch.inference_mode():
        mixed = backbone.features_and_maps(
            batch, **{**told, "ground_distance_m": torch.tensor([20.0, 10.0])}
        )[0]
    close = torch.allclose(mixed[0], found[0][0], atol=1e-6) and not torch.equal(
        mixed[1], found[0][1]
    )
    print(
        json.dumps({"case": "clay_v1_5 of two ground distances", "features": close, "maps": close})
    )


def torchgeo_models() -> None:
    cases = {
        "satlas_swin_t_sentinel2_si_ms": (L1C, "B04 B03 B02 B05 B06 B07 B08 B11 B12", (7, 5, 3, 1)),
        "ssl4eos12_resnet50_sentinel2_all_decur": (L1C, L1C[1], (4, 3, 2, 1)),
        "ssl4eos12_vit_small_patch16_224_sentinel2_all_dino": (L1C, L1C[1], (11, 8, 5, 2)),
    }
    for name, (bands, order, places) in cases.items():
        card = card_of(bands)
        backbone = made(card, model=name, input={"size": 224, "white": 0.3558})
        assert backbone.plan.names == order.split(), backbone.plan.names
        batch = images(len(backbone.plan), 224)
        every = {} if "_vit_" in name else {"out_indices": list(range(max(places) + 1))}
        model = directly(name, model_bands=backbone.plan.names, **every)
        with torch.inference_mode():
            outputs = model(batch)
        last = outputs[-1].permute(0, 3, 1, 2) if "swin" in name else outputs[-1]
        wanted = [outputs[place] for place in places]
        wanted = [one.permute(0, 3, 1, 2) for one in wanted] if "swin" in name else wanted
        pooled = last.permute(0, 2, 3, 1).mean((1, 2)) if "swin" in name else last.mean((2, 3))
        if "swin" in name:
            pooled = outputs[-1].mean((1, 2))
        report(name, *ours(backbone, batch), pooled, wanted)


def dofa() -> None:
    backbone = made(card_of(S2), model="dofa_small_patch16_224")
    batch = images(12, 224)
    model = directly(
        "dofa_small_patch16_224", model_bands=backbone.notes["bands"], out_indices=list(range(12))
    )
    with torch.inference_mode():
        outputs = model(batch)
    wanted = tokens_to_maps(outputs, (11, 8, 5, 2), 1)
    report("dofa_small_patch16_224", *ours(backbone, batch), outputs[-1][:, 1:].mean(1), wanted)


def weights_from_files() -> None:
    """Files as the authors publish them: with decoders, prefixes, and modalities that are not fed."""
    from permafrost.core.errors import PermafrostError
    from terratorch.registry import FULL_MODEL_REGISTRY, TERRATORCH_BACKBONE_REGISTRY

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "weights.pt"
        torch.manual_seed(11)
        whole = FULL_MODEL_REGISTRY.build(
            "prithvi_eo_v2_tiny_tl_mae", pretrained=False, num_frames=4
        )
        torch.save(whole.state_dict(), path)
        batch, at = images(6, 224), {"source": "file", "path": str(path)}
        bands = ("sentinel2-l2a", "B04 B03 B02", "reflectance")
        loaded = made(card_of(bands), model="prithvi_eo_v2_tiny_tl", weights=at)
        model = TERRATORCH_BACKBONE_REGISTRY.build(
            "prithvi_eo_v2_tiny_tl", pretrained=True, ckpt_path=str(path), bands=PRITHVI_BANDS[:3]
        ).eval()
        with torch.inference_mode():
            outputs = model(batch[:, :3])
        maps = tokens_to_maps(outputs, [11], 1)
        found = ours(loaded, batch[:, :3], ["outputs.11"])
        report("prithvi from a file", *found, outputs[-1][:, 1:].mean(1), maps)

        asked = ["S2L2A", "S1RTC", "DEM"]
        whole = TERRATORCH_BACKBONE_REGISTRY.build("terramind_v1_tiny", modalities=asked)
        torch.save(whole.state_dict(), path)
        loaded = made(card_of(bands), model="terramind_v1_tiny", weights=at)
        model = TERRATORCH_BACKBONE_REGISTRY.build(
            "terramind_v1_tiny",
            modalities=["S2L2A"],
            ckpt_path=str(path),
            bands={"S2L2A": ["BLUE", "GREEN", "RED"]},
        ).eval()
        with torch.inference_mode():
            outputs = model({"S2L2A": batch[:, :3]})
        found = ours(loaded, batch[:, :3], ["outputs.11"])
        maps = tokens_to_maps(outputs, [11], 0)
        report("terramind from a file", *found, outputs[-1].mean(1), maps)

        sizes = {"model": "clay_v1_5", "options": SMALL_CLAY}
        clay = made(card_of(S2), **{**sizes, "seed": 12})
        state = {f"model.encoder.{k}": v for k, v in clay.module.model.state_dict().items()}
        torch.save({"state_dict": {**state, "model.teacher.x": torch.zeros(1)}}, path)
        loaded = made(card_of(S2), **sizes, weights=at)
        batch = images(10, 256)
        report("clay from a file", *ours(loaded, batch), *ours(clay, batch))

        name = "ssl4eos12_resnet50_sentinel2_all_decur"
        other = made(card_of(L1C), model=name, seed=12)
        torch.save(other.module.model.resnet_model.state_dict(), path)
        loaded = made(card_of(L1C), model=name, weights=at)
        batch = images(13, 224)
        report("decur from a file", *ours(loaded, batch), *ours(other, batch))
        for model in ("prithvi_eo_tiny", "terramind_v1_tiny", "clay_v1_5"):
            try:
                made(card_of(S2), model=model, weights=at)
            except PermafrostError as error:
                fits = "does not fit" not in str(error)
            print(
                json.dumps(
                    {
                        "case": f"{model} refuses another's file",
                        "features": not fits,
                        "maps": not fits,
                    }
                )
            )


def neighbours() -> None:
    """Batches of one and of all images give the same features, whatever is told of them."""
    untold = {
        "prithvi_eo_tiny": {},
        "terramind_v1_tiny": {"modalities": ["S2L2A", "S1RTC"]},
        "dofa_small_patch16_224": {"input": {"bands": "all"}},
        "satlas_swin_t_sentinel2_si_ms": {"input": {"size": 64}},
        "ssl4eos12_resnet50_sentinel2_all_decur": {"input": {"size": 64}},
    }
    told = {
        "prithvi_eo_v2_tiny_tl": {},
        "clay_v1_5": {"options": SMALL_CLAY, "input": {"size": 64}},
    }
    cases = [(name, entry, True) for name, entry in (untold | told).items()]
    # of one image place or date are unknown, and so of all
    cases += [(name, entry, what) for name, entry in told.items() for what in ("lat", "date")]
    for name, entry, metadata in cases:
        entry = {"kind": "terratorch", "model": name, "weights": None, **entry}
        with tempfile.TemporaryDirectory() as folder:
            pairs = alone_and_beside(Path(folder), entry, metadata, size=224)
            same = all([same_features(*pair) for pair in pairs])
        case = f"neighbours of {name}" + ("" if metadata is True else f", one {metadata} unknown")
        print(json.dumps({"case": case, "features": same, "maps": True}), flush=True)


def registry() -> None:
    """Every registered model is known: built, or refused with a reason; and of torchgeo's, by the right weights."""
    import inspect
    from importlib.metadata import version

    from permafrost.backbones.terratorch.families import family_of
    from permafrost.backbones.torchgeo.weights import contract_of, find_weights
    from permafrost.core.errors import PermafrostError
    from terratorch.registry import BACKBONE_REGISTRY
    from terratorch.registry import TERRATORCH_BACKBONE_REGISTRY as known

    wrong, refused = [], []
    for name in sorted(known):
        try:
            family = family_of(name, "x")
        except PermafrostError as error:
            (wrong if "unknown" in str(error) else refused).append(name)
            continue
        if family.weights is not None:
            default = inspect.signature(known[name]).parameters["weights"].default
            contract_of(find_weights(family.weights, "x")[0], "x")
            if str(default) != family.weights:
                wrong.append(f"{name}: {default}")
    print(
        json.dumps(
            {
                "case": "registry",
                "features": not wrong,
                "maps": True,
                "wrong": wrong,
                "refused": refused,
                "version": version("terratorch"),
                "names": sorted(BACKBONE_REGISTRY["terratorch"]),
            }
        )
    )


CASES = (
    prithvi,
    prithvi_told,
    prithvi_frames,
    terramind,
    clay,
    torchgeo_models,
    dofa,
    weights_from_files,
    neighbours,
    registry,
)

if __name__ == "__main__":
    torch.set_num_threads(1)
    chosen = sys.argv[1:]
    for case in CASES:
        if not chosen or case.__name__ in chosen:
            case()
