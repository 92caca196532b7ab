"""Annotations that cannot be right give one error that names entry, file and remedy, and nothing else."""

import pytest
from helpers.datasets.images import (
    RANDOM,
    RGB_ENTRY,
    Prepared,
    encode,
    photo,
    write_folder,
    write_zip,
)
from hypothesis import given, settings
from hypothesis import strategies as some
from permafrost.core.errors import PermafrostError
from permafrost.data.files.decode import UnreadableImage
from permafrost.data.sources.points import parse_points
from permafrost.data.sources.voc import parse_voc
from permafrost.data.sources.yolo import parse_yolo

XML = b"""<annotation><size><width>32</width><height>24</height></size><object><name>tree</name>
<bndbox><xmin>2</xmin><ymin>3</ymin><xmax>9</xmax><ymax>8</ymax></bndbox></object></annotation>"""
LINE = b"0 0.5 0.5 0.25 0.25\n"
TABLE = b"x,y\n4,5\n"
NAMES = b"names: [tree, car]\n"

LAYOUTS = {
    "voc": ("JPEGImages/{}.png", "Annotations/{}.xml", XML),
    "yolo": ("images/train/{}.png", "labels/train/{}.txt", LINE),
    "points": ("images/{}.png", "points/{}.csv", TABLE),
}


@pytest.fixture
def out(tmp_path):
    return Prepared(tmp_path / "out")


def data(kind: str, count=8) -> dict[str, bytes]:
    image, annotation, good = LAYOUTS[kind]
    made = {"data.yaml": NAMES} if kind == "yolo" else {}
    for number in range(count):
        made[image.format(number)] = encode(photo(number))
        made[annotation.format(number)] = good
    return made


def entry(kind: str, path, source=None, **more) -> dict:
    task = "point_detection" if kind == "points" else "detection"
    plain = {**RGB_ENTRY, "task": task, "splits": RANDOM, "allow_missing_classes": True}
    if kind == "points":
        plain["classes"] = ["tree"]
    return {**plain, "source": {"kind": kind, "path": str(path), **(source or {})}, **more}


def refused(out, entry, *messages) -> str:
    with pytest.raises(PermafrostError) as caught:
        out.run(entry)
    text = str(caught.value)
    assert text.startswith("dataset set") and caught.value.remedy
    for message in messages:
        assert message in text
    assert out.leftovers() == []
    return text


def broken(kind: str, tmp_path, content: bytes, pack=write_zip):
    """The data, in which files 2 and 5 are annotated so."""
    made = data(kind)
    for number in (2, 5):
        made[LAYOUTS[kind][1].format(number)] = content
    return pack(tmp_path / "set.zip", made)


@pytest.mark.parametrize("kind", LAYOUTS)
def test_the_data_are_good_before_they_are_broken(out, tmp_path, kind):
    card = out.run(entry(kind, write_zip(tmp_path / "set.zip", data(kind))))
    assert sum(part["count"] for part in card["splits"].values()) == 8


ENTITIES = b"""<!DOCTYPE a [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">
<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;">]><annotation><object><name>&c;</name></object></annotation>"""


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (XML[:90], "is no XML"),
        (b"<html></html>", "its outermost element is <html>, not <annotation>"),
        (XML.replace(b"<name>tree</name>", b"<name> </name>"), "object 1 has no <name>"),
        (XML.replace(b"bndbox", b"boundbox"), "object 1 has no <bndbox>"),
        (XML.replace(b"<ymin>3</ymin>", b""), "object 1 has no <ymin>"),
        (XML.replace(b">3<", b">three<"), "object 1 has 'three' for <ymin>, which is no number"),
        (XML.replace(b">3<", b">nan<"), "object 1 has 'nan' for <ymin>, which is no number"),
        (XML.replace(b"<bndbox>", b"<difficult>no</difficult><bndbox>"), "'no' for <difficult>"),
        (XML.replace(b">9<", b">1<"), "object 1: a box without width or height"),
        (XML.replace(b">9<", b">33<"), "object 1: a box that reaches beyond the image of 32 x 24"),
        (XML.replace(b">2<", b">40<").replace(b">9<", b">50<"), "object 1: an object beyond"),
        (XML.replace(b">32<", b">24<"), "is for an image of 24 x 24 pixels, but JPEGImages/2.png"),
        (XML.replace(b">32<", b">1e300<"), "is for an image of"),
        (XML.replace(b">32<", b">-32<"), "its <size> is 24 x -32 pixels"),
        (ENTITIES, "declares a document type or entities"),
        (
            b"<!DOCTYPE a SYSTEM 'file:///etc/passwd'><annotation/>",
            "declares a document type or entities",
        ),
        (b"<annotation>" * 10_000, "has elements nested more than 32 deep"),
        (b"<?xml version='1.0' encoding='klingon'?><annotation/>", "is no XML"),
    ],
)
def test_a_bad_file_of_pascal_voc(out, tmp_path, content, message):
    text = refused(out, entry("voc", broken("voc", tmp_path, content)), message)
    assert "2 entries" in text
    assert "Annotations/2.xml: " in text and "Annotations/5.xml: " in text


def test_an_external_entity_is_not_read(tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    text = f"""<!DOCTYPE a [<!ENTITY x SYSTEM "{secret.as_uri()}">]>
    <annotation><object><name>&x;</name></object></annotation>"""
    with pytest.raises(UnreadableImage) as caught:
        parse_voc(text.encode())
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty; set missing: empty for images without objects"),
        (b"\xff\xfe0 0.5", "is no text"),
        (LINE + b"0 0.5 0.5 0.25\n", "line 2 has 4 values"),
        (LINE + b"0 0.5 0.5 0.25 0.25 0.9\n", "line 2 has 6 values"),
        (b"tree 0.5 0.5 0.25 0.25\n", "line 1 holds something that is no number"),
        (b"0 0.5 nan 0.25 0.25\n", "line 1 holds something that is no number"),
        (b"0 0.5 1e999 0.25 0.25\n", "line 1 holds something that is no number"),
        (b"0.5 0.5 0.5 0.25 0.25\n", "line 1 begins with 0.5, which is no number of a class"),
        (b"-1 0.5 0.5 0.25 0.25\n", "line 1 begins with -1, which is no number of a class"),
        (b"1e300 0.5 0.5 0.25 0.25\n", "line 1 begins with 1e300, which is no number of a class"),
        (LINE + b"2 0.5 0.5 0.25 0.25\n", "line 2 names class 2, but there are 2 classes"),
        (b"0 12 14 8 9\n", "line 1 holds values from 8 to 14, but shares"),
        (b"0 0.5 0.5 -0.25 0.25\n", "line 1 holds values from -0.25 to 0.5"),
        (b"0 0.5 0.5 0 0.25\n", "line 1: a box without width or height"),
        (b"0 0.9 0.5 0.4 0.25\n", "line 1: a box that reaches beyond the image of 32 x 24 pixels"),
        (b"0 0.1 0.1 0.2 0.2 0.3 0.1\n0 .1 .1 .1 .2 .1 .3\n", "line 2: a box without width"),
        (b"0 0.1 0.1 0.2 0.2 0.3 0.3\n", "line 1: an outline without area"),
    ],
)
def test_a_bad_file_of_yolo(out, tmp_path, content, message):
    text = refused(out, entry("yolo", broken("yolo", tmp_path, content)), message)
    assert "2 entries" in text and "labels/train/2.txt" in text and "labels/train/5.txt" in text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"- tree\n", "holds no list of names"),
        (b"names: tree\n", "holds no list of names"),
        (b"names: {1: tree, 2: car}\n", "names does not number the classes from 0 on"),
        (b"names: {a: tree}\n", "names does not number the classes from 0 on"),
        (b"names: [tree, tree]\n", "lists a name twice"),
        (b"names: [tree, [car]]\n", "holds names that are not text"),
        (b"names: [tree\n", "cannot be read as YAML"),
        (b"\xff\n", "cannot be read as YAML"),
        (b"names: " + b"[" * 5000, "cannot be read as YAML"),
        (b"names: !!python/object/apply:os.system ['exit 3']\n", "cannot be read as YAML"),
    ],
)
def test_a_bad_list_of_classes(out, tmp_path, content, message):
    place = write_folder(tmp_path / "set", {**data("yolo"), "data.yaml": content})
    refused(out, entry("yolo", place), "set/data.yaml: ", message)


def test_a_list_of_classes_that_grows_is_not_unfolded(out, tmp_path):
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    content = "\n".join([*rows, "names: *a29"]).encode()
    place = write_folder(tmp_path / "set", {**data("yolo"), "data.yaml": content})
    refused(out, entry("yolo", place), "holds names that are not text")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty, without even a header line"),
        (b"x,z\n1,2\n", "has no column 'y'; known: x, z"),
        (b"x,y,x\n1,2,3\n", "has two columns 'x'"),
        (b"x,y\n1\n", "line 2 has 1 cells, the header 2"),
        (b"x,y\n1,2\n3,\n", "line 3 has '' in y, which is no number"),
        (b"x,y\n1,inf\n", "line 2 has 'inf' in y, which is no number"),
        (b"x,y\n1,2\n1,24.5\n", "point 2: an object beyond the image of 32 x 24 pixels"),
        (b"x,y\n-0.5,2\n", "point 1: an object beyond the image"),
        (b'x,y\n"1,2\n', "is no CSV in UTF-8"),
        (b"x,y\n\xff,2\n", "is no CSV in UTF-8"),
    ],
)
def test_a_bad_table_of_points(out, tmp_path, content, message):
    text = refused(out, entry("points", broken("points", tmp_path, content)), message)
    assert "2 entries" in text and "points/2.csv: " in text and "points/5.csv: " in text


@pytest.mark.parametrize("kind", LAYOUTS)
def test_files_without_their_counterpart_and_others(out, tmp_path, kind):
    image, annotation, good = LAYOUTS[kind]
    made = data(kind)
    del made[image.format(3)]
    place = write_folder(tmp_path / "one", made)
    refused(
        out, entry(kind, place, {"missing": "empty"}), "without an image: ", annotation.format(3)
    )
    made = {**data(kind), annotation.format(9) + ".bak": good}
    place = write_folder(tmp_path / "two", made)
    refused(out, entry(kind, place), "1 files that are neither images nor ", "9")
    nowhere = "do not have the same parts in <" if kind == "yolo" else "without an image: "
    refused(out, entry(kind, place, {"images": "nowhere"}), nowhere)


@pytest.mark.parametrize("kind", LAYOUTS)
def test_an_unreadable_image_is_named(out, tmp_path, kind):
    image = LAYOUTS[kind][0].format(4)
    place = write_zip(tmp_path / "set.zip", {**data(kind), image: b"no image"})
    refused(out, entry(kind, place), f"1 entry of the annotations cannot be used: {image}: neither")


@pytest.mark.parametrize("kind", LAYOUTS)
def test_a_task_that_the_kind_does_not_serve(out, tmp_path, kind):
    place = write_zip(tmp_path / "set.zip", data(kind))
    wrong = "detection" if kind == "points" else "point_detection"
    refused(out, entry(kind, place, task=wrong), f"a source of kind '{kind}' offers")


LISTS = {"image_sets": "ImageSets/Main/<split>.txt"}


@pytest.mark.parametrize(
    ("lists", "source", "splits", "message"),
    [
        ({"train": "0\n0\n"}, LISTS, {}, "lists an image twice: 0"),
        ({"train": "0 1\n1 -1\n"}, LISTS, {}, "lists an image with more than its name: 0 1"),
        ({"train": "0\n1\n", "val": "1\n"}, LISTS, {}, "1 is listed for train and for val"),
        (
            {"train": "0\n", "test": "77\n"},
            LISTS,
            {},
            "1 images that the image sets list do not exist: 77",
        ),
        ({"train": "0\n"}, {"image_sets": "lists/<split>.txt"}, {}, "holds no lists/<split>.txt"),
        (
            {"train": "0\n"},
            {"image_sets": "ImageSets/Main"},
            {},
            "does not contain <split>, the name of the split",
        ),
        ({"train": "0\n"}, LISTS, {"method": "random"}, "splits use the method random"),
        ({"train": "0\n"}, LISTS, {}, "7 of 8 images are in no image set"),
    ],
)
def test_bad_image_sets(out, tmp_path, lists, source, splits, message):
    made = data("voc")
    made |= {f"ImageSets/Main/{name}.txt": text.encode() for name, text in lists.items()}
    place = write_folder(tmp_path / "set", made)
    refused(out, entry("voc", place, source, splits={"method": "given", **splits}), message)


@given(some.one_of(some.binary(max_size=80), some.text(alphabet="<>/!&;ax0\n ", max_size=80)))
@settings(max_examples=400, deadline=None)
def test_no_file_makes_a_reader_fail_in_another_way(content):
    content = content if isinstance(content, bytes) else content.encode()
    _read_all(content)


@given(some.integers(0, len(XML) - 1), some.integers(0, 255), some.integers(0, 40))
@settings(max_examples=300, deadline=None)
def test_nor_does_a_file_that_was_good(place, byte, cut):
    for good in (XML, LINE * 3, b"0 .1 .2 .3 .4 .5 .6 .7 .8\n", TABLE * 2):
        at = place % len(good)
        _read_all(good[:at] + bytes([byte]) + good[at + cut :])


def _read_all(content: bytes) -> None:
    for read in (parse_voc, parse_yolo, lambda data: parse_points(data, x="x", y="y")):
        try:
            read(content)
        except UnreadableImage as refusal:
            assert str(refusal) and len(str(refusal)) < 1000
