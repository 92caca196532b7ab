"""Tortilla files: footers, items in items, dates; hostile and damaged ones end in one named error."""

import io
import struct
from pathlib import Path

import h5py
import numpy as np
import pytest
from helpers.datasets.images import Prepared, geotiff
from helpers.datasets.tortilla import (
    box_table,
    entry,
    hdf5,
    image,
    item,
    items_of,
    opened,
    pixels,
    refused,
    sample,
    tortilla,
    two_samples,
    with_footer,
    written,
)
from permafrost.core.errors import PermafrostError
from permafrost.data.files import tortilla as format_of
from permafrost.data.files.decode import UnreadableImage
from permafrost.data.files.tortilla import Extent, iso_date, parts_of, read_items


@pytest.mark.parametrize("magic", [b"#y", b"WX"])
def test_parts_lie_where_the_sample_says_counted_from_its_own_first_byte(tmp_path, magic):
    found = items_of(tmp_path, tortilla(two_samples(), magic=magic))
    assert [one.name for one in found] == ["s0", "s1"] and found[1].split == "train"
    parts = parts_of(found[1])
    assert [part.name for part in parts] == ["s2", "s1"]
    assert parts[0].extent.read() == image("s2", 1, 2)["data"]


def test_a_part_that_is_a_file_itself_gives_its_parts(tmp_path):
    inner = item("more", tortilla([image("s1", 3, 1)]), "TORTILLA")
    (found,) = items_of(tmp_path, tortilla([sample("s", [image("s2", 1, 2), inner])]))
    assert [part.name for part in parts_of(found)] == ["s2", "more/s1"]
    assert parts_of(found)[1].extent.read() == image("s1", 3, 1)["data"]


def test_only_the_columns_asked_for_are_read(tmp_path):
    path = written(tmp_path, tortilla(two_samples()))
    assert read_items(Extent.whole(path), ["kind", "none"])[0].columns == {"kind": "oak"}


def nested(levels: int) -> bytes:
    data = tortilla([image("s2", 0, 1)])
    for _ in range(levels):
        data = tortilla([item("s", data, "TORTILLA")])
    return data


def footer_with(**changes) -> bytes:
    return tortilla(two_samples(), change=lambda rows: rows[1].update(changes))


WHOLE = tortilla(two_samples())
BODY, FOOTER = WHOLE[200:400], WHOLE[struct.unpack("<Q", WHOLE[2:10])[0] :]
HOSTILE = {
    "empty": (b"", "not even a header"),
    "another file": (b"PK" + WHOLE[2:], "begins with b'PK'"),
    "cut off": (WHOLE[: len(WHOLE) // 2], "its footer lies at byte"),
    "cut in the footer": (WHOLE[:-5], "its footer lies at byte"),
    "footer beyond the file": (with_footer(BODY, FOOTER, start=10**6), "its footer lies at byte"),
    "footer before the file": (with_footer(BODY, FOOTER, start=0), "its footer lies at byte 0"),
    "absurd footer": (with_footer(BODY, FOOTER, length=2**63), "9223372036854775808 bytes"),
    "absurd start": (with_footer(BODY, FOOTER, start=2**64 - 1), "18446744073709551615"),
    "footer without bytes": (with_footer(BODY, b""), "has 0 bytes"),
    "no parquet": (with_footer(BODY, b"x" * 500), "no parquet table"),
    "damaged parquet": (with_footer(BODY, b"\0" * 50 + FOOTER[50:]), "damaged"),
    "no offsets": (with_footer(BODY, box_table([(0, 0, 1, 1)], ["oak"])), "without tortilla:id"),
    "the file as its own item": (footer_with(**{"tortilla:offset": 0}), "s1 lies at byte 0"),
    "before the file": (footer_with(**{"tortilla:offset": -500}), "s1 lies at byte -500"),
    "beyond the file": (footer_with(**{"tortilla:offset": 10**9}), "s1 lies at byte 1000000000"),
    "absurd length": (footer_with(**{"tortilla:length": 2**62}), "has 4611686018427387904 bytes"),
    "negative length": (footer_with(**{"tortilla:length": -1}), "has -1 bytes"),
    "no offset": (footer_with(**{"tortilla:offset": None}), "s1 lies at byte None"),
    "no name": (footer_with(**{"tortilla:id": None}), "no name"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_file_that_says_what_cannot_be_is_one_named_error(tmp_path, name):
    data, why = HOSTILE[name]
    path = written(tmp_path, data)
    with pytest.raises(PermafrostError) as error:
        opened(path)
    assert why in str(error.value) and str(path) in str(error.value) and error.value.remedy


def test_files_in_files_end(tmp_path):
    (found,) = items_of(tmp_path, nested(format_of.MOST_LEVELS))
    assert parts_of(found)[0].name.count("/") == format_of.MOST_LEVELS - 1
    (found,) = items_of(tmp_path, nested(format_of.MOST_LEVELS + 1))
    with pytest.raises(UnreadableImage, match="levels deep"):
        parts_of(found)


def test_a_footer_that_would_fill_the_memory_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(format_of, "MOST_FOOTER_BYTES", 100)
    with pytest.raises(UnreadableImage, match="once it is unpacked"):
        items_of(tmp_path, WHOLE)


@pytest.mark.parametrize(
    ("written_as", "date"),
    [
        (1527552000.0, "2018-05-29"),
        (20180917, "2018-09-17"),
        ("20180917", "2018-09-17"),
        (2011.0, "2011"),
        ("2016", "2016"),
        ("2018-07-01", "2018-07-01"),
        (20181399, "1970-08-22"),
        (0, None),
        (None, None),
        (float("nan"), None),
        (1e300, None),
        ("", None),
    ],
)
def test_dates_are_read_in_all_their_forms(written_as, date):
    assert iso_date(written_as) == date


# what is in a file is never believed


def external(folder: Path) -> bytes:
    """HDF5 whose numbers lie in another file."""
    (folder / "secret").write_bytes(bytes(128))
    stream = io.BytesIO()
    with h5py.File(stream, "w") as file:
        file.create_dataset("data", (2, 8, 8), "u1", external=[(str(folder / "secret"), 0, 128)])
    return stream.getvalue()


def linked(folder: Path) -> bytes:
    stream = io.BytesIO()
    with h5py.File(stream, "w") as file:
        file["data"] = h5py.ExternalLink(str(folder / "other.h5"), "/data")
    return stream.getvalue()


VRT = b'<VRTDataset rasterXSize="8" rasterYSize="8"><VRTRasterBand dataType="Byte" band="1"/></VRTDataset>'


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (external, "keeps its numbers in another file"),
        (linked, "has no array 'data'"),
        (lambda folder: VRT, "neither TIFF nor HDF5"),
        (lambda folder: b"", "neither TIFF nor HDF5"),
        (lambda folder: hdf5(np.array([b"text"])), "which are no pixels"),
        (lambda folder: hdf5(np.zeros(5)), "which are no pixels"),
        (lambda folder: geotiff(pixels(0, 2))[:300], "its part s2"),
        (lambda folder: hdf5(np.zeros((2, 8, 8)))[:-700], "its part s2"),
        (
            lambda folder: geotiff(np.zeros((1, 8, 8), "uint8"), colormap={0: (1, 2, 3, 255)}),
            "palette",
        ),
    ],
)
def test_parts_of_other_kinds_and_damaged_ones_are_refused(tmp_path, make, why):
    data = make(tmp_path) or b" "
    assert why in refused(tmp_path, [item("s2", data)])


def test_arrays_that_would_fill_the_memory_are_not_read(tmp_path):
    for number, data in enumerate(
        (hdf5(np.zeros((2, 800, 800))), geotiff(np.zeros((2, 800, 800))))
    ):
        message = refused(tmp_path / str(number), [item("s2", data)], largest_image_mb=1)
        assert "would take 10 MB of memory, and at most 1 MB are read at once" in message


def test_a_sample_that_is_damaged_leaves_nothing_half_written(tmp_path):
    splits = ["train", "train", "validation", "test"]
    samples = [
        sample(f"s{n}", [image("s2", n, 2)], split, kind=("oak", "pine")[n % 2])
        for n, split in enumerate(splits)
    ]
    samples[3]["data"] = samples[3]["data"][:-20]
    path = written(tmp_path, tortilla(samples))
    out = Prepared(tmp_path / "out")
    few = {"allow_missing_classes": True, "splits": {"method": "given"}}
    with pytest.raises(PermafrostError, match="s3: says that its footer lies") as error:
        out.run(entry(path, **few))
    assert "get the file again" in error.value.remedy
    assert [file for file in (tmp_path / "out").rglob("*") if file.is_file()] == []
    samples[3] = sample("s3", [image("s2", 3, 2)], "test", kind="pine")
    path.write_bytes(tortilla(samples))
    assert out.run(entry(path, **few))["choice"] == {
        "parts": ["s2"],
        "date": "last",
        "left_out": 0,
        "labels": {"label": "kind"},
    }
