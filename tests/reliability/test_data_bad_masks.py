"""Masks that cannot be right give one clear error that names file, entry and remedy."""

import numpy as np
import pytest
from helpers.datasets.images import (
    Prepared,
    encode,
    mask,
    pair_entry,
    pair_files,
    photo,
    write_folder,
    write_table,
    write_zip,
)
from permafrost.core.errors import PermafrostError
from permafrost.data.store.image_store import ImageStore


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


def broken(tmp_path, name="masks/05.png", data=b""):
    """A folder of pairs in which one file is another."""
    return write_folder(tmp_path / "set", {**pair_files(), name: data})


def test_a_mask_of_another_size_than_its_image(out, tmp_path):
    place = broken(tmp_path, data=encode(mask(5, size=(32, 24))))
    refused(
        out,
        pair_entry(place),
        "1 of 12 images cannot be used: images/05.png: its mask masks/05.png is 32 x 24 pixels,"
        " the image 24 x 32",
    )


def test_mask_values_that_no_class_has(out, tmp_path):
    place = broken(tmp_path, data=encode(mask(5, values=(0, 7, 9, 255))))
    refused(
        out,
        pair_entry(place),
        "images/05.png: its mask masks/05.png holds the values 7, 9: no class id below 3, nor the"
        " ignore value (255)",
        "declare what these values mean: classes, mask_values, ignore_index",
    )


def test_mask_values_that_the_entry_does_not_name(out, tmp_path):
    place = broken(tmp_path, data=encode(mask(5, values=(0, 7, 255))))
    named = {0: "land", 1: "sea", 2: "town"}
    refused(
        out,
        pair_entry(place, mask_values=named),
        "images/05.png: its mask masks/05.png: holds the values 7, which mask_values does not name",
        "name them in mask_values",
    )


def test_a_colour_that_the_entry_does_not_name(out, tmp_path):
    colours = np.array([(255, 0, 0), (0, 255, 0), (0, 0, 255)], np.uint8)
    files = pair_files()
    for number in range(12):
        painted = colours[mask(number, values=(0, 1, 2))]
        if number == 5:
            painted[0, :2] = (254, 0, 0)  # as blurred borders have it
        files[f"masks/{number:02d}.png"] = encode(painted)
    named = {"#FF0000": "land", "#00FF00": "sea", "#0000FF": "town"}
    entry = pair_entry(write_zip(tmp_path / "a.zip", files), mask_values=named)
    refused(out, entry, "its mask masks/05.png: holds the colours #FE0000, which mask_values does")


@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_a_mask_without_a_labelled_pixel_is_an_error_in_every_split(out, tmp_path, split):
    parts = {name: ["train", "val", "test"][int(name[-6:-4]) % 3] for name in pair_files()}
    files = {f"{parts[name]}/{name}": data for name, data in pair_files().items()}
    name = next(name for name in files if name.startswith(f"{split}/masks/"))
    files[name] = encode(np.full((24, 32), 255, np.uint8))
    source = {"images": "<split>/images", "masks": "<split>/masks"}
    place = write_folder(tmp_path / "set", files)
    refused(
        out,
        pair_entry(place, source, splits={"method": "given"}),
        f"1 of 12 images cannot be used: {name.replace('masks', 'images')}: its mask {name} has no"
        " labelled pixel. Remedy: set allow_empty_masks: true",
    )


def test_empty_masks_can_be_permitted(out, tmp_path):
    place = broken(tmp_path, data=encode(np.full((24, 32), 255, np.uint8)))
    card = out.run(pair_entry(place, allow_empty_masks=True))
    empty = [
        (ImageStore(path).read().masks == 255).all(axis=(1, 2)).sum()
        for path in out.outputs.values()
    ]
    assert sum(empty) == 1
    assert sum(split["count"] for split in card["splits"].values()) == 12


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "its mask masks/05.png: empty"),
        (b"\x89PNG\r\n\x1a\nbroken", "its mask masks/05.png: "),
        (encode(mask(5))[:-40], "its mask masks/05.png: "),
        (encode(photo(5)), "its mask masks/05.png: has 3 channels, not one"),
        (encode(photo(5), "jpeg"), "its mask masks/05.png: a JPEG, whose losses change values"),
    ],
)
def test_a_mask_that_cannot_be_read(out, tmp_path, data, message):
    refused(out, pair_entry(broken(tmp_path, data=data)), "images/05.png", message)


def test_an_image_without_a_mask_and_a_mask_without_an_image(out, tmp_path):
    files = pair_files()
    del files["masks/05.png"], files["masks/06.png"], files["images/09.png"]
    refused(
        out,
        pair_entry(write_folder(tmp_path / "set", files)),
        "2 images without a mask: images/05.png, images/06.png and 1 masks without an image:"
        " masks/09.png",
    )


def test_two_images_of_one_name(out, tmp_path):
    place = broken(tmp_path, "images/05.jpg", encode(photo(5), "jpeg"))
    refused(out, pair_entry(place), "two images of one name: images/05.jpg and images/05.png")


def test_files_that_are_no_pair_are_an_error_unless_ignored(out, tmp_path):
    place = broken(tmp_path, "masks/05.xml", b"<a/>")
    refused(out, pair_entry(place), "1 files that are neither images nor masks, e.g. masks/05.xml")
    out.run(pair_entry(place, {"other_files": "ignore"}))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"images": "pictures", "masks": "labels"}, "neither images (pictures) nor masks (labels)"),
        ({"images": "<split>/images"}, "do not have the same parts in <…>"),
        ({"split_folders": True}, "split_folders is for folders of classes"),
        ({"images": "<stem>/<stem>.png"}, "names a part in <…> twice"),
    ],
)
def test_options_that_do_not_fit_the_folder(out, tmp_path, source, message):
    refused(out, pair_entry(write_folder(tmp_path / "set", pair_files()), source), message)


def test_masks_without_a_list_of_classes(out, tmp_path):
    place = write_folder(tmp_path / "set", pair_files())
    refused(out, pair_entry(place, classes=None), "masks need the list of classes")


def test_patterns_of_pairs_in_an_entry_for_classes(out, tmp_path):
    place = write_folder(tmp_path / "set", pair_files())
    entry = {**pair_entry(place, {"images": "images"}), "task": "classification"}
    del entry["ignore_index"]
    refused(out, entry, "do not contain <class>, the name of the class")


def test_a_class_that_train_does_not_hold(out, tmp_path):
    place = write_folder(tmp_path / "set", pair_files(values=(0, 1, 255)))
    refused(out, pair_entry(place), "train has no sample of 1 class: town", "allow_missing_classes")


def test_a_table_that_lists_a_mask_which_is_not_there(out, tmp_path):
    place = write_zip(tmp_path / "a.zip", pair_files())
    rows = [
        {"n": f"{number:02d}", "m": f"{number + (number == 7) * 80:02d}"} for number in range(12)
    ]
    source = {
        "kind": "table",
        "table": str(write_table(tmp_path / "index.csv", rows)),
        "images": str(place),
        "path": "images/<n>.png",
        "masks": "masks/<m>.png",
    }
    entry = pair_entry(place) | {"source": source}
    refused(out, entry, "1 of 12 masks listed in ", "masks/87.png", "correct masks in the entry")
    source["masks"] = "../<m>.png"
    refused(out, entry, "leads out of it")


def test_damage_of_a_mask_in_a_zip_names_the_archive(out, tmp_path):
    path = write_zip(tmp_path / "a.zip", pair_files())
    data = bytearray(path.read_bytes())
    at = data.index(b"masks/05.png") + len("masks/05.png") + 60
    data[at] ^= 255
    path.write_bytes(data)
    refused(out, pair_entry(path), f"its mask masks/05.png: cannot be read from {path} (Bad CRC-32")
