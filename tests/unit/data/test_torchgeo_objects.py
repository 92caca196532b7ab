"""Detection datasets of torchgeo, in the authors' layout, by the entries of the catalogue."""

import json

import numpy as np
import pytest
from helpers.datasets.images import (
    Prepared,
    catalogue_entry,
    encode,
    geotiff,
    open_source,
    photo,
    write_folder,
)
from helpers.datasets.rasters import npy
from permafrost.core.errors import PermafrostError
from permafrost.data.labels.objects import objects_of
from permafrost.data.store.image_store import ImageStore
from permafrost.metrics.objects.masks import masks_of_objects


def entry_of(name: str, data, **more) -> dict:
    """The catalogue's entry, with what lies in `data` and nothing fetched or summed up."""
    entry = catalogue_entry(name, data)
    arguments = entry["source"]["arguments"]
    if arguments.pop("download", False):
        arguments["checksum"] = False
    return {**entry, **more}


def opened(name: str, data, **more):
    return open_source(entry_of(name, data, **more), where="dataset set")


def of(source) -> dict:
    return {record.sample_id: record for record in source.records()}


def laid_out(name: str, data, files: dict) -> None:
    write_folder(data / "torchgeo" / name, files)


def debris(data, scenes=("20160928_153233_0e16", "20180330_1_0f", "20190101_2_1a")) -> None:
    files = {}
    for s, scene in enumerate(scenes):
        for i in range(4):
            stem = f"{scene}_16816-29821-{i}"
            image = photo(10 * s + i, (32, 32)).transpose(2, 0, 1)
            files[f"source/{stem}.tif"] = geotiff(image)
            # the last of the numbers is always 1; a box without width is left out by torchgeo
            files[f"labels/{stem}.npy"] = npy([[i, 2, i + 5, 9, 1], [3, 3, 3, 9, 1]])
    laid_out("nasa-marine-debris", data, files)


def test_nasa_marine_debris_has_one_class_and_no_labels(tmp_path):
    debris(tmp_path)
    out = Prepared(tmp_path / "out")
    card = out.run(entry_of("nasa-marine-debris", tmp_path))
    assert card["classes"] == ["marine debris"] and card["detection"]["geometry"] == "box"
    # whole scenes, one for each split
    assert [card["splits"][s]["groups"] for s in ("train", "val", "test")] == [1, 1, 1]
    for path in out.outputs.values():
        store = ImageStore(path)
        table = store.samples
        for name, scene, found in zip(
            table["sample_id"].to_pylist(),
            table["group_id"].to_pylist(),
            objects_of(table["objects"]),
            strict=True,
        ):
            assert name.startswith(f"source/{scene}_")
            number = int(name[-5])
            assert found.boxes.tolist() == [[number, 2, number + 5, 9]]
        assert store.dtype == np.uint8 and table["crs"][0].as_py() == "EPSG:4326"


def test_images_and_labels_that_only_the_order_matches_must_have_one_name(tmp_path):
    debris(tmp_path)
    home = tmp_path / "torchgeo" / "nasa-marine-debris"
    next(iter(sorted((home / "labels").iterdir()))).unlink()
    with pytest.raises(
        PermafrostError, match="12 images with 11 annotations by their order"
    ) as caught:
        opened("nasa-marine-debris", tmp_path)
    assert "29821-0.tif with 20160928_153233_0e16_16816-29821-1.npy" in str(caught.value)


def vhr10(data, count=6) -> None:
    images = [
        {"id": i, "file_name": f"{i + 1:03d}.jpg", "height": 40 + i, "width": 60}
        for i in range(count)
    ]
    annotations = [
        {
            "image_id": image["id"],
            "category_id": 1 + (i + k) % 10,
            "bbox": [k, 2 * k, 10, 5 + k],
            "segmentation": [[k, 2 * k, k + 10, 2 * k, k + 10, 3 * k + 5]],
        }
        for i, image in enumerate(images)
        for k in range(1 + i % 3)
    ]
    home = "NWPU VHR-10 dataset"
    files = {
        f"{home}.zip": b"",
        f"{home}/annotations.json": json.dumps(
            {"images": images, "annotations": annotations}
        ).encode(),
    }
    for i, image in enumerate(images):
        shape = image["height"], image["width"]
        name = f"{home}/positive image set/{image['file_name']}"
        files[name] = encode(photo(i, shape), "jpeg")
    laid_out("vhr10", data, files)


def test_vhr10_counts_its_classes_from_1(tmp_path):
    vhr10(tmp_path)
    source = opened("vhr10", tmp_path)
    assert source.classes[0] == "airplane" and len(source.classes) == 10
    records = source.records()
    assert records[2].sample_id == "NWPU VHR-10 dataset/positive image set/003.jpg"
    assert records[2].image_size == (42, 60)
    assert records[2].objects.classes.tolist() == [2, 3, 4]
    assert records[2].objects.boxes.tolist() == [[k, 2 * k, k + 10, 3 * k + 5] for k in range(3)]


def test_vhr10_keeps_the_masks_of_instances(tmp_path):
    vhr10(tmp_path)
    entry = {**entry_of("vhr10", tmp_path), "task": "instance_segmentation"}
    source = open_source(entry, where="dataset set")
    found = source.records()[2].objects
    part = next(iter(source._parts.values()))
    wanted = part[2]["mask"].numpy()
    drawn = masks_of_objects([found], [(42, 60)])
    np.testing.assert_array_equal([drawn.dense(i) for i in range(3)], wanted)
    assert found.areas.tolist() == wanted.sum(axis=(1, 2)).tolist() and wanted.any()
    entry["source"]["masks_key"] = "label"
    with pytest.raises(PermafrostError, match=r"masks have shape \(3,\), not \(3, height, width\)"):
        open_source(entry, where="dataset set")


def test_numbers_that_no_class_has_are_refused(tmp_path):
    vhr10(tmp_path)
    entry = entry_of("vhr10", tmp_path)
    entry["source"].pop("label_values")
    with pytest.raises(PermafrostError, match="002.jpg: its labels hold 3, which no class has"):
        # without the list of meanings, 1 would be the second class
        open_source({**entry, "classes": entry["classes"][:3]}, where="dataset set")
    entry = entry_of("vhr10", tmp_path)
    assert entry["source"]["label_values"].popitem() == (10, "vehicle")
    with pytest.raises(PermafrostError, match="do not name the same: vehicle"):
        open_source(entry, where="dataset set")


def test_reforestree_is_cut_into_tiles_by_farm(tmp_path):
    lines, files = ["img_path,xmin,ymin,xmax,ymax,group,AGB"], {}
    for f, farm in enumerate(("A Farm RGB", "B Farm RGB", "C Farm RGB")):
        for i in range(2):
            name = f"{farm}_{i}_0_0_60_40.png"
            files[f"tiles/{farm}/{name}"] = encode(photo(10 * f + i, (40, 60)))
            for k, group in enumerate(("banana", "other", "cacao")):
                lines.append(f"{name},{20 * k + f},{i},{20 * k + 10},{i + 9},{group},1.5")
    files["mapping/final_dataset.csv"] = "\n".join(lines).encode()
    laid_out("reforestree", tmp_path, files)
    out = Prepared(tmp_path / "out")
    more = {"tiles": {"size": 40, "overlap": 0}, "allow_missing_classes": True}
    card = out.run(entry_of("reforestree", tmp_path, **more))
    assert card["classes"] == ["other", "banana", "cacao", "citrus", "fruit", "timber"]
    assert [card["splits"][s]["count"] for s in ("train", "val", "test")] == [4, 4, 4]
    assert card["splits"]["train"]["class_counts"] == [2, 2, 2, 0, 0, 0]
    table = ImageStore(out.outputs["train"]).samples
    farm = "ABC".index(table["group_id"][0].as_py()[0])
    assert table["x_offset"].to_pylist() == [0, 20, 0, 20]
    shown = objects_of(table["objects"])
    # the second window begins at 20: it does not meet the first crown
    assert shown[1].boxes[:, 0].tolist() == [20 + farm, 40 + farm]
    assert shown[0].classes.tolist() == [1, 0]


def test_dota_lists_its_boxes_without_reading_an_image(tmp_path, monkeypatch):
    from torchgeo.datasets import DOTA

    rows, files = ["image_path,annotation_path,split,version"], {}
    for split, count in (("train", 5), ("val", 2)):
        for i in range(count):
            image, text = f"{split}/images/P{i}.png", f"{split}/annotations/version1.5/P{i}.txt"
            rows += [f"{image},{text},{split},1.5", f"{image},{text},{split},1.0"]
            files[image] = encode(photo(i, (40, 60)))
            lines = ["imagesource:GoogleEarth", "gsd:0.15"]
            lines += [f"{i} 3 9 {i} 20 9 10 12 ship 0", "50 30 65 30 65 39 50 39 plane 1"][: i % 3]
            files[text] = "\n".join(lines).encode()
    files["samples.csv"] = "\n".join(rows).encode()
    laid_out("dota", tmp_path, files)
    read = []
    loader = DOTA._load_image
    monkeypatch.setattr(
        DOTA, "_load_image", lambda self, path: read.append(path) or loader(self, path)
    )
    source = opened("dota", tmp_path)
    assert not read and len(source.classes) == 16
    found = of(source)
    assert {record.split for record in found.values()} == {"train", "test"} and len(found) == 7
    record = found["train/images/P2.png"]
    assert record.image_size == (40, 60) and record.clipped == 1
    assert record.objects.boxes.tolist() == [[2, 2, 20, 12], [50, 30, 60, 39]]
    assert record.objects.classes.tolist() == [1, 0]
    assert len(found["val/images/P0.png"].objects) == 0
    index = list(found).index("train/images/P2.png")
    np.testing.assert_array_equal(source.decode(index).image, photo(2, (40, 60)).transpose(2, 0, 1))
    assert read == ["train/images/P2.png"]


def fair1m_xml(objects) -> bytes:
    def points(corners):
        return "".join(f"<point>{x},{y}</point>" for x, y in [*corners, corners[0]])

    return (
        "<annotation><source><filename>0.tif</filename></source><objects>"
        + "".join(
            f"<object><possibleresult><name>{name}</name></possibleresult>"
            f"<points>{points(corners)}</points></object>"
            for name, corners in objects
        )
        + "</objects></annotation>"
    ).encode()


def test_fair1m_keeps_rotated_boxes_as_outlines(tmp_path):
    from shapely import Polygon

    corners = [(10.5, 4), (30, 14), (25, 24), (5.5, 14)]
    objects = [("Bridge", corners), ("Motorboat", [(1, 1), (4, 1), (4, 3), (1, 3)])]
    files = {}
    for place in ("train/part1", "train/part2", "validation"):
        for i in range(2):
            files[f"{place}/images/{i}.tif"] = encode(photo(i, (40, 60)), "tiff")
            files[f"{place}/labelXml/{i}.xml"] = fair1m_xml(objects)
    laid_out("fair1m", tmp_path, files)
    source = opened("fair1m", tmp_path)
    assert len(source.classes) == 37
    found = of(source)["train/part1/images/0.tif"].objects
    assert [source.classes[number] for number in found.classes] == ["Bridge", "Motorboat"]
    for box, area, rings, outline in zip(
        found.boxes, found.areas, found.polygons, [corners, objects[1][1]], strict=True
    ):
        assert tuple(box) == Polygon(outline).bounds
        assert area == pytest.approx(Polygon(outline).area)
        assert Polygon(np.reshape(rings[0], (-1, 2))).equals(Polygon(outline))


def test_rotated_boxes_are_taken_only_where_they_are_declared(tmp_path):
    files = {}
    for place in ("train/part1", "train/part2", "validation"):
        files[f"{place}/images/0.tif"] = encode(photo(0), "tiff")
        files[f"{place}/labelXml/0.xml"] = fair1m_xml(
            [("Bridge", [(1, 1), (4, 1), (4, 3), (1, 3)])]
        )
    laid_out("fair1m", tmp_path, files)
    entry = entry_of("fair1m", tmp_path)
    entry["source"].pop("boxes")
    with pytest.raises(
        PermafrostError, match=r"3 entries .*0.tif: its boxes have shape \(1, 5, 2\)"
    ):
        open_source(entry, where="dataset set")
    entry["source"].update(boxes="corners", corners="one_based")
    with pytest.raises(PermafrostError, match="corners: one_based is for upright boxes"):
        open_source(entry, where="dataset set")


def voc_xml(objects, *, tag="name") -> bytes:
    parts = [
        f"<object><name>Larch</name><{tag}>{name}</{tag}><bndbox>"
        + "".join(
            f"<{side}>{value}</{side}>"
            for side, value in zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True)
        )
        + "</bndbox></object>"
        for name, box in objects
    ]
    text = f"<annotation><filename>a.JPG</filename>{''.join(parts)}</annotation>"
    return text.replace("<name>Larch</name>" if tag == "name" else "\0", "").encode()


def test_dior_and_its_test_split_without_boxes(tmp_path):
    rows, files = ["image_path,label_path,split"], {}
    for split, count in (("train", 4), ("val", 2), ("test", 1)):
        for i in range(count):
            image, label = f"Images_{split}/{i}.jpg", f"Annotations_{split}/{i}.xml"
            rows.append(f"{image},{label if split != 'test' else ''},{split}")
            files[image] = encode(photo(i), "jpeg")
            files[label] = voc_xml([("ship", (1, 1, 32, 24)), ("dam", (3, 4, 3, 4))])
    files["sample_df.csv"] = "\n".join(rows).encode()
    laid_out("dior", tmp_path, files)
    source = opened("dior", tmp_path)
    record = of(source)["Images_val/1.jpg"]
    assert record.split == "test" and record.image_size == (24, 32)
    assert record.objects.boxes.tolist() == [[0, 0, 32, 24], [2, 3, 3, 4]]
    assert [source.classes[number] for number in record.objects.classes] == ["ship", "dam"]
    entry = entry_of("dior", tmp_path)
    entry["source"]["split_arguments"]["test"] = {"split": "test"}
    with pytest.raises(PermafrostError, match="0.jpg: has no 'bbox_xyxy', only image"):
        open_source(entry, where="dataset set")


def test_forest_damage_groups_the_days_of_a_place(tmp_path):
    files = {}
    for place in ("Ekbacka_20190527", "Ekbacka_20190819", "Kampe_20190527", "Nordkap_20190527"):
        for i in range(2):
            stem = f"{place}_{i}"
            home = f"Data_Set_Larch_Casebearer/{place}"
            files[f"{home}/Images/{stem}.JPG"] = encode(photo(i), "jpeg")
            files[f"{home}/Annotations/{stem}.xml"] = voc_xml([("LD", (1, 2, 8, 9))], tag="damage")
    laid_out("forest-damage", tmp_path, files)
    source = opened("forest-damage", tmp_path)
    assert source.classes == ["other", "H", "LD", "HD"]
    records = source.records()
    assert sorted({record.group_id for record in records}) == ["Ekbacka", "Kampe", "Nordkap"]
    assert records[0].objects.boxes.tolist() == [[0, 1, 8, 9]]
    assert records[0].objects.classes.tolist() == [2]


def test_a_damaged_image_is_named_with_its_file(tmp_path):
    vhr10(tmp_path)
    name = "NWPU VHR-10 dataset/positive image set/004.jpg"
    (tmp_path / "torchgeo" / "vhr10" / name).write_bytes(b"no image")
    with pytest.raises(PermafrostError, match=f"1 entry .*{name}: UnidentifiedImageError"):
        opened("vhr10", tmp_path)
