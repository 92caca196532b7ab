"""Images that cannot be read are left out up to the share that an entry allows, named and counted; more are refused."""

import numpy as np
import pytest
from helpers.datasets.images import (
    RANDOM,
    RGB_ENTRY,
    Prepared,
    class_files,
    dataset_entry,
    encode,
    folder_entry,
    geotiff,
    photo,
    write_folder,
    write_table,
    write_zip,
)
from helpers.datasets.objects import coco, coco_entry
from permafrost.core.errors import PermafrostError
from permafrost.data.files import decode
from permafrost.data.files.failures import Failure
from permafrost.data.store.image_store import ImageStore
from permafrost.data.store.job import _allowed

BROKEN = ["field/001.png", "town/004.png"]


def broken(files: dict[str, bytes], names=BROKEN) -> dict[str, bytes]:
    """The files, of which the first half of some is left."""
    return {name: data[: len(data) // 2] if name in names else data for name, data in files.items()}


def samples(out: Prepared) -> dict[str, np.ndarray]:
    """Each stored sample's name and pixels."""
    found = {}
    for path in out.outputs.values():
        store = ImageStore(path)
        found |= zip(store.samples["sample_id"].to_pylist(), store.read().images, strict=True)
    return found


def test_unreadable_images_are_left_out_named_and_counted(tmp_path):
    folder = write_folder(tmp_path / "set", broken(class_files()))
    out = Prepared(tmp_path / "out")
    card = out.run(folder_entry(folder, on_error={"skip_up_to": 0.1}))
    assert sorted(card["skipped"]) == BROKEN and all(card["skipped"].values())
    assert out.card["skipped"] == card["skipped"]
    found = samples(out)
    assert sorted(found) == sorted(set(class_files()) - set(BROKEN))
    assert (found["town/003.png"] == photo(1003).transpose(2, 0, 1)).all()
    assert sum(split["count"] for split in card["splits"].values()) == 18
    assert sum(sum(split["class_counts"]) for split in card["splits"].values()) == 18


@pytest.mark.parametrize("allowed", [None, 0.05, 0.09])
def test_more_than_the_share_is_an_error_that_names_them(tmp_path, allowed):
    folder = write_folder(tmp_path / "set", broken(class_files()))
    more = {} if allowed is None else {"on_error": {"skip_up_to": allowed}}
    out = Prepared(tmp_path / "out")
    with pytest.raises(PermafrostError, match="2 of 20 images cannot be used") as error:
        out.run(folder_entry(folder, **more))
    assert all(name in str(error.value) for name in BROKEN) and out.leftovers() == []
    assert ("on_error" in error.value.remedy) == (allowed is not None)


@pytest.mark.parametrize("parts", [None, 2])
def test_an_image_for_which_memory_lacks_is_refused_whatever_the_share(
    tmp_path, monkeypatch, parts
):
    files = class_files()
    folder = write_folder(tmp_path / "set", files)
    pillow = decode._pillow

    def short_of_memory(data, decoding):
        if data == files["field/001.png"]:
            raise MemoryError
        return pillow(data, decoding)

    monkeypatch.setattr(decode, "_pillow", short_of_memory)
    out = Prepared(tmp_path / "out")
    with pytest.raises(
        PermafrostError, match="1 of 20 .*field/001.png: .*MemoryError.*more memory"
    ):
        out.run(folder_entry(folder, on_error={"skip_up_to": 0.9}), parts=parts)
    assert out.leftovers() == []


def test_a_set_without_such_images_is_prepared_as_ever(tmp_path):
    folder = write_folder(tmp_path / "set", class_files())
    cards = [
        Prepared(tmp_path / name).run(folder_entry(folder, **more))
        for name, more in (("a", {}), ("b", {"on_error": {"skip_up_to": 0.1}}))
    ]
    assert cards[0] == cards[1] and "skipped" not in cards[0]


def test_images_whose_place_cannot_be_read_are_left_out_before_blocks_are_made(tmp_path):
    files = {
        f"{kind}/{number:03d}.tif": geotiff(photo(number).transpose(2, 0, 1), lon=10 + number)
        for number in range(12)
        for kind in ("field", "town")
    }
    files["field/002.tif"] = files["field/002.tif"][:40]
    folder = write_folder(tmp_path / "set", files)
    splits = {"method": "block", "block_km": 10, "fractions": [0.5, 0.25, 0.25]}
    entry = folder_entry(folder, splits=splits)
    with pytest.raises(PermafrostError, match="1 of 24 images"):
        Prepared(tmp_path / "no").run(entry)
    out = Prepared(tmp_path / "out")
    card = out.run({**entry, "on_error": {"skip_up_to": 0.05}})
    assert list(card["skipped"]) == ["field/002.tif"] and len(samples(out)) == 23


def test_all_windows_of_an_image_are_left_out_with_it(tmp_path):
    tiles = {"size": 32, "overlap": 0.0}
    entry = coco_entry(tmp_path, coco(), tiles=tiles, on_error={"skip_up_to": 0.1})
    (path,) = (tmp_path).rglob("05.png")
    path.write_bytes(path.read_bytes()[:200])
    out = Prepared(tmp_path / "out")
    card = out.run(entry)
    assert [name.rpartition("/")[2] for name in card["skipped"]] == ["05.png"]
    names = {name.rpartition("#")[0].rpartition("/")[2] for name in samples(out)}
    assert len(names) == 11 and "05.png" not in names
    assert sum(split["images"] for split in card["detection"]["splits"].values()) == 11


@pytest.mark.parametrize("count", [7, 28, 29, 57, 58])
def test_exactly_the_share_is_allowed(tmp_path, count):
    # 0.29 * 100 is 28.999999999999996
    failures = [Failure(f"{number}.png", "cut off") for number in range(count)]
    folder = write_folder(tmp_path / "set", class_files())
    entry = dataset_entry(folder_entry(folder, on_error={"skip_up_to": count / 100}))
    assert len(_allowed(entry, failures, 100, "set")) == count
    with pytest.raises(PermafrostError, match=f"{count} of 99 images"):
        _allowed(entry, failures, 99, "set")
    assert len(_allowed(entry, failures[:-3], 100, "set", before=3)) == count - 3
    with pytest.raises(PermafrostError):
        _allowed(entry, failures[:-3], 100, "set", before=4)


def yolo_files(count: int = 20) -> dict[str, bytes]:
    files = {f"images/{n:02d}.png": encode(photo(n)) for n in range(count)}
    files |= {f"labels/{n:02d}.txt": f"{n % 2} 0.5 0.5 0.2 0.2\n".encode() for n in range(count)}
    return files


def voc_files(count: int = 20) -> dict[str, bytes]:
    box = "<bndbox><xmin>2</xmin><ymin>2</ymin><xmax>9</xmax><ymax>9</ymax></bndbox>"
    files = {f"images/{n:02d}.png": encode(photo(n)) for n in range(count)}
    return files | {
        f"labels/{n:02d}.xml": f"<annotation><object><name>{'ab'[n % 2]}</name>{box}"
        "</object></annotation>".encode()
        for n in range(count)
    }


def points_files(count: int = 20) -> dict[str, bytes]:
    files = {f"images/{n:02d}.png": encode(photo(n)) for n in range(count)}
    return files | {f"labels/{n:02d}.csv": b"x,y,label\n3,4,a\n5,6,b\n" for n in range(count)}


ANNOTATED = {
    "yolo": (yolo_files, {"labels": "labels"}, b"0 0.5 nan 0.2 0.2\n", b"1 0.5 0.5 3 0.2\n"),
    "voc": (voc_files, {"annotations": "labels"}, b"<annotation>", None),
    "points": (
        points_files,
        {"points": "labels", "label": "label"},
        b"x,y\n",
        b"x,y,label\n900,4,a\n",
    ),
}


@pytest.mark.parametrize("parts", [None, 3])
@pytest.mark.parametrize("kind", ANNOTATED)
def test_images_with_unusable_annotations_or_headers_are_left_out(tmp_path, kind, parts):
    made, options, broken_file, beyond = ANNOTATED[kind]
    files = made()
    ending = next(name for name in files if name.startswith("labels/"))[-4:]
    files[f"labels/03{ending}"] = broken_file
    files["images/07.png"] = b""
    if beyond is not None:
        files[f"labels/11{ending}"] = beyond
    lost = 2 + (beyond is not None)
    source = {
        "kind": kind,
        "path": str(write_folder(tmp_path / "set", files)),
        "images": "images",
        **options,
    }
    entry = {
        **RGB_ENTRY,
        "task": "point_detection" if kind == "points" else "detection",
        "classes": ["a", "b"],
        "source": source,
        "splits": RANDOM,
    }
    with pytest.raises(PermafrostError, match=f"{lost} entries of the annotations cannot be used"):
        Prepared(tmp_path / "no").run(entry)
    with pytest.raises(PermafrostError, match=f"{lost} of 20 images cannot be used"):
        Prepared(tmp_path / "few").run({**entry, "on_error": {"skip_up_to": 0.05}})
    out = Prepared(tmp_path / "out")
    card = out.run({**entry, "on_error": {"skip_up_to": 0.15}}, parts=parts)
    wanted = ["images/03.png", "images/07.png", *(["images/11.png"] if beyond else [])]
    assert sorted(card["skipped"]) == wanted
    assert f"labels/03{ending}" in card["skipped"]["images/03.png"]
    assert sorted(samples(out)) == sorted(
        f"images/{n:02d}.png" for n in range(20) if f"images/{n:02d}.png" not in wanted
    )


def test_an_annotation_of_coco_costs_its_image_only(tmp_path):
    content = coco()
    content["annotations"][0]["category_id"] = 99
    name = content["images"][content["annotations"][0]["image_id"]]["file_name"]
    entry = coco_entry(tmp_path, content)
    with pytest.raises(PermafrostError, match="category 99, which is not listed"):
        Prepared(tmp_path / "no").run(entry)
    card = Prepared(tmp_path / "out").run({**entry, "on_error": {"skip_up_to": 0.1}})
    assert list(card["skipped"]) == [name] and "category 99" in card["skipped"][name]
    # what is of no image is never left out
    content["annotations"][0]["image_id"] = 99
    entry = coco_entry(tmp_path, content, on_error={"skip_up_to": 0.1})
    with pytest.raises(PermafrostError, match="image 99, which is not listed"):
        Prepared(tmp_path / "no").run(entry)


def test_rows_whose_files_are_not_there_are_left_out(tmp_path):
    rows = [{"file": f"{n}.png", "kind": "ab"[n % 2]} for n in range(20)]
    files = {row["file"]: encode(photo(n)) for n, row in enumerate(rows) if n != 4}
    images = write_zip(tmp_path / "set.zip", files)
    source = {"kind": "table", "table": str(write_table(tmp_path / "a.csv", rows))}
    source |= {"images": str(images), "path": "file", "label": "kind"}
    entry = {**RGB_ENTRY, "source": source, "splits": RANDOM}
    with pytest.raises(PermafrostError, match="1 of 20 files listed.*are not in"):
        Prepared(tmp_path / "no").run(entry)
    card = Prepared(tmp_path / "out").run({**entry, "on_error": {"skip_up_to": 0.05}})
    assert list(card["skipped"]) == ["4.png"] and "is not in" in card["skipped"]["4.png"]


@pytest.mark.parametrize("broken_names", [[], BROKEN, ["field/000.png", *BROKEN]])
def test_parts_give_the_bytes_of_one_job_whatever_is_left_out(tmp_path, broken_names):
    folder = write_folder(tmp_path / "set", broken(class_files(), broken_names))
    entry = folder_entry(folder, on_error={"skip_up_to": 0.2})
    whole, joined = Prepared(tmp_path / "whole"), Prepared(tmp_path / "joined")
    card = whole.run(entry)
    assert joined.run(entry, parts=3) == card
    assert joined.contents() == whole.contents()
    assert sorted(card.get("skipped") or {}) == sorted(broken_names)


def test_the_share_of_parts_is_that_of_the_whole(tmp_path):
    names = ["field/001.png", "town/004.png", "town/007.png"]
    folder = write_folder(tmp_path / "set", broken(class_files(), names))
    with pytest.raises(PermafrostError, match="of 20 images cannot be used"):
        Prepared(tmp_path / "out").run(folder_entry(folder, on_error={"skip_up_to": 0.1}), parts=3)
    card = Prepared(tmp_path / "all").run(
        folder_entry(folder, on_error={"skip_up_to": 0.15}), parts=3
    )
    assert sorted(card["skipped"]) == names
