"""Rows in a temporary file read as those of an array do, and leave nothing behind."""

import numpy as np
import pytest
from permafrost.core import row_file
from permafrost.core.errors import PermafrostError
from permafrost.core.row_file import RowFile, row_blocks


@pytest.fixture
def rows():
    values = np.random.default_rng(0).normal(size=(1003, 5)).astype(np.float32)
    values[7] = [np.inf, -np.inf, np.nan, -0.0, np.finfo(np.float32).tiny / 2]
    return values


@pytest.fixture
def stored(rows, tmp_path, monkeypatch):
    monkeypatch.delenv("TMPDIR", raising=False)
    made = RowFile(5, tmp_path)
    for start in range(0, len(rows), 90):
        made.append(rows[start : start + 90])
    made.append(rows[:0])
    return made


@pytest.mark.parametrize(
    "which",
    [
        slice(None),
        slice(10, 20),
        slice(-3, None),
        slice(5, 5),
        slice(2000, 3000),
        np.array([3, 3, 1002, 0, 500, 501, 509]),
        np.array([], np.int64),
        np.arange(24).reshape(2, 3, 4),
        np.arange(1003) % 7 == 0,
    ],
    ids=str,
)
def test_rows_are_those_of_the_array(rows, stored, which):
    np.testing.assert_array_equal(
        stored[which].view(np.uint32), np.ascontiguousarray(rows[which]).view(np.uint32)
    )


def test_it_looks_like_the_array(rows, stored):
    assert (len(stored), stored.shape, stored.dtype, stored.ndim) == (1003, (1003, 5), "<f4", 2)
    assert (stored.size, stored.nbytes) == (rows.size, rows.nbytes)
    np.testing.assert_array_equal(np.asarray(stored), rows)
    assert np.asarray(stored, np.float64).dtype == np.float64


def test_rows_outside_are_refused(stored):
    for which in (np.array([1003]), np.array([-1]), slice(0, 10, 2)):
        with pytest.raises(IndexError):
            stored[which]
    with pytest.raises(IndexError):
        stored.read(1000, 1004)


def test_other_widths_are_refused(stored):
    with pytest.raises(ValueError, match="width 5"):
        stored.append(np.zeros((3, 4), np.float32))


def test_blocks_cover_all_rows_once(rows, stored, monkeypatch):
    monkeypatch.setattr(row_file, "BLOCK_BYTES", 64 * 20)
    for of in (rows, stored):
        blocks = list(row_blocks(of))
        assert blocks[0] == slice(0, 64) and blocks[-1] == slice(960, 1003)
        np.testing.assert_array_equal(np.concatenate([of[one] for one in blocks]), rows)
    assert list(stored.blocks()) == list(row_blocks(rows))
    assert list(row_blocks(rows[:0])) == []


def test_no_file_is_seen(stored, tmp_path):
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_named(small_disk, monkeypatch):
    monkeypatch.delenv("TMPDIR", raising=False)
    disk = small_disk(256)
    made = RowFile(1024, disk)
    made.append(np.ones((32, 1024)))
    with pytest.raises(PermafrostError, match="no room for more of a temporary copy") as raised:
        made.append(np.ones((64, 1024)))
    assert str(raised.value.where) == str(disk) and "TMPDIR" in raised.value.remedy
    assert list(disk.iterdir()) == []
