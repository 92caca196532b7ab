from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from permafrost.core.errors import PermafrostError
from permafrost.core.stores import Store, write_store

NUMBERS = np.arange(10 * 3, dtype=np.float32).reshape(10, 3)


def ids(count: int, prefix: str = "s") -> pa.Table:
    return pa.table({"sample_id": [f"{prefix}{i}" for i in range(count)]})


def write(path, numbers=NUMBERS, *, fingerprint="plan-a", **options):
    with write_store(path, fingerprint=fingerprint) as writer:
        array = writer.array("numbers", numbers.shape, numbers.dtype, rows_per_chunk=4, **options)
        array[:] = numbers
        writer.samples(ids(len(numbers)))
        writer.attributes["classes"] = ["forest", "water"]
    return path


@pytest.fixture
def store(tmp_path):
    return write(tmp_path / "train.zarr")


def test_what_was_written_is_read_back(store):
    opened = Store(store, expect="plan-a")
    assert len(opened) == 10
    assert opened.fingerprint == "plan-a"
    assert opened.shape("numbers") == (10, 3)
    assert opened.chunk_rows("numbers") == 4
    assert opened.attributes["classes"] == ["forest", "water"]
    assert opened.samples().equals(ids(10))
    assert "numbers" in opened and "labels" not in opened
    np.testing.assert_array_equal(opened.read("numbers"), NUMBERS)
    np.testing.assert_array_equal(opened.read("numbers", 3, 9), NUMBERS[3:9])


def test_zeros_are_stored_like_other_numbers(tmp_path):
    path = write(tmp_path / "zeros.zarr", np.zeros((10, 3), np.uint8))
    np.testing.assert_array_equal(Store(path).read("numbers"), np.zeros((10, 3)))


def test_an_array_may_be_stored_uncompressed(tmp_path):
    path = write(tmp_path / "plain.zarr", compress=False)
    np.testing.assert_array_equal(Store(path).read("numbers"), NUMBERS)


@pytest.mark.parametrize("compress", [True, False])
def test_chunks_in_shards_are_read_back_by_any_rows(tmp_path, compress):
    path = write(tmp_path / "shards.zarr", rows_per_shard=8, compress=compress)
    opened = Store(path)
    assert opened.chunk_rows("numbers") == 4 and len(chunks(path)) == 2
    for start, stop in [(0, 10), (0, 4), (3, 9), (8, 10), (9, 10)]:
        np.testing.assert_array_equal(opened.read("numbers", start, stop), NUMBERS[start:stop])


def test_chunks_of_zeros_in_shards_are_stored_like_others(tmp_path):
    path = write(tmp_path / "zeros.zarr", np.zeros((10, 3), np.uint8), rows_per_shard=8)
    np.testing.assert_array_equal(Store(path).read("numbers"), np.zeros((10, 3)))


def test_a_shard_is_no_larger_than_the_samples_need(tmp_path):
    opened = Store(write(tmp_path / "few.zarr", rows_per_shard=400))
    assert opened.chunk_rows("numbers") == 4 and len(chunks(opened.path)) == 1


def test_without_shards_every_chunk_is_a_file(store):
    assert Store(store).chunk_rows("numbers") == 4 and len(chunks(store)) == 3


def test_shards_hold_whole_chunks(tmp_path):
    with pytest.raises(ValueError, match="not whole chunks"):
        write(tmp_path / "train.zarr", rows_per_shard=6)


def test_an_empty_array_may_have_shards(tmp_path):
    empty = np.zeros((0, 3), np.float32)
    assert Store(write(tmp_path / "empty.zarr", empty, rows_per_shard=8)).read("numbers").size == 0


def test_a_store_may_hold_no_samples(tmp_path):
    opened = Store(write(tmp_path / "empty.zarr", np.zeros((0, 3), np.float32)))
    assert len(opened) == 0
    assert opened.read("numbers").shape == (0, 3)
    assert opened.samples().num_rows == 0


def test_the_same_content_gives_the_same_bytes(tmp_path):
    one, other = write(tmp_path / "one.zarr"), write(tmp_path / "other.zarr")
    files = sorted(path.relative_to(one) for path in one.rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(other) for path in other.rglob("*") if path.is_file())
    assert all((one / file).read_bytes() == (other / file).read_bytes() for file in files)


# --- damage -----------------------------------------------------------------------------------


def chunks(store):
    return sorted(path for path in (store / "numbers" / "c").rglob("*") if path.is_file())


@pytest.mark.parametrize("compress", [True, False])
@pytest.mark.parametrize("position", [0, 7, -1])
def test_a_flipped_byte_in_a_chunk_is_found_on_reading_it(tmp_path, position, compress):
    store = write(tmp_path / "train.zarr", compress=compress)
    content = bytearray(chunks(store)[1].read_bytes())
    content[position] ^= 0x10
    chunks(store)[1].write_bytes(content)
    opened = Store(store)
    with pytest.raises(PermafrostError, match="rows 0 to 10 of 'numbers' are damaged") as caught:
        opened.read("numbers")
    assert caught.value.where == str(store)
    assert "snakemake" in caught.value.remedy
    np.testing.assert_array_equal(opened.read("numbers", 0, 4), NUMBERS[:4])


@pytest.mark.parametrize("compress", [True, False])
def test_a_flipped_byte_anywhere_in_a_shard_is_refused_by_name(tmp_path, compress):
    """In a chunk, in its checksum, or in the index of the shard."""
    store = write(tmp_path / "train.zarr", rows_per_shard=8, compress=compress)
    whole = chunks(store)[0].read_bytes()
    for position in range(len(whole)):
        content = bytearray(whole)
        content[position] ^= 0x10
        chunks(store)[0].write_bytes(content)
        with pytest.raises(PermafrostError, match=r"'numbers'|rows 0 to 8") as caught:
            Store(store).read("numbers", 0, 8)
        assert caught.value.where == str(store)


@pytest.mark.parametrize("length", [0, 10, 40, -3])
def test_a_truncated_shard_is_refused_by_name(tmp_path, length):
    store = write(tmp_path / "train.zarr", rows_per_shard=8)
    chunks(store)[0].write_bytes(chunks(store)[0].read_bytes()[:length])
    with pytest.raises(PermafrostError, match="'numbers'"):
        Store(store).read("numbers")


def test_a_lost_shard_is_found_on_opening(tmp_path):
    store = write(tmp_path / "train.zarr", rows_per_shard=8)
    chunks(store)[1].unlink()
    with pytest.raises(PermafrostError, match="'numbers' is not what was written"):
        Store(store)


def test_a_truncated_chunk_is_found_on_reading_it(store):
    chunks(store)[0].write_bytes(chunks(store)[0].read_bytes()[:-3])
    with pytest.raises(PermafrostError, match="damaged"):
        Store(store).read("numbers")


def test_a_lost_chunk_is_found_on_opening(store):
    chunks(store)[2].unlink()
    with pytest.raises(PermafrostError, match="'numbers' is not what was written"):
        Store(store)


def test_a_lost_array_is_found_on_opening(store):
    shutil.rmtree(store / "numbers")
    with pytest.raises(PermafrostError, match="'numbers' is missing or damaged"):
        Store(store)


def test_an_array_of_another_shape_is_found_on_opening(store, tmp_path):
    other = write(tmp_path / "other.zarr", NUMBERS[:, :2])
    shutil.rmtree(store / "numbers")
    shutil.copytree(other / "numbers", store / "numbers")
    with pytest.raises(PermafrostError, match="not what was written"):
        Store(store)


@pytest.mark.parametrize("key", ["complete", "count", "fingerprint"])
def test_a_store_whose_seal_is_lost_is_not_a_store(store, key):
    group = json.loads((store / "zarr.json").read_text())
    del group["attributes"][key]
    (store / "zarr.json").write_text(json.dumps(group))
    with pytest.raises(PermafrostError, match="never completed"):
        Store(store)


def test_a_damaged_group_file_is_named(store):
    (store / "zarr.json").write_text("{")
    with pytest.raises(PermafrostError, match="not a readable zarr group"):
        Store(store)


def test_a_store_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(PermafrostError, match="does not exist") as caught:
        Store(tmp_path / "train.zarr")
    assert caught.value.where == str(tmp_path / "train.zarr")


def test_swapped_samples_are_found_on_opening(store):
    pq.write_table(ids(10, prefix="other"), store / "samples.parquet", compression="zstd")
    with pytest.raises(PermafrostError, match=r"samples.parquet is missing or damaged"):
        Store(store)


def test_lost_samples_are_found_on_opening(store):
    (store / "samples.parquet").unlink()
    with pytest.raises(PermafrostError, match=r"samples.parquet is missing or damaged"):
        Store(store)


def test_a_store_of_another_plan_is_refused_with_the_way_out(store):
    with pytest.raises(PermafrostError, match="made from another plan") as caught:
        Store(store, expect="plan-b")
    assert "permafrost stale --delete" in caught.value.remedy


def test_an_array_that_the_store_lacks_is_named_with_those_it_has(store):
    with pytest.raises(PermafrostError, match=r"no array 'labels' \(numbers\)"):
        Store(store).read("labels")


def test_running_out_of_memory_is_not_taken_for_damage(store, monkeypatch):
    opened = Store(store)

    def exhausted(*_):
        raise MemoryError

    monkeypatch.setattr(type(opened._group["numbers"]), "__getitem__", exhausted)
    with pytest.raises(MemoryError):
        opened.read("numbers")


def test_the_time_stamp_that_snakemake_leaves_inside_is_harmless(store):
    (store / ".snakemake_timestamp").touch()
    np.testing.assert_array_equal(Store(store, expect="plan-a").read("numbers"), NUMBERS)


# --- writing ----------------------------------------------------------------------------------


def test_an_error_during_writing_leaves_nothing(tmp_path):
    with (
        pytest.raises(ZeroDivisionError),
        write_store(tmp_path / "train.zarr", fingerprint="a") as writer,
    ):
        writer.array("numbers", (10, 3), np.float32, rows_per_chunk=4)[:4] = 1
        raise ZeroDivisionError
    assert os.listdir(tmp_path) == []


def test_a_killed_writer_leaves_no_store(tmp_path):
    program = f"""
import os, signal
from permafrost.core.stores import write_store
with write_store({str(tmp_path / "train.zarr")!r}, fingerprint="a") as writer:
    writer.array("numbers", (10, 3), "float32", rows_per_chunk=4)[:4] = 1
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", program]).returncode == -9
    with pytest.raises(PermafrostError, match="does not exist"):
        Store(tmp_path / "train.zarr")
    write(tmp_path / "train.zarr")
    assert os.listdir(tmp_path) == ["train.zarr"]


def test_an_incomplete_store_cannot_be_sealed(tmp_path):
    with (
        pytest.raises(ValueError, match="rows that were never written"),
        write_store(tmp_path / "train.zarr", fingerprint="a") as writer,
    ):
        writer.array("numbers", (10, 3), np.float32, rows_per_chunk=4)[:8] = 1
        writer.samples(ids(10))
    assert os.listdir(tmp_path) == []


def test_a_store_with_an_incomplete_shard_cannot_be_sealed(tmp_path):
    with (
        pytest.raises(ValueError, match="rows that were never written"),
        write_store(tmp_path / "train.zarr", fingerprint="a") as writer,
    ):
        options = {"rows_per_chunk": 4, "rows_per_shard": 12}
        writer.array("numbers", (10, 3), np.float32, **options)[:8] = 1
        writer.samples(ids(10))
    assert os.listdir(tmp_path) == []


def test_arrays_and_samples_must_agree_on_their_number(tmp_path):
    with (
        pytest.raises(ValueError, match="10 rows, samples.parquet 9"),
        write_store(tmp_path / "train.zarr", fingerprint="a") as writer,
    ):
        writer.array("numbers", NUMBERS.shape, NUMBERS.dtype, rows_per_chunk=4)[:] = NUMBERS
        writer.samples(ids(9))


def test_a_full_disk_is_named_and_leaves_nothing(small_disk):
    disk = small_disk(256)
    numbers = np.random.default_rng(0).integers(0, 2**62, size=(400, 1000))
    with pytest.raises(PermafrostError, match="No space left"):
        write(disk / "train.zarr", numbers)
    assert os.listdir(disk) == []
    write(disk / "train.zarr", numbers[:8])
    assert os.listdir(disk) == ["train.zarr"], "a chunk was written after the writing had failed"
    np.testing.assert_array_equal(Store(disk / "train.zarr").read("numbers"), numbers[:8])


# --- what was sealed ----------------------------------------------------------------------------------


def test_a_store_of_another_split_is_refused(tmp_path):
    for split in ("train", "test"):
        with write_store(tmp_path / f"{split}.zarr", fingerprint="plan-a") as writer:
            writer.array("numbers", (10, 3), "float32", rows_per_chunk=4)[:] = NUMBERS
            writer.samples(ids(10))
            writer.attributes["split"] = split
    (tmp_path / "train.zarr").rename(tmp_path / "kept.zarr")
    (tmp_path / "test.zarr").rename(tmp_path / "train.zarr")
    with pytest.raises(PermafrostError, match="holds the split 'test', where 'train'") as caught:
        Store(tmp_path / "train.zarr", expect="plan-a", split="train")
    assert caught.value.where == str(tmp_path / "train.zarr")
    assert len(Store(tmp_path / "kept.zarr", expect="plan-a", split="train")) == 10


@pytest.mark.parametrize("key", ["classes", "split", "fingerprint", "count"])
def test_attributes_that_were_edited_are_refused(store, key):
    path = store / "zarr.json"
    group = json.loads(path.read_text())
    group["attributes"][key] = {"fingerprint": "plan-b", "count": 9}.get(key, "edited")
    path.write_text(json.dumps(group))
    with pytest.raises(PermafrostError, match="attributes are not what was written"):
        Store(store)


READS = {
    "rows": lambda opened: opened.read("numbers"),
    "chunk rows": lambda opened: opened.chunk_rows("numbers"),
    "samples": lambda opened: opened.samples(),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_store_that_is_removed_while_it_is_open_is_an_error_that_names_it(store, read):
    """A second run removes what it is about to make again."""
    opened = Store(store)
    opened._arrays.clear()
    shutil.rmtree(store)
    with pytest.raises(PermafrostError, match="removed while it was read") as caught:
        read(opened)
    assert caught.value.where == str(store)


@pytest.mark.parametrize("name", ["rows", "chunk rows"])
def test_an_array_that_is_removed_while_the_store_is_open_is_named(store, name):
    opened = Store(store)
    opened._arrays.clear()
    shutil.rmtree(store / "numbers")
    with pytest.raises(PermafrostError, match="'numbers' (is missing or|are) damaged") as caught:
        READS[name](opened)
    assert caught.value.where == str(store)


def test_a_chunk_that_is_removed_while_the_store_is_open_is_not_read_as_zeros(store):
    opened = Store(store)
    opened.read("numbers", 0, 1)
    shutil.rmtree(store / "numbers" / "c")
    with pytest.raises(PermafrostError, match=r"rows 0 to \d+ of 'numbers' are damaged"):
        opened.read("numbers")


@pytest.mark.parametrize("stage", ["group", "array", "samples", "count"])
def test_a_store_that_is_removed_while_it_is_being_opened_is_named(store, stage, monkeypatch):
    """Whatever the step of the opening at which the store goes."""
    from permafrost.core import stores as module

    def removing(function):
        def call(*arguments, **options):
            shutil.rmtree(store, ignore_errors=True)
            return function(*arguments, **options)

        return call

    place, name = {
        "group": (Store, "_open"),
        "array": (Store, "_array"),
        "samples": (module, "file_digest"),
        "count": (module, "_stored_chunks"),
    }[stage]
    monkeypatch.setattr(place, name, removing(getattr(place, name)))
    with pytest.raises(PermafrostError) as caught:
        Store(store)
    assert caught.value.where == str(store)


def test_a_store_that_is_replaced_by_one_of_another_plan_while_it_is_open_is_refused(tmp_path):
    path = write(tmp_path / "one.zarr")
    opened, first = Store(path), Store(path)
    before = first.read("numbers")
    write(path)  # made again by another run: the same content
    assert (opened.read("numbers") == before).all()
    write(path, fingerprint="other")
    for read in (lambda: opened.read("numbers"), opened.samples):
        with pytest.raises(PermafrostError, match="replaced by one of another plan"):
            read()


def test_a_store_whose_files_another_run_cleared_away_while_it_was_written_is_named(tmp_path):
    refused = pytest.raises(PermafrostError, match="another process writes the same output")
    with refused, write_store(tmp_path / "s.zarr", fingerprint="plan-a") as writer:
        writer.array("a", (4, 2), "float32", rows_per_chunk=2)[:2] = 1
        shutil.rmtree(writer.folder)
        writer._arrays["a"][2:] = 1
        writer.folder.mkdir(exist_ok=True)
        writer.samples(pa.table({"sample_id": ["a", "b", "c", "d"]}))
    assert os.listdir(tmp_path) == []
