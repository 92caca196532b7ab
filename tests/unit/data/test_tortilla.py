"""Kind ``tortilla``: the images, labels and objects that an entry takes from a file, and what is refused."""

import io
from pathlib import Path

import numpy as np
import pytest
from helpers.datasets.images import dataset_entry, geotiff, validated
from helpers.datasets.tortilla import (
    DAY,
    box_table,
    days,
    entry,
    hdf5,
    image,
    item,
    items_of,
    labels,
    mask,
    one,
    opened,
    pixels,
    refused,
    sample,
    tortilla,
    two_samples,
    written,
)
from permafrost.core.errors import PermafrostError
from permafrost.data.digest import source_digest
from permafrost.data.entry_checks import entry_mistakes
from permafrost.data.files.decode import UnreadableImage
from permafrost.data.files.tortilla import by_sensor, dates_of, parts_of
from permafrost.data.files.tortilla_parts import read_sensor
from permafrost.metrics.objects.masks import masks_of_objects

# parts and dates


def test_images_of_several_dates_have_one_sensor(tmp_path):
    parts = [*days([DAY, 2 * DAY, 2 * DAY]), labels("mask", 0, (0, 1), modality="label")]
    (found,) = items_of(tmp_path, tortilla([sample("s", parts)]))
    sensors = by_sensor(parts_of(found))
    assert list(sensors) == ["s2", "label"]
    assert dates_of(sensors["s2"]) == ["1970-01-02", "1970-01-03", "1970-01-03"]
    series = read_sensor(sensors["s2"])
    assert series.values.shape == (3, 2, 24, 24) and series.dates[0] == "1970-01-02"
    assert (series.values[2] == pixels(2, 2)).all()
    assert series.place.lon == pytest.approx(10)


def test_an_array_holds_all_dates_and_names_them(tmp_path):
    array = np.stack([pixels(n, 2, "float16") for n in range(3)])
    part = item("s2", hdf5(array), "HDF5", dates=[20180101, 20180202, 20180303])
    (found,) = items_of(tmp_path, tortilla([sample("s", [part])]))
    parts = by_sensor(parts_of(found))["s2"]
    whole = read_sensor(parts)
    assert whole.values.dtype == np.float32 and (whole.values == array).all()
    assert whole.dates == ("2018-01-01", "2018-02-02", "2018-03-03")
    assert read_sensor(parts, "2018-02-02").values.tolist() == [array[1].tolist()]


@pytest.mark.parametrize(
    ("date", "position"),
    [("last", 2), ("first", 0), (1, 1), (-3, 0), ("1970-01-03", 1), ("July", None)],
)
def test_the_entry_says_which_date_is_the_image(tmp_path, date, position):
    parts, source = days([DAY, 2 * DAY, 3 * DAY]), {"date": date}
    if position is None:
        assert "has no image of July, only of 1970-01-02" in refused(tmp_path, parts, source=source)
    else:
        found = one(tmp_path, parts, source=source).decode(0)
        assert (found.image == pixels(position, 2)).all()


def test_a_number_beyond_the_dates_is_an_error(tmp_path):
    assert "has 2 dates" in refused(tmp_path, days([DAY, 2 * DAY]), source={"date": 2})


def test_months_are_dates_that_need_no_order(tmp_path):
    parts = [image(m, n, 2, modality="s2", month=m) for n, m in enumerate(("September", "July"))]
    found = one(tmp_path, parts, source={"date": "September"}).decode(0)
    assert (found.image == pixels(0, 2)).all()


def test_samples_without_the_date_or_the_part_are_left_out_on_request(tmp_path):
    samples = [
        sample("both", days([DAY, 2 * DAY]), kind="oak"),
        sample("early", days([DAY]), kind="oak"),
        sample("none", [image("s1", 0, 2)], kind="oak"),
    ]
    path = written(tmp_path, tortilla(samples))
    source = opened(path, source={"date": "1970-01-03", "missing": "leave_out"})
    assert [record.sample_id for record in source.records()] == ["both"]
    assert source.choice["left_out"] == 2
    kept = opened(path, source={"date": "1970-01-03"})
    for position in (1, 2):
        with pytest.raises(UnreadableImage) as error:
            kept.decode(position)
        assert "leave_out" in error.value.remedy


def test_dates_out_of_order_are_refused(tmp_path):
    assert "out of order: 1970-01-02" in refused(tmp_path / "a", days([2 * DAY, DAY]))
    part = item("s2", hdf5(np.zeros((2, 2, 8, 8))), "HDF5", dates=[20180202, 20180101])
    assert "out of order: 2018-01-01" in refused(tmp_path / "b", [part])


def test_as_many_dates_as_images(tmp_path):
    part = item("s2", hdf5(np.zeros((3, 2, 8, 8))), "HDF5", dates=[20180101, 20180202])
    assert "3 images, but 2 dates" in refused(tmp_path, [part])


def test_images_of_all_dates_have_one_shape(tmp_path):
    parts = days([DAY, 2 * DAY])
    parts[1]["data"] = geotiff(pixels(1, 2)[:, :8])
    (found,) = items_of(tmp_path, tortilla([sample("s", parts)]))
    with pytest.raises(UnreadableImage, match="differ from date to date"):
        read_sensor(by_sensor(parts_of(found))["s2"])


def test_two_parts_of_one_name_are_refused(tmp_path):
    assert "two parts named s2" in refused(tmp_path, [image("s2", 0, 2), image("s2", 1, 2)])


def test_parts_of_one_grid_are_stacked_in_the_order_that_the_entry_says(tmp_path):
    parts = [image("s1", 5, 1, "float32"), image("s2", 0, 1)]
    found = one(tmp_path / "a", parts, source={"image": ["s2", "s1"]}).decode(0).image
    assert (
        found == np.concatenate([pixels(0, 1), pixels(5, 1)])
    ).all() and found.dtype == np.float32
    parts[0]["data"] = geotiff(pixels(5, 1)[:, :12])
    why = refused(tmp_path / "b", parts, source={"image": ["s2", "s1"]})
    assert "do not lie on one grid: s2 24 x 24, s1 24 x 12" in why


def test_parts_without_known_names_are_meant_by_position(tmp_path):
    parts = [image("who knows", 0, 2), labels("what", 0, (0, 1))]
    found = one(tmp_path, parts, "segmentation", source={"image": 0, "mask": 1}).decode(0)
    assert (found.image == pixels(0, 2)).all() and (found.mask == mask(0, (0, 1))).all()


def test_further_channels_are_an_error_or_left_out(tmp_path):
    parts = [image("s2", 0, 4)]
    assert "has 4 bands, the entry declares 2" in refused(tmp_path / "a", parts)
    kept = one(tmp_path / "b", parts, source={"further_channels": "leave_out"}).decode(0).image
    assert (kept == pixels(0, 4)[:2]).all()
    few = {"further_channels": "leave_out"}
    assert "has 1 bands" in refused(tmp_path / "c", [image("s2", 0, 1)], source=few)


def test_an_absent_part_is_named_with_those_that_are_there(tmp_path):
    assert "no part 's2', only s1" in refused(tmp_path, [image("s1", 0, 2)])


def test_a_header_of_another_grid_says_nothing_of_the_place(tmp_path):
    from rasterio.transform import from_origin

    true, wrong = (from_origin(5e5, 5e6, size, size) for size in (10, 60))
    for folder, transform, known in (("a", true, True), ("b", wrong, False)):
        data = geotiff(pixels(0, 2), crs="EPSG:32632", transform=transform)
        source = one(tmp_path / folder, [item("s2", data)], gsd_m=10)
        place = source.decode(0).place
        assert (place.transform is not None) == known == (source.locate(0)[0] is not None)
    free = one(tmp_path / "c", [item("s2", data)])
    assert free.decode(0).place.transform is not None


def test_nodata_that_a_header_marks_must_be_declared(tmp_path):
    parts = [item("s2", geotiff(np.full((2, 8, 8), 7, "uint16"), nodata=7))]
    assert "marks 7 as nodata and holds it" in refused(tmp_path / "a", parts)
    kept = one(tmp_path / "b", parts, nodata="keep").decode(0)
    assert (kept.image == 7).all()


# labels


def test_classes_are_names_or_numbers(tmp_path):
    parts = [image("s2", 0, 2)]
    for number, kind in enumerate(("pine", 1)):
        data = tortilla([sample("s", parts, kind=kind)])
        assert opened(written(tmp_path / str(number), data)).records()[0].label == 1
    for number, kind in enumerate(("elm", 2, -1, None)):
        path = written(tmp_path / f"wrong{number}", tortilla([sample("s", parts, kind=kind)]))
        with pytest.raises(PermafrostError):
            opened(path)


def test_an_absent_column_is_named_with_those_that_are_there(tmp_path):
    with pytest.raises(PermafrostError, match=r"no column 'species', only kind"):
        one(tmp_path, [image("s2", 0, 2)], source={"label": "species"})


def test_several_labels_stand_in_lists(tmp_path):
    lists = [["pine"], ["oak", "pine"], []]
    samples = [sample(f"s{n}", [image("s2", n, 2)], names=each) for n, each in enumerate(lists)]
    path = written(tmp_path, tortilla(samples))
    source = opened(path, "multilabel", source={"labels": "names"})
    assert [record.label for record in source.records()] == [(0, 1), (1, 1), (0, 0)]


def test_records_have_splits_places_dates_and_groups(tmp_path):
    splits = [("train", "train"), ("validation", "val"), ("test", "test")]
    columns = [
        {"lon": 1.0, "lat": 2.0, "stac:centroid": "POINT (8 9)", "stac:time_start": DAY, "area": 7},
        {"lon": None, "lat": None, "stac:centroid": "POINT (8 9)", "stac:time_start": 2011.0},
        {"lon": float("nan"), "lat": 3.0, "stac:time_start": 0.0, "area": 8},
    ]
    samples = [
        sample(f"s{n}", [image("s2", n, 2)], split, kind="oak", **own)
        for n, ((split, _), own) in enumerate(zip(splits, columns, strict=True))
    ]
    records = opened(written(tmp_path, tortilla(samples)), source={"group": "area"}).records()
    assert [record.split for record in records] == [ours for _, ours in splits]
    assert [(record.lon, record.lat) for record in records] == [
        (1.0, 2.0),
        (None, None),
        (None, None),
    ]
    assert [record.date for record in records] == ["1970-01-02", "2011", None]
    assert records[0].group_id == "7" and records[1].group_id is None


@pytest.mark.parametrize(
    ("centre", "place"),
    [("POINT (8.5 -9)", (8.5, -9.0)), ("POINT (256.0 256.0)", (None, None)), (None, (None, None))],
)
def test_without_columns_of_the_place_the_centre_counts(tmp_path, centre, place):
    record = one(tmp_path, [image("s2", 0, 2)], columns={"stac:centroid": centre}).records()[0]
    assert (record.lon, record.lat) == place


def test_masks_are_translated_and_may_have_negative_values(tmp_path):
    parts = [image("s2", 0, 2), labels("mask", 0, (-1, 0, 1, 14), "int16")]
    values = {"0": "oak", "1": "pine", "14": "pine", "-1": None}
    more = {"mask_values": values, "ignore_index": 255}
    found = one(tmp_path, parts, "segmentation", **more).decode(0).mask
    stored = mask(0, (-1, 0, 1, 14), "int16")
    assert (found == np.select([stored == -1, stored == 0], [255, 0], 1)).all()


def test_the_channel_of_a_mask_must_be_named(tmp_path):
    planes = hdf5(np.stack([mask(n, (0, 1)) for n in range(3)]))
    parts = [image("s2", 0, 2), item("mask", planes, "HDF5")]
    assert "3 channels" in refused(tmp_path / "a", parts, "segmentation")
    found = one(tmp_path / "b", parts, "segmentation", source={"label_channel": 1}).decode(0)
    assert (found.mask == mask(1, (0, 1))).all()
    assert "3 channels" in refused(
        tmp_path / "c", parts, "segmentation", source={"label_channel": 3}
    )


def test_numbers_per_pixel_have_no_data(tmp_path):
    raster = pixels(3, 1, "float32")
    raster[0, 0, 0] = -1
    parts = [image("s2", 0, 2), item("AGBM", geotiff(raster))]
    numbers = {"classes": None, "target": {"nodata": -1}}
    found = one(tmp_path, parts, "pixel_regression", source={"target": "AGBM"}, **numbers)
    target = found.decode(0).target
    assert np.isnan(target[0, 0]) and (target[1:] == raster[0, 1:]).all()


def detection(folder: Path, annotations: dict, source=None, **more):
    parts = [image("s2", 0, 2), annotations]
    return one(folder, parts, "detection", source={"boxes": "boxes", **(source or {})}, **more)


def test_boxes_of_a_table_may_have_no_label(tmp_path):
    table = item("boxes", box_table([(1, 2, 5, 8), (3, 3, 9, 9)], ["pine", None]), "GeoParquet")
    with pytest.raises(PermafrostError, match="label None, which no class has"):
        detection(tmp_path / "a", table)
    found = detection(tmp_path / "b", table, {"empty_label": "oak"}).records()[0]
    assert found.objects.boxes.tolist() == [[1, 2, 5, 8], [3, 3, 9, 9]]
    assert found.objects.classes.tolist() == [1, 0] and found.image_size == (24, 24)


def table_part(**columns) -> dict:
    import pyarrow as pa
    import pyarrow.parquet as pq

    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream)
    return item("boxes", stream.getvalue(), "GeoParquet")


@pytest.mark.parametrize("label", ["label", "class_id", "category_id"])
def test_a_table_may_call_labels_otherwise_and_hold_corners_of_turned_boxes(tmp_path, label):
    # a square on its tip, and one that stands
    ring = [(5, 1), (9, 5), (5, 9), (1, 5)], [(2, 2), (6, 2), (6, 6), (2, 6)]
    corners = {
        f"{axis}{corner + 1}": [float(one[corner][number]) for one in ring]
        for corner in range(4)
        for number, axis in enumerate("xy")
    }
    table = table_part(path=["a.tif"] * 2, **{label: [1, 2]}, **corners)
    values = {"label_values": {"1": "pine", "2": "oak"}}
    found = detection(tmp_path, table, values).records()[0].objects
    assert found.boxes.tolist() == [[1, 1, 9, 9], [2, 2, 6, 6]]
    assert found.polygons[0] == [[5, 1, 9, 5, 5, 9, 1, 5]] and found.classes.tolist() == [1, 0]
    assert found.areas.tolist() == [32, 16]
    # M4-SAR also has the boxes around; a class is its number, and a table may be empty
    around = {"xmin": [1.0, 2.0], "ymin": [1.0, 2.0], "xmax": [9.0, 6.0], "ymax": [9.0, 6.0]}
    table = table_part(**{label: [1, 0]}, **corners, **around)
    (tmp_path / "numbers").mkdir()
    again = detection(tmp_path / "numbers", table).records()[0].objects
    assert again.areas.tolist() == [32, 16] and again.classes.tolist() == [1, 0]
    (tmp_path / "none").mkdir()
    assert not len(detection(tmp_path / "none", table_part(geometry=[])).records()[0].objects)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"kind": [1], "xmin": [1], "ymin": [1], "xmax": [2], "ymax": [2]}, "no column of labels"),
        ({"label": ["oak"], "x1": [1.0]}, "no column of boxes"),
    ],
)
def test_a_table_without_labels_or_boxes_is_said_in_a_sentence(tmp_path, columns, words):
    with pytest.raises(PermafrostError, match=words) as error:
        detection(tmp_path, table_part(**columns))
    assert f"only {', '.join(columns)}" in str(error.value)
    assert "Arrow" not in str(error.value) and "with boxes in source" in error.value.remedy


def test_boxes_of_json_are_corner_and_sides_and_keep_their_polygons(tmp_path):
    text = (
        '{"sample_annotations": [{"category_id": 1, "bbox": [2, 3, 5, 6], "mask": [[2, 3, 7, 3, 7, 9]]},'
        ' {"category_id": 2, "bbox": [0, 0, 1, 1], "bbox_mode": "xywh"}]}'
    )
    values = {"label_values": {"1": "pine", "2": None}}
    found = detection(tmp_path, item("boxes", hdf5(annotation=text), "HDF5"), values).records()[0]
    assert found.objects.boxes.tolist() == [[2, 3, 7, 9]] and found.objects.classes.tolist() == [1]
    assert found.objects.polygons == ([[2, 3, 7, 3, 7, 9]],)


def test_an_image_without_boxes_is_one_without_objects(tmp_path):
    empty = item("boxes", hdf5(annotation='{"boxes": []}'), "HDF5")
    assert len(detection(tmp_path, empty, {"label_values": {"1": "oak"}}).records()[0].objects) == 0


def test_boxes_that_do_not_fit_are_one_error_or_are_cut(tmp_path):
    boxes = [(-2, 0, 5, 5), (1, 1, 1, 4), (30, 30, 40, 40)]
    table = item("boxes", box_table(boxes, ["oak"] * 3), "GeoParquet")
    with pytest.raises(PermafrostError, match="3 entries") as error:
        detection(tmp_path / "a", table)
    assert "s: object 1" in str(error.value) and "clip_boxes" in error.value.remedy
    table = item("boxes", box_table(boxes[:1], ["oak"]), "GeoParquet")
    found = detection(tmp_path / "b", table, {"clip_boxes": True}).records()[0]
    assert found.objects.boxes.tolist() == [[0, 0, 5, 5]] and found.clipped == 1


@pytest.mark.parametrize(
    ("annotations", "why"),
    [
        (item("boxes", hdf5(annotation="[1"), "HDF5"), "JSONDecodeError"),
        (item("boxes", hdf5(annotation='{"a": 1}'), "HDF5"), "neither 'boxes' nor"),
        (item("boxes", hdf5(), "HDF5"), "no attribute 'annotation'"),
        (item("boxes", b"nothing", "HDF5"), "neither TIFF nor HDF5"),
        (item("boxes", b"nothing", "GeoParquet"), "its part boxes"),
        (
            item("boxes", hdf5(annotation='{"boxes": [{"category_id": 1, "bbox": [0, 0, 4, 4],'
                               ' "bbox_mode": "xyxy"}]}'), "HDF5"),
            "of the mode 'xyxy'",
        ),
        (item("other", hdf5(), "HDF5"), "no part 'boxes'"),
    ],
)  # fmt: skip
def test_annotations_that_cannot_be_read_are_one_error(tmp_path, annotations, why):
    with pytest.raises(PermafrostError, match="1 entry of the annotations") as error:
        detection(tmp_path, annotations)
    assert why in str(error.value)


def test_a_raster_of_numbers_gives_boxes_with_the_commonest_class_of_the_mask(tmp_path):
    numbers, classes = np.zeros((24, 24), np.int32), np.zeros((3, 24, 24), np.uint8)
    numbers[2:9, 3:7], classes[0, 2:8, 3:7], classes[0, 8, 3:7] = 5, 1, 2
    numbers[0, 0] = 9
    parts = [item("boxes", hdf5(numbers), "HDF5"), item("mask", hdf5(classes), "HDF5")]
    values = {"0": None, "1": "pine", "2": "oak"}
    source = {"boxes": "boxes", "mask": "mask", "label_channel": 0, "label_values": values}
    parts = [image("s2", 0, 2), *parts]
    found = one(tmp_path / "boxes", parts, "detection", source=source).records()[0]
    assert found.objects.boxes.tolist() == [[3, 2, 7, 9]] and found.objects.classes.tolist() == [1]
    assert found.objects.areas.tolist() == [28] and found.objects.masks == (None,)
    task = "instance_segmentation"
    found = one(tmp_path / "masks", parts, task, source=source).records()[0]
    drawn = masks_of_objects([found.objects], [(24, 24)])
    np.testing.assert_array_equal(drawn.dense(0), numbers == 5)


# files


def test_the_samples_may_be_spread_over_several_files(tmp_path):
    names = ["set.0000.part.tortilla", "set.0001.part.tortilla"]
    for name, one_sample in zip(names, two_samples(), strict=True):
        written(tmp_path, tortilla([one_sample]), name)
    source = opened(tmp_path, source={"files": names})
    assert [record.sample_id for record in source.records()] == ["s0", "s1"]
    assert (source.decode(1).image == pixels(1, 2)).all()
    with pytest.raises(PermafrostError, match=r"also holds set\.0001\.part\.tortilla"):
        opened(tmp_path, source={"files": names[:1]})
    (tmp_path / names[0]).unlink()
    with pytest.raises(PermafrostError, match=r"lacks set\.0000\.part\.tortilla"):
        opened(tmp_path, source={"files": names})


@pytest.mark.parametrize("source", [{}, {"files": ["a.tortilla"]}])
def test_a_path_that_is_not_there_is_an_error(tmp_path, source):
    with pytest.raises(PermafrostError, match="is not a f"):
        opened(tmp_path / "absent", source=source)


def test_only_the_files_that_are_read_are_part_of_the_identity(tmp_path):
    written(tmp_path, tortilla(two_samples()))
    of = entry(tmp_path, source={"files": ["set.tortilla"]})
    before = source_digest(validated(of))
    (tmp_path / "README.md").write_text("another set's")
    assert source_digest(validated(of)) == before
    written(tmp_path, tortilla(two_samples()[:1]))
    assert source_digest(validated(of)) != before


@pytest.mark.parametrize(
    ("task", "source", "why"),
    [
        ("classification", {"label": None}, "needs label in source"),
        ("classification", {"mask": "mask"}, "mask in source has no meaning"),
        (
            "segmentation",
            {"boxes": "a", "target": "b"},
            "target and boxes in source have no meaning",
        ),
        ("regression", {}, "offers"),
    ],
)
def test_an_entry_says_where_its_task_finds_the_truth(tmp_path, task, source, why):
    given = entry(tmp_path, task, source=source)
    given["source"] = {key: value for key, value in given["source"].items() if value is not None}
    mistakes = entry_mistakes(dataset_entry(given), where="dataset set")
    assert why in " ".join(map(str, mistakes))
