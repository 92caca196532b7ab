"""Pairs, series and several sensors in folders and tables of one's own."""

import numpy as np
import pytest
from helpers.datasets.images import (
    MASK_ENTRY,
    RANDOM,
    RGB_ENTRY,
    Prepared,
    chw,
    dataset_entry,
    encode,
    geotiff,
    mask,
    open_source,
    photo,
    write_folder,
    write_table,
    write_zip,
)
from permafrost.core.errors import PermafrostError
from permafrost.data.class_files import check_files
from permafrost.data.entry_checks import entry_mistakes
from permafrost.data.files.decode import UnreadableImage
from permafrost.data.sources.sample_images import iso_date
from permafrost.data.store.image_store import ImageStore

CHANGE = {
    **RGB_ENTRY,
    "task": "change",
    "dates": "pair",
    "classes": ["same", "changed"],
    "mask_values": {0: "same", 255: "changed"},
    "splits": RANDOM,
}
SERIES = {**RGB_ENTRY, "dates": "series", "splits": RANDOM}


def change_files(count: int = 8) -> dict[str, bytes]:
    """Photos before (0, 1, …) and after (100, 101, …), and masks of 0 and 255."""
    files = {}
    for i in range(count):
        files[f"A/{i:02d}.png"] = encode(photo(i))
        files[f"B/{i:02d}.png"] = encode(photo(100 + i))
        files[f"label/{i:02d}.png"] = encode(mask(i, values=(0, 255)))
    return files


def change_entry(path, **source) -> dict:
    return {**CHANGE, "source": {"kind": "folder", "path": str(path), **source}}


@pytest.mark.parametrize("pack", [write_folder, write_zip])
def test_change_pairs_of_folders_are_stored_before_then_after(tmp_path, pack):
    out = Prepared(tmp_path / "out")
    card = out.run(change_entry(pack(tmp_path / "set.zip", change_files())))
    assert card["dates"] == "pair"
    seen = []
    for split in ("train", "val", "test"):
        store = ImageStore(out.outputs[split])
        chunk = store.read()
        names = store.samples["sample_id"].to_pylist()
        for name, images, truth in zip(names, chunk.images, chunk.masks, strict=True):
            number = int(name[2:4])
            np.testing.assert_array_equal(images, [chw(number), chw(100 + number)])
            np.testing.assert_array_equal(truth, mask(number, values=(0, 255)) == 255)
            seen.append(name)
    assert sorted(seen) == [f"A/{i:02d}.png" for i in range(8)]


def test_pairs_by_patterns_of_names(tmp_path):
    files = {
        f"{split}/{part}/tile{i}_{part}.png": encode(photo(1 + i + 50 * (part == "post")))
        for split in ("train", "val", "test")
        for i in range(2)
        for part in ("pre", "post")
    } | {
        f"{split}/gt/tile{i}.png": encode(mask(i, values=(0, 255)))
        for split in ("train", "val", "test")
        for i in range(2)
    }
    images = ["<split>/pre/<stem>_pre.png", "<split>/post/<stem>_post.png"]
    entry = change_entry(
        write_folder(tmp_path / "set", files), images=images, masks="<split>/gt/<stem>.png"
    )
    source = open_source({**entry, "splits": {"method": "given"}})
    assert [(r.sample_id, r.split) for r in source.records()][:2] == [
        ("test/pre/tile0_pre.png", "test"),
        ("test/pre/tile1_pre.png", "test"),
    ]
    np.testing.assert_array_equal(source.decode(1).image, [chw(2), chw(52)])


def test_an_image_without_its_counterpart_is_named(tmp_path):
    files = change_files()
    del files["B/03.png"]
    with pytest.raises(
        PermafrostError, match=r"1 images \(A\) without their counterpart \(B\): A/03"
    ):
        open_source(change_entry(write_folder(tmp_path / "set", files)))


def test_a_damaged_image_of_a_pair_and_one_of_another_size_are_named(tmp_path):
    files = change_files()
    files["B/03.png"] = b"no image"
    files["B/04.png"] = encode(photo(4, size=(12, 16)))
    source = open_source(change_entry(write_folder(tmp_path / "set", files)))
    with pytest.raises(UnreadableImage, match=r"its image B/03.png: neither"):
        source.decode(3)
    with pytest.raises(
        UnreadableImage, match=r"A/04.png 3 x 24 x 32 uint8 and B/04.png 3 x 12 x 16"
    ):
        source.decode(4)


def series_files(classes=("corn", "rape"), fields: int = 6) -> dict[str, bytes]:
    """``corn/f0/20190501.png`` …: two to four dates, whose photo is 10 field + date of the year before last."""
    return {
        f"{name}/f{field}/2019{month:02d}15.png": encode(photo(1000 * c + 10 * field + month))
        for c, name in enumerate(classes)
        for field in range(fields)
        for month in range(9, 9 - 2 - field % 3, -1)
    }


def series_entry(path, **source) -> dict:
    places = {"images": "<class>/<field>/<date>.png", **source}
    return {**SERIES, "source": {"kind": "folder", "path": str(path), **places}}


def test_a_folder_of_dates_is_one_sample_with_its_dates_in_order(tmp_path):
    out = Prepared(tmp_path / "out")
    card = out.run(series_entry(write_folder(tmp_path / "set", series_files())))
    assert card["dates"] == "series" and card["classes"] == ["corn", "rape"]
    count = 0
    for split in ("train", "val", "test"):
        store = ImageStore(out.outputs[split])
        images = store.read().images
        for row, pixels in zip(store.samples.to_pylist(), images, strict=True):
            name, field = row["sample_id"].split("/")
            months = range(8 - int(field[1]) % 3, 10)
            assert row["dates"] == [f"2019-{month:02d}-15" for month in months]
            base = 1000 * (name == "rape") + 10 * int(field[1])
            for place, month in enumerate(months):
                np.testing.assert_array_equal(pixels[place], chw(base + month))
            count += 1
    assert count == 12


def test_series_with_masks_beside_the_dates_and_dates_without_an_ending(tmp_path):
    files = {}
    for field in range(3):
        files |= {f"f{field}/t_{n}.png": encode(photo(10 * field + n)) for n in (2, 10, 1)}
        files[f"f{field}/mask.png"] = encode(mask(field))
    entry = {
        **MASK_ENTRY,
        "dates": "series",
        "splits": RANDOM,
        "source": {
            "kind": "folder",
            "path": str(write_folder(tmp_path / "set", files)),
            "images": "<field>/t_<date>",
            "masks": "<field>/mask.png",
        },
    }
    source = open_source(entry)
    assert [r.sample_id for r in source.records()] == ["f0", "f1", "f2"]
    decoded = source.decode(1)
    # numbers order the images and are no dates
    np.testing.assert_array_equal(decoded.image, [chw(11), chw(12), chw(20)])
    assert decoded.dates == ()
    np.testing.assert_array_equal(decoded.mask, mask(1))


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("20190503", "2019-05-03"),
        ("2019-05-03", "2019-05-03"),
        ("2019_05_03T103021", "2019-05-03T10:30:21"),
        ("2019-05-03 00:00:00", "2019-05-03"),
        ("2019-05-03T10:30:21.500Z", "2019-05-03T10:30:21"),
        ("2019-05", "2019-05"),
        ("2019", "2019"),
        ("20190231", None),
        ("190503", None),
        ("first", None),
    ],
)
def test_dates_in_names(text, date):
    assert iso_date(text) == date


def test_names_that_are_no_dates_and_two_images_of_one_date_are_refused(tmp_path):
    files = series_files()
    files["corn/f0/autumn.png"] = encode(photo(7))
    with pytest.raises(PermafrostError, match="<date> 'autumn' is not a date such as 2019-05-03"):
        open_source(series_entry(write_folder(tmp_path / "a", files)))
    files = series_files()
    files["corn/f0/2019-09-15.png"] = encode(photo(7))
    with pytest.raises(PermafrostError, match="corn/f0 has 2 images of 2019-09-15"):
        open_source(series_entry(write_folder(tmp_path / "b", files)))


def test_a_pair_has_two_dates(tmp_path):
    path = write_folder(tmp_path / "set", series_files())
    with pytest.raises(
        PermafrostError, match="8 of 12 samples do not have two images.*corn/f1 has 3"
    ):
        open_source({**series_entry(path), "dates": "pair"})


def rows_of_series() -> list[dict]:
    """A row per image, from late to early."""
    return [
        {
            "file": f"img{field}_{month}.tif",
            "field": f"field {field}",
            "when": f"2019-{month:02d}-15",
            "crop": ("corn", "rape")[field % 2],
            "part": ("train", "val", "test")[field // 2],
            "lon": str(10 + field),
            "lat": "50",
        }
        for month in (9, 8, 5)
        for field in range(6)
    ]


def table_entry(folder, rows, **source) -> dict:
    files = {}
    for number, row in enumerate(rows):
        for key in ("file", "before", "after"):
            if key in row:
                files[row[key]] = geotiff(chw(number + 500 * (key == "after")))
    return {
        **SERIES,
        "source": {
            "kind": "table",
            "table": str(write_table(folder / "table.csv", rows)),
            "images": str(write_folder(folder / "images", files)),
            "path": "file",
            "label": "crop",
            "sample": "field",
            "date": "when",
            "lon": "lon",
            "lat": "lat",
            **source,
        },
    }


def test_rows_of_one_sample_are_its_dates(tmp_path):
    rows = rows_of_series()
    entry = table_entry(tmp_path, rows, split="part") | {"splits": {"method": "given"}}
    check_files(dataset_entry(entry), where="set")
    source = open_source(entry)
    assert len(source.records()) == 6
    record = source.records()[1]
    assert (record.sample_id, record.split, record.lon, record.date) == (
        "field 1",
        "train",
        11,
        None,
    )
    decoded = source.decode(1)
    assert decoded.dates == (("2019-05-15", "2019-08-15", "2019-09-15"),)
    np.testing.assert_array_equal(decoded.image, [chw(13), chw(7), chw(1)])


@pytest.mark.parametrize(("key", "column"), [("split", "part"), ("label", "crop"), ("lat", "lat")])
def test_rows_of_one_sample_that_do_not_agree_are_refused(tmp_path, key, column):
    rows = rows_of_series()
    rows[1][column] = {"part": "test", "crop": "corn", "lat": "51"}[column]
    entry = table_entry(tmp_path, rows, split="part") | {"splits": {"method": "given"}}
    with pytest.raises(
        PermafrostError, match=f"rows of the sample field 1 are inconsistent: its {key}"
    ):
        open_source(entry)


def test_columns_of_before_and_after_are_pairs(tmp_path):
    rows = [
        {
            "before": f"{i}_a.tif",
            "after": f"{i}_b.tif",
            "from": "20180101",
            "to": "20190101",
            "truth": f"{i}_m.png",
        }
        for i in range(4)
    ]
    options = dict.fromkeys(("label", "sample", "lon", "lat"))
    entry = table_entry(
        tmp_path, rows, path=["before", "after"], date=["from", "to"], masks="truth"
    )
    entry["source"] = {k: v for k, v in entry["source"].items() if k not in options}
    write_folder(
        tmp_path / "images", {f"{i}_m.png": encode(mask(i, values=(0, 1))) for i in range(4)}
    )
    entry |= {"task": "change", "dates": "pair", "classes": ["same", "changed"]}
    decoded = open_source(entry).decode(2)
    assert decoded.dates == (("2018-01-01", "2019-01-01"),)
    np.testing.assert_array_equal(decoded.image, [chw(2), chw(502)])
    np.testing.assert_array_equal(decoded.mask, mask(2, values=(0, 1)))


def test_dates_of_one_place_stay_in_one_split(tmp_path):
    rows = rows_of_series()
    for row in rows:
        # a sample of each month of a field: two samples of each place
        early = row["when"] < "2019-08"
        row |= {"field": f"{row['field']} {early}"}
    out = Prepared(tmp_path / "out")
    out.run(table_entry(tmp_path, rows) | {"allow_missing_classes": True})
    homes = [
        set(ImageStore(out.outputs[split]).samples["lon"].to_pylist())
        for split in ("train", "val", "test")
    ]
    assert sum(map(len, homes)) == 6 == len(set().union(*homes))


@pytest.mark.parametrize(
    ("changes", "source", "message"),
    [
        ({"dates": "one"}, {}, "gives several dates of a sample, and the entry has dates: one"),
        ({}, {"images": "<class>/<stem>.png"}, "source does not define the images of the series"),
        ({}, {"images": "<field>/<date>.png"}, "do not contain <class>, the name of the class"),
        ({"dates": "pair"}, {"images": ["<class>/a", "<class>/b", "<class>/c"]}, "a pair has two"),
        ({}, {"images": {"s1": "<class>/a", "s2": "<class>/b"}}, "the entry has none"),
        ({}, {"split_folders": True}, "split_folders is for folders of classes"),
    ],
)
def test_entries_of_folders_that_contradict_themselves(changes, source, message):
    entry = dataset_entry({**series_entry("x", **source), **changes})
    assert message in "\n".join(map(str, entry_mistakes(entry, where="set")))


@pytest.mark.parametrize(
    ("changes", "source", "message"),
    [
        ({}, {"date": None}, "the order of the rows of a sample is undefined"),
        ({}, {"sample": None}, "source does not define the images of the series"),
        ({}, {"path": ["a", "b"]}, "sample and several paths in a row exclude each other"),
        ({"dates": "one"}, {}, "method random put images of one sample on both sides"),
    ],
)
def test_entries_of_tables_that_contradict_themselves(tmp_path, changes, source, message):
    entry = table_entry(tmp_path, rows_of_series(), **source)
    entry["source"] = {key: value for key, value in entry["source"].items() if value is not None}
    entry = dataset_entry({**entry, **changes})
    assert message in "\n".join(map(str, entry_mistakes(entry, where="set")))


def test_several_sensors_of_a_sample_and_their_dates(tmp_path):
    files = {}
    for i in range(4):
        files[f"s2/{i}_2019-05-01.tif"] = geotiff(chw(i))
        files[f"s2/{i}_2019-06-01.tif"] = geotiff(chw(10 + i))
        files[f"dem/{i}.tif"] = geotiff(np.full((1, 6, 8), i, np.float32))
        files[f"masks/{i}.png"] = encode(mask(i))
    entry = {
        **{key: value for key, value in MASK_ENTRY.items() if key not in ("bands", "sensor")},
        "modalities": {
            "s2": {"sensor": "rgb", "bands": ["red", "green", "blue"]},
            "dem": {"bands": [{"name": "height", "unit": "metre"}]},
        },
        "dates": "series",
        "splits": RANDOM,
        "source": {
            "kind": "folder",
            "path": str(write_folder(tmp_path / "set", files)),
            "images": {"s2": "s2/<stem>_<date>.tif", "dem": "dem/<stem>.tif"},
            "masks": "masks",
        },
    }
    decoded = open_source(entry).decode(2)
    np.testing.assert_array_equal(decoded.image, [chw(2), chw(12)])
    np.testing.assert_array_equal(decoded.further[0], np.full((1, 6, 8), 2, np.float32))
    assert decoded.dates == (("2019-05-01", "2019-06-01"), None)
    Prepared(tmp_path / "out").run(entry)


@pytest.mark.parametrize("kind", ["folder", "table"])
def test_each_sensor_gets_its_own_files_whatever_the_order_of_keys(tmp_path, kind):
    files, rows = {}, []
    for i in range(12):
        files |= {f"up {i}.TIF": geotiff(chw(i)), f"down/{i}.tif": geotiff(chw(100 + i))}
        rows.append({"b": f"up {i}.TIF", "a": f"down/{i}.tif", "height": i})
    one = {"sensor": "rgb", "bands": ["red", "green", "blue"], "units": {"unit": "uint8"}}
    place = str(write_zip(tmp_path / "set.zip", files))
    source = {
        "kind": "folder",
        "path": place,
        "images": {"down": "down/<stem>.tif", "up": "up <stem>.TIF"},
    }
    if kind == "table":
        source = {
            "kind": "table",
            "table": str(write_table(tmp_path / "table.csv", rows)),
            "images": place,
            "path": {"down": "a", "up": "b"},
        }
    entry = {"modalities": {"up": one, "down": one}, "splits": RANDOM, "source": source}
    if kind == "table":
        entry |= {"task": "regression"}
        source["target"] = "height"
    else:
        files |= {f"masks/{i}.png": encode(mask(i)) for i in range(12)}
        write_zip(tmp_path / "set.zip", files)
        entry = {key: MASK_ENTRY[key] for key in MASK_ENTRY if key not in one} | entry
        entry["source"]["masks"] = "masks"
    out = Prepared(tmp_path / "out")
    # a job's entry has its keys in the order of the alphabet
    out.run(entry, modalities=["up", "down"])
    seen = 0
    for path in out.outputs.values():
        store = ImageStore(path)
        arrays = {one.name: store.store.read(one.array) for one in store.modalities}
        for row, name in enumerate(store.samples["sample_id"].to_pylist()):
            number = int("".join(letter for letter in name if letter.isdigit()))
            np.testing.assert_array_equal(arrays["up"][row], chw(number))
            np.testing.assert_array_equal(arrays["down"][row], chw(100 + number))
            seen += 1
    assert seen == 12


def test_the_class_of_a_series_is_that_of_its_folder(tmp_path):
    source = open_source(series_entry(write_folder(tmp_path / "set", series_files())))
    assert {r.sample_id.split("/")[0]: r.label for r in source.records()} == {"corn": 0, "rape": 1}
    assert source.classes == ["corn", "rape"]


@pytest.mark.parametrize(
    ("pattern", "names", "dates"),
    [
        ("<stem>_<date>.png", "f{}_2019_0{}_03.png", "2019-0{}-03"),
        ("<stem>_<date>.png", "f_{}_2019_0{}.png", "2019-0{}"),
        ("<stem>-<date>.png", "f{}-2019-0{}-03.png", "2019-0{}-03"),
        ("<stem>_<date>", "f{}_20190{}03_103021.png", "2019-0{}-03T10:30:21"),
        ("<stem><date>.png", "f{}-20190{}03.png", "2019-0{}-03"),
        ("<stem>_<date>.png", "2019_f{}_20190{}03.png", "2019-0{}-03"),
    ],
)
def test_all_of_a_date_is_the_date_and_no_part_of_the_name_before_it(
    tmp_path, pattern, names, dates
):
    files = {
        f"{'ab'[field % 2]}/{names.format(field, month)}": encode(photo(10 * field + month))
        for field in range(2)
        for month in (4, 5, 6)
    }
    folder = write_folder(tmp_path / "set", files)
    source = open_source(series_entry(folder, images=f"<class>/{pattern}"))
    assert len(source.records()) == 2
    decoded = source.decode(1)
    assert decoded.dates == (tuple(dates.format(month) for month in (4, 5, 6)),)
    np.testing.assert_array_equal(decoded.image, [chw(14), chw(15), chw(16)])


def test_numbers_after_a_year_that_the_pattern_writes_out(tmp_path):
    files = {f"a/{f}/2019_{n:02d}.png": encode(photo(n)) for f in "xy" for n in (1, 2)}
    entry = series_entry(
        write_folder(tmp_path / "set", files), images="<class>/<field>/2019_<date>.png"
    )
    assert [r.sample_id for r in open_source(entry).records()] == ["a/x", "a/y"]


def test_two_images_of_one_number_are_refused(tmp_path):
    files = {f"a/x/{n}.png": encode(photo(1)) for n in ("1", "01", "2")}
    folder = write_folder(tmp_path / "set", files)
    with pytest.raises(PermafrostError, match="a/x has 2 images of 1"):
        open_source(series_entry(folder))
    rows = [
        {"file": f"a/x/{n}.png", "field": "x", "when": moment, "label": "a"}
        for n, moment in (("1", 1), ("01", 1), ("2", 2))
    ]
    source = {"kind": "table", "images": str(folder), "path": "file", "label": "label"}
    source |= {
        "sample": "field",
        "date": "when",
        "table": str(write_table(tmp_path / "t.csv", rows)),
    }
    with pytest.raises(PermafrostError, match="x has 2 images of 1"):
        open_source({**SERIES, "source": source})
