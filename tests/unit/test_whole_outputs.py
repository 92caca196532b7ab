"""Files and directories that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys

import pytest
from permafrost.core import outputs
from permafrost.core.errors import PermafrostError
from permafrost.core.outputs import whole_directory, whole_file


def fill(place, text: str) -> None:
    """Write `text` into the file `place`, or into a file of the directory `place`."""
    (place / "part" if place.is_dir() else place).write_text(text)


def content(place) -> str:
    return (place / "part" if place.is_dir() else place).read_text()


@pytest.fixture(params=[whole_file, whole_directory], ids=["file", "directory"])
def whole(request):
    return request.param


def test_the_target_appears_when_the_writer_is_done_and_not_before(whole, tmp_path):
    target = tmp_path / "new" / "folder" / "target"
    with whole(target) as partial:
        fill(partial, "done")
        assert not target.exists()
    assert content(target) == "done"
    assert os.listdir(target.parent) == ["target"]


def test_an_error_inside_leaves_nothing(whole, tmp_path):
    with pytest.raises(ZeroDivisionError), whole(tmp_path / "target") as partial:
        fill(partial, "half")
        raise ZeroDivisionError
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit])
def test_an_interruption_leaves_nothing(whole, tmp_path, interruption):
    with pytest.raises(interruption), whole(tmp_path / "target") as partial:
        fill(partial, "half")
        raise interruption
    assert os.listdir(tmp_path) == []


def test_an_error_keeps_what_stood_there(whole, tmp_path):
    target = tmp_path / "target"
    with whole(target) as partial:
        fill(partial, "old")
    with pytest.raises(ZeroDivisionError), whole(target) as partial:
        fill(partial, "half")
        raise ZeroDivisionError
    assert content(target) == "old"
    assert os.listdir(tmp_path) == ["target"]


def test_a_second_writing_replaces_the_first(whole, tmp_path):
    target = tmp_path / "target"
    for text in ("old", "new"):
        with whole(target) as partial:
            fill(partial, text)
    assert content(target) == "new"
    assert os.listdir(tmp_path) == ["target"]


def test_a_killed_writer_leaves_no_target_and_the_next_one_clears_up(whole, tmp_path):
    target = tmp_path / "target"
    program = f"""
import os, signal
from permafrost.core.outputs import {whole.__name__} as whole
with whole({str(target)!r}) as partial:
    (partial / "part" if partial.is_dir() else partial).write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", program]).returncode == -signal.SIGKILL
    assert not target.exists()
    assert len(os.listdir(tmp_path)) == 1, "the test must leave something to clear up"
    with whole(target) as partial:
        fill(partial, "done")
    assert os.listdir(tmp_path) == ["target"]


def test_clearing_up_touches_no_other_targets_leftovers(whole, tmp_path):
    with whole(tmp_path / "target-2") as other:
        fill(other, "done")
        with whole(tmp_path / "target") as partial:
            fill(partial, "done")
    assert sorted(os.listdir(tmp_path)) == ["target", "target-2"]


def test_names_with_wildcard_characters_are_taken_literally(whole, tmp_path):
    with whole(tmp_path / "ab") as other:
        fill(other, "done")
        with whole(tmp_path / "[ab]*") as partial:
            fill(partial, "done")
    assert sorted(os.listdir(tmp_path)) == ["[ab]*", "ab"]


def test_writers_of_a_shared_file_do_not_disturb_each_other(tmp_path):
    target = tmp_path / "target"
    with whole_file(target, exclusive=False) as one:
        one.write_text("one")
        with whole_file(target, exclusive=False) as other:
            other.write_text("other")
    assert target.read_text() == "one"
    assert os.listdir(tmp_path) == ["target"]


def test_a_failing_rename_puts_the_old_directory_back(tmp_path, monkeypatch):
    target = tmp_path / "target"
    with whole_directory(target) as partial:
        fill(partial, "old")
    rename = os.rename

    def fail_for_the_new(source, place):
        if place == target and (source / "part").read_text() == "new":
            raise OSError(errno.EIO, "Input/output error")
        rename(source, place)

    monkeypatch.setattr(outputs.os, "rename", fail_for_the_new)
    with pytest.raises(OSError, match="Input/output"), whole_directory(target) as partial:
        fill(partial, "new")
    assert content(target) == "old"
    assert os.listdir(tmp_path) == ["target"]


def test_a_link_to_a_directory_is_replaced_and_what_it_points_to_is_kept(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "part").write_text("kept")
    (tmp_path / "target").symlink_to(elsewhere)
    with whole_directory(tmp_path / "target") as partial:
        fill(partial, "new")
    assert content(tmp_path / "target") == "new"
    assert content(elsewhere) == "kept"
    assert sorted(os.listdir(tmp_path)) == ["elsewhere", "target"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_a_disk_that_takes_no_more_is_named_with_the_output(whole, tmp_path, number):
    target = tmp_path / "target"
    with pytest.raises(PermafrostError, match="cannot be written") as caught, whole(target) as part:
        fill(part, "half")
        raise OSError(number, os.strerror(number))
    assert caught.value.where == str(target)
    assert "room" in caught.value.remedy
    assert os.listdir(tmp_path) == []


def test_a_truly_full_disk_is_an_error_and_leaves_nothing(whole, small_disk):
    disk = small_disk(64)
    with pytest.raises(PermafrostError, match="No space left"), whole(disk / "target") as partial:
        fill(partial, "x" * 200_000)
    assert os.listdir(disk) == []
    with whole(disk / "target") as partial:
        fill(partial, "it fits")
    assert content(disk / "target") == "it fits"


def test_other_errors_of_reading_and_writing_pass_unchanged(whole, tmp_path):
    with pytest.raises(FileNotFoundError), whole(tmp_path / "target") as partial:
        fill(partial, "half")
        (tmp_path / "an-input-that-is-not-there").read_text()
    assert os.listdir(tmp_path) == []


def test_a_folder_that_cannot_be_made_is_named(whole, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with (
        pytest.raises(PermafrostError, match="folder cannot be made") as caught,
        whole(tmp_path / "file" / "target"),
    ):
        pass
    assert caught.value.where == str(tmp_path / "file")
