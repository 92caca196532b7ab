"""Objects of samples of several sensors and dates, from a source to the image store and its card."""

import numpy as np
import pytest
import torch
from helpers.datasets.images import Prepared
from helpers.datasets.sensors_with_objects import DAYS, SIDE, Scenes
from permafrost.core.errors import PermafrostError
from permafrost.data.labels.objects import objects_of
from permafrost.data.store.card import read_card
from permafrost.data.store.image_store import ImageStore
from permafrost.report.sections.dataset import card_facts

FEW = (3, 2, 2)


def prepared(tmp_path, scenes: Scenes, **more) -> tuple[Prepared, ImageStore]:
    out = Prepared(tmp_path / "out")
    out.run(scenes.entry(scenes.write(tmp_path / "data"), **more))
    return out, ImageStore(out.outputs["train"])


@pytest.mark.parametrize("dates", [1, 3])
def test_images_of_all_sensors_and_dates_are_stored_with_the_objects(tmp_path, dates):
    scenes = Scenes(FEW, dates=dates)
    out, store = prepared(tmp_path, scenes)
    # an axis of dates only where there are several
    shown = slice(None) if dates > 1 else 0
    assert np.array_equal(store.read().images, scenes.optical[:3, shown])
    assert np.array_equal(store.store.read("images_s1"), scenes.radar[:3, shown])
    if dates > 1:
        assert store.date_counts(store.modalities[0]).tolist() == [dates] * 3
        day = str(DAYS[0])
        assert store.samples["dates"].to_pylist()[0][0] == f"{day[:4]}-{day[4:6]}-{day[6:]}"
    found = objects_of(store.samples["objects"])
    assert [one.boxes.tolist() for one in found] == [
        [list(map(float, box)) for box in boxes] for boxes in scenes.boxes[:3]
    ]
    assert store.samples["image_width"].to_pylist() == [SIDE] * 3
    card = read_card(out.card_path)
    assert card.detection["reference"] == "s2"
    assert ("objects are in pixels of", "s2") in card_facts(card)


def test_a_dataset_of_one_sensor_names_no_reference(tmp_path):
    scenes = Scenes(FEW)
    entry = scenes.entry(scenes.write(tmp_path / "data"))
    one = entry.pop("modalities")["s2"]
    entry |= one | {"source": {**entry["source"], "image": "s2"}}
    assert "reference" not in Prepared(tmp_path / "out").run(entry)["detection"]


@pytest.mark.parametrize("dates", [1, 2])
def test_windows_show_the_same_ground_of_every_sensor_and_date(tmp_path, dates):
    scenes = Scenes(FEW, dates=dates)
    _, store = prepared(tmp_path, scenes, tiles={"size": 32, "overlap": 0.5})
    # 48 pixels in windows of 32, every 16: two along each side
    assert len(store) == 3 * 4
    radar, images = store.store.read("images_s1"), store.read().images
    shown = slice(None) if dates > 1 else 0
    for row, sample in enumerate(store.samples.to_pylist()):
        number, x, y = int(sample["image_id"][1:]), sample["x_offset"], sample["y_offset"]
        near = scenes.optical[number, shown, ..., y : y + 32, x : x + 32]
        assert np.array_equal(images[row], near)
        x, y = x // 2, y // 2
        far = scenes.radar[number, shown, ..., y : y + 16, x : x + 16]
        assert np.array_equal(radar[row], far)


def test_a_window_that_cuts_a_pixel_of_another_sensor_is_refused(tmp_path):
    with pytest.raises(PermafrostError, match=r"window .* cuts through pixels") as error:
        prepared(tmp_path, Scenes(FEW), tiles={"size": 27, "overlap": 0})
    assert "between pixels of all sensors" in str(error.value)


def test_torchgeo_gives_objects_of_several_sensors_and_dates(tmp_path, monkeypatch):
    from torchgeo import datasets

    scenes = Scenes(FEW, dates=3)

    class Made(datasets.NonGeoDataset):
        classes = ("field", "ship")

        def __init__(self, split="train"):
            first = {"train": 0, "val": 3, "test": 5}[split]
            self.rows = range(first, first + {"train": 3, "val": 2, "test": 2}[split])

        def __len__(self):
            return len(self.rows)

        def __getitem__(self, index):
            row = self.rows[index]
            return {
                "optical": torch.from_numpy(scenes.optical[row]).float(),
                "radar": torch.from_numpy(scenes.radar[row, 0]),
                "boxes": torch.tensor(scenes.boxes[row]).float(),
                "label": torch.tensor([0, 1]),
            }

    monkeypatch.setattr(datasets, "Made", Made, raising=False)
    entry = scenes.entry("")
    entry["source"] = {
        "kind": "torchgeo",
        "name": "Made",
        "image_key": {"s2": "optical", "s1": "radar"},
        "boxes_key": "boxes",
        "dtype": {"s2": "uint8"},
    }
    out = Prepared(tmp_path)
    out.run(entry)
    store = ImageStore(out.outputs["test"])
    assert np.array_equal(store.read().images, scenes.optical[5:])
    assert np.array_equal(store.store.read("images_s1"), scenes.radar[5:, 0])
    (first, _) = objects_of(store.samples["objects"])
    assert first.boxes.tolist() == [list(map(float, box)) for box in scenes.boxes[5]]
