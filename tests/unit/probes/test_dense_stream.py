"""Maps as batches: order, windows, keeping and streaming, working masks, memory limits."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch
from helpers.stores.maps import separable, write_maps
from permafrost.core.errors import PermafrostError
from permafrost.core.row_file import RowFile
from permafrost.probes.dense import map_stream as order
from permafrost.probes.dense import map_stream as stream
from permafrost.probes.dense.map_splits import MaskSplit
from permafrost.probes.dense.map_stream import (
    MapStream,
    Windows,
    available_bytes,
    batch_sizes,
    fits,
)

CPU = torch.device("cpu")


@pytest.fixture
def split(tmp_path):
    maps, masks = separable(29, side=16)
    return MaskSplit(write_maps(tmp_path / "train.zarr", maps, masks))


def streams(split, monkeypatch, batch_size=6):
    """The same split kept, and streamed through windows of 2 blocks of 4."""
    monkeypatch.setattr(order, "WINDOW_BYTES", 1)
    monkeypatch.setattr(order, "MIN_BLOCKS", 2)
    return [
        MapStream(split, split.layers, batch_size=batch_size, device=CPU, budget=budget)
        for budget in (2**40, 0)
    ]


@pytest.mark.parametrize(("batch_size", "last"), [(6, 5), (5, 4), (7, 8), (20, 9), (29, 29)])
def test_kept_and_streamed_batches_are_the_same_in_every_bit(split, monkeypatch, batch_size, last):
    """Windows of 12 samples and more: batches within one, and over several of them."""
    kept, streamed = streams(split, monkeypatch, batch_size)
    monkeypatch.setattr(kept, "windows", Windows(29, 4, 3))
    monkeypatch.setattr(streamed, "windows", Windows(29, 4, 3))
    assert kept.kept and not streamed.kept
    for batches in (lambda s: s.shuffled(7, 2), lambda s: s.in_order()):
        pairs = list(zip(batches(kept), batches(streamed), strict=True))
        assert len(pairs[-1][0].rows) == last and sum(len(a.rows) for a, _ in pairs) == 29
        for a, b in pairs:
            assert a.rows.tolist() == b.rows.tolist()
            assert torch.equal(a.masks, b.masks)
            for x, y in zip(a.maps, b.maps, strict=True):
                assert torch.equal(x, y)
                assert x.is_contiguous(memory_format=torch.channels_last)
                assert y.is_contiguous(memory_format=torch.channels_last)


def decoded_rows_of(split, monkeypatch) -> list:
    """The rows whose maps are read from the store, in order of their reading."""
    rows, whole = [], MaskSplit.maps
    monkeypatch.setattr(
        MaskSplit,
        "maps",
        lambda self, layer, *span: rows.extend(range(*span)) or whole(self, layer, *span),
    )
    return rows


@pytest.mark.parametrize("broken", [None, "little room", "full disk"])
def test_a_decoded_copy_gives_the_same_batches_and_the_store_is_read_once(
    split, monkeypatch, tmp_path, capfd, broken
):
    """Without room for the copy, every epoch reads the store."""
    monkeypatch.delenv("TMPDIR", raising=False)
    kept, _ = streams(split, monkeypatch)
    how = {"batch_size": 6, "device": CPU, "budget": 0, "scratch": tmp_path / "new"}
    copied = MapStream(split, split.layers, **how)
    if broken == "little room":
        usage = shutil.disk_usage(tmp_path)
        few = 4 * copied._bytes - 4
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=few))
    if broken == "full disk":
        monkeypatch.setattr(RowFile, "append", full)
    expected = [list(kept.shuffled(7, epoch)) for epoch in range(3)] + [list(kept.in_order())]
    rows = decoded_rows_of(split, monkeypatch)
    found = [list(copied.shuffled(7, epoch)) for epoch in range(3)] + [list(copied.in_order())]
    for epoch, others in zip(expected, found, strict=True):
        for a, b in zip(epoch, others, strict=True):
            assert a.rows.tolist() == b.rows.tolist() and a.scored == b.scored
            assert torch.equal(a.masks, b.masks)
            assert all(map(torch.equal, a.maps, b.maps))
    layers = len(split.layers)
    if broken is None:
        assert sorted(rows) == sorted([*range(29)] * layers) and rows[:4] == [0, 1, 2, 3]
        assert "/train: decoded once (" in capfd.readouterr().err
    else:
        assert len(rows) >= 4 * 29 * layers
        assert "/train: decoded again in every epoch" in capfd.readouterr().err
    assert list((tmp_path / "new").iterdir()) == []


def full(*_):
    raise PermafrostError("there is no room", where="disk", remedy="make room")


def test_a_batch_holds_the_maps_and_masks_of_its_rows(split, monkeypatch):
    maps, masks = separable(29, side=16)
    for source in streams(split, monkeypatch):
        for batch in source.shuffled(0, 0):
            np.testing.assert_array_equal(batch.masks, masks[batch.rows])
            for found, values in zip(batch.maps, maps, strict=True):
                expected = values[batch.rows].astype(np.float16).astype(np.float32)
                np.testing.assert_array_equal(found, expected)


def test_every_epoch_sees_every_sample_once_in_an_order_of_its_own():
    windows = Windows(29, block=4, blocks_per_window=2)
    orders = [np.concatenate(windows.shuffled(seed, epoch)) for seed in (0, 1) for epoch in (0, 1)]
    assert all(sorted(rows.tolist()) == list(range(29)) for rows in orders)
    assert len({tuple(rows) for rows in orders}) == 4
    again = np.concatenate(windows.shuffled(0, 0))
    np.testing.assert_array_equal(orders[0], again)


def test_a_window_holds_whole_blocks_only():
    for rows in Windows(29, block=4, blocks_per_window=2).shuffled(3, 0)[:-1]:
        assert len(set((rows // 4).tolist())) == 2


def test_windows_are_bounded_in_bytes_but_hold_two_batches():
    assert Windows.of(10_000, 16, order.WINDOW_BYTES // 100, 8).blocks_per_window == 6
    assert Windows.of(10_000, 16, order.WINDOW_BYTES, 64).blocks_per_window == 8


@pytest.mark.parametrize(
    ("count", "batch", "sizes"),
    [(12, 5, [5, 5, 2]), (11, 5, [5, 6]), (1, 5, [1]), (0, 5, []), (10, 5, [5, 5])],
)
def test_a_last_batch_of_one_joins_the_one_before(count, batch, sizes):
    assert batch_sizes(count, batch) == sizes


def test_a_split_without_samples_has_no_batches(tmp_path):
    maps, masks = separable(2)
    empty = write_maps(tmp_path / "val.zarr", [m[:0] for m in maps], masks[:0])
    split = MaskSplit(empty)
    for budget in (0, 2**30):
        source = MapStream(split, split.layers, batch_size=4, device=CPU, budget=budget)
        assert list(source.in_order()) == [] and list(source.shuffled(0, 0)) == []


def test_memory_of_a_stream_does_not_grow_with_the_split(tmp_path, monkeypatch):
    """What is read ahead is at most one window besides the one in use."""
    monkeypatch.setattr(order, "WINDOW_BYTES", 1)
    monkeypatch.setattr(order, "MIN_BLOCKS", 1)
    maps, masks = separable(40)
    split = MaskSplit(write_maps(tmp_path / "train.zarr", maps, masks))
    source = MapStream(split, split.layers, batch_size=4, device=CPU, budget=0)
    assert source.windows.blocks_per_window == 2
    read = []
    whole = source._read
    monkeypatch.setattr(source, "_read", lambda rows, d: read.append(len(rows)) or whole(rows, d))
    for used, _ in enumerate(source.shuffled(0, 0), start=1):
        assert sum(read) <= 4 * used + 2 * 8
    assert sum(read) == 40


def test_an_error_while_reading_ahead_reaches_the_reader(split, monkeypatch):
    _, streamed = streams(split, monkeypatch)

    def fail(*_):
        raise OSError("disk gone")

    monkeypatch.setattr(streamed, "_stored", fail)
    with pytest.raises(OSError, match="disk gone"):
        list(streamed.in_order())


def test_masks_of_images_that_were_not_resized_are_untouched(split):
    np.testing.assert_array_equal(split.working_masks(3, 9), separable(29)[1][3:9])


def test_masks_of_resized_images_lose_their_padding_and_are_resized_by_nearest(tmp_path):
    rng = np.random.default_rng(0)
    sizes = np.array([[13, 20], [20, 9], [16, 16]])
    masks = np.full((3, 20, 20), 2, np.uint8)  # padding looks like a class
    for mask, (h, w) in zip(masks, sizes, strict=True):
        mask[:h, :w] = rng.integers(0, 2, (h, w))
    maps = [np.zeros((3, 2, 4, 4), np.float32)]
    path = write_maps(tmp_path / "train.zarr", maps, masks, sizes=sizes, working=(16, 16))
    split = MaskSplit(path)
    found = split.working_masks(0, 3)
    for row, (h, w) in enumerate(sizes):
        native = torch.from_numpy(masks[row, :h, :w])[None, None].float()
        expected = torch.nn.functional.interpolate(native, (16, 16), mode="nearest-exact")
        np.testing.assert_array_equal(found[row], expected[0, 0])
    assert split.pixel_counts().tolist()[2] == 0
    assert split.pixel_counts().sum() == (sizes[:, 0] * sizes[:, 1]).sum()


def fake_machine(root, **files):
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("PROC_SELF", "proc/self")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_free_memory_is_that_of_the_tightest_limit(tmp_path):
    root = fake_machine(tmp_path, proc__meminfo="MemTotal: 9 kB\nMemAvailable: 4000 kB\n")
    assert available_bytes(root) == 4_096_000
    fake_machine(root, PROC_SELF__cgroup="0::/job/step\n")
    group = root / "sys/fs/cgroup/job"
    group.mkdir(parents=True)
    (group / "memory.max").write_text("1000000\n")
    (group / "memory.current").write_text("700000\n")
    (group / "memory.stat").write_text("anon 5\ninactive_file 100000\n")
    assert available_bytes(root) == 400_000
    (group / "memory.max").write_text("max\n")
    assert available_bytes(root) == 4_096_000


def test_free_memory_of_a_control_group_of_version_one(tmp_path):
    root = fake_machine(
        tmp_path, proc__meminfo="MemAvailable: 4000 kB\n", PROC_SELF__cgroup="7:memory:/job\n"
    )
    group = root / "sys/fs/cgroup/memory/job"
    group.mkdir(parents=True)
    (group / "memory.limit_in_bytes").write_text("500000\n")
    (group / "memory.usage_in_bytes").write_text("450000\n")
    (group / "memory.stat").write_text("total_inactive_file 0\n")
    assert available_bytes(root) == 50_000


def test_a_machine_that_tells_nothing_keeps_nothing(tmp_path, monkeypatch, capsys):
    assert available_bytes(tmp_path) is None
    monkeypatch.setattr("permafrost.probes.dense.map_stream.available_bytes", lambda: None)
    assert not fits(1, CPU, label="toy")
    assert "streamed" in capsys.readouterr().err


def test_wide_mask_types_become_types_that_torch_can_index():
    assert stream.torch_type(np.dtype("uint16")) == np.int32
    assert stream.torch_type(np.dtype("uint8")) == np.uint8
