"""Values of mask files become class ids as the entry declares, and no value is guessed."""

import io
import struct
import zlib

import numpy as np
import pytest
from helpers.datasets.images import CONFIG, MASK_ENTRY, dataset_entry, encode, geotiff, photo
from permafrost.core.errors import PermafrostError
from permafrost.data.files.decode import UnreadableImage
from permafrost.data.labels.masks import check_options, declared_dead, decode_mask, mask_coding
from permafrost.data.sources import read_entry
from permafrost.plan.catalogue import Catalogue

CLASSES = MASK_ENTRY["classes"]
LABELS = np.arange(12, dtype=np.uint8).reshape(3, 4)
COLOURS = {"#FF0000": "land", "#00ff00": "sea", "#0000FF": "town", "#000000": None}


def coding(**more):
    return mask_coding(entry(**{"ignore_index": 255, **more}), CLASSES, where="dataset set")


def entry(kind: str = "folder", **more):
    known = {key: value for key, value in MASK_ENTRY.items() if key != "ignore_index"}
    source = {"kind": kind} if kind == "demo" else {"kind": kind, "path": "images"}
    return dataset_entry({**known, "source": source, **more})


def palette_png(labels, colours) -> bytes:
    from PIL import Image

    image = Image.fromarray(labels, mode="P")
    image.putpalette([channel for colour in colours for channel in colour])
    stream = io.BytesIO()
    image.save(stream, "png")
    return stream.getvalue()


def grey_png(rows: list[list[int]], bits: int) -> bytes:
    """A PNG of grey levels with `bits` bits each, which Pillow cannot write."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    lines = b""
    for row in rows:
        text = "".join(f"{value:0{bits}b}" for value in row)
        text += "0" * (-len(text) % 8)
        lines += b"\0" + int(text, 2).to_bytes(len(text) // 8, "big")
    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), bits, 0, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def test_one_channel_is_kept_as_it_is_with_8_and_with_16_bits():
    np.testing.assert_array_equal(decode_mask(encode(LABELS)), LABELS)
    deep = LABELS.astype(np.uint16) * 5000
    for data in (encode(deep), encode(deep, "tiff"), geotiff(deep[None])):
        decoded = decode_mask(data)
        np.testing.assert_array_equal(decoded, deep)
        assert decoded.dtype == np.uint16


def test_palettes_give_their_indices_in_png_and_in_tiff():
    palette = [(255 - i, i, 7) for i in range(12)]
    np.testing.assert_array_equal(decode_mask(palette_png(LABELS, palette)), LABELS)
    tiff = geotiff(LABELS[None], colormap={i: (*c, 255) for i, c in enumerate(palette)})
    np.testing.assert_array_equal(decode_mask(tiff), LABELS)


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_grey_of_few_bits_is_not_stretched(bits):
    rows = [[value % 2**bits for value in range(start, start + 5)] for start in (0, 3, 11)]
    np.testing.assert_array_equal(decode_mask(grey_png(rows, bits)), rows)


def test_colours_are_packed_and_a_palette_counts_by_its_colours():
    palette = [(255, 0, 0), (0, 255, 0), (0, 0, 255), (0, 0, 0)]
    labels = LABELS % 4
    plain = encode(np.array(palette, np.uint8)[labels])
    ids = np.array([0, 1, 2, 255])[labels]
    opaque = np.dstack([np.array(palette, np.uint8)[labels], np.full(labels.shape, 255, np.uint8)])
    for data in (
        plain,
        palette_png(labels, palette),
        encode(opaque),
        encode(plain_array(plain), "tiff"),
    ):
        read = coding(mask_values=COLOURS).read(data)
        np.testing.assert_array_equal(read, ids)
        assert read.dtype == np.uint8


def plain_array(data: bytes) -> np.ndarray:
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(data)))


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (encode(photo(1)), {}, "3 channels, not one"),
        (encode(LABELS), {"mask_values": COLOURS}, "one channel of uint8, but mask_values names col"),
        (encode(photo(1), "jpeg"), {}, "JPEG, whose losses"),
        (encode(LABELS)[:40], {}, "Error"),
        (b"", {}, "empty"),
        (b"GIF89a...", {}, "neither PNG nor TIFF"),
        (encode(photo(1)), {"mask_values": COLOURS}, "holds the colours #.* and .* more, which"),
        (
            encode(np.dstack([photo(1), photo(2)[..., 0]])),
            {"mask_values": COLOURS},
            "transparent pixels",
        ),
        (geotiff(LABELS[None] / np.float32(2)), {}, "float32 values that are not whole numbers"),
        (encode(LABELS), {"mask_values": {0: "land", 1: "sea", 7: "town"}}, "holds the values 2, 3"),
    ],
)  # fmt: skip
def test_what_is_no_such_mask_says_why(data, options, message):
    with pytest.raises(UnreadableImage, match=message):
        coding(**options).read(data)


def test_numbers_are_mapped_and_the_ignore_index_stands_for_itself():
    stored = np.array([[3, 9], [300, 255]], np.uint16)
    values = {"3": "town", 9: "land", 300: "sea"}  # keys are text once an entry has been JSON
    np.testing.assert_array_equal(coding(mask_values=values)(stored), [[2, 0], [1, 255]])
    several = {**values, 255: "sea", 0: None}
    np.testing.assert_array_equal(coding(mask_values=several)(stored), [[2, 0], [1, 1]])
    assert coding(mask_values=several)(np.zeros((2, 2), np.uint16)).tolist() == [[255] * 2] * 2


def test_foreign_values_are_named_most_frequent_first_and_not_all():
    stored = np.array([[50, 7, 60, 70, 80, 90, 9, 9]], np.uint8)
    with pytest.raises(UnreadableImage, match="the values 9, 7, 50, 60, 70 and 2 more, which"):
        coding(mask_values={0: "land", 1: "sea", 2: "town"})(stored)


def test_floats_that_are_whole_numbers_are_accepted():
    whole = coding()(np.array([[0.0, 2.0]], np.float32))
    assert whole.tolist() == [[0, 2]] and whole.dtype.kind == "i"
    with pytest.raises(UnreadableImage, match="not whole numbers"):
        coding()(np.array([[0.0, np.nan]]))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"ignore_index": 1}, "ignore_index 1 is also the id of the class sea"),
        (
            {"mask_values": {0: "land", 1: "see", 2: "town"}},
            "unknown class 'see', did you mean",
        ),
        ({"mask_values": {0: "land", 1: "sea"}}, "no value for town"),
        ({"mask_values": {0: "land", "#FF0000": "sea", 2: "town"}}, "mixes numbers and colours"),
        ({"mask_values": {"red": "land"}}, "'red', neither a number up to 65535 nor a colour"),
        ({"mask_values": {70000: "land"}}, "'70000', neither a number"),
        ({"mask_values": {"1": "land", "01": "sea", "2": "town"}}, "names a value twice"),
        (
            {"mask_values": {0: "land", 1: "sea", 2: "town", 3: None}, "ignore_index": None},
            "without a label \\(null\\), but there is no ignore_index",
        ),
    ],
)
def test_a_declaration_that_does_not_fit_is_refused(more, message):
    with pytest.raises(PermafrostError, match=message) as caught:
        coding(**more)
    assert caught.value.remedy and caught.value.where == "dataset set"


def test_a_class_declared_dead_needs_no_value():
    read = coding(mask_values={5: "land", 6: "sea"}, dead_classes=["town"])
    assert read(np.array([[5, 6]], np.uint8)).tolist() == [[0, 1]]


def test_dead_classes_are_names_of_classes_and_leave_one():
    assert declared_dead(entry(dead_classes=["town", "land"]), CLASSES, where="x") == [0, 2]
    assert declared_dead(entry(), CLASSES, where="x") == []
    with pytest.raises(PermafrostError, match="unknown class 'lnd', did you mean 'land'"):
        declared_dead(entry(dead_classes=["lnd"]), CLASSES, where="x")
    with pytest.raises(PermafrostError, match="excludes all classes"):
        declared_dead(entry(dead_classes=list(CLASSES)), CLASSES, where="x")


def test_options_about_masks_are_refused_where_they_would_do_nothing():
    with pytest.raises(PermafrostError, match="ignore_index has no meaning"):
        check_options(entry(task="classification", ignore_index=255), where="x")
    with pytest.raises(PermafrostError, match="mask_values has no meaning"):
        check_options(entry("demo", mask_values={0: "a"}), where="x")
    check_options(entry("demo", dead_classes=["sea"]), where="x")
    check_options(entry(ignore_index=255), where="x")


def test_every_segmentation_entry_of_the_catalogue_declares_masks_that_fit():
    entries = Catalogue("dataset", [CONFIG], {}).choose(["all"])
    chosen = {name: e for name, e in entries.items() if e["task"] == "segmentation"}
    assert {"dubai-segmentation", "demo-segmentation", "loveda", "landcoverai"} <= set(chosen)
    for name, entry in chosen.items():
        typed = read_entry(entry, where=name)
        check_options(typed, where=name)
        mask_coding(typed, typed.classes or ["a", "b"], where=name)
