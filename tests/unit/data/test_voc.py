"""Pascal VOC: what the corners mean, and which split an image is in."""

import numpy as np
import pytest
from helpers.datasets.images import (
    RANDOM,
    RGB_ENTRY,
    Prepared,
    encode,
    open_source,
    photo,
    write_folder,
    write_tar,
    write_zip,
)
from permafrost.core.errors import PermafrostError
from permafrost.data.labels.objects import objects_of
from permafrost.data.store.image_store import ImageStore

GIVEN = {"method": "given"}


def element(name="tree", box=(2, 3, 10, 12), *, difficult=None) -> str:
    sides = "".join(
        f"<{side}>{value}</{side}>"
        for side, value in zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True)
    )
    more = "" if difficult is None else f"<difficult>{difficult}</difficult>"
    return f"<object><name>{name}</name>{more}<bndbox>{sides}</bndbox></object>"


def xml(*objects: str, size=(24, 32)) -> bytes:
    shape = "" if size is None else f"<width>{size[1]}</width><height>{size[0]}</height>"
    head = "<?xml version='1.0' encoding='utf-8'?>"
    return (
        f"{head}<annotation><size>{shape}<depth>3</depth></size>{''.join(objects)}</annotation>".encode()
        if size
        else f"<annotation>{''.join(objects)}</annotation>".encode()
    )


def files(count=10, *, objects=lambda number: [element()]) -> dict[str, bytes]:
    made = {}
    for number in range(count):
        made[f"JPEGImages/{number:03d}.png"] = encode(photo(number))
        made[f"Annotations/{number:03d}.xml"] = xml(*objects(number))
    return made


def entry(path, source=None, **more) -> dict:
    place = {"kind": "voc", "path": str(path), **(source or {})}
    return {**RGB_ENTRY, "task": "detection", "source": place, "splits": RANDOM, **more}


def records(path, source=None, **more) -> list:
    return open_source(entry(path, source, **more), where="dataset set").records()


def one(tmp_path, *objects: str, **options):
    """The objects of one image that is annotated so."""
    made = {"JPEGImages/a.png": encode(photo(0)), "Annotations/a.xml": xml(*objects)}
    return records(write_folder(tmp_path / "one", made), options)[0].objects


@pytest.mark.parametrize("convention", ["one_based", "zero_based"])
def test_a_box_is_just_the_pixels_that_it_names(tmp_path, convention):
    rows, columns = np.arange(24), np.arange(32)
    first = 1 if convention == "one_based" else 0
    box = (first + 4, first + 2, first + 9, first + 7)
    # pixels numbered as the file numbers them, painted where it says that the object is
    inside = np.logical_and.outer(
        (rows + first >= box[1]) & (rows + first <= box[3]),
        (columns + first >= box[0]) & (columns + first <= box[2]),
    )
    painted_rows, painted_columns = np.nonzero(inside)
    objects = one(tmp_path, element(box=box), corners=convention)
    assert objects.boxes.tolist() == [
        [
            painted_columns.min(),
            painted_rows.min(),
            painted_columns.max() + 1,
            painted_rows.max() + 1,
        ]
    ]
    assert objects.areas.tolist() == [inside.sum()]


def test_the_whole_image_by_default_begins_at_1(tmp_path):
    assert one(tmp_path, element(box=(1, 1, 32, 24))).boxes.tolist() == [[0, 0, 32, 24]]


def test_edges_are_taken_as_they_are(tmp_path):
    box = (0.25, 0, 31.5, 24)
    assert one(tmp_path, element(box=box), corners="edges").boxes.tolist() == [list(box)]


def test_a_difficult_object_is_a_crowd(tmp_path):
    found = one(tmp_path, element(difficult=1), element(difficult=0), element())
    assert found.crowd.tolist() == [True, False, False]
    assert found.numbers.tolist() == [0, 1, 2]


def test_parts_of_an_object_are_none_of_its_own(tmp_path):
    part = "<part><name>head</name><bndbox><xmin>1</xmin></bndbox></part>"
    found = one(tmp_path, element("person").replace("</object>", f"{part}</object>"))
    assert len(found) == 1


def test_the_size_in_the_file_may_be_absent_or_0(tmp_path):
    for number, size in enumerate((None, (0, 0))):
        made = {"JPEGImages/a.png": encode(photo(0)), "Annotations/a.xml": xml(size=size)}
        place = write_folder(tmp_path / str(number), made)
        assert records(place, classes=["tree"])[0].image_size == (24, 32)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "latin-1"])
def test_encodings_are_read_as_declared(tmp_path, encoding):
    text = f"<?xml version='1.0' encoding='{encoding}'?><annotation>{element('Käfer')}</annotation>"
    made = {"JPEGImages/a.png": encode(photo(0)), "Annotations/a.xml": text.encode(encoding)}
    source = open_source(entry(write_folder(tmp_path, made)), where="dataset set")
    assert source.classes == ["Käfer"]


@pytest.mark.parametrize("pack", [write_folder, write_zip, write_tar])
def test_stores_hold_the_objects(tmp_path, pack):
    names = ["oak", "ash"]

    def objects(number):
        return [element(names[k % 2], (1 + k, 1, 4 + k, 5)) for k in range(number % 4)]

    place = pack(
        tmp_path / ("set.zip" if pack is write_zip else "set.tar"), files(12, objects=objects)
    )
    out = Prepared(tmp_path / "out")
    card = out.run(entry(place, allow_missing_classes=True))
    assert card["classes"] == ["ash", "oak"] and card["detection"]["geometry"] == "box"
    assert sum(part["empty"] for part in card["detection"]["splits"].values()) == 3
    assert sum(part["objects"] for part in card["detection"]["splits"].values()) == 18
    seen = 0
    for path in out.outputs.values():
        table = ImageStore(path).samples
        for name, found in zip(
            table["sample_id"].to_pylist(), objects_of(table["objects"]), strict=True
        ):
            number = int(name[-7:-4])
            assert found.boxes.tolist() == [[k, 0, 4 + k, 5] for k in range(number % 4)]
            assert found.classes.tolist() == [1, 0, 1][: number % 4]
            seen += 1
    assert seen == 12


def test_splits_come_from_the_image_sets(tmp_path):
    made = files(10)
    lists = {"train": range(5), "val": range(5, 7), "test": range(7, 10), "trainval": range(7)}
    for split, numbers in lists.items():
        text = "".join(f"{number:03d}\r\n" for number in numbers)
        made[f"ImageSets/Main/{split}.txt"] = text.encode()
    made["ImageSets/Main/tree_train.txt"] = b"000 1\n001 -1\n"
    place = write_folder(tmp_path / "set", made)
    options = {"image_sets": "ImageSets/Main/<split>.txt"}
    card = Prepared(tmp_path / "out").run(entry(place, options, splits=GIVEN))
    assert [card["splits"][split]["count"] for split in ("train", "val", "test")] == [5, 2, 3]
    both = {"method": "given", "map": {"train": ["trainval"], "test": ["test"]}}
    found = records(place, options, splits={**both, "val_from_train": 0.3})
    assert [record.split for record in found] == ["trainval"] * 7 + ["test"] * 3


def test_images_that_no_list_names_are_left_out_only_if_declared(tmp_path):
    made = files(4)
    made["ImageSets/Main/train.txt"] = b"000\n002\n"
    # what is wrong with an image that is not used does no harm
    made["Annotations/003.xml"] = b""
    place = write_folder(tmp_path / "set", made)
    options = {"image_sets": "ImageSets/Main/<split>.txt"}
    with pytest.raises(PermafrostError, match="2 of 4 images are in no image set, e.g. 001, 003"):
        records(place, options, splits=GIVEN)
    found = records(place, {**options, "unlisted": "ignore"}, splits=GIVEN)
    assert [record.sample_id for record in found] == [
        "JPEGImages/000.png",
        "JPEGImages/002.png",
    ]


def test_folders_may_name_the_splits(tmp_path):
    made = {}
    for split in ("train", "test"):
        made[f"{split}/a.png"], made[f"{split}/a.xml"] = encode(photo(0)), xml(element())
    place = write_folder(tmp_path / "set", {f"in/{name}": data for name, data in made.items()})
    options = {"root": "in", "images": "<split>/<stem>.png", "annotations": "<split>/<stem>.xml"}
    found = records(place, options)
    assert [(r.sample_id, r.split) for r in found] == [
        ("test/a.png", "test"),
        ("train/a.png", "train"),
    ]


def test_an_image_without_a_file_is_empty_only_if_declared(tmp_path):
    made = files(3)
    del made["Annotations/001.xml"]
    place = write_folder(tmp_path / "set", made)
    with pytest.raises(PermafrostError, match="1 images without a file of annotations: .*001.png"):
        records(place)
    assert [len(record.objects) for record in records(place, {"missing": "empty"})] == [1, 0, 1]
