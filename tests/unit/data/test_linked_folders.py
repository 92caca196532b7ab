"""Data behind symbolic links: read and counted as what the links lead to; links without an end are refused."""

from __future__ import annotations

import shutil

import pytest
from helpers.datasets.images import Prepared, class_files, folder_entry, validated, write_folder
from permafrost.core.errors import PermafrostError
from permafrost.data.digest import source_digest
from permafrost.data.files.members import open_members
from permafrost.plan.digests import DigestCache


def digest(place, *how) -> str:
    source = {"kind": "folder", "path": str(place)}
    return source_digest(validated({"task": "classification", "source": source}), *how)


@pytest.fixture
def plain(tmp_path):
    return write_folder(tmp_path / "plain", class_files(count=8))


@pytest.fixture
def linked(plain, tmp_path):
    """The same, with class folders, one of them through two links, and an image elsewhere."""
    place, far = tmp_path / "linked", tmp_path / "far"
    place.mkdir()
    shutil.copytree(plain, far / "disk")
    first, *others = sorted(folder.name for folder in plain.iterdir())
    (far / "again").symlink_to(far / "disk" / first)
    (place / first).symlink_to(far / "again")
    for name in others[1:]:
        (place / name).symlink_to(far / "disk" / name)
    shutil.copytree(plain / others[0], place / others[0])
    image = next((place / others[0]).iterdir())
    image.rename(far / "image.png")
    image.symlink_to("../../far/image.png")
    return place


def test_linked_folders_are_read_as_what_they_lead_to(plain, linked, tmp_path):
    names = open_members(plain, where="set").names
    assert open_members(linked, where="set").names == names
    assert digest(linked) == digest(plain)
    made = {}
    for place in (plain, linked):
        out = Prepared(tmp_path / f"out-{place.name}")
        out.run(folder_entry(place))
        stores = [path for path in sorted(out.folder.rglob("c/**/*")) if path.is_file()]
        made[place] = [path.read_bytes() for path in stores]
    assert made[plain] and made[plain] == made[linked]


def test_what_a_link_leads_to_counts(linked, tmp_path):
    def planned() -> str:
        return digest(linked, DigestCache(tmp_path / "digests.json").content)

    before = planned()
    (image, *_) = sorted((tmp_path / "far/disk/field").iterdir())
    image.write_bytes(image.read_bytes() + b"x")
    changed = planned()
    (tmp_path / "far/disk/field/new.png").write_bytes(b"x")
    assert len({before, changed, planned()}) == 3


@pytest.mark.parametrize("target", [".", "field", "..", "/", "other"])
def test_links_without_an_end_are_refused_while_planning_and_reading(plain, tmp_path, target):
    if target == "other":
        (tmp_path / "other").mkdir()
        (tmp_path / "other/back").symlink_to(plain)
        target = tmp_path / "other"
    (plain / "field" / "loop").symlink_to(plain / target)
    for read in (digest, lambda place: open_members(place, where="set")):
        with pytest.raises(PermafrostError, match="is a link to .*in which it lies") as caught:
            read(plain)
        assert caught.value.remedy


def test_a_link_without_an_end_in_a_hidden_folder_is_not_read(plain):
    before = digest(plain)
    (plain / ".cache").mkdir()
    (plain / ".cache/loop").symlink_to(plain)
    assert digest(plain) == before and open_members(plain, where="set").names


def test_a_link_to_nothing_is_refused(plain, tmp_path):
    (plain / "field" / "gone.png").symlink_to(tmp_path / "nowhere")
    with pytest.raises(PermafrostError, match="gone.png is a link to nothing"):
        open_members(plain, where="set")
    with pytest.raises(PermafrostError, match="gone.png cannot be read"):
        digest(plain, DigestCache(tmp_path / "digests.json").content)
