"""The procedural world: deterministic, plausible, neither trivial nor hopeless."""

import numpy as np
import pytest
from helpers.datasets.images import Prepared, dataset_entry
from permafrost.core.errors import PermafrostError
from permafrost.data.sources.demo import DemoSource
from permafrost.data.store.image_store import ImageStore
from permafrost.data.world import cuts, scene, spectra

SMALL = {
    "scenes": {"train": 4, "val": 2, "test": 2},
    "chips": {"train": 48, "val": 16, "test": 24},
    "scene_size": 256,
    "chip_size": 32,
}
BANDS = ["B02", "B03", "B04", "B08", "B11"]


def typed(*task, **source):
    return dataset_entry(entry(*task, **source), where="demo")


def entry(task="classification", **source):
    return {"task": task, "source": {"kind": "demo", **SMALL, **source}}


@pytest.fixture(scope="module")
def rendered():
    spec = scene.SceneSpec(seed=0, number=0, size=256)
    return scene.layout(spec), scene.render(spec, BANDS).astype(float) / 10_000


def test_a_scene_is_the_same_every_time_and_another_for_every_number():
    spec = scene.SceneSpec(0, 3, 128)
    one = scene.render(spec, BANDS)
    scene.layout.cache_clear()
    np.testing.assert_array_equal(one, scene.render(spec, BANDS))
    assert (one != scene.render(scene.SceneSpec(0, 4, 128), BANDS)).mean() > 0.9
    assert one.dtype == np.uint16


def test_every_class_takes_its_share(rendered):
    truth, _ = rendered
    share = np.bincount(truth.ravel(), minlength=8) / truth.size
    assert share.min() > 0.05 and share.max() < 0.25


def test_spectra_look_like_what_they_are_called(rendered):
    truth, image = rendered
    blue, _, red, nir, swir = (band for band in image)
    ndvi = (nir - red) / (nir + red)

    def at(name, field):
        return np.median(field[truth == scene.CLASSES.index(name)])

    assert at("water", ndvi) < 0 < at("industrial", ndvi) < at("pasture", ndvi) < at("forest", ndvi)
    assert at("water", swir) < 0.05 < at("pasture", swir)
    assert 0.2 < at("forest", nir) < 0.5
    assert at("industrial", blue) > at("forest", blue)


def test_texture_is_correlated_in_space(rendered):
    truth, image = rendered
    red = image[2]
    neighbours = np.corrcoef(red[:, :-1].ravel(), red[:, 1:].ravel())[0, 1]
    far = np.corrcoef(red[:, :-100].ravel(), red[:, 100:].ravel())[0, 1]
    assert neighbours > 0.6 > 0.3 > abs(far)


def test_scrub_and_orchards_hold_the_same_but_arranged_otherwise(rendered):
    truth, image = rendered
    nir = image[3]
    scrub, orchard = (nir[truth == scene.CLASSES.index(n)] for n in ("scrubland", "orchard"))
    assert abs(scrub.mean() - orchard.mean()) < 0.5 * scrub.std()


def test_splits_come_from_different_scenes_and_chips_stay_apart():
    source = DemoSource(typed(), where="demo")
    records = source.records()
    homes = {s: {r.group_id for r in records if r.split == s} for s in ("train", "val", "test")}
    assert not homes["train"] & homes["val"] and not homes["train"] & homes["test"]
    assert [len(homes[s]) for s in ("train", "val", "test")] == [4, 2, 2]
    assert len({r.sample_id for r in records}) == 88
    for one in range(0, 40):
        for other in range(one):
            a, b = source._chips[one][1], source._chips[other][1]
            if a.scene == b.scene:
                assert max(abs(a.top - b.top), abs(a.left - b.left)) >= 24


def test_the_label_of_a_chip_covers_at_least_half_of_it():
    source = DemoSource(typed(), where="demo")
    for _, chip in source._chips[::7]:
        window = chip.window(scene.layout(chip.scene))
        assert (window == chip.label).mean() >= cuts.DOMINANT


def test_several_labels_are_the_classes_present():
    source = DemoSource(typed("multilabel", presence=0.1), where="demo")
    records = source.records()
    chip = source._chips[5][1]
    window = chip.window(scene.layout(chip.scene))
    expected = tuple(int((window == c).mean() >= 0.1) for c in range(8))
    assert records[5].label == expected
    assert 1.2 < np.mean([sum(r.label) for r in records]) < 5


def test_segmentation_stores_masks_and_ignores_clouds(tmp_path):
    out = Prepared(tmp_path / "out")
    card = out.run(entry("segmentation", chips={"train": 64, "val": 16, "test": 16}))
    store = ImageStore(out.outputs["train"])
    masks = store.read().masks
    assert masks.shape == (64, 32, 32) and masks.dtype == np.uint8
    assert set(np.unique(masks)) <= {*range(8), 255} and (masks == 255).any()
    assert card["ignore_index"] == 255
    counts = np.bincount(masks[masks != 255], minlength=8)
    assert card["splits"]["train"]["class_counts"] == counts.tolist()
    images = store.read().images
    assert images[:, 0][masks == 255].mean() > 2 * images[:, 0][masks != 255].mean()
    assert store.labels() is None


def test_bands_can_be_chosen():
    source = DemoSource(typed(bands="all"), where="demo")
    assert [b.name for b in source.bands] == spectra.BANDS
    rgb = DemoSource(typed(bands="rgb"), where="demo")
    assert [b.name for b in rgb.bands] == ["B04", "B03", "B02"]
    assert rgb.decode(0).image.shape == (3, 32, 32)
    i = [b.name for b in source.bands].index("B02")
    np.testing.assert_array_equal(source.decode(0).image[i], rgb.decode(0).image[2])


def test_too_many_chips_are_an_error_not_a_smaller_dataset():
    with pytest.raises(PermafrostError, match="find no place.*larger scenes"):
        DemoSource(typed(chips={"train": 4000}), where="demo")


def test_colour_statistics_beat_chance_by_far_and_are_not_enough(tmp_path):
    out = Prepared(tmp_path / "out")
    out.run(entry(chips={"train": 120, "test": 80, "val": 16}))

    def features(split):
        store = ImageStore(out.outputs[split])
        x = store.read().images.astype(float)
        return np.concatenate([x.mean((2, 3)), x.std((2, 3))], 1), store.labels()

    (a, ya), (b, yb) = features("train"), features("test")
    distance = ((b[:, None] - a[None]) ** 2).sum(-1)
    votes = ya[np.argsort(distance, axis=1)[:, :5]]
    predicted = np.array([np.bincount(v, minlength=8).argmax() for v in votes])
    assert 0.35 < (predicted == yb).mean() < 0.85
