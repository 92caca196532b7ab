"""Bad data gives one clear error that names place and remedy, and leaves nothing behind."""

import io
import os
import signal
import subprocess
import sys
import tarfile
import time
import zipfile

import numpy as np
import pytest
from helpers.datasets.images import (
    Prepared,
    class_files,
    encode,
    folder_entry,
    geotiff,
    photo,
    write_folder,
    write_tar,
    write_zip,
)
from permafrost.core.errors import PermafrostError
from permafrost.data.files.members import ZipMembers


@pytest.fixture
def out(tmp_path):
    return Prepared(tmp_path / "out")


def refused(out, path, message, **more):
    with pytest.raises(PermafrostError, match=message) as caught:
        out.run(folder_entry(path, **more))
    assert out.leftovers() == []
    assert caught.value.remedy and "dataset set" in str(caught.value)
    return str(caught.value)


def noise_jpeg(seed):
    array = np.random.default_rng(seed).integers(0, 255, (64, 64, 3)).astype(np.uint8)
    return encode(array, "jpeg")


def test_a_zip_with_a_truncated_jpeg_names_it(out, tmp_path):
    files = {f"{c}/{i}.jpg": noise_jpeg(i) for c in "ab" for i in range(8)}
    files["b/3.jpg"] = files["b/3.jpg"][:-900]
    refused(
        out,
        write_zip(tmp_path / "a.zip", files),
        r"1 of 16 images cannot be used: b/3.jpg: .*truncated",
    )
    files["b/3.jpg"] = noise_jpeg(99)
    out.run(folder_entry(write_zip(tmp_path / "a.zip", files)))  # repaired: the run goes through
    assert len(out.leftovers()) == 4


def test_all_unreadable_images_of_all_splits_are_listed_in_one_error(out, tmp_path):
    files = class_files(count=20)
    bad = list(files)[::2]
    files |= {name: b"\x89PNG\r\n\x1a\nbroken" for name in bad[:18]}
    files |= {name: b"" for name in bad[18:]}
    message = refused(out, write_folder(tmp_path / "set", files), "20 of 40 images")
    assert all(f"{name}: " in message for name in bad)


def test_a_long_list_is_cut_with_a_count(out, tmp_path):
    files = {name: b"" for name in class_files(count=25)}
    files |= {f"{c}/good{i}.png": encode(photo(i)) for c in ("field", "town") for i in range(4)}
    refused(out, write_folder(tmp_path / "set", files), "50 of 58 images.*and 30 more")


def test_a_dataset_of_nothing_but_broken_images(out, tmp_path):
    files = {name: b"" for name in class_files(count=8)}
    refused(
        out,
        write_folder(tmp_path / "set", files),
        "8 of 8 images cannot be used|images cannot be used",
    )


def test_damage_inside_a_zip_is_found_by_its_checksum(out, tmp_path):
    path = write_zip(tmp_path / "a.zip", class_files(count=10))
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo("town/004.png")
    data[info.header_offset + 30 + len(info.filename) + 60] ^= 255
    path.write_bytes(data)
    refused(out, path, r"town/004.png: cannot be read from .*a.zip \(Bad CRC-32")


def test_a_cut_off_zip_and_a_web_page_instead_of_one(out, tmp_path):
    path = write_zip(tmp_path / "a.zip", class_files(count=10))
    path.write_bytes(path.read_bytes()[:-200])
    refused(out, path, "neither a directory nor a zip or tar|damaged archive")
    path.write_text("<html>404</html>")
    refused(out, path, "neither a directory nor a zip")
    refused(out, tmp_path / "nowhere", "does not exist")


@pytest.mark.parametrize(
    "name", ["../evil/1.png", "/abs/1.png", "field/../../1.png", "..\\up/1.png", "C:/x/1.png"]
)
@pytest.mark.parametrize("write", [write_zip, write_tar])
def test_names_that_escape_are_refused(out, tmp_path, name, write):
    path = write(tmp_path / "archive", {**class_files(count=8), name: encode(photo(0))})
    refused(out, path, "leads out of it")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["archive"]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
def test_links_in_a_tar_are_refused(out, tmp_path, kind):
    path = write_tar(tmp_path / "a.tar", class_files(count=8))
    with tarfile.open(path, "a") as archive:
        info = tarfile.TarInfo("field/link.png")
        info.type, info.linkname = kind, "/etc/passwd"
        archive.addfile(info)
    refused(out, path, "holds the link 'field/link.png'")


def test_links_in_a_zip_are_refused(out, tmp_path):
    path = write_zip(tmp_path / "a.zip", class_files(count=8))
    with zipfile.ZipFile(path, "a") as archive:
        info = zipfile.ZipInfo("field/link.png")
        info.external_attr = 0o120777 << 16
        archive.writestr(info, "/etc/passwd")
    refused(out, path, "holds the link")


def test_a_link_to_what_is_no_image_is_named(out, tmp_path):
    place = write_folder(tmp_path / "set", class_files(count=8))
    (place / "field" / "link.png").symlink_to("/etc/passwd")
    refused(out, place, "field/link.png")
    (place / "field" / "link.png").unlink()
    (place / "field" / "link.png").symlink_to(tmp_path / "nowhere")
    refused(out, place, "is a link to nothing|cannot be read|No such file")


def test_a_device_in_a_tar_is_refused(out, tmp_path):
    path = write_tar(tmp_path / "a.tar", class_files(count=8))
    with tarfile.open(path, "a") as archive:
        info = tarfile.TarInfo("field/pipe.png")
        info.type = tarfile.FIFOTYPE
        archive.addfile(info)
    refused(out, path, "not a regular file")


def test_a_pipe_in_a_folder_is_refused_and_not_waited_for(out, tmp_path):
    place = write_folder(tmp_path / "set", class_files(count=8))
    os.mkfifo(place / "field" / "pipe.png")
    refused(out, place, "field/pipe.png is not a regular file")


@pytest.mark.parametrize("kind", ["folder", "tar"])
def test_a_name_that_is_not_utf8_is_shown_as_its_bytes(out, tmp_path, kind):
    files = class_files(count=8)
    files[os.fsdecode(b"field/caf\xe9.png")] = encode(photo(0))
    if kind == "tar":
        path = tmp_path / "a.tar"
        with tarfile.open(path, "w", errors="surrogateescape", format=tarfile.GNU_FORMAT) as tar:
            for name, data in files.items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    else:
        path = write_folder(tmp_path / "set", files)
    refused(out, path, r"not UTF-8: b'field/caf\\xe9.png'")


@pytest.mark.parametrize("write", [write_zip, write_tar, write_folder])
def test_a_member_too_large_to_be_read_at_once_is_named(out, tmp_path, write):
    files = class_files(count=8) | {"field/003.png": b"\x89PNG\r\n\x1a\n" + bytes(2_000_000)}
    message = "1 of 16 images cannot be used: field/003.png: it would take 2 MB of memory, and"
    refused(out, write(tmp_path / "archive", files), message, largest_image_mb=1)


def test_a_member_for_which_there_is_no_memory_is_named(out, tmp_path, monkeypatch):
    read = ZipMembers.read

    def exhausted(self, name):
        if name == "field/003.png":
            raise MemoryError
        return read(self, name)

    monkeypatch.setattr(ZipMembers, "read", exhausted)
    path = write_zip(tmp_path / "a.zip", class_files(count=8))
    refused(out, path, "1 of 16 images cannot be used: field/003.png: .*not enough memory")


def test_a_name_twice_in_an_archive_is_refused(out, tmp_path):
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        for data in (b"one", b"two"):
            info = tarfile.TarInfo("field/1.png")
            info.size = 3
            archive.addfile(info, io.BytesIO(data))
    refused(out, path, "'field/1.png' twice")


def test_a_table_cannot_point_out_of_its_images(out, tmp_path):
    place = write_folder(tmp_path / "set", class_files(count=2))
    (tmp_path / "secret.png").write_bytes(encode(photo(1)))
    (tmp_path / "index.csv").write_text("file,kind\n../secret.png,field\n")
    source = {
        "kind": "table",
        "table": str(tmp_path / "index.csv"),
        "images": str(place),
        "path": "file",
        "label": "kind",
    }
    refused(out, place, "leads out of it", source=source)


def test_an_image_listed_twice_is_refused(out, tmp_path):
    place = write_folder(tmp_path / "set", class_files(count=2))
    (tmp_path / "index.csv").write_text("file,kind\nfield/000.png,field\nfield/000.png,town\n")
    source = {
        "kind": "table",
        "table": str(tmp_path / "index.csv"),
        "images": str(place),
        "path": "file",
        "label": "kind",
    }
    refused(out, place, "more than once, e.g. field/000.png", source=source)


def test_a_class_missing_from_train_is_named_and_can_be_permitted(out, tmp_path):
    files = {
        f"{s}/{name}": data
        for s in ("train", "val", "test")
        for name, data in class_files().items()
    }
    files = {name: data for name, data in files.items() if not name.startswith("train/town")}
    path = write_zip(tmp_path / "a.zip", files)
    source = {"kind": "folder", "path": str(path), "split_folders": True}
    given = {"source": source, "splits": {"method": "given"}}
    refused(out, path, r"train has no sample of 1 class: town \(town in val or test\)", **given)
    card = out.run(folder_entry(path, allow_missing_classes=True, **given))
    assert card["splits"]["train"]["class_counts"] == [10, 0]


def test_an_unknown_band_is_refused_before_anything_is_decoded(out, tmp_path):
    path = write_folder(tmp_path / "set", {name: b"" for name in class_files(count=4)})
    with pytest.raises(PermafrostError, match=r"no band 'nir'; the bands are red \(red\), green"):
        out.run(folder_entry(path, select=["nir"]))
    with pytest.raises(PermafrostError, match="no band 'B99'"):
        out.run(folder_entry(path, sensor="sentinel2", bands=["B99", "B03", "B02"]))
    assert out.leftovers() == []


def test_mixed_types_and_wrong_units_are_refused(out, tmp_path):
    arrays = [np.full((3, 8, 8), 15 * i + 7, np.uint8) for i in range(16)]
    files = {f"{'ab'[i % 2]}/{i:02d}.tif": geotiff(array) for i, array in enumerate(arrays)}
    mixed = {**files, "b/15.tif": geotiff(arrays[15].astype(np.uint16))}
    refused(out, write_folder(tmp_path / "mixed", mixed), "holds uint16 values|holds uint8 values")
    plain = write_folder(tmp_path / "plain", files)
    refused(
        out, plain, "declares reflectance, but the images hold uint8", units={"unit": "reflectance"}
    )
    counts = {
        name: geotiff(a.astype(np.float32) * 100) for name, a in zip(files, arrays, strict=True)
    }
    refused(
        out,
        write_folder(tmp_path / "counts", counts),
        "declared as reflectance, but its maximum is",
        units={"unit": "reflectance"},
    )


def test_nan_pixels_are_refused_unless_declared(out, tmp_path):
    arrays = [
        np.random.default_rng(i).uniform(0, 1, (3, 8, 8)).astype(np.float32) for i in range(16)
    ]
    arrays[5][1, 2, 3] = np.nan
    arrays[6][0, 0, 0] = np.inf
    files = {f"{'ab'[i % 2]}/{i:02d}.tif": geotiff(a) for i, a in enumerate(arrays)}
    path = write_folder(tmp_path / "set", files)
    unit = {"unit": "reflectance"}
    message = refused(out, path, "2 of 16 images", units=unit)
    assert "b/05.tif: holds 1 values that are NaN" in message
    # infinity is no declared nodata
    refused(out, path, "1 of 16 images.*a/06.tif", units=unit, nodata={"value": "nan", "fill": 0})


def test_wrong_number_of_bands_is_refused(out, tmp_path):
    files = class_files(count=8)
    files["town/003.png"] = encode(photo(1)[..., 0])
    refused(out, write_folder(tmp_path / "set", files), "town/003.png: has one channel, not 3")


def test_an_empty_folder_and_a_wrong_root(out, tmp_path):
    (tmp_path / "empty").mkdir()
    refused(out, tmp_path / "empty", "holds no folder|holds no images")
    path = write_folder(tmp_path / "set", class_files(count=4))
    refused(
        out,
        path,
        "no folder 'images'",
        source={"kind": "folder", "path": str(path), "root": "images"},
    )


def test_places_that_are_not_on_earth_are_refused(out, tmp_path):
    place = write_folder(tmp_path / "set", class_files(count=2))
    lines = [f"{name},{name.split('/')[0]},500000,4600000" for name in class_files(count=2)]
    (tmp_path / "index.csv").write_text("file,kind,x,y\n" + "\n".join(lines))
    source = {
        "kind": "table",
        "table": str(tmp_path / "index.csv"),
        "images": str(place),
        "path": "file",
        "label": "kind",
        "lon": "x",
        "lat": "y",
    }
    refused(out, place, "not a place on Earth", source=source)


def test_a_killed_prepare_leaves_nothing_that_looks_finished_and_can_be_repeated(out, tmp_path):
    place = write_folder(tmp_path / "set", class_files(count=200, size=(96, 96)))
    code = f"""
import sys, time
sys.path.insert(0, {str(os.path.dirname(os.path.dirname(__file__)))!r})
from helpers.datasets.images import Prepared
from pathlib import Path
from permafrost.data.sources import folder
original = folder.FolderSource.decode
def slow(self, index):
    time.sleep(0.02)
    return original(self, index)
folder.FolderSource.decode = slow
Prepared(Path({str(out.folder)!r})).run({folder_entry(place)!r})
"""
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not list(out.folder.glob(".train.zarr*/images/c/*")) and time.monotonic() < deadline:
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not [name for name in out.leftovers() if not name.startswith(".")]
    out.run(folder_entry(place))
    assert out.leftovers() == ["card.json", "test.zarr", "train.zarr", "val.zarr"]
