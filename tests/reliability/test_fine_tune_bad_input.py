"""Fine-tuning where there is little to learn from, or training goes wrong: a clear error, or a gate; never NaN."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.stages.fine_tune import Scenes, options
from permafrost.core.errors import PermafrostError


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    return Scenes(tmp_path_factory.mktemp("scenes"))


def refused(scenes: Scenes, *args, **changes) -> str:
    with pytest.raises(PermafrostError) as caught:
        scenes.tune(*args, out="refused", **changes)
    assert not (scenes.folder / "refused.parquet").exists()
    return str(caught.value)


def test_an_empty_train_or_test_split(tmp_path):
    assert "the train split is empty" in _refused_counts(tmp_path / "train", (0, 6, 6))
    assert "the test split is empty" in _refused_counts(tmp_path / "test", (6, 6, 0))


def _refused_counts(folder, counts) -> str:
    with pytest.raises(PermafrostError) as caught:
        Scenes(folder, counts=counts).tune()
    return str(caught.value)


@pytest.mark.parametrize("task", ["classification", "segmentation"])
def test_no_validation_to_choose_on(tmp_path, task):
    scenes = Scenes(tmp_path, task, counts=(9, 0, 6))
    message = refused(scenes)
    assert "validation, which has no sample" in message and "select: last" in message
    several = {"select": "last", "head_learning_rate": [0.1, 0.01]}
    assert "validation, which has no sample" in refused(scenes, **several)
    _, metadata = scenes.tune(select="last")
    assert metadata["settings"]["epochs_log"][-1]["val_loss"] is None


def test_one_class_in_train_is_said_and_scored(tmp_path):
    table, metadata = Scenes(tmp_path, classes=1).tune()
    assert {"class_missing_in_train:1", "class_missing_in_train:2"} <= set(metadata["gates"])
    assert np.isfinite(np.stack(table["scores"].to_pylist())).all()


def test_a_rate_at_which_training_diverges_takes_no_part(scenes):
    wild = {"clip_norm": None, "warmup_epochs": 0}
    message = refused(scenes, learning_rate=1e30, **wild)
    assert "training diverged" in message and "smaller learning_rate" in message
    table, metadata = scenes.tune(learning_rate=[1e30, 1e-3], **wild)
    assert metadata["settings"]["learning_rate"] == 1e-3
    assert "learning_rate_diverged:1e+30" in metadata["gates"]
    assert np.isfinite(np.stack(table["scores"].to_pylist())).all()
    assert "training diverged" in refused(scenes, head_learning_rate=1e30, **wild)


def test_batches_of_one_image_have_no_statistics(scenes):
    entry = scenes.entry(options={"norm": True})
    message = refused(scenes, entry, batch_size=1, batch_norm="trained")
    assert "more than one image per batch" in message and "batch_norm: frozen" in message
    scenes.tune(entry, batch_size=1, batch_norm="frozen", epochs=1)
    # without such layers nothing needs statistics
    scenes.tune(batch_size=1, batch_norm="trained", epochs=1)


def test_images_of_several_sizes_that_are_not_resized(tmp_path):
    message = refused(Scenes(tmp_path, sides=(16, 20)), size=None)
    assert "2 sizes (16 x 16, 20 x 20)" in message and "input.size" in message
    Scenes(tmp_path / "one").tune(size=None, augmentation={"crop": [0.5, 0.9]})


def test_a_warm_up_that_is_longer_than_the_training(scenes):
    message = refused(scenes, epochs=2, warmup_epochs=3)
    assert "warm-up of 3 of 2 epochs" in message


def test_options_that_do_not_exist_are_refused_by_the_schema():
    for wrong in (
        {"precision": "fp16"},
        {"batch_norm": "off"},
        {"augmentation": {"hue": 0.1}},
        {"learning_rate": 0},
        {"layer_decay": 1.5},
        {"epoch": 3},
    ):
        with pytest.raises(PermafrostError):
            options(**wrong)


def test_pixels_that_are_not_numbers_are_named(tmp_path):
    from permafrost.core.stores import write_store
    from permafrost.data.store.image_store import ImageStore

    scenes = Scenes(tmp_path, counts=(9, 6, 6))
    old = ImageStore(scenes.stores["val"])
    pixels, labels, samples = old.read().images.astype(np.float32), old.labels(), old.samples
    pixels[3, 1, 2, 2] = np.nan
    import shutil

    shutil.rmtree(scenes.stores["val"])
    with write_store(scenes.stores["val"], fingerprint=old.store.fingerprint) as writer:
        writer.array("images", pixels.shape, np.float32, rows_per_chunk=5)[:] = pixels
        writer.array("labels", labels.shape, labels.dtype, rows_per_chunk=5)[:] = labels
        writer.samples(samples)
    assert "val-03" in refused(scenes)


def test_layers_that_do_not_exist_are_named(tmp_path):
    message = refused(Scenes(tmp_path, "segmentation"), layers=["third"])
    assert "no layer 'third'" in message
