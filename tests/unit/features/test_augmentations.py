"""What is drawn for a view of an image, and what is made of the image."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from helpers.stages.views import OPTIONS, STILL
from permafrost.core.errors import PermafrostError
from permafrost.features.augmentations import ASPECT, View, check_augmentations, draw_view
from permafrost.features.views import apply_view

SIZE = (48, 48)


def draws(size=SIZE, count=300, **options) -> list[View]:
    options = {**OPTIONS, **options}
    return [draw_view(options, size, dataset="d", sample_id=f"s{n}", view=0) for n in range(count)]


def made(view: View, image, means=0.0, spreads=1.0):
    image = torch.as_tensor(image, dtype=torch.float32)
    constant = torch.ones(len(image), 1, 1)
    return apply_view(view, image, means * constant, spreads * constant).numpy()


WHOLE = View(0, 0, *SIZE)


# --- draws --------------------------------------------------------------------------------------


def test_a_draw_depends_on_dataset_sample_view_and_seed():
    one = {"options": OPTIONS, "size": SIZE, "dataset": "d", "sample_id": "s", "view": 0}
    changes = [
        {"dataset": "e"},
        {"sample_id": "t"},
        {"view": 1},
        {"options": {**OPTIONS, "seed": 1}},
    ]
    found = {draw_view(**{**one, **change}) for change in [{}, *changes]}
    assert len(found) == 5 and draw_view(**one) in found
    more = {**OPTIONS, "views": 50, "images": 7}
    assert draw_view(**one) == draw_view(**{**one, "options": more})


def test_nothing_is_changed_where_nothing_is_switched_on():
    assert set(draws(**STILL)) == {WHOLE}
    assert set(draws((48, 31), **STILL)) == {View(0, 0, 48, 31)}
    assert set(draws(**{**STILL, "photometric": {"gain": 0.0, "offset": 0.0}})) == {WHOLE}


@pytest.mark.parametrize("size", [(48, 48), (200, 90), (3, 2), (1, 1)])
def test_windows_lie_in_the_image_and_have_the_area_asked_for(size):
    found = draws(size)
    for view in found:
        assert 0 <= view.top <= view.top + view.height <= size[0]
        assert 0 <= view.left <= view.left + view.width <= size[1]
        assert min(view.height, view.width) >= 1
    if min(size) < 20:
        return
    shares = np.array([view.height * view.width for view in found]) / (size[0] * size[1])
    assert 0.18 < shares.min() < 0.25 and 0.95 < shares.max() <= 1
    assert abs(shares.mean() - 0.6) < 0.05
    shapes = np.array([view.width / view.height for view in found]) * size[0] / size[1]
    assert ASPECT[0] * 0.9 < shapes.min() < 0.8 and 1.25 < shapes.max() < ASPECT[1] * 1.1
    assert abs(np.log(shapes).mean()) < 0.04
    places = np.array([(view.top, view.left) for view in found if view.height < 0.7 * size[0]])
    assert (places.max(axis=0) > 0.3 * np.array(size)).all()


def test_turns_and_flips_are_all_equally_likely():
    found = draws(count=800)
    kinds, counts = np.unique(
        [(v.turns, v.upside_down, v.mirrored) for v in found], axis=0, return_counts=True
    )
    assert len(kinds) == 16 and counts.min() > 25 and counts.max() < 80
    assert {view.turns for view in draws((40, 48))} == {0, 2}


def test_gains_and_offsets_lie_evenly_in_their_range():
    found = draws(photometric={"gain": 0.3, "offset": 2.0})
    gains, offsets = (
        np.array([getattr(view, name) for view in found]) for name in ("gain", "offset")
    )
    assert 0.7 <= gains.min() < 0.73 and 1.27 < gains.max() <= 1.3 and abs(gains.mean() - 1) < 0.03
    assert -2 <= offsets.min() < -1.9 and 1.9 < offsets.max() <= 2 and abs(offsets.mean()) < 0.2
    assert abs(np.corrcoef(gains, offsets)[0, 1]) < 0.15


def test_one_switch_changes_nothing_else():
    plain, switched = draws(), draws(flips=False, rotations=False, photometric=None)
    for one, other in zip(plain, switched, strict=True):
        own = {"turns": 0, "upside_down": False, "mirrored": False, "gain": 1.0, "offset": 0.0}
        assert dataclasses.replace(one, **own) == other


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"views": 1}, "views: 1"),
        ({"images": 1}, "images: 1"),
        ({"crop_scale": [1.0, 0.2]}, r"crop_scale: \[1.0, 0.2\]"),
        ({"crop_scale": [0.0, 0.5]}, "crop_scale"),
        ({"crop_scale": [0.5, 1.5]}, "crop_scale"),
        ({"crop_scale": [float("nan"), 1.0]}, "crop_scale"),
        ({"crop_scale": [0.5, float("nan")]}, "crop_scale"),
        ({"photometric": {"gain": 1.0, "offset": 0.0}}, "photometric.gain: 1.0"),
        ({"photometric": {"gain": float("nan"), "offset": 0.0}}, "photometric.gain: nan"),
        ({"photometric": {"gain": 0.0, "offset": -0.1}}, "photometric.offset: -0.1"),
        ({"photometric": {"gain": 0.0, "offset": float("inf")}}, "photometric.offset: inf"),
    ],
)
def test_what_cannot_be_drawn_is_refused_by_name(change, message):
    with pytest.raises(PermafrostError, match=message) as caught:
        check_augmentations({**OPTIONS, **change}, where="here")
    assert caught.value.where == "here" and "crop_scale of [least, largest]" in caught.value.remedy
    check_augmentations({**OPTIONS, **STILL}, where="here")


# --- what is made of an image --------------------------------------------------------------------


def test_an_image_as_it_is_keeps_every_bit():
    image = np.random.default_rng(0).normal(size=(3, *SIZE)).astype(np.float32)
    assert np.array_equal(made(WHOLE, image), image)


def test_a_window_is_enlarged_as_bilinear_interpolation_does():
    image = np.random.default_rng(1).normal(size=(2, *SIZE))
    found = made(View(5, 9, 17, 30), image)
    window = image[:, 5:22, 9:39]

    def places(count, size):
        at = np.clip((np.arange(size) + 0.5) * count / size - 0.5, 0, None)
        low = np.minimum(at.astype(int), count - 1)
        return low, np.minimum(low + 1, count - 1), at - low

    (top, bottom, down), (left, right, across) = places(17, 48), places(30, 48)
    rows = window[:, top] * (1 - down)[:, None] + window[:, bottom] * down[:, None]
    expected = rows[:, :, left] * (1 - across) + rows[:, :, right] * across
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"turns": 1}, [[2, 4], [1, 3]]),
        ({"turns": 2}, [[4, 3], [2, 1]]),
        ({"upside_down": True}, [[3, 4], [1, 2]]),
        ({"mirrored": True}, [[2, 1], [4, 3]]),
        ({"turns": 1, "mirrored": True}, [[4, 2], [3, 1]]),
        ({"gain": 0.5}, [[5.5, 6], [6.5, 7]]),
        ({"offset": -0.25}, [[0, 1], [2, 3]]),
    ],
)
def test_turns_flips_gain_and_offset_by_hand(change, expected):
    image = [[[1.0, 2.0], [3.0, 4.0]]]
    view = dataclasses.replace(View(0, 0, 2, 2), **change)
    assert made(view, image, means=10.0, spreads=4.0)[0].tolist() == expected


def test_the_unit_does_not_matter():
    """Kelvin or degrees, metres or feet: the view of the other unit is the view in that unit."""
    image = np.random.default_rng(2).normal(280, 5, size=(1, *SIZE))
    view = View(3, 4, 20, 25, 1, True, False, 1.2, -0.3)
    kelvin = made(view, image, means=280.0, spreads=5.0)
    fahrenheit = made(view, image * 1.8 - 459.67, means=280.0 * 1.8 - 459.67, spreads=9.0)
    np.testing.assert_allclose(fahrenheit, kelvin * 1.8 - 459.67, rtol=1e-4)


def test_a_band_is_treated_alike_whatever_lies_beside_it():
    image = np.random.default_rng(3).normal(size=(13, 64, 64))
    for view in draws((64, 64), 20):
        whole = made(view, image)
        for bands in ([4], [12, 0, 7], list(range(8))):
            assert np.array_equal(made(view, image[bands]), whole[bands])
