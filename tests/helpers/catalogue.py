"""Entries of the catalogues, built with random weights and fed images of their own bands and size."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path

import torch
from permafrost.backbones import registry
from permafrost.backbones.backbone import Backbone, Resources
from permafrost.backbones.input.contract import (
    InputContract,
    InputPlan,
    resolve_input,
)
from permafrost.backbones.input.matching import OfferedBands, wishes
from permafrost.data.bands.sensors import SENSORS, Band
from permafrost.plan.catalogue import Catalogue

from helpers.backbones import backbone_entry

CONFIG = Path(__file__).parents[2] / "config"
EXTRACTION = {"size": 224, "interpolation": "bilinear", "antialias": False}
_STATISTICS = {"mean": 0.5, "std": 0.25, "min": 0.0, "max": 1.0, "p2": 0.0, "p98": 1.0}


def catalogue() -> Catalogue:
    """The project's own backbones."""
    return Catalogue("backbone", [CONFIG], {})


def untrained(name: str, entry: dict) -> tuple[registry.BackboneEntry, object]:
    """The entry with random weights, and the contract of its input, which its weights say."""
    trained = backbone_entry(entry, where=name)
    contract = registry.contract_of(trained, EXTRACTION, where=name)
    other = copy.deepcopy(entry)
    if entry["kind"] == "timm":
        other["weights"] = {"source": "random"}
    elif entry["kind"] == "torchgeo" and entry.get("weights") is not None:
        from permafrost.backbones.torchgeo.weights import find_weights

        weights = entry["weights"]
        like = weights["like"] if isinstance(weights, dict) else weights
        other |= {"weights": None, "model": find_weights(like, name)[1]}
    elif entry["kind"] == "terratorch" or isinstance(entry.get("weights"), dict):
        other["weights"] = None
    return backbone_entry(other, where=name), contract


def feeding(name: str, contract: InputContract) -> InputPlan:
    """The plan of an input on a made-up dataset that has all bands the contract names, in units that serve."""
    units = contract.unit if isinstance(contract.unit, tuple) else (contract.unit,)
    units = [one if one in ("db", "uint8", "stored") else "reflectance" for one in units]
    if contract.bands == "rgb":
        bands, units = [band.as_dict() for band in SENSORS["rgb"].values()], ["uint8"]
    elif contract.bands == "all":
        bands = [band.as_dict() for band in SENSORS["sentinel2"].values()]
    else:
        bands = [
            Band(
                name=one.name,
                common_name=one.common_name,
                wavelength_nm=one.wavelength_nm,
                sensor=one.sensor,
            ).as_dict()
            for one in wishes(contract.bands, contract.sensor)
        ]
    units = units * len(bands) if len(units) == 1 else units
    offered = [
        band | _STATISTICS | {"unit": unit, "scale": None, "offset": None}
        for band, unit in zip(bands, units, strict=True)
    ]
    card = OfferedBands("made-up", offered, [band["name"] for band in offered])
    return resolve_input(contract, card, where=name)


def build_untrained(name: str, entry: dict, *, device: str = "cpu") -> Backbone:
    """The backbone of an entry with random weights, for its own bands and size."""
    random, contract = untrained(name, entry)
    plan = feeding(name, contract)
    # only a kind that learns from images looks at any
    shape = (len(plan), plan.side or 32, plan.side or 32)
    generator = torch.Generator().manual_seed(0)
    resources = Resources(name, None, 64, lambda _: torch.rand(shape, generator=generator))
    with torch.device(device):
        return registry.build(random, plan, resources)


def check_promises(
    name: str, entry: dict, *, layers: bool = True, most: int | None = None, device: str = "cpu"
) -> tuple[int, int]:
    """Feed a backbone with random weights: shapes, maps of layers; no image sees another; every band counts.

    Parameters
    ----------
    layers : whether it has any.
    most : with more parameters than this, one image is fed, for its shapes.
    device : on the meta device, shapes are all there is.

    Returns
    -------
    Its numbers of parameters and of features.

    Raises
    ------
    AssertionError : one of these does not hold.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        backbone = build_untrained(name, entry, device=device)
    assert entry.get("parameters", backbone.parameters) == backbone.parameters
    random, contract = untrained(name, entry)
    plan = feeding(name, contract)
    side = plan.side or 32
    generator = torch.Generator().manual_seed(1)
    small = most is None or backbone.parameters <= most
    images = torch.rand(2 if small else 1, len(plan), side, side, generator=generator).to(device)
    if layers:
        backbone.make_maps(random.layers, torch.float32)
    with torch.no_grad():
        together, maps = backbone.features_and_maps(images)
        for values in (together, *maps):
            assert len(values) == len(images)
            assert values.is_meta or values.isfinite().all()
        assert together.ndim == 2 and all(values.ndim == 4 for values in maps)
        assert bool(maps) == layers
        if small and not images.is_meta:
            _check_images(backbone, images, together, plan.names)
    return backbone.parameters, together.shape[1]


def _check_images(backbone: Backbone, images: torch.Tensor, together: torch.Tensor, names) -> None:
    """The second image's features are its own, and the first's depend on all of its bands.

    Of many bands, by the gradient of a random sum of features, which takes one pass; else by changing each.
    """
    alone, _ = backbone.features_and_maps(images[1:])
    largest = together.abs().max()
    torch.testing.assert_close(alone[0], together[1], rtol=1e-3, atol=float(1e-4 * largest))
    if len(names) > 4:
        with torch.enable_grad():
            image = images[:1].clone().requires_grad_()
            features, _ = backbone.features_and_maps(image)
            weights = torch.randn(features.shape, generator=torch.Generator().manual_seed(2))
            (gradient,) = torch.autograd.grad((features * weights).sum(), image)
        moved = dict(zip(names, gradient[0].abs().amax(dim=(1, 2)).tolist(), strict=True))
        assert {name for name, by in moved.items() if not by > 1e-6 * max(moved.values())} == set()
        return
    for band, name in enumerate(names):
        changed = images[:1].clone()
        changed[:, band] = 1 - changed[:, band]
        moved, _ = backbone.features_and_maps(changed)
        assert (moved[0] - together[0]).abs().max() > 1e-6 * largest, name
