"""Folders, archives and tables all give the same records and pixels."""

import numpy as np
import pytest
from helpers.datasets.images import (
    RGB_ENTRY,
    Prepared,
    class_files,
    encode,
    open_source,
    photo,
    write_folder,
    write_table,
    write_tar,
    write_zip,
)
from permafrost.core.errors import PermafrostError
from permafrost.data.sources.table_columns import Table

FILES = class_files(count=6)


def folder_source(path, **options):
    entry = {**RGB_ENTRY, "source": {"kind": "folder", "path": str(path), **options}}
    return open_source(entry, where="dataset set")


def pixels(source):
    return [source.decode(i).image for i in range(len(source.records()))]


@pytest.mark.parametrize("kind", ["zip", "tar", "tar.gz"])
def test_an_archive_equals_the_folder_it_was_made_of(tmp_path, kind):
    plain = folder_source(write_folder(tmp_path / "set", FILES))
    path = tmp_path / f"set.{kind}"
    if kind == "zip":
        write_zip(path, FILES)
    else:
        write_tar(path, FILES, "w:gz" if kind == "tar.gz" else "w")
    packed = folder_source(path)
    assert packed.records() == plain.records()
    assert packed.classes == ["field", "town"]
    for a, b in zip(pixels(packed), pixels(plain), strict=True):
        np.testing.assert_array_equal(a, b)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["set", f"set.{kind}"]  # nothing unpacked


def test_a_root_and_split_folders(tmp_path):
    files = {
        f"data/{s}/{name}": encode(photo(i))
        for i, s in enumerate(("train", "test"))
        for name in FILES
    }
    source = folder_source(write_zip(tmp_path / "a.zip", files), root="data", split_folders=True)
    first = source.records()[0]
    assert (first.sample_id, first.split, first.label) == ("test/field/000.png", "test", 0)


def test_other_files_are_an_error_unless_ignored_and_system_junk_is_not_meant(tmp_path):
    files = {
        **FILES,
        "README.txt": b"hello",
        "__MACOSX/field/._000.png": b"",
        "field/.DS_Store": b"",
    }
    path = write_zip(tmp_path / "a.zip", files)
    with pytest.raises(
        PermafrostError, match="1 files that are not images in class folders.*README"
    ):
        folder_source(path)
    assert len(folder_source(path, other_files="ignore").records()) == 12


def test_declared_classes_fix_the_ids_and_refuse_strangers(tmp_path):
    path = write_zip(tmp_path / "a.zip", FILES)
    source = {"kind": "folder", "path": str(path)}
    entry = {**RGB_ENTRY, "source": source, "classes": ["town", "lake", "field"]}
    opened = open_source(entry, where="x")
    assert opened.classes == ["town", "lake", "field"]
    assert {r.sample_id.split("/")[0]: r.label for r in opened.records()} == {"field": 2, "town": 0}
    with pytest.raises(PermafrostError, match="does not list: field"):
        open_source({**entry, "classes": ["town", "lake"]}, where="x")


def rows():
    return [
        {
            "file": name.split("/")[1],
            "kind": name.split("/")[0],
            "part": ["train", "val", "test"][i % 3],
            "tile": f"t{i // 2}",
            "x": 10.5 + i,
            "y": -3.0,
            "when": "2020-05-01",
            "is_wet": i % 2,
            "is_dry": 1,
            "tags": "wet; dry" if i % 2 else "dry",
        }
        for i, name in enumerate(FILES)
    ]


def table_entry(tmp_path, name="index.csv", data=None, **options):
    write_zip(tmp_path / "images.zip", FILES)
    source = {
        "kind": "table",
        "table": str(write_table(tmp_path / name, data or rows())),
        "images": str(tmp_path / "images.zip"),
        "path": "<kind>/<file>",
        **options,
    }
    return {**RGB_ENTRY, "source": source}


@pytest.mark.parametrize("name", ["index.csv", "index.parquet"])
def test_a_table_gives_every_column(tmp_path, name):
    entry = table_entry(
        tmp_path,
        name,
        label="kind",
        split="part",
        group="<kind>-<tile>",
        lon="x",
        lat="y",
        date="when",
    )
    record = open_source(entry, where="x").records()[1]
    assert (record.sample_id, record.label, record.split) == ("field/001.png", 0, "val")
    assert (record.group_id, record.lon, record.lat, record.date) == (
        "field-t0",
        11.5,
        -3.0,
        "2020-05-01",
    )


def test_several_labels_as_columns_or_with_a_separator(tmp_path):
    entry = {**table_entry(tmp_path, labels=["is_dry", "is_wet"]), "task": "multilabel"}
    columns = open_source(entry, where="x")
    assert columns.classes == ["is_dry", "is_wet"]
    assert [r.label for r in columns.records()][:2] == [(1, 0), (1, 1)]
    entry = table_entry(tmp_path, labels={"column": "tags", "separator": ";"})
    separated = open_source({**entry, "task": "multilabel"}, where="x")
    assert separated.classes == ["dry", "wet"]
    assert [r.label for r in separated.records()] == [r.label for r in columns.records()]


def test_masks_of_a_table(tmp_path):
    rng = np.random.default_rng(0)
    masks = [rng.integers(0, 2, (24, 32)).astype(np.uint8) for _ in range(9)]
    masks[0][0, 0] = 255
    files = {f"i/{i}.png": encode(photo(i)) for i in range(9)}
    files |= {f"m/{i}.png": encode(masks[i]) for i in range(9)}
    write_folder(tmp_path / "set", files)
    data = [{"n": str(i), "part": ["train", "val", "test"][i % 3]} for i in range(9)]
    source = {
        "kind": "table",
        "table": str(write_table(tmp_path / "index.csv", data)),
        "images": str(tmp_path / "set"),
        "path": "i/<n>.png",
        "masks": "m/<n>.png",
        "split": "part",
    }
    entry = {
        **RGB_ENTRY,
        "task": "segmentation",
        "classes": ["land", "sea"],
        "ignore_index": 255,
        "source": source,
    }
    out = Prepared(tmp_path / "out")
    card = out.run(entry)
    np.testing.assert_array_equal(out.store("train").read("masks")[0], masks[0])
    expected = np.bincount(np.concatenate([masks[i].ravel() for i in (0, 3, 6)]), minlength=2)[:2]
    assert card["splits"]["train"]["class_counts"] == expected.tolist()
    with pytest.raises(
        PermafrostError, match="its mask m/0.png holds the values 255: no class id below 2"
    ):
        out.run({**entry, "ignore_index": None})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": "sort"}, "no column 'sort', (known|did you mean)"),
        ({"label": "kind", "path": "<kind>/<when>"}, "12 of 12 files listed in .* are not in"),
        ({}, "needs label in source"),
        ({"label": "kind", "lon": "kind", "lat": "y"}, "row 2 has 'field' in kind"),
    ],
)
def test_a_wrong_table_entry_says_where(tmp_path, change, message):
    with pytest.raises(PermafrostError, match=message):
        open_source(table_entry(tmp_path, **change), where="dataset set")


def test_bands_and_units_are_required(tmp_path):
    entry = table_entry(tmp_path, label="kind")
    with pytest.raises(PermafrostError, match="has no bands"):
        open_source({k: v for k, v in entry.items() if k != "bands"}, where="x")
    with pytest.raises(PermafrostError, match="band red has no unit"):
        open_source({k: v for k, v in entry.items() if k != "units"}, where="x")


def test_a_band_may_have_a_unit_of_its_own(tmp_path):
    bands = ["red", "green", {"name": "VV", "sensor": "sentinel1", "unit": "db"}]
    source = open_source({**table_entry(tmp_path, label="kind"), "bands": bands}, where="x")
    assert [b.unit for b in source.bands] == ["uint8", "uint8", "db"]
    assert [b.sensor for b in source.bands] == ["rgb", "rgb", "sentinel1"]


def test_an_unknown_kind_lists_the_known_ones():
    with pytest.raises(PermafrostError, match="folder.*table|did you mean 'folder'"):
        open_source({**RGB_ENTRY, "source": {"kind": "folders"}}, where="x")


@pytest.mark.parametrize(("sign", "word"), [(";", "semicolons"), ("\t", "tabs"), ("|", "bars")])
def test_a_table_whose_columns_no_commas_separate_says_so(tmp_path, sign, word):
    path = tmp_path / "t.csv"
    # with the mark that spreadsheets write first
    path.write_text(f"file{sign}label\na.png{sign}b\n", encoding="utf-8-sig")
    with pytest.raises(PermafrostError, match=f"are separated by {word}, not by commas") as caught:
        Table(path, where="set")
    assert "commas" in caught.value.remedy and "ufeff" not in str(caught.value)
    path.write_text("file,label\na.png,b;c\n", encoding="utf-8-sig")
    assert Table(path, where="set").text("label") == ["b;c"]


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        (["field", "field ", "town"], "'field' and 'field ', which differ only in spaces"),
        (["Town", "field", "town"], "'Town' and 'town', which differ only in spaces or capitals"),
        (["field", "nan", "town"], "the class 'nan', which programs write for a missing label"),
    ],
)
def test_classes_that_a_slip_made_are_refused_unless_they_are_listed(tmp_path, kinds, message):
    rows = [{"file": f"{n}.png", "kind": kind} for n, kind in enumerate(kinds)]
    images = write_folder(tmp_path / "i", {row["file"]: encode(photo(1)) for row in rows})
    source = {"kind": "table", "table": str(write_table(tmp_path / "a.csv", rows))}
    source |= {"images": str(images), "path": "file", "label": "kind"}
    with pytest.raises(PermafrostError, match=message):
        open_source({**RGB_ENTRY, "source": source}, where="set")
    found = open_source({**RGB_ENTRY, "source": source, "classes": kinds}, where="set")
    assert found.classes == kinds
