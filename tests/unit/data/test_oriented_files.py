"""Files of oriented boxes as they are published: corners lie where they were drawn, difficult ones are crowds."""

from __future__ import annotations

import json
import math

import numpy as np
import pycocotools.mask
import pytest
from helpers.datasets.images import RANDOM, RGB_ENTRY, encode, open_source, photo, write_folder
from permafrost.core.errors import PermafrostError
from permafrost.data.proposal.entry import draft_of
from shapely import Polygon, affinity, box

SIZE = (48, 64)
#: an oriented box: centre, sides, and degrees clockwise on the screen
CENTRE, SIDES, DEGREES = (30.0, 22.0), (28.0, 9.0), 35.0
RADIANS = math.radians(DEGREES)


def _corners() -> np.ndarray:
    """By shapely: its angles turn from x to y, which is clockwise where y points down."""
    (x, y), (w, h) = CENTRE, SIDES
    upright = box(x - w / 2, y - h / 2, x + w / 2, y + h / 2)
    return np.array(affinity.rotate(upright, DEGREES, origin="center").exterior.coords)[:-1]


CORNERS = _corners()
FLAT = CORNERS.ravel()


def entry(kind: str, path, source=None, **more) -> dict:
    place = {"kind": kind, "path": str(path), **(source or {})}
    return {**RGB_ENTRY, "task": "detection", "source": place, "splits": RANDOM, **more}


def opened(kind: str, path, source=None, **more):
    return open_source(entry(kind, path, source, **more), where="dataset set")


def check_is_the_box(objects, number=0, *, atol=1e-4) -> None:
    """That an object is the oriented box above: enclosing box, area, and one ring of its corners."""
    outline = Polygon(CORNERS)
    np.testing.assert_allclose(objects.boxes[number], outline.bounds, atol=atol)
    np.testing.assert_allclose(objects.areas[number], outline.area, rtol=1e-4)
    (ring,) = objects.polygons[number]
    assert len(ring) == 8
    found = Polygon(np.reshape(ring, (4, 2)))
    assert found.is_valid
    assert found.symmetric_difference(outline).area < 0.01


# --- XML of one image --------------------------------------------------------------------------------------

_TURNED = f"<cx>30</cx><cy>22</cy><w>28</w><h>9</h><angle>{RADIANS}</angle>"
_DIOR = "".join(
    f"<{axis}_{corner}>{value}</{axis}_{corner}>"
    for corner, point in zip(
        ("left_top", "right_top", "right_bottom", "left_bottom"), CORNERS, strict=True
    )
    for axis, value in zip("xy", point, strict=True)
)
_POINTS = "".join(f"<point>{x:.6f},{y:.6f}</point>" for x, y in [*CORNERS, CORNERS[0]])
_ROBOFLOW = "".join(
    f"<x{n}>{x}</x{n}><y{n}>{y}</y{n}>" for n, (x, y) in enumerate(CORNERS, start=1)
)
_LABELME = "".join(f"<pt><x>{x}</x><y>{y}</y></pt>" for x, y in CORNERS)
_UPRIGHT = (
    "<bndbox><xmin>{:.6f}</xmin><ymin>{:.6f}</ymin><xmax>{:.6f}</xmax><ymax>{:.6f}</ymax></bndbox>"
)
_AROUND = _UPRIGHT.format(*(np.array(Polygon(CORNERS).bounds)))


def _xml(body: str) -> str:
    size = "<size><width>64</width><height>48</height><depth>3</depth></size>"
    return f"<?xml version='1.0' encoding='utf-8'?><annotation>{size}{body}</annotation>"


def _object(body: str, difficult: str = "<difficult>0</difficult>") -> str:
    return f"<object><type>robndbox</type><name>ship</name>{difficult}{body}</object>"


XML = {
    "roLabelImg": _xml(_object(f"<robndbox>{_TURNED}</robndbox>")),
    "DIOR-R": _xml(_object(f"<robndbox>{_DIOR}</robndbox><angle>{round(DEGREES)}</angle>", "")),
    "FAIR1M": _xml(
        "<source><filename>a.png</filename></source><objects><object><coordinate>pixel</coordinate>"
        "<type>rectangle</type><description>None</description><possibleresult><name>ship</name>"
        f"</possibleresult><points>{_POINTS}</points></object></objects>"
    ),
    "polygon by numbers": _xml(_object(f"<polygon>{_ROBOFLOW}</polygon>{_AROUND}")),
    "polygon by points": _xml(_object(f"<polygon>{_LABELME}</polygon>", "")),
    "HRSC2016": "<HRSC_Image><Img_ID>1</Img_ID><Img_SizeWidth>64</Img_SizeWidth>"
    "<Img_SizeHeight>48</Img_SizeHeight><Img_SizeDepth>3</Img_SizeDepth><Annotated>1</Annotated>"
    "<HRSC_Objects><HRSC_Object><Object_ID>1</Object_ID><Class_ID>ship</Class_ID><truncated>0</truncated>"
    "<difficult>0</difficult><box_xmin>14</box_xmin><box_ymin>10</box_ymin><box_xmax>46</box_xmax>"
    "<box_ymax>34</box_ymax><mbox_cx>30</mbox_cx><mbox_cy>22</mbox_cy><mbox_w>28</mbox_w><mbox_h>9</mbox_h>"
    f"<mbox_ang>{RADIANS}</mbox_ang><segmented>0</segmented><header_x>44</header_x></HRSC_Object></HRSC_Objects>"
    "</HRSC_Image>",
}
IN_FOLDERS = {"images": "images", "annotations": "xml", "corners": "edges"}


def xml_set(tmp_path, *texts: str, ending="png"):
    files = {}
    for number, text in enumerate(texts):
        files[f"images/{number}.{ending}"] = encode(photo(number, SIZE), ending)
        files[f"xml/{number}.xml"] = text.encode()
    return write_folder(tmp_path / "set", files)


@pytest.mark.parametrize("layout", XML)
def test_an_oriented_box_in_xml_is_where_it_was_drawn(tmp_path, layout):
    source = opened("voc", xml_set(tmp_path, XML[layout]), IN_FOLDERS)
    assert source.classes == ["ship"]
    objects = source.records()[0].objects
    check_is_the_box(objects)
    assert objects.crowd.tolist() == [False]


@pytest.mark.parametrize("layout", ["roLabelImg", "HRSC2016"])
def test_a_difficult_oriented_box_is_a_crowd(tmp_path, layout):
    text = XML[layout].replace("<difficult>0<", "<difficult>1<")
    place = xml_set(tmp_path, text)
    assert opened("voc", place, IN_FOLDERS).records()[0].objects.crowd.tolist() == [True]


def test_hrsc_is_read_from_bmp_and_its_numbers_of_classes_get_names(tmp_path):
    numbers = [
        XML["HRSC2016"].replace(">ship<", f">{n}<") for n in (100000006, 100000013, 100000027)
    ]
    place = xml_set(tmp_path, *numbers, ending="bmp")
    names = {100000006: "carrier", "*": "ship", 100000027: None}
    source = opened("voc", place, {**IN_FOLDERS, "extensions": ["bmp"], "label_values": names})
    assert source.classes == ["carrier", "ship"]
    assert [len(record.objects) for record in source.records()] == [1, 1, 0]
    np.testing.assert_array_equal(source.decode(0).image, photo(0, SIZE).transpose(2, 0, 1))
    del names["*"]
    with pytest.raises(
        PermafrostError, match="1.xml: object 1 is a .100000013., which label_values does not"
    ):
        opened("voc", place, {**IN_FOLDERS, "extensions": ["bmp"], "label_values": names})


@pytest.mark.parametrize(
    ("layout", "old", "new", "message"),
    [
        ("roLabelImg", f"<angle>{RADIANS}</angle>", "<angle>35</angle>", "radians is beyond a full turn"),
        ("roLabelImg", "<w>28</w>", "<w>-28</w>", "object 1: a side of an oriented box is negative"),
        ("roLabelImg", "<h>9</h>", "", "object 1 has no <h>"),
        ("roLabelImg", "<h>9</h>", "<h>0</h>", "object 1: an outline without area"),
        ("DIOR-R", "<x_left_top>", "<x_left_top>x", "for <x_left_top>, which is no number"),
        ("FAIR1M", "<coordinate>pixel<", "<coordinate>map<", "coordinates of the kind 'map', not pixel"),
        ("FAIR1M", ",", ";", "object 1 has a <point> that is not x,y"),
        ("FAIR1M", _POINTS, "<point>1,2</point>", "object 1 has an outline of 1 points"),
        ("HRSC2016", "mbox_ang", "ang", "object 1 has no <mbox_ang>"),
        ("HRSC2016", "Width>64", "Width>63", "is for an image of 63 x 48 pixels"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_xml_is_named(tmp_path, layout, old, new, message):
    place = xml_set(tmp_path, XML[layout].replace(old, new))
    with pytest.raises(PermafrostError) as caught:
        opened("voc", place, IN_FOLDERS)
    assert message in str(caught.value) and "xml/0.xml" in str(caught.value) and caught.value.remedy


# --- DOTA --------------------------------------------------------------------------------------------------


def dota_set(
    tmp_path, text: str, splits=("train",), images="{}/images/P1.png", labels="{}/labelTxt/P1.txt"
):
    files = {}
    for split in splits:
        files[images.format(split)] = encode(photo(0, SIZE))
        files[labels.format(split)] = text.encode()
    return write_folder(tmp_path / "dota", files)


def dota_line(corners=FLAT, rest="ship 0") -> str:
    return " ".join(f"{value:.4f}" for value in corners) + f" {rest}\n"


HEAD = "imagesource:GoogleEarth\ngsd:0.146343590398\n"


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [2, 3, 0, 1], [3, 2, 1, 0], [0, 2, 1, 3]])
def test_dota_has_corners_in_any_order_around_the_box(tmp_path, order):
    text = (
        "acquisition dates:2016-05-04\n"
        + HEAD
        + dota_line(CORNERS[order].ravel())
        + dota_line(rest="plane 1")
        + dota_line(rest="plane")
    )
    source = opened("dota", dota_set(tmp_path, text))
    objects = source.records()[0].objects
    assert source.classes == ["plane", "ship"] and objects.classes.tolist() == [1, 0, 0]
    assert objects.crowd.tolist() == [False, True, False]
    check_is_the_box(objects)
    assert source.records()[0].split == "train"


def test_a_file_of_dota_without_objects_is_an_image_without_objects(tmp_path):
    source = opened("dota", dota_set(tmp_path, HEAD), classes=["ship"])
    assert len(source.records()[0].objects) == 0


def test_oriented_boxes_at_the_edge_are_cut_only_if_declared_and_counted(tmp_path):
    beyond = dota_line(CORNERS.ravel() + 25) + dota_line([5, 5, 5, 5, 5, 5, 5, 5]) + dota_line()
    place = dota_set(tmp_path, beyond)
    with pytest.raises(
        PermafrostError, match="P1.txt: line 1: a box that reaches beyond the image"
    ):
        opened("dota", place)
    (record,) = opened("dota", place, {"clip_boxes": True}).records()
    assert (record.clipped, record.without_area, len(record.objects)) == (1, 1, 2)
    np.testing.assert_allclose(record.objects.polygons[0][0], FLAT + 25, atol=1e-3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (dota_line(rest="large vehicle 0"), "line 1 has 11 values, not eight coordinates"),
        (HEAD + dota_line(rest="ship easy"), "line 3 has 'easy' for difficult"),
        (dota_line() + dota_line().replace("33.", "y3.", 1), "line 2 has 'y3."),
        (dota_line() + "gsd:1\n", "line 2 has 1 values"),
        ("\xff", "no text"),
    ],
)
def test_what_is_wrong_in_dota_is_named(tmp_path, text, message):
    if text == "\xff":
        place = dota_set(tmp_path, "")
        (place / "train/labelTxt/P1.txt").write_bytes(b"\xff")
    else:
        place = dota_set(tmp_path, text)
    with pytest.raises(PermafrostError, match=message):
        opened("dota", place)


# --- YOLO-OBB ----------------------------------------------------------------------------------------------


def yolo_set(tmp_path, *lines: str):
    files = {
        "images/train/a.png": encode(photo(0, SIZE)),
        "data.yaml": b"names: {0: plane, 1: ship}\n",
    }
    files["labels/train/a.txt"] = "\n".join(lines).encode()
    return write_folder(tmp_path / "yolo", files)


def yolo_line(corners) -> str:
    return "1 " + " ".join(f"{v:.6g}" for v in (np.asarray(corners) / SIZE[::-1]).ravel())


def test_yolo_has_eight_shares_of_the_image(tmp_path):
    source = opened("yolo", yolo_set(tmp_path, yolo_line(CORNERS)))
    check_is_the_box(source.records()[0].objects, atol=1e-3)
    beyond = yolo_set(tmp_path, yolo_line(CORNERS + 20), yolo_line(CORNERS))
    with pytest.raises(PermafrostError, match="line 1 holds values .* set clip_boxes: true"):
        opened("yolo", beyond)
    (record,) = opened("yolo", beyond, {"clip_boxes": True}).records()
    assert record.clipped == 1
    with pytest.raises(PermafrostError, match="line 1 holds values from"):
        opened("yolo", yolo_set(tmp_path, yolo_line(CORNERS * 64)), {"clip_boxes": True})


# --- CVAT --------------------------------------------------------------------------------------------------

_LABELS = "".join(
    f"<label><name>{name}</name><type>any</type></label>" for name in ("plane", "ship")
)
_BOX = 'xtl="16" ytl="17.5" xbr="44" ybr="26.5"'
_PAIRS = ";".join(f"{x:.4f},{y:.4f}" for x, y in CORNERS)
SHAPES = {
    "rotated": f'<box label="ship" occluded="0" {_BOX} rotation="{DEGREES}" z_order="0"/>',
    "polygon": f'<polygon label="ship" source="manual" points="{_PAIRS}"><attribute name="a">1</attribute></polygon>',
}


def cvat(*images: str) -> bytes:
    meta = f"<meta><task><id>1</id><labels>{_LABELS}</labels></task></meta>"
    return f"<annotations><version>1.1</version>{meta}{''.join(images)}</annotations>".encode()


def cvat_image(body: str, name="a.png", more='subset="Train" width="64" height="48"') -> str:
    return f'<image id="0" name="{name}" {more}>{body}</image>'


def cvat_set(tmp_path, *images: str):
    files = {"images/a.png": encode(photo(0, SIZE)), "annotations.xml": cvat(*images)}
    return write_folder(tmp_path / "cvat", files)


IN_IMAGES = {"root": "images", "annotations": "<path>/annotations.xml"}


@pytest.mark.parametrize("shape", SHAPES)
def test_cvat_turns_boxes_around_their_centre(tmp_path, shape):
    upright = f'<tag label="plane"/><box label="plane" {_BOX}/>'
    place = cvat_set(tmp_path, cvat_image(upright + SHAPES[shape]))
    source = opened("cvat", place, IN_IMAGES)
    (record,) = source.records()
    assert source.classes == ["plane", "ship"] and record.objects.classes.tolist() == [0, 1]
    assert record.objects.boxes[0].tolist() == [16, 17.5, 44, 26.5] and record.split == "Train"
    check_is_the_box(record.objects, 1)


def test_a_mask_of_cvat_is_its_box_and_area(tmp_path):
    mask = '<mask label="ship" rle="1,2,4,2" left="3" top="5" width="3" height="3"/>'
    (record,) = opened("cvat", cvat_set(tmp_path, cvat_image(mask)), IN_IMAGES).records()
    assert record.objects.boxes.tolist() == [[3, 5, 6, 8]] and record.objects.areas.tolist() == [4]


@pytest.mark.parametrize("corner", [(3, 5), (0, 0), (61, 45)])
def test_a_mask_of_cvat_has_its_pixels_where_they_are_in_the_image(tmp_path, corner):
    place = f'left="{corner[0]}" top="{corner[1]}" width="3" height="3"'
    mask = f'<mask label="ship" rle="1,2,4,2" {place}/>'
    folder = cvat_set(tmp_path, cvat_image(mask))
    (record,) = opened("cvat", folder, IN_IMAGES, task="instance_segmentation").records()
    expected = np.zeros((48, 64), np.uint8)
    expected[corner[1] : corner[1] + 3, corner[0] : corner[0] + 3] = [
        [0, 1, 1],
        [0, 0, 0],
        [0, 1, 1],
    ]
    coded = {"size": [48, 64], "counts": record.objects.masks[0].encode()}
    assert (pycocotools.mask.decode(coded) == expected).all()


def test_points_of_cvat_are_for_point_detection(tmp_path):
    points = '<points label="ship" points="3,4;10.5,20"/>'
    place = cvat_set(tmp_path, cvat_image(points + SHAPES["polygon"]))
    with pytest.raises(
        PermafrostError, match=r"annotations.xml: image a.png: shape 1 \(points\) is not one of box"
    ):
        opened("cvat", place, IN_IMAGES)
    ignore = {**IN_IMAGES, "other_shapes": "ignore"}
    (record,) = opened("cvat", place, ignore, task="point_detection").records()
    assert record.objects.boxes[:, :2].tolist() == [[3, 4], [10.5, 20]]
    assert len(opened("cvat", place, ignore).records()[0].objects) == 1


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (cvat_image('<box label="ship" xtl="1" ytl="2" xbr="9"/>'), r"shape 1 \(box\) has no ybr"),
        (cvat_image(f"<box {_BOX}/>"), r"shape 1 \(box\) has no label"),
        (cvat_image('<polygon label="ship" points="1,2;3"/>'), r"has no points x,y"),
        (cvat_image('<polygon label="ship" points="1,2;3,4"/>'), r"has 2 points, and a polygon needs three"),
        (cvat_image('<polygon label="ship" points="1,2;3,4;a,6"/>'), r"'a' in points"),
        (cvat_image('<mask label="ship" rle="1,2" left="0" top="0" width="2" height="2"/>'), "not a mask of 2 x 2"),
        (cvat_image('<mask label="ship" rle="1,3" left="0.5" top="0" width="2" height="2"/>'), "that are not whole"),
        (cvat_image('<mask label="ship" rle="1,3.5" left="0" top="0" width="2" height="2"/>'), "that are not whole"),
        (cvat_image("", more='width="64"'), "it has the height and width None, '64'"),
        (cvat_image("", name=""), "it has no name"),
        (cvat_image("", name="b.png"), "images/b.png is not in"),
        ('<track id="0" label="ship"><box frame="0"/></track>', "tracks of a video"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_cvat_is_named(tmp_path, image, message):
    with pytest.raises(PermafrostError, match=message) as caught:
        opened("cvat", cvat_set(tmp_path, image), IN_IMAGES)
    assert caught.value.remedy


# --- the task of oriented boxes ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "make", "source"),
    [
        *(("voc", lambda at, text=text: xml_set(at, text), IN_FOLDERS) for text in XML.values()),
        ("dota", lambda at: dota_set(at, HEAD + dota_line()), {}),
        ("yolo", lambda at: yolo_set(at, yolo_line(CORNERS)), {}),
        ("cvat", lambda at: cvat_set(at, cvat_image(SHAPES["rotated"])), IN_IMAGES),
    ],
)
def test_oriented_detection_learns_from_the_corners(tmp_path, kind, make, source):
    found = opened(kind, make(tmp_path), source, task="oriented_detection")
    check_is_the_box(found.records()[0].objects, atol=1e-3)


# --- drafts ------------------------------------------------------------------------------------------------


def _dota_folder(tmp_path):
    return dota_set(tmp_path, HEAD + dota_line(), splits=("train", "val", "test"))


DRAFTS = {
    **{
        f"voc: {name}": lambda at, text=text: xml_set(at, *[text] * 6) for name, text in XML.items()
    },
    "voc: HRSC2016 in bmp": lambda at: xml_set(at, *[XML["HRSC2016"]] * 6, ending="bmp"),
    "dota": _dota_folder,
    "dota: annfiles": lambda at: dota_set(
        at, dota_line(), ("train", "val", "test"), "{}/images/P1.png", "{}/annfiles/P1.txt"
    ),
    "yolo": lambda at: yolo_set(at, yolo_line(CORNERS)),
    "cvat": lambda at: cvat_set(at, cvat_image(SHAPES["rotated"])),
}


@pytest.mark.parametrize("layout", DRAFTS)
def test_a_draft_reads_the_folder_that_it_is_for(tmp_path, layout):
    place = DRAFTS[layout](tmp_path)
    draft = draft_of(place, where=place)
    assert draft.source["kind"] == layout.partition(":")[0]
    if draft.source["kind"] == "voc":
        draft.source["corners"] = "edges"
    content = {**draft.fields, "task": draft.task, "source": draft.source, "splits": draft.splits}
    source = open_source(json.loads(json.dumps(content)), where="dataset set")
    for record in source.records():
        check_is_the_box(record.objects, atol=1e-3)


def test_a_split_without_labels_is_left_out_of_a_draft(tmp_path):
    place = dota_set(tmp_path, HEAD + dota_line(), splits=("train", "val"))
    write_folder(place, {"test/images/P9.png": encode(photo(9, SIZE))})
    draft = draft_of(place, where=place)
    assert draft.splits == {
        "method": "given",
        "map": {"train": ["train"], "test": ["val"]},
        "val_from_train": 0.2,
        "leave_out": ["test"],
    }
    assert draft.source["missing"] == "empty"


def test_drafts_name_folders_of_parts_and_alternatives(tmp_path):
    text = XML["DIOR-R"].encode()
    files = {f"Annotations/Oriented Bounding Boxes/{n}.xml": text for n in range(6)}
    files |= {f"Annotations/Horizontal Bounding Boxes/{n}.xml": text for n in range(6)}
    for number in range(6):
        folder = "JPEGImages-trainval" if number < 4 else "JPEGImages-test"
        files[f"{folder}/{number}.jpg"] = encode(photo(number, SIZE), "jpeg")
    lists = {"train": "0 1", "val": "2 3", "test": "4 5"}
    files |= {f"ImageSets/Main/{k}.txt": v.replace(" ", "\n").encode() for k, v in lists.items()}
    draft = draft_of(write_folder(tmp_path / "dior", files), where=tmp_path)
    assert draft.source["images"] == "{JPEGImages-test,JPEGImages-trainval}"
    assert draft.source["annotations"] == "Annotations/Oriented Bounding Boxes"
    content = {**draft.fields, "task": draft.task, "source": draft.source, "splits": draft.splits}
    records = open_source(content, where="dataset set").records()
    assert [record.split for record in records] == ["test"] * 2 + ["train"] * 2 + ["val"] * 2
    parts = {f"{part}/{n}": text for part in ("part1", "part2") for n in range(3)}
    files = {f"{name.replace('/', '/labelXml/')}.xml": text for name, text in parts.items()}
    files |= {f"{n.replace('/', '/images/')}.png": encode(photo(1, SIZE)) for n in parts}
    draft = draft_of(write_folder(tmp_path / "fair1m", files), where=tmp_path)
    assert (draft.source["images"], draft.source["annotations"]) == (
        "<part>/images",
        "<part>/labelXml",
    )
