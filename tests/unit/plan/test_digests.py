from __future__ import annotations

import hashlib
import os

import pytest
from permafrost.core.errors import PermafrostError
from permafrost.data.files.folders import folder_digest
from permafrost.plan import digests
from permafrost.plan.digests import DigestCache


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "weights.bin"
    path.write_bytes(b"one")
    return path


@pytest.fixture
def cache(tmp_path):
    """A function that opens the cache anew, as the next run would."""
    return lambda: DigestCache(tmp_path / "cache" / "digests.json")


@pytest.fixture
def settled(monkeypatch):
    """Files count as settled at once, so that their digests are remembered."""
    monkeypatch.setattr(digests, "_SETTLED_NS", -(10**12))


def never(*_):
    raise AssertionError("the file was read again")


def test_the_digest_is_the_sha256_of_the_content(cache, file):
    assert cache().digest(file) == hashlib.sha256(b"one").hexdigest()


def test_a_file_that_did_not_change_is_not_read_again(cache, file, settled, monkeypatch):
    first = cache()
    expected = first.digest(file)
    first.save()
    monkeypatch.setattr(digests, "content_digest", never)
    assert cache().digest(file) == expected


def test_a_touched_file_keeps_its_digest(cache, file, settled):
    first = cache()
    expected = first.digest(file)
    first.save()
    os.utime(file)
    assert cache().digest(file) == expected


def test_a_changed_file_has_another_digest(cache, file, settled):
    first = cache()
    before = first.digest(file)
    first.save()
    file.write_bytes(b"two!")
    assert first.digest(file) != before
    assert cache().digest(file) == hashlib.sha256(b"two!").hexdigest()


def test_a_file_of_the_same_size_and_date_in_the_same_place_is_noticed(cache, file, settled):
    os.utime(file, ns=(10**18, 10**18))
    first = cache()
    first.digest(file)
    first.save()
    other = file.with_name("other.bin")
    other.write_bytes(b"two")
    os.utime(other, ns=(10**18, 10**18))
    os.replace(other, file)
    assert cache().digest(file) == hashlib.sha256(b"two").hexdigest()


def test_a_file_overwritten_in_place_with_its_date_set_back_is_noticed(cache, file, settled):
    os.utime(file, ns=(10**18, 10**18))
    first = cache()
    first.digest(file)
    first.save()
    file.write_bytes(b"two")
    os.utime(file, ns=(10**18, 10**18))
    assert cache().digest(file) == hashlib.sha256(b"two").hexdigest()


def test_a_link_that_points_elsewhere_is_noticed(cache, tmp_path, settled):
    link = tmp_path / "link"
    for content in (b"one", b"two"):
        target = tmp_path / content.decode()
        target.write_bytes(content)
        os.utime(target, ns=(10**18, 10**18))
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        known = cache()
        assert known.digest(link) == hashlib.sha256(content).hexdigest()
        known.save()


def test_a_file_that_changed_just_now_is_not_yet_remembered(cache, file, monkeypatch):
    first = cache()
    first.digest(file)
    first.save()
    monkeypatch.setattr(digests, "content_digest", lambda *_: "read again")
    assert cache().digest(file) == "read again"


@pytest.mark.parametrize("content", ["", "{", "[]", "3", "\x00"])
def test_a_damaged_cache_is_forgotten(cache, file, content):
    cache().path.parent.mkdir()
    cache().path.write_text(content)
    assert cache().digest(file) == hashlib.sha256(b"one").hexdigest()


def test_a_cache_that_cannot_be_written_stops_nothing(cache, file):
    first = cache()
    first.path.parent.write_text("in the way")
    first.digest(file)
    first.save()


@pytest.mark.parametrize("kind", ["missing", "folder"])
def test_a_file_that_cannot_be_read_is_named(cache, tmp_path, kind):
    (tmp_path / "folder").mkdir()
    with pytest.raises(PermafrostError, match=f"{kind} cannot be read") as caught:
        cache().digest(tmp_path / kind)
    assert "`data:`" in caught.value.remedy


def test_a_pipe_is_refused_and_not_waited_for(cache, tmp_path, folder):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PermafrostError, match=r"pipe cannot be read \(not a regular file\)"):
        cache().digest(tmp_path / "pipe")
    os.mkfifo(folder / "masks" / "pipe")
    with pytest.raises(
        PermafrostError, match=r"masks/pipe is a pipe, socket or device, not a regular file"
    ):
        cache().content(folder)
    with pytest.raises(
        PermafrostError, match=r"masks/pipe is a pipe, socket or device, not a regular file"
    ):
        folder_digest(folder)


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "set"
    (path / "masks").mkdir(parents=True)
    for name in ("a", "b"):
        (path / "masks" / name).write_bytes(name.encode())
    return path


def test_a_folder_that_did_not_change_is_not_read_again(cache, folder, settled, monkeypatch):
    first = cache()
    expected = first.content(folder)
    first.save()
    monkeypatch.setattr(digests, "content_digest", never)
    assert cache().content(folder) == expected


def test_a_changed_file_of_the_same_size_and_date_gives_a_folder_another_digest(
    cache, folder, settled
):
    first = cache()
    before = first.content(folder)
    first.save()
    mask = folder / "masks" / "a"
    date = mask.stat().st_mtime_ns
    mask.write_bytes(b"c")
    os.utime(mask, ns=(date, date))
    assert cache().content(folder) != before
    mask.write_bytes(b"a")
    assert cache().content(folder) == before


def test_a_folder_is_the_same_elsewhere(cache, folder, settled):
    before = cache().content(folder)
    assert cache().content(folder.rename(folder.with_name("moved"))) == before
