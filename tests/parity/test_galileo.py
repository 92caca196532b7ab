"""Galileo as this library feeds it, against the authors' own code called directly. Skips where that is absent."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.backbones import build, plan_input
from helpers.stores.images import band, card_of, rgb_bands, sentinel2_bands
from permafrost.backbones.backbone import Resources
from permafrost.core.errors import PermafrostError
from permafrost.features.prepare import Preparer

DATA = Path(
    os.environ.get("PERMAFROST_SHARED", Path(__file__).resolve().parents[3] / "shared" / "data")
)
CODE = DATA.parent / "reference" / "galileo" / "single_file_galileo.py"
WEIGHTS = DATA / "weights" / "galileo_nano"

pytestmark = pytest.mark.skipif(
    not (CODE.is_file() and WEIGHTS.is_dir()),
    reason="the authors' code and weights are not beside the project",
)


@pytest.fixture(scope="module")
def code():
    spec = importlib.util.spec_from_file_location("galileo_of_the_authors", CODE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def authors(code):
    """Their encoder with their weights, loaded by their own code."""
    return code.Encoder.load_from_folder(WEIGHTS, torch.device("cpu")).eval()


def radar_bands() -> list[dict]:
    shared = {"sensor": "sentinel1-rtc", "unit": "db", "scale": 1.0}
    return [band(name, common_name=name.lower(), **shared) for name in ("VV", "VH")]


def entry(**changes) -> dict:
    weights = {"source": "file", "path": str(WEIGHTS / "encoder.pt")}
    return {
        "kind": "galileo",
        "model": "nano",
        "model_file": str(CODE),
        "weights": weights,
        **changes,
    }


def made(bands, **changes):
    card, chosen = card_of(bands), entry(**changes)
    plan = plan_input(chosen, {"size": 224}, card)
    return build(chosen, plan, Resources("backbone x", card, 0, None))


def authors_inputs(code, values, groups, months, present=None):
    """The authors' tensors of (B, H, W, T, 13) normalised values, written down here once more, by hand."""
    count, height, width, times, _ = values.shape
    names = list(code.SPACE_TIME_BANDS_GROUPS_IDX)
    mask = torch.ones(count, height, width, times, len(names))
    for group in groups:
        mask[..., names.index(group)] = 0
    if present is not None:
        mask[:, :, :, :][~present[:, None, None, :].expand(count, height, width, times)] = 1
    return (
        values,
        torch.zeros(count, height, width, len(code.SPACE_BANDS)),
        torch.zeros(count, times, len(code.TIME_BANDS)),
        torch.zeros(count, len(code.STATIC_BANDS)),
        mask,
        torch.ones(count, height, width, len(code.SPACE_BAND_GROUPS_IDX)),
        torch.ones(count, times, len(code.TIME_BAND_GROUPS_IDX)),
        torch.ones(count, len(code.STATIC_BAND_GROUPS_IDX)),
        months,
    )


def normalised(stored: dict[str, torch.Tensor], code) -> torch.Tensor:
    """(..., 13) of bands (..., ) in digital numbers and dB, by the authors' numbers, with the NDVI of their formula."""
    mean = [-11.728724389184965, -18.85558188024017, 1395.3408730676722, 1338.4026921784578]
    mean += [1343.09883810357, 1543.8607982512297, 2186.2022069512263, 2525.0932853316694]
    mean += [2410.3377187373408, 2750.2854646886753, 2234.911100061487, 1474.5311266077113]
    mean += [0.2892116502999044]
    std = [4.887145774840316, 5.730270320384293, 917.7041440370853, 913.2988423581528]
    std += [1092.678723527555, 1047.2206083460424, 1048.0101611156767, 1143.6903026819996]
    std += [1098.979177731649, 1204.472755085893, 1145.9774063078878, 980.2429840007796]
    std += [0.2720939024500081]
    bands = dict(stored)
    if {"B8", "B4"} <= set(bands):
        nir, red = bands["B8"].double(), bands["B4"].double()
        bands["NDVI"] = (nir - red) / (nir + red)
    shape = next(iter(bands.values())).shape
    out = torch.zeros(*shape, 13)
    for at, name in enumerate(code.SPACE_TIME_BANDS):
        if name in bands:
            low, high = mean[at] - 2 * std[at], mean[at] + 2 * std[at]
            out[..., at] = ((bands[name].double() - low) / (high - low)).float()
    return out


ALL = ("S1", "S2_RGB", "S2_Red_Edge", "S2_NIR_10m", "S2_NIR_20m", "S2_SWIR", "NDVI")


@pytest.mark.parametrize("patch", [4, 8])
def test_features_of_all_groups_are_those_of_the_authors_code(code, authors, patch):
    backbone = made([*sentinel2_bands(), *radar_bands()], patch_size=patch)
    rng = np.random.default_rng(0)
    stored = torch.from_numpy(rng.integers(1, 6000, (3, 15, 32, 32)).astype(np.float32))
    stored[:, 13:] = -stored[:, 13:] / 300
    plan = backbone.plan
    fed = Preparer(plan, torch.device("cpu"))(stored[:, [c.index for c in plan.channels]])
    names = [str(c.wanted) for c in plan.channels]
    given = {n: stored[:, c.index] for n, c in zip(names, plan.channels, strict=True)}
    expected = normalised(given, code)[:, :, :, None, :]
    ours = backbone.module.inputs(fed[:, None])
    torch.testing.assert_close(ours[0], expected, rtol=1e-4, atol=1e-5)

    dates = torch.tensor([[2020, 60], [2021, 60], [2021, 365]])
    months = torch.tensor([[1], [2], [11]])  # 29 February, 1 March, 31 December
    inputs = authors_inputs(code, ours[0], ALL, months)
    for mine, theirs in zip(ours, inputs[:-1], strict=True):
        assert torch.equal(mine, theirs)
    with torch.no_grad():
        *tokens, _ = authors(*inputs, patch_size=patch)
        wanted = authors.average_tokens(*tokens)
        assert torch.equal(backbone.features_and_maps(fed, dates=dates)[0], wanted)
        # an average over all, so nothing would be seen of an unused month
        assert not torch.equal(backbone.features(fed), wanted)


def test_without_dates_it_is_july_as_in_the_authors_evaluation(code, authors):
    backbone = made(sentinel2_bands(), groups=["S2_RGB"])
    assert [c.wanted for c in backbone.plan.channels] == ["B2", "B3", "B4"]
    fed = torch.rand(2, 3, 16, 16)
    values = torch.zeros(2, 16, 16, 1, 13)
    values[..., 0, 2:5] = fed.permute(0, 2, 3, 1)
    inputs = authors_inputs(code, values, ["S2_RGB"], torch.full((2, 1), 6))
    with torch.no_grad():
        *tokens, _ = authors(*inputs, patch_size=8)
        assert torch.equal(backbone.features(fed), authors.average_tokens(*tokens))
    assert backbone.notes["where_unknown"]["month"] == 7


def test_series_feed_months_and_mask_dates_that_are_not_there(code, authors):
    backbone = made(sentinel2_bands(), groups=["S2_RGB", "S2_SWIR"], input={"dates": "all"})
    names = [c.wanted for c in backbone.plan.channels]
    fed = torch.rand(2, 3, len(names), 16, 16)
    dates = torch.tensor([[[2020, 1], [2020, 40], [2020, 300]], [[2021, 100], [0, 0], [0, 0]]])
    present = torch.tensor([[True, True, True], [True, False, False]])
    values = torch.zeros(2, 16, 16, 3, 13)
    for at, name in enumerate(names):
        values[..., code.SPACE_TIME_BANDS.index(name)] = fed[:, :, at].permute(0, 2, 3, 1)
    months = torch.tensor([[0, 1, 9], [3, 6, 6]])
    inputs = authors_inputs(code, values, ["S2_RGB", "S2_SWIR"], months, present)
    with torch.no_grad():
        *tokens, _ = authors(*inputs, patch_size=8)
        wanted = authors.average_tokens(*tokens)
        ours = backbone.features_and_maps(fed, dates=dates, present=present)[0]
    assert torch.equal(ours, wanted)
    with torch.no_grad():
        alone = backbone.features_and_maps(
            fed[1:, :1], dates=dates[1:, :1], present=present[1:, :1]
        )[0]
    torch.testing.assert_close(ours[1:], alone, rtol=1e-4, atol=1e-5)


def test_maps_are_the_authors_patch_features_after_each_block(code, authors):
    backbone = made([*sentinel2_bands(), *radar_bands()], layers=["maps.3", "maps.0"])
    backbone.make_maps(["maps.3", "maps.0"], torch.float32)
    fed = torch.rand(2, len(backbone.plan), 24, 24)
    inner = backbone.module.module
    inputs = (*inner.inputs(fed[:, None]), torch.full((2, 1), 6))
    with torch.no_grad():
        features, maps = backbone.features_and_maps(fed)
        for found, depth in zip(maps, (4, 1), strict=True):
            *tokens, _ = authors(*inputs, patch_size=8, exit_after=depth)
            wanted = authors.apply_mask_and_average_tokens_per_patch(*tokens)
            wanted = wanted.transpose(1, 2).reshape(2, 128, 3, 3)
            assert torch.equal(found, wanted)
    # row by row: another first row changes the first row of the map most
    torch.testing.assert_close(maps[0].mean((2, 3)), features, rtol=1e-4, atol=1e-5)


def test_the_ground_distance_of_each_image_is_fed(authors, code):
    backbone = made(sentinel2_bands(), groups=["S2_RGB"])
    fed, metres = torch.rand(2, 3, 16, 16), torch.tensor([10.0, 30.0])
    inputs = (*backbone.module.inputs(fed[:, None]), torch.full((2, 1), 6))
    with torch.no_grad():
        ours = backbone.features_and_maps(fed, ground_distance_m=metres)[0]
        for at in (0, 1):
            one = [part[at : at + 1] for part in inputs]
            *tokens, _ = authors(*one, patch_size=8, input_resolution_m=float(metres[at]))
            wanted = authors.average_tokens(*tokens)
            torch.testing.assert_close(ours[at : at + 1], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", ["tiny", "base"])
def test_other_sizes_have_random_weights_of_their_seed(code, size):
    backbone = made(rgb_bands(white=0.3558), model=size, weights=None, seed=3)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        widths = {"tiny": (192, 12, 3), "base": (768, 12, 12)}[size]
        keys = ("embedding_size", "depth", "num_heads")
        theirs = code.Encoder(**dict(zip(keys, widths, strict=True)), mlp_ratio=4)
    ours = backbone.module.encoder.state_dict()
    assert ours.keys() == theirs.state_dict().keys()
    assert all(torch.equal(ours[name], value) for name, value in theirs.state_dict().items())


def test_groups_whose_bands_are_not_all_there_are_masked():
    some = [one for one in sentinel2_bands() if one["name"] not in ("B06", "B08")]
    assert made(some).notes["groups"] == ["S2_RGB", "S2_NIR_20m", "S2_SWIR"]
    with pytest.raises(PermafrostError, match="fill none of the groups S2_Red_Edge"):
        made(some, groups=["S2_Red_Edge"])


def test_what_it_cannot_be_fed_is_refused():
    with pytest.raises(PermafrostError, match="has no band 'red'"):
        made(rgb_bands(), input={"bands": ["red", "green", "blue"], "normalization": "dataset"})
    backbone = made(sentinel2_bands(), groups=["S2_RGB"])
    with pytest.raises(PermafrostError, match="a multiple of 8 pixels, not 20 x 20"):
        backbone.features(torch.rand(1, 3, 20, 20))
    with pytest.raises(PermafrostError, match="24 dates at most, not 25"):
        backbone.features(torch.rand(1, 25, 3, 8, 8))


def test_a_file_that_is_not_galileo_is_refused(tmp_path):
    (tmp_path / "model.py").write_text("class Encoder: pass\n")
    with pytest.raises(PermafrostError, match="is not Galileo's model"):
        made(sentinel2_bands(), model_file=str(tmp_path / "model.py"))
    with pytest.raises(PermafrostError, match="does not exist"):
        made(sentinel2_bands(), model_file=str(tmp_path / "gone.py"))
    with pytest.raises(PermafrostError, match="does not fit the model"):
        made(sentinel2_bands(), model="tiny")
