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
from permafrost.core.outputs import together, whole_directory, whole_file


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


def test_everything_written_is_on_the_disk_before_it_takes_its_place(whole, tmp_path, monkeypatch):
    synced, target = [], tmp_path / "target"

    def record(descriptor):
        synced.append((os.readlink(f"/proc/self/fd/{descriptor}"), target.exists()))

    monkeypatch.setattr(outputs.os, "fsync", record)
    with whole(target) as partial:
        fill(partial, "done")
        written = {str(partial)}
        if partial.is_dir():
            (partial / "below").mkdir()
            (partial / "below" / "chunk").write_text("x")
            written |= {str(path) for path in partial.rglob("*")}
    assert {path for path, exists in synced if not exists} == written
    assert synced[-1] == (str(tmp_path), True), "the name, too, must reach the disk"


def test_a_file_that_the_disk_does_not_take_leaves_nothing_behind(tmp_path, monkeypatch):
    """The files of a folder are brought to the disk by threads, whose errors must not get lost."""
    target, fsync = tmp_path / "target", os.fsync

    def full(descriptor):
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith("chunk 20"):
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(descriptor)

    monkeypatch.setattr(outputs.os, "fsync", full)
    refused = pytest.raises(PermafrostError, match="cannot be written")
    with refused as caught, whole_directory(target) as partial:
        for number in range(40):
            (partial / f"chunk {number}").write_text("x")
    assert caught.value.where == str(target)
    assert os.listdir(tmp_path) == []


def test_a_writer_whose_work_another_one_removed_is_told_so(whole, tmp_path):
    """A second run clears up what it takes for the leftovers of a killed one."""
    target = tmp_path / "target"
    refused = pytest.raises(PermafrostError, match="another process writes")
    with refused as caught, whole(target) as one:
        fill(one, "one")
        with whole(target) as other:
            fill(other, "other")
        (one / "more" if whole is whole_directory else one).open("r").close()
    assert caught.value.where == str(target)
    assert content(target) == "other"
    assert os.listdir(tmp_path) == ["target"]


def test_a_place_that_another_writer_takes_meanwhile_is_told_so(tmp_path, monkeypatch):
    target, rename = tmp_path / "target", os.rename

    def overtaken(source, place):
        monkeypatch.undo()
        place.mkdir()
        (place / "part").write_text("other")
        rename(source, place)

    monkeypatch.setattr(outputs.os, "rename", overtaken)
    refused = pytest.raises(PermafrostError, match="another process writes")
    with refused, whole_directory(target) as partial:
        fill(partial, "one")
    assert content(target) == "other"
    assert os.listdir(tmp_path) == ["target"]


NAMES = ("one", "two", "last")


def write_together(folder, text: str) -> None:
    with together() as group:
        for name in NAMES:
            with (whole_file if name == "last" else whole_directory)(
                folder / name, group=group
            ) as partial:
                fill(partial, text)


def found(folder) -> dict[str, str]:
    return {name: content(folder / name) for name in NAMES if (folder / name).exists()}


def test_a_group_appears_when_all_of_it_is_written(tmp_path):
    with together() as group:
        with whole_directory(tmp_path / "one", group=group) as partial:
            fill(partial, "done")
        assert not (tmp_path / "one").exists()
    assert os.listdir(tmp_path) == ["one"]
    for text in ("old", "new"):
        write_together(tmp_path, text)
        assert found(tmp_path) == dict.fromkeys(NAMES, text)
        assert sorted(os.listdir(tmp_path)) == sorted(NAMES)


def test_an_error_after_the_first_of_a_group_keeps_the_old_ones(tmp_path):
    write_together(tmp_path, "old")
    with pytest.raises(ZeroDivisionError), together() as group:
        with whole_directory(tmp_path / "one", group=group) as partial:
            fill(partial, "new")
        raise ZeroDivisionError
    assert found(tmp_path) == dict.fromkeys(NAMES, "old")
    assert sorted(os.listdir(tmp_path)) == sorted(NAMES)


@pytest.mark.parametrize("before", [True, False], ids=["old ones there", "nothing there"])
@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt()])
def test_a_failure_at_any_renaming_of_a_group_leaves_everything_as_it_was(
    tmp_path, monkeypatch, before, error
):
    rename, count = os.rename, 2 * len(NAMES) if before else len(NAMES)
    for step in range(count):
        folder = tmp_path / str(step)
        folder.mkdir()
        if before:
            write_together(folder, "old")
        steps = iter(range(100))

        def fail_once(source, place, step=step, steps=steps):
            if next(steps) == step:
                raise error
            rename(source, place)

        monkeypatch.setattr(outputs.os, "rename", fail_once)
        with pytest.raises(type(error)):
            write_together(folder, "new")
        monkeypatch.undo()
        assert found(folder) == (dict.fromkeys(NAMES, "old") if before else {})
        assert sorted(os.listdir(folder)) == (sorted(NAMES) if before else [])


@pytest.mark.parametrize("step", range(2 * len(NAMES) + 1))
def test_a_kill_at_any_renaming_never_leaves_the_last_output_beside_others_than_its_own(
    tmp_path, step
):
    write_together(tmp_path, "old")
    program = f"""
import os, signal, sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
from permafrost.core import outputs
from test_whole_outputs import write_together
from pathlib import Path
rename, steps = os.rename, iter(range(100))
def kill(source, place):
    if next(steps) == {step}:
        os.kill(os.getpid(), signal.SIGKILL)
    rename(source, place)
outputs.os.rename = kill
write_together(Path({str(tmp_path)!r}), "new")
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", program]).returncode == -signal.SIGKILL
    left = found(tmp_path)
    assert "last" not in left or left == dict.fromkeys(NAMES, left["last"])
    write_together(tmp_path, "again")
    assert found(tmp_path) == dict.fromkeys(NAMES, "again")
    assert sorted(os.listdir(tmp_path)) == sorted(NAMES)
