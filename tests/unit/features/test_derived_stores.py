"""Stores of derived backbones: what is learned, what is read through the stores of others, and what is refused."""

from __future__ import annotations

import copy
import json
import shutil

import numpy as np
import pyarrow as pa
import pytest
from helpers.stores.images import SPLITS
from permafrost.core.errors import PermafrostError
from permafrost.core.identity import content_digest, file_digest
from permafrost.core.option_models import read
from permafrost.core.stores import DIGEST, Store, write_store
from permafrost.features.dates import OverDates
from permafrost.features.derived import view
from permafrost.features.derived.derive import DeriveSpec, derive
from permafrost.features.derived.view import LEARNED
from permafrost.features.stored import open_features
from permafrost.probes.embeddings import features
from permafrost.probes.embeddings.features import read_features

ABOUT = (
    *("dataset", "backbone", "task", "classes", "split", "split_method", "spatially_random"),
    *("gates", "dates", "feature_dim", "parameters"),
)
COUNTS = {"train": 40, "val": 5, "test": 9}
DERIVED = "fingerprint-of-derived"


def write_features(folder, name, width, *, seed=0, dates=None, counts=COUNTS, dtype=np.float32):
    """Feature stores of a backbone; returns their embeddings by split."""
    rng, made = np.random.default_rng([seed, width]), {}
    for split, count in counts.items():
        shape = (count, width) if dates is None else (count, dates, width)
        rows = (rng.standard_normal(shape) * 3 + 1).astype(dtype)
        columns = {
            "sample_id": [f"{split}-{row}" for row in range(count)],
            "group_id": [None] * count,
        }
        about = {
            "dataset": "tiny",
            "backbone": name,
            "task": "classification",
            "classes": ["a", "b"],
        }
        about |= {
            "split": split,
            "split_method": "given",
            "spatially_random": False,
            "gates": [name],
        }
        if dates is not None:
            there = np.arange(dates) < (1 + np.arange(count) % dates)[:, None]
            rows[~there] = 0
            columns["dates"] = [["2020-01-01"] * int(one) for one in there.sum(axis=1)]
            about["dates"] = {"kind": "series", "column": "dates"}
        with write_store(folder / name / f"{split}.zarr", fingerprint=f"of-{name}") as writer:
            writer.array("embeddings", rows.shape, dtype, rows_per_chunk=8)[:] = rows
            writer.array("labels", (count,), np.int64, rows_per_chunk=64)[:] = np.arange(count) % 2
            writer.samples(pa.table(columns))
            writer.attributes.update({**about, "feature_dim": width, "parameters": width})
        made[split] = rows
    return made


def add_blocks(folder, name, *, kept=(1, 2, 4), of=4, counts=COUNTS, dates=None, dtype=np.float32):
    """Blocks for the stores of `write_features`, as wide as their numbers and two; returns them by split and number."""
    found = {split: {} for split in counts}
    for split, count in counts.items():
        old = Store(folder / name / f"{split}.zarr")
        about = {key: one for key, one in old.attributes.items() if key in ABOUT}
        arrays = {one: old.read(one) for one in ("embeddings", "labels")}
        for number in kept:
            shape = (count, number + 2) if dates is None else (count, dates, number + 2)
            rows = np.random.default_rng([number, count]).standard_normal(shape).astype(dtype)
            if dates is not None:
                rows[arrays["embeddings"].any(axis=2) == 0] = 0
            arrays[f"block{number}"] = found[split][number] = rows
        samples = old.samples()
        shutil.rmtree(old.path)
        with write_store(old.path, fingerprint=f"of-{name}") as writer:
            for one, rows in arrays.items():
                writer.array(one, rows.shape, rows.dtype, rows_per_chunk=8)[:] = rows
            writer.samples(samples)
            writer.attributes.update(about)
            writer.attributes["depths"] = [
                {"name": f"layer.{number}", "array": f"block{number}", "block": number, "of": of,
                 "features": number + 2}
                for number in kept
            ]  # fmt: skip
    return found


def make(folder, of, steps, *, scale="standardise", name="made"):
    """Run the job; returns the paths of the stores."""
    names = [of] if isinstance(of, str) else of
    spec = {
        "stage": "derive",
        "dataset": "tiny",
        "backbone": name,
        "entry": {"kind": "derived", "of": of, "scale": scale, "steps": copy.deepcopy(steps)},
        "inputs": {"features": {one: f"of-{one}" for one in names}},
    }
    paths = {split: folder / name / f"{split}.zarr" for split in SPLITS}
    derive(
        read(DeriveSpec, spec, where="spec"), features=folder, outputs=paths, fingerprint=DERIVED
    )
    return paths


def rows_of(paths):
    return {
        split: open_features(path, expect=DERIVED, split=split).read("embeddings")
        for split, path in paths.items()
    }


def test_without_steps_a_derived_backbone_has_the_features_of_its_parent(tmp_path):
    own = write_features(tmp_path, "a", 6)
    paths = make(tmp_path, "a", [])
    for split, rows in rows_of(paths).items():
        np.testing.assert_array_equal(rows, own[split])
        assert rows.dtype == np.float32
    store = open_features(paths["test"], expect=DERIVED)
    assert "embeddings" in store and store.shape("embeddings") == (9, 6)
    np.testing.assert_array_equal(store.read("labels"), np.arange(9) % 2)
    assert store.samples().equals(Store(tmp_path / "a" / "test.zarr").samples())
    assert store.attributes["gates"] == ["a"]
    about = store.attributes["derived"]
    assert (about["bytes_of"], about["bytes_per_sample"]) == ({"a": 24}, 24)


def test_steps_learn_from_train_alone(tmp_path):
    own = write_features(tmp_path, "a", 6)
    steps = [{"scale": "standardise"}, {"quantise": "int4"}]
    first = make(tmp_path, "a", steps)
    learned = {split: file_digest(path / LEARNED) for split, path in first.items()}
    assert len(set(learned.values())) == 1
    shutil.rmtree(tmp_path / "a")
    other = write_features(tmp_path, "a", 6, counts={**COUNTS, "val": 30, "test": 30})
    np.testing.assert_array_equal(other["train"], own["train"])
    for path in first.values():
        shutil.rmtree(path)
    again = make(tmp_path, "a", steps)
    assert {file_digest(path / LEARNED) for path in again.values()} == set(learned.values())


def test_a_slice_has_the_rows_of_the_whole(tmp_path):
    write_features(tmp_path, "a", 6)
    store = open_features(make(tmp_path, "a", [{"pca": 3}, {"quantise": "int8"}])["train"])
    whole = store.read("embeddings")
    assert whole.shape == (40, 3)
    np.testing.assert_array_equal(store.read("embeddings", 11, 20), whole[11:20])
    np.testing.assert_array_equal(store.read("embeddings", 35), whole[35:])


def test_a_large_read_goes_through_the_steps_in_blocks(tmp_path, monkeypatch):
    write_features(tmp_path, "a", 6)
    store = open_features(make(tmp_path, "a", [{"pca": 3}])["train"])
    whole = store.read("embeddings")
    monkeypatch.setattr(view, "TOGETHER", 7)
    np.testing.assert_array_equal(store.read("embeddings"), whole)
    np.testing.assert_array_equal(store.read("embeddings", 5, 30), whole[5:30])


def test_a_depth_is_the_block_that_is_stored(tmp_path):
    write_features(tmp_path, "a", 6)
    blocks = add_blocks(tmp_path, "a")
    paths = make(tmp_path, "a", [{"depth": 0.5}])
    for split, rows in rows_of(paths).items():
        np.testing.assert_array_equal(rows, blocks[split][2])
    store = open_features(paths["train"], expect=DERIVED)
    assert store.shape("embeddings") == (40, 4) and store.chunk_rows("embeddings") == 8
    np.testing.assert_array_equal(store.read("embeddings", 5, 30), blocks["train"][2][5:30])
    about = store.attributes["derived"]
    assert about["depth"] == {"a": {"name": "layer.2", "block": 2, "of": 4}}
    # the parent's bytes are those of its output
    assert (about["bytes_of"], about["bytes_per_sample"]) == ({"a": 24}, 16)


def test_steps_after_a_depth_are_those_of_a_backbone_with_its_features(tmp_path):
    write_features(tmp_path, "a", 6, dtype=np.float16)
    blocks = add_blocks(tmp_path, "a", dtype=np.float16)
    own = write_features(tmp_path, "b", 6, dtype=np.float16)
    for split, rows in own.items():
        rows[:] = blocks[split][4]
        with write_store(tmp_path / "c" / f"{split}.zarr", fingerprint="of-c") as writer:
            old = Store(tmp_path / "b" / f"{split}.zarr")
            writer.array("embeddings", rows.shape, rows.dtype, rows_per_chunk=8)[:] = rows
            writer.samples(old.samples())
            writer.attributes.update({key: old.attributes[key] for key in ABOUT[:8]})
            writer.attributes["parameters"] = 6
    for steps in (
        [{"pca": 3}, {"quantise": "int8"}],
        [{"scale": "standardise"}, {"first": 2}],
        [{"product": {"parts": 2, "bits": 4}}],
        [{"project": 3}],
    ):
        deep = make(tmp_path, "a", [{"depth": 1}, *steps], name="deep")
        same = make(tmp_path, "c", steps, name="same")
        for split, rows in rows_of(deep).items():
            np.testing.assert_array_equal(rows, rows_of(same)[split])
        sizes = [
            open_features(one["test"]).attributes["derived"]["bytes_per_sample"]
            for one in (deep, same)
        ]
        assert sizes[0] == sizes[1]
        for one in (deep, same):
            for path in one.values():
                shutil.rmtree(path)


def test_several_backbones_are_joined_at_the_same_depth(tmp_path):
    for name in ("a", "b"):
        write_features(tmp_path, name, 6)
    a, b = add_blocks(tmp_path, "a"), add_blocks(tmp_path, "b", kept=(1, 2), of=2)
    paths = make(tmp_path, ["a", "b"], [{"depth": 0.5}], scale=None)
    for split, rows in rows_of(paths).items():
        np.testing.assert_array_equal(rows, np.concatenate([a[split][2], b[split][1]], axis=1))
    about = open_features(paths["test"]).attributes["derived"]
    assert {name: one["block"] for name, one in about["depth"].items()} == {"a": 2, "b": 1}
    scaled = rows_of(make(tmp_path, ["a", "b"], [{"depth": 0.5}], name="scaled"))
    train = scaled["train"].astype(float)
    np.testing.assert_allclose(train.std(axis=0), np.repeat([1 / 2, 1 / 3**0.5], [4, 3]), rtol=1e-5)


def test_a_depth_of_a_series_is_read_date_by_date(tmp_path):
    write_features(tmp_path, "a", 6, dates=3)
    blocks = add_blocks(tmp_path, "a", dates=3)
    for split, rows in rows_of(make(tmp_path, "a", [{"depth": 0.25}])).items():
        np.testing.assert_array_equal(rows, blocks[split][1])


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ([{"depth": 0.75}], r"block 3 of 4, at depth 0.75, was not stored.*add 0.75 to extraction"),
        ([{"pca": 2}, {"depth": 0.5}], "the step depth is not the first"),
        ([{"depth": 0.5}, {"depth": 1}], "the step depth is not the first"),
    ],
)
def test_a_depth_that_cannot_be_read_is_refused(tmp_path, steps, said):
    write_features(tmp_path, "a", 6)
    add_blocks(tmp_path, "a")
    with pytest.raises(PermafrostError, match="(?s)" + said):
        make(tmp_path, "a", steps)


def test_a_parent_without_blocks_is_refused(tmp_path):
    write_features(tmp_path, "a", 6)
    with pytest.raises(PermafrostError, match="a has no features of blocks: extraction.depths did"):
        make(tmp_path, "a", [{"depth": 0.5}])


def test_joined_features_are_scaled_so_that_each_backbone_counts_the_same(tmp_path):
    a, b = write_features(tmp_path, "a", 6), write_features(tmp_path, "b", 2, dtype=np.float16)
    found = rows_of(make(tmp_path, ["a", "b"], []))
    for split in SPLITS:
        expected = np.concatenate(
            [
                (one[split].astype(float) - one["train"].astype(float).mean(0))
                / one["train"].astype(float).std(0)
                / np.sqrt(one[split].shape[1])
                for one in (a, b)
            ],
            axis=1,
        )
        np.testing.assert_allclose(found[split], expected, atol=1e-5)
    lengths = [
        (part**2).sum(axis=1).mean() for part in (found["train"][:, :6], found["train"][:, 6:])
    ]
    assert lengths == pytest.approx([1, 1], abs=1e-5)
    unscaled = rows_of(make(tmp_path, ["a", "b"], [], scale=None, name="plain"))
    np.testing.assert_array_equal(unscaled["test"], np.concatenate([a["test"], b["test"]], axis=1))
    unit = rows_of(make(tmp_path, ["a", "b"], [], scale="unit", name="unit"))
    np.testing.assert_allclose(np.linalg.norm(unit["test"][:, :6], axis=1), 1, atol=1e-6)
    # as stored: of the parent's own type, where nothing changes its numbers
    assert Store(tmp_path / "made" / "test.zarr").attributes["derived"]["bytes_per_sample"] == 32
    about = Store(tmp_path / "plain" / "test.zarr").attributes
    assert about["derived"]["bytes_per_sample"] == 28
    assert about["derived"]["bytes_of"] == {"a": 24, "b": 4} and about["parameters"] == 8
    assert about["gates"] == ["a", "b"]


def test_dates_that_a_sample_lacks_are_not_learned_from_and_stay_zero(tmp_path):
    own = write_features(tmp_path, "a", 4, dates=3)
    paths = make(tmp_path, "a", [{"scale": "standardise"}])
    there = np.arange(3) < (1 + np.arange(40) % 3)[:, None]
    real = own["train"].astype(float)[there]
    expected = (own["train"] - real.mean(0)) / real.std(0)
    found = rows_of(paths)["train"]
    assert found.shape == (40, 3, 4)
    np.testing.assert_allclose(found[there], expected[there], atol=1e-5)
    assert not found[~there].any()
    assert Store(paths["train"]).attributes["derived"]["bytes_per_sample"] == 3 * 16
    # and they are reduced as those of other backbones
    over = OverDates("series", "mean")
    reduced = read_features(paths, expect=DERIVED, over=over)["train"].embeddings
    np.testing.assert_allclose(reduced, found.sum(axis=1) / there.sum(axis=1)[:, None], atol=1e-5)


def test_probes_read_the_same_rows_in_memory_and_from_disk(tmp_path, monkeypatch):
    write_features(tmp_path, "a", 6)
    paths = make(tmp_path, "a", [{"quantise": "int8"}])
    held = read_features(paths, expect=DERIVED, scratch=tmp_path / "scratch")
    monkeypatch.setattr(features, "HELD_BYTES", 0)
    streamed = read_features(paths, expect=DERIVED, scratch=tmp_path / "scratch")
    for split in SPLITS:
        np.testing.assert_array_equal(streamed[split].embeddings[:], held[split].embeddings)


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        (
            [{"product": {"parts": 4}}],
            "backbone made on tiny: steps, step product: 6 features cannot be",
        ),
        ([{"first": 4}, {"product": {"parts": 2}}], "256 codewords need as many train samples"),
    ],
)
def test_steps_that_do_not_fit_are_named_and_nothing_is_left(tmp_path, steps, said):
    write_features(tmp_path, "a", 6)
    with pytest.raises(PermafrostError, match=said):
        make(tmp_path, "a", steps)
    assert not (tmp_path / "made").exists() or not any((tmp_path / "made").iterdir())


def test_numbers_that_a_form_cannot_hold_are_refused(tmp_path):
    own = write_features(tmp_path, "a", 6)
    large = {split: rows * 1e5 for split, rows in own.items()}
    for split, rows in large.items():
        shutil.rmtree(tmp_path / "a" / f"{split}.zarr")
        with write_store(tmp_path / "a" / f"{split}.zarr", fingerprint="of-a") as writer:
            writer.array("embeddings", rows.shape, rows.dtype, rows_per_chunk=8)[:] = rows
            writer.samples(pa.table({"sample_id": [f"{split}-{row}" for row in range(len(rows))]}))
            writer.attributes.update({"dataset": "tiny", "split": split, "task": "classification"})
    with pytest.raises(PermafrostError, match="NaN or infinity.*choose a form"):
        make(tmp_path, "a", [{"quantise": "float16"}])


def test_backbones_with_features_of_other_samples_or_dates_are_not_joined(tmp_path):
    write_features(tmp_path, "a", 6)
    write_features(tmp_path, "b", 6, dates=2)
    write_features(tmp_path, "c", 6, counts={**COUNTS, "test": 8})
    for other in ("b", "c"):
        with pytest.raises(PermafrostError, match=f"a and {other} have features of other samples"):
            make(tmp_path, ["a", other], [])


def test_a_parent_that_changed_or_is_gone_is_refused(tmp_path):
    write_features(tmp_path, "a", 6)
    path = make(tmp_path, "a", [])["test"]
    shutil.move(tmp_path / "a" / "test.zarr", tmp_path / "old.zarr")
    with pytest.raises(PermafrostError, match=r"a/test.zarr: the store does not exist"):
        open_features(path)
    shutil.copytree(tmp_path / "old.zarr", tmp_path / "a" / "test.zarr")
    open_features(path)
    edited(tmp_path / "a" / "test.zarr", lambda about: about.update(fingerprint="another"))
    with pytest.raises(PermafrostError, match="plan"):
        open_features(path)


def edited(path, change) -> None:
    """Change the attributes of a store, and their digest, as an attacker could."""
    content = json.loads((path / "zarr.json").read_bytes())
    change(content["attributes"])
    del content["attributes"][DIGEST]
    content["attributes"][DIGEST] = content_digest(content["attributes"], DIGEST)
    (path / "zarr.json").write_text(json.dumps(content))


@pytest.mark.parametrize("name", ["../../a", "..", "", "/etc", "a/b"])
def test_a_store_reads_no_folder_but_those_of_the_same_dataset(tmp_path, name):
    write_features(tmp_path, "a", 6)
    path = make(tmp_path, "a", [])["test"]
    edited(path, lambda about: about["derived"].update(of={name: "of-a"}))
    with pytest.raises(PermafrostError, match="not the name of a backbone"):
        open_features(path)


def test_what_was_learned_is_checked_and_cannot_run_code_or_fill_the_memory(tmp_path):
    write_features(tmp_path, "a", 6)
    path = make(tmp_path, "a", [{"quantise": "int8"}])["test"]
    with open(path / LEARNED, "ab") as stream:
        stream.write(b"more")
    with pytest.raises(PermafrostError, match=r"learned.npz is not what was written"):
        open_features(path)
    (path / LEARNED).unlink()
    np.savez_compressed(path / LEARNED, scale=np.array(0), steps=np.array(0))
    digest = file_digest(path / LEARNED)
    edited(path, lambda about: about["derived"].update(learned_sha256=digest))
    with pytest.raises(PermafrostError, match="it is compressed"):
        open_features(path)
    (path / LEARNED).unlink()
    np.savez(path / LEARNED, scale=np.array([print], dtype=object), steps=np.array(0))
    digest = file_digest(path / LEARNED)
    edited(path, lambda about: about["derived"].update(learned_sha256=digest))
    with pytest.raises(PermafrostError, match="pickle"):
        open_features(path)
    (path / LEARNED).unlink()
    with pytest.raises(PermafrostError, match=r"learned.npz is missing or damaged"):
        open_features(path)
