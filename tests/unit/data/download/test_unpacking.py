"""Archives are unpacked whole, into their folder and nowhere else."""

from __future__ import annotations

import gzip
import io
import os
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest
from permafrost.core.errors import PermafrostError
from permafrost.data.download import unpacking
from permafrost.data.download.steps import Unpack
from permafrost.data.download.unpacking import unpack

FILES = {"set/a/1.txt": b"one", "set/a/2.txt": b"two", "set/list.csv": b"x"}


def packed(path: Path, files: dict[str, bytes]) -> Path:
    """A zip, or a tar of the compression that the name says."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in files.items():
                archive.writestr(name, content)
        return path
    with tarfile.open(path, f"w:{path.suffix.removeprefix('.').replace('tar', '')}") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def held(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tar.gz", "a.tar.bz2", "a.tar.xz"])
def test_members_join_what_is_in_the_folder(tmp_path, name):
    archive, folder = packed(tmp_path / name, FILES), tmp_path / "root"
    (folder / "set" / "a").mkdir(parents=True)
    (folder / "set" / "a" / "0.txt").write_bytes(b"zero")
    (folder / "set" / "list.csv").write_bytes(b"old")
    unpack(Unpack(archive, folder))
    assert held(folder) == {**FILES, "set/a/0.txt": b"zero"} and archive.exists()


@pytest.mark.parametrize("inner", ["", "set/"])
def test_a_folder_of_its_own_appears_whole_without_the_outermost_folder(tmp_path, inner):
    files = {f"{inner}a/1.txt": b"one", f"{inner}b.txt": b"two"}
    archive, folder = packed(tmp_path / "a.zip", files), tmp_path / "new" / "set"
    unpack(Unpack(archive, folder, whole=True))
    assert held(folder) == {"a/1.txt": b"one", "b.txt": b"two"}
    assert not archive.exists() and os.listdir(folder.parent) == ["set"]


def test_an_outermost_folder_may_hold_one_of_its_name(tmp_path):
    archive = packed(tmp_path / "a.zip", {"set/set/1.txt": b"one", "set/2.txt": b"two"})
    unpack(Unpack(archive, tmp_path / "set", whole=True))
    assert held(tmp_path / "set") == {"set/1.txt": b"one", "2.txt": b"two"}


@pytest.mark.parametrize("kind", ["zip", "tar"])
@pytest.mark.parametrize("name", ["../out.txt", "/out.txt", "a/../../out.txt", "..\\out.txt"])
@pytest.mark.parametrize("whole", [True, False])
def test_a_member_that_leads_out_of_the_folder_is_refused(tmp_path, kind, name, whole):
    archive = packed(tmp_path / f"a.{kind}", {"good.txt": b"good", name: b"bad"})
    before = held(tmp_path)
    with pytest.raises(PermafrostError, match="leads out of it"):
        unpack(Unpack(archive, tmp_path / "root" / "set", whole))
    assert held(tmp_path) == before and not Path("/out.txt").exists()


def test_links_and_devices_are_refused(tmp_path):
    zipped = tmp_path / "a.zip"
    link = zipfile.ZipInfo("set/link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr(link, "/etc")
        archive.writestr("set/link/passwd", "bad")
    taken = []
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE):
        member = tarfile.TarInfo("set/link")
        member.type, member.linkname = kind, "/etc"
        taken.append(tmp_path / f"{kind.decode()}.tar")
        with tarfile.open(taken[-1], "w") as archive:
            archive.addfile(member)
    for archive in (zipped, *taken):
        with pytest.raises(PermafrostError, match="is a link or a device"):
            unpack(Unpack(archive, tmp_path / "root"))
        assert held(tmp_path / "root") == {}


def test_a_link_that_is_in_the_folder_is_not_followed(tmp_path):
    outside, folder = tmp_path / "outside", tmp_path / "root"
    outside.mkdir(), folder.mkdir()
    (folder / "set").symlink_to(outside)
    with pytest.raises(PermafrostError, match="set is a symbolic link"):
        unpack(Unpack(packed(tmp_path / "a.zip", FILES), folder))
    assert held(outside) == {}


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz", "a.tar.xz"])
def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path, name, monkeypatch):
    monkeypatch.setattr(unpacking, "_MOST_PACKED", 100)
    archive = packed(tmp_path / name, {"bomb": bytes(1_000_000)})
    with pytest.raises(PermafrostError, match="declares more than it can hold"):
        unpack(Unpack(archive, tmp_path / "root"))
    assert held(tmp_path / "root") == {}


def test_members_that_overlap_are_refused(tmp_path):
    archive = packed(tmp_path / "a.zip", {"1": os.urandom(1000), "2": os.urandom(1000)})
    content = bytearray(archive.read_bytes())
    # the directory's two entries name the same place
    first = content.index(b"PK\x01\x02")
    second = content.index(b"PK\x01\x02", first + 4)
    content[second + 20 : second + 24] = (1900).to_bytes(4, "little")
    archive.write_bytes(content)
    with pytest.raises(PermafrostError, match="overlaps"):
        unpack(Unpack(archive, tmp_path / "root"))


def test_more_than_the_disk_has_room_for_is_refused(tmp_path, monkeypatch):
    archive = packed(tmp_path / "a.zip", FILES)
    usage = type("Usage", (), {"free": 2})
    monkeypatch.setattr(unpacking.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(PermafrostError, match="3 bytes, and 2 bytes are free"):
        unpack(Unpack(archive, tmp_path / "root"))


@pytest.mark.parametrize("whole", [True, False])
def test_a_damaged_archive_leaves_the_folder_as_it_was(tmp_path, whole):
    archive = packed(tmp_path / "a.zip", {"1": b"1", "2": os.urandom(9000)})
    content = bytearray(archive.read_bytes())
    content[5000] ^= 1
    archive.write_bytes(content)
    folder = tmp_path / "root"
    with pytest.raises(PermafrostError, match="cannot be unpacked .*CRC"):
        unpack(Unpack(archive, folder, whole))
    assert archive.exists() and (not folder.exists() or os.listdir(folder) == [])


@pytest.mark.parametrize("ending", ["tar", "tar.gz"])
def test_a_tar_that_is_damaged_or_cut_off_at_a_header_is_refused(tmp_path, ending):
    whole = packed(tmp_path / "whole.tar", FILES).read_bytes()
    start = whole.index(b"set/a/2.txt")
    for number, data in enumerate(
        (whole[:start], whole[: start + 100], whole[:start] + b"x" * 512 + whole[start + 512 :])
    ):
        archive = tmp_path / f"{number}.{ending}"
        archive.write_bytes(gzip.compress(data) if ending == "tar.gz" else data)
        with pytest.raises(PermafrostError, match="truncated or damaged"):
            unpack(Unpack(archive, tmp_path / "root", whole=True))
        assert archive.exists() and not (tmp_path / "root").exists()


def test_what_is_no_archive_is_refused(tmp_path):
    page = tmp_path / "a.zip"
    page.write_text("<html>Sign in</html>")
    with pytest.raises(PermafrostError, match="neither a zip nor a tar"):
        unpack(Unpack(page, tmp_path / "root"))


def test_a_name_that_occurs_twice_is_refused(tmp_path):
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w") as twice, pytest.warns(UserWarning):
        twice.writestr("a", "1"), twice.writestr("a", "2")
    with pytest.raises(PermafrostError, match="occurs twice"):
        unpack(Unpack(archive, tmp_path / "root"))


def test_what_a_killed_unpacking_left_behind_goes(tmp_path):
    left = tmp_path / "root" / ".unpack.partial-old"
    left.mkdir(parents=True)
    unpack(Unpack(packed(tmp_path / "a.zip", FILES), tmp_path / "root"))
    assert os.listdir(tmp_path / "root") == ["set"]
