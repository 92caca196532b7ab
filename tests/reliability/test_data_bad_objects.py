"""Objects that cannot be right give one error that names every bad entry, and nothing is written."""

import copy
import json

import pytest
from helpers.datasets.images import (
    RGB_ENTRY,
    Prepared,
    encode,
    geotiff,
    open_source,
    photo,
    write_folder,
    write_zip,
)
from helpers.datasets.objects import by_file, coco, coco_entry, write_json
from hypothesis import given, settings
from hypothesis import strategies as st
from permafrost.core.errors import PermafrostError
from permafrost.data.sources.coco import parse_coco


@pytest.fixture
def out(tmp_path):
    return Prepared(tmp_path / "out")


def refused(out, entry, *messages):
    with pytest.raises(PermafrostError) as caught:
        out.run(entry)
    text = str(caught.value)
    assert text.startswith("dataset set") and caught.value.remedy
    for message in messages:
        assert message in text
    assert out.leftovers() == []


def changed(**fields) -> dict:
    """Annotations of which one, number 1000, differs."""
    content = coco()
    annotation = next(a for a in content["annotations"] if a["id"] == 1000)
    annotation.update(fields)
    return content


NAN, INFINITE = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"bbox": [1, 1, 0, 5]}, "annotation 1000: a box without width or height (1, 1, 1, 6)"),
        ({"bbox": [1, 1, -3, 5]}, "annotation 1000: a box without width or height (1, 1, -2, 6)"),
        ({"bbox": [1, 1, NAN, 5]}, "annotation 1000: coordinates that are no finite numbers"),
        ({"bbox": [INFINITE, 1, 4, 5]}, "annotation 1000: coordinates that are no finite numbers"),
        ({"bbox": [1, 1, 10**400, 5]}, "annotation 1000: coordinates that are no finite numbers"),
        ({"bbox": ["1", 1, 4, 5]}, "annotation 1000: coordinates that are no finite numbers"),
        ({"bbox": [1, 1, 4]}, "annotation 1000 has the bbox [1, 1, 4], which is not [x, y, width"),
        ({"bbox": {"x": 1}}, "annotation 1000 has the bbox {'x': 1}"),
        ({"bbox": None}, "annotation 1000 has neither a bbox nor a segmentation"),
        ({"bbox": [75, 50, 9, 5]}, "annotation 1000: a box that reaches beyond the image of 80 x 60"),
        ({"bbox": [-9, 50, 4, 5]}, "annotation 1000: an object beyond the image of 80 x 60"),
        ({"area": -1}, "annotation 1000 has the area -1"),
        ({"area": NAN}, "annotation 1000 has the area nan"),
        ({"iscrowd": 2}, "annotation 1000 has iscrowd 2"),
        ({"image_id": 99}, "annotation 1000 is of the image 99, which is not listed"),
        ({"image_id": [1]}, "annotation 1000 is of the image [1], which is not listed"),
        ({"category_id": 99}, "annotation 1000 is of the category 99, which is not listed"),
        ({"id": 2000}, "annotation 2000 is listed twice"),
        ({"id": None}, "annotation None has no id"),
        ({"segmentation": [[1, 2, 3, 4]]}, "annotation 1000 has a polygon with fewer than three corners"),
        ({"segmentation": [[1, 2, 3, 4, 5, NAN]]}, "annotation 1000 has a polygon with fewer"),
        ({"segmentation": 7}, "annotation 1000 has a segmentation that is neither"),
        ({"segmentation": {"size": [60, 80]}}, "annotation 1000 has run lengths without counts"),
        ({"segmentation": {"size": [9, 9], "counts": [81]}}, "a mask of 9 x 9 pixels, its image 80 x"),
        ({"segmentation": {"size": [60, 80], "counts": [7]}}, "the run lengths fill 7 pixels, not 60"),
        ({"segmentation": {"size": [60, 80], "counts": "~"}}, "the run lengths are damaged"),
        ({"segmentation": {"size": [60, 80], "counts": [4801, -1]}}, "the run lengths are damaged"),
        ({"segmentation": {"size": [60, 80], "counts": [4800]}}, "a mask without foreground"),
        ({"segmentation": {"size": [60], "counts": [4800]}}, "not [height, width]"),
    ],
)  # fmt: skip
def test_an_annotation_that_cannot_be_used(out, tmp_path, fields, message):
    content = changed(**fields)
    assert len(by_file(coco())["01.png"]) and "annotations" in content
    refused(out, coco_entry(tmp_path, content), "1 entry of the annotations", message)


@pytest.mark.parametrize(
    ("part", "fields", "message"),
    [
        ("images", {"id": 1}, "image 1 is listed twice"),
        ("images", {"id": 1.5}, "image 1.5 has no id that is a whole number"),
        ("images", {"file_name": ""}, "image 0 has no file_name"),
        ("images", {"file_name": 7}, "image 0 has no file_name"),
        ("images", {"height": 0}, "image 0 has the height and width 0, 80"),
        ("images", {"height": None}, "image 0 has the height and width None, 80"),
        ("images", {"width": "80"}, "image 0 has the height and width 60, '80'"),
        ("categories", {"id": 10}, "category 10 is listed twice"),
        ("categories", {"name": None}, "category 20 has no name"),
        ("categories", {"name": "pine"}, "category 10 has the name of another category, 'pine'"),
    ],
)
def test_an_image_or_category_that_cannot_be_used(out, tmp_path, part, fields, message):
    content = coco()
    entry = coco_entry(tmp_path, content)
    content[part][0].update(fields)
    write_json(tmp_path / "objects.json", content)
    refused(out, entry, "of the annotations cannot be used", message)


def test_all_bad_entries_are_listed_at_once(out, tmp_path):
    content = coco()
    for annotation in content["annotations"]:
        annotation["bbox"] = [1, 1, 0, 0]
    entry = coco_entry(tmp_path, content)
    (tmp_path / "images" / "04.png").unlink()
    count = len(content["annotations"]) + 1
    refused(out, entry, f"{count} entries of the annotations", f"and {count - 20} more")
    content = coco()
    (tmp_path / "images" / "07.png").unlink()
    write_json(tmp_path / "objects.json", content)
    refused(out, entry, "2 entries", "04.png is not in", "07.png is not in")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("[", "is not valid JSON"),
        ("[]", "holds no object with images"),
        ("{}", "holds no list 'images'"),
        ('{"images": [], "categories": [], "annotations": {}}', "holds no list 'annotations'"),
        ('{"images": [3], "categories": [], "annotations": []}', "in 'images' that is no object"),
        ("[" * 100_000, "is not valid JSON"),
        ("\xff", "is not valid JSON"),
    ],
)
def test_files_that_are_no_annotations(out, tmp_path, text, message):
    entry = coco_entry(tmp_path)
    (tmp_path / "objects.json").write_bytes(text.encode("latin-1"))
    refused(out, entry, "objects.json", message)


def test_annotations_that_do_not_exist(out, tmp_path):
    entry = coco_entry(tmp_path)
    entry["source"]["annotations"] = str(tmp_path / "nowhere.json")
    refused(out, entry, "nowhere.json does not exist")
    entry["source"]["annotations"] = "<path>/nowhere.json"
    refused(out, entry, "holds no nowhere.json")


def test_names_that_lead_out_of_their_place(out, tmp_path):
    content = coco()
    entry = coco_entry(tmp_path, content)
    content["images"][3]["file_name"] = "../../secret.png"
    write_json(tmp_path / "objects.json", content)
    refused(out, entry, "which leads out of it")


def test_files_of_splits_that_do_not_agree(out, tmp_path):
    one, other = coco(6), coco(6, first=6, classes=("oak", "elm"))
    entry = coco_entry(tmp_path, coco())
    entry["source"]["annotations"] = {
        "train": write_json(tmp_path / "a.json", one),
        "test": write_json(tmp_path / "b.json", other),
    }
    refused(out, entry, "other categories than the file before: pine, oak, not elm, oak")
    twice = {"train": str(tmp_path / "a.json"), "test": str(tmp_path / "a.json")}
    refused(
        out,
        {**entry, "source": {**entry["source"], "annotations": twice}},
        "6 samples are listed more than once",
    )
    entry["source"].update(annotations=str(tmp_path / "a.json"), root="<split>")
    refused(out, entry, "names <split>, but the annotations are in one file")


def test_an_image_that_is_cut_off_is_named_once_for_all_of_its_windows(out, tmp_path):
    entry = coco_entry(tmp_path, tiles={"size": 32, "overlap": 0.05})
    path = tmp_path / "images" / "05.png"
    path.write_bytes(path.read_bytes()[:400])
    with pytest.raises(PermafrostError) as caught:
        out.run(entry)
    assert caught.value.problem.startswith("1 of 12 images cannot be used: 05.png: ")
    assert caught.value.problem.count("05.png") == 1 and out.leftovers() == []


def test_a_tiff_that_is_damaged_in_one_window(out, tmp_path):
    content = coco(8, name="{:02d}.tif")
    entry = coco_entry(tmp_path, content, tiles={"size": 32, "overlap": 0.0})
    for number in range(8):
        image = photo(number, (60, 80)).transpose(2, 0, 1)
        data = geotiff(image, tiled=True, blockxsize=16, blockysize=16, compress="deflate")
        if number == 3:
            data = data[: len(data) * 2 // 3]
        (tmp_path / "images" / f"{number:02d}.tif").write_bytes(data)
    refused(out, entry, "1 of 8 images cannot be used: 03.tif:")


@pytest.mark.parametrize("kind", ["png", "tif"])
def test_an_archive_that_is_damaged_where_an_image_lies(out, tmp_path, kind):
    content = coco(8, name=f"{{:02d}}.{kind}")
    entry = coco_entry(tmp_path, content, tiles={"size": 32, "overlap": 0.0})
    images = {f"{n:02d}.{kind}": photo(n, (60, 80)) for n in range(8)}
    files = {
        name: encode(image) if kind == "png" else geotiff(image.transpose(2, 0, 1))
        for name, image in images.items()
    }
    place = write_zip(tmp_path / "a.zip", files)
    data = bytearray(place.read_bytes())
    middle = data.index(files[f"02.{kind}"]) + len(files[f"02.{kind}"]) // 2
    data[middle] ^= 0xFF
    place.write_bytes(data)
    entry["source"]["path"] = str(place)
    refused(out, entry, f"1 of 8 images cannot be used: 02.{kind}: BadZipFile", "CRC")


def test_a_group_expression_that_does_not_fit(out, tmp_path):
    entry = coco_entry(tmp_path, source={"group": "site(.)"})
    refused(out, entry, "does not fit 12 of 12 names")


DEEPFOREST = "image_path,xmin,ymin,xmax,ymax,label\n"


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("", ["a.csv", "the file is empty"]),
        ("image_path,label\n", ["no columns with shapes"]),
        (DEEPFOREST.replace("label", "class"), ["no column 'label'"]),
        (
            DEEPFOREST + "a.png,1,2,3,4,T\na.png,5,5,5,9,T\na.png,9,2,3,4,T\na.png,1,1,1,1,T\n",
            ["a.csv: line 3: the box [5.0, 5.0, 5.0, 9.0] has no area", "the like in lines 4, 5"],
        ),
        (DEEPFOREST + "a.png,1,x,3,4,T\na.png,1,nan,3,4,T\n", ["line 2: ymin", "in line 3"]),
        (DEEPFOREST + "a.png,1,2,3,4,\n", ["line 2: label is blank"]),
        (DEEPFOREST + ",1,2,3,4,T\n", ["line 2: image_path is blank"]),
        (DEEPFOREST + "a.png,1,2,3,4\n", ["line 2: 5 cells under 6 names"]),
        (DEEPFOREST + "a.png,1,2,3,4,T\na.png,0,0,0,0,\n", ["line 2: the image has crowns, and"]),
        (DEEPFOREST + "gone.png,1,2,3,4,T\n", ["gone.png is not in"]),
        (DEEPFOREST, ["the data contain no images"]),
        ("image_path,label,geometry\na.png,T,POLYGON ((\n", ["line 2: geometry is not WKT"]),
        (
            'image_path,label,geometry\na.png,T,"POLYGON ((0 0, 5 5, 5 0, 0 5, 0 0))"\n',
            ["line 2: the polygon is invalid"],
        ),
        ("image_path,label,x,y\na.png,T,81,3\n", ["holds shapes of the kind point"]),
    ],
)
def test_tables_that_cannot_be_right(out, tmp_path, text, messages):
    place = write_folder(tmp_path / "images", {"a.png": encode(photo(0, (60, 80)))})
    (tmp_path / "a.csv").write_text(text)
    source = {"kind": "deepforest", "path": str(place), "table": str(tmp_path / "a.csv")}
    entry = {**RGB_ENTRY, "task": "detection", "source": source, "splits": {"method": "random"}}
    refused(out, entry, *messages)


def test_a_point_beyond_its_image_is_never_cut(out, tmp_path):
    place = write_folder(tmp_path / "images", {"a.png": encode(photo(0, (60, 80)))})
    (tmp_path / "a.csv").write_text("image_path,label,x,y\na.png,T,81,3\n")
    source = {
        "kind": "deepforest",
        "path": str(place),
        "table": str(tmp_path / "a.csv"),
        "clip_boxes": True,
    }
    random = {"splits": {"method": "random"}}
    entry = {**RGB_ENTRY, "task": "point_detection", "source": source, **random}
    refused(out, entry, "a.csv: line 2: an object beyond the image of 80 x 60 pixels")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda part: (
        st.lists(part, max_size=5) | st.dictionaries(st.text(max_size=4), part, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_whatever_a_json_holds_it_is_read_or_refused(data):
    content = copy.deepcopy(coco(3))
    for _ in range(data.draw(st.integers(1, 3))):
        part = data.draw(st.sampled_from(sorted(content)))
        if data.draw(st.integers(0, 9)) == 0 or not isinstance(content[part], list):
            content[part] = data.draw(JSON)
            continue
        item = data.draw(st.sampled_from(content[part])) if content[part] else None
        if isinstance(item, dict):
            keys = [*item, "segmentation", "ignore"]
            item[data.draw(st.sampled_from(sorted(keys)))] = data.draw(JSON)
    try:
        file = parse_coco(json.dumps(content).encode(), "a.json")
    except ValueError:
        return
    assert all(isinstance(name, str) for name in file.categories.values())
    for image in file.images.values():
        for found in image.found:
            assert len(found.box) == 4 and found.label in file.categories.values()


def test_sources_are_opened_without_reading_pixels(tmp_path, monkeypatch):
    from permafrost.data.sources import annotated

    monkeypatch.setattr(annotated, "decode_image", None)
    assert len(open_source(coco_entry(tmp_path), where="x").records()) == 12
