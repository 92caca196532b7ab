"""Stamps: what a job wrote, and whether it is still that."""

from __future__ import annotations

import pytest
from permafrost.core.errors import PermafrostError
from permafrost.core.stamps import altered_files, lost_files, refuse_altered, write_stamp

NAMES = ("leaderboard.csv", "report/figures/dot plot é.png")


@pytest.fixture
def stamp(tmp_path):
    for name in NAMES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    path = tmp_path / "plans" / "abc.done"
    write_stamp(path, "abc", [tmp_path / name for name in NAMES])
    return path


def test_what_is_as_it_was_written_passes(stamp):
    assert altered_files(stamp, expect="abc") == {}
    refuse_altered(stamp, expect="abc")


def test_lost_files_are_found_without_reading_any(stamp, tmp_path):
    (tmp_path / NAMES[0]).write_text("altered")
    assert lost_files(stamp, expect="abc") == []
    (tmp_path / NAMES[1]).unlink()
    assert lost_files(stamp, expect="abc") == [tmp_path / NAMES[1]]
    assert lost_files(stamp, expect="another") == [stamp]
    stamp.write_text("{")
    assert lost_files(stamp, expect="abc") == [stamp]
    stamp.unlink()
    assert lost_files(stamp, expect="abc") == [stamp]


def test_results_may_be_moved_with_their_stamps(stamp, tmp_path):
    moved = tmp_path.rename(tmp_path.with_name("moved"))
    assert altered_files(moved / "plans" / "abc.done", expect="abc") == {}


@pytest.mark.parametrize("name", NAMES)
def test_an_altered_and_a_missing_file_are_named(stamp, tmp_path, name):
    (tmp_path / name).write_text("mine")
    assert altered_files(stamp, expect="abc") == {tmp_path / name: "altered since it was written"}
    (tmp_path / name).unlink()
    assert altered_files(stamp, expect="abc") == {tmp_path / name: "missing"}
    with pytest.raises(PermafrostError, match="the file is missing") as caught:
        refuse_altered(stamp, expect="abc")
    assert caught.value.where == str(tmp_path / name)


def test_a_stamp_of_another_plan_or_none_is_refused(stamp):
    with pytest.raises(PermafrostError, match="made from another plan"):
        altered_files(stamp, expect="def")
    with pytest.raises(PermafrostError, match="the stamp does not exist"):
        altered_files(stamp.with_name("def.done"), expect="def")


def test_the_same_files_give_the_same_stamp(stamp, tmp_path):
    before = stamp.read_bytes()
    write_stamp(stamp, "abc", [tmp_path / name for name in reversed(NAMES)])
    assert stamp.read_bytes() == before
