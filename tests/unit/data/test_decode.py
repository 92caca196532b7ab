"""Formats are decoded to their native type; what has two readings is an error unless permitted."""

import io

import numpy as np
import pytest
from helpers.datasets.images import (
    RANDOM,
    RGB_ENTRY,
    Prepared,
    encode,
    geotiff,
    open_source,
    photo,
    write_folder,
)
from permafrost.core.errors import PermafrostError
from permafrost.data.files.decode import (
    Decoding,
    UnreadableImage,
    decode_image,
    image_format,
    no_truncated_images,
    readable,
    tiff_place,
)
from PIL import Image

RGB = Decoding(bands=3)


def permitted(*conversions, bands=3):
    return Decoding(bands, frozenset(conversions))


def test_png_is_returned_exactly_with_bands_first():
    array = photo(1)
    decoded = decode_image(encode(array), RGB)
    np.testing.assert_array_equal(decoded.image, array.transpose(2, 0, 1))
    assert decoded.image.dtype == np.uint8 and decoded.place.lon is None


def test_jpeg_is_close_and_told_by_its_bytes_not_its_name():
    data = encode(photo(2), "jpeg", quality=95)
    assert image_format(data) == "jpeg"
    image = decode_image(data, RGB).image.astype(int)
    assert np.abs(image - photo(2).transpose(2, 0, 1)).mean() < 6


def test_16_bit_grey_and_16_bit_colour_png_keep_their_16_bits():
    grey = np.arange(0, 60000, 1000, dtype=np.uint16).reshape(6, 10)
    np.testing.assert_array_equal(decode_image(encode(grey), Decoding(1)).image[0], grey)
    colour = np.stack([grey, grey + 1, grey + 2])
    nowhere = {"crs": None, "transform": None}
    data = geotiff(colour, driver="PNG", **nowhere)
    image = decode_image(data, RGB).image
    assert image.dtype == np.uint16
    np.testing.assert_array_equal(image, colour)
    for broken in (data[: len(data) // 2], geotiff(colour, driver="PNG", nodata=7, **nowhere)):
        with pytest.raises(UnreadableImage):
            decode_image(broken, RGB)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16", "float32"])
def test_geotiff_with_any_number_of_bands_and_its_place(dtype):
    array = np.arange(5 * 8 * 6).reshape(5, 8, 6).astype(dtype)
    data = geotiff(array, lon=-71.5, lat=-30.25)
    decoded = decode_image(data, Decoding(5))
    np.testing.assert_array_equal(decoded.image, array)
    assert decoded.image.dtype == dtype
    assert (decoded.place.lon, decoded.place.lat) == pytest.approx((-71.5, -30.25))
    assert tiff_place(data) == decoded.place


def test_a_projected_geotiff_gives_degrees():
    import rasterio
    from rasterio.transform import from_origin

    with rasterio.MemoryFile() as memory:
        with memory.open(
            driver="GTiff",
            count=1,
            height=10,
            width=10,
            dtype="uint8",
            crs="EPSG:32633",
            transform=from_origin(500_000 - 50, 5_000_000 + 50, 10, 10),
        ) as dataset:
            dataset.write(np.ones((1, 10, 10), np.uint8))
        place = tiff_place(memory.read())
    assert place.lon == pytest.approx(15.0, abs=1e-6)
    assert place.lat == pytest.approx(45.15, abs=0.01)


def test_plain_tiff_without_georeference():
    array = np.random.default_rng(0).normal(size=(4, 9, 7)).astype(np.float32)
    decoded = decode_image(
        geotiff(array, crs=None, transform=None, interleave="pixel"), Decoding(4)
    )
    np.testing.assert_array_equal(decoded.image, array)
    assert decoded.place.lon is None


def test_a_tiff_of_several_pages_is_refused():
    stream = io.BytesIO()
    pages = [Image.fromarray(np.zeros((64, 64), np.uint8)) for _ in range(3)]
    pages[0].save(stream, "tiff", save_all=True, append_images=pages[1:])
    with pytest.raises(UnreadableImage, match="3 pages"):
        decode_image(stream.getvalue(), Decoding(1))


def test_an_alpha_channel_needs_permission_unless_four_bands_are_declared():
    array = np.dstack([photo(3), np.full((24, 32), 200, np.uint8)])
    data = encode(array)
    with pytest.raises(UnreadableImage, match=r"convert: \[alpha\]"):
        decode_image(data, RGB)
    np.testing.assert_array_equal(
        decode_image(data, permitted("alpha")).image, photo(3).transpose(2, 0, 1)
    )
    assert decode_image(data, Decoding(4)).image.shape[0] == 4


def test_a_palette_needs_permission():
    data = encode(photo(4), mode="P")
    with pytest.raises(UnreadableImage, match="has a palette"):
        decode_image(data, RGB)
    assert decode_image(data, permitted("palette")).image.shape == (3, 24, 32)


def test_cmyk_needs_permission():
    data = encode(photo(5), "jpeg", mode="CMYK")
    with pytest.raises(UnreadableImage, match="CMYK"):
        decode_image(data, RGB)
    assert decode_image(data, permitted("cmyk")).image.shape == (3, 24, 32)


def test_grey_among_colour_needs_permission():
    grey = photo(6)[..., 0]
    with pytest.raises(UnreadableImage, match="has one channel, not 3"):
        decode_image(encode(grey), RGB)
    image = decode_image(encode(grey), permitted("gray")).image
    np.testing.assert_array_equal(image, np.stack([grey] * 3))


def test_colour_where_one_band_is_declared_is_refused():
    with pytest.raises(UnreadableImage, match="3 bands, the entry declares 1"):
        decode_image(encode(photo(7)), Decoding(1))


@pytest.mark.parametrize("kind", ["jpeg", "png", "tiff"])
def test_a_truncated_image_is_an_error(kind):
    data = encode(np.random.default_rng(0).integers(0, 255, (64, 64, 3)).astype(np.uint8), kind)
    with pytest.raises(UnreadableImage):
        decode_image(data[: len(data) // 2], RGB)


def test_pillows_switch_for_truncated_images_is_off_and_restored():
    from PIL import ImageFile

    data = encode(np.random.default_rng(0).integers(0, 255, (64, 64, 3)).astype(np.uint8), "jpeg")
    before = ImageFile.LOAD_TRUNCATED_IMAGES
    try:
        ImageFile.LOAD_TRUNCATED_IMAGES = True
        with no_truncated_images(), pytest.raises(UnreadableImage):
            decode_image(data[: len(data) // 2], RGB)
        assert ImageFile.LOAD_TRUNCATED_IMAGES is True
    finally:
        ImageFile.LOAD_TRUNCATED_IMAGES = before


@pytest.mark.parametrize("data", [b"", b"GIF89a......", b"<html>not found</html>"])
def test_what_is_no_image_says_so(data):
    with pytest.raises(UnreadableImage, match="empty|neither JPEG"):
        decode_image(data, RGB)


def test_marked_nodata_must_be_declared():
    array = np.ones((1, 8, 8), np.int16)
    array[0, 0, 0] = -9999
    data = geotiff(array, nodata=-9999)
    with pytest.raises(UnreadableImage, match="marks -9999 as nodata"):
        decode_image(data, Decoding(1))
    assert decode_image(data, Decoding(1, nodata_declared=True)).image[0, 0, 0] == -9999
    assert decode_image(geotiff(array + 9999, nodata=-9999), Decoding(1)).image.shape == (1, 8, 8)


def turned(orientation: int) -> tuple[np.ndarray, bytes]:
    """(H, W, 3) as it is shown, and a PNG of it as a camera that is turned stores it."""
    from PIL import Image, ImageOps

    stored = Image.fromarray(photo(3))
    exif = stored.getexif()
    exif[0x0112] = orientation
    stream = io.BytesIO()
    stored.save(stream, format="PNG", exif=exif)
    return np.asarray(ImageOps.exif_transpose(Image.open(stream))), stream.getvalue()


@pytest.mark.parametrize("orientation", [1, 3, 6, 8])
def test_images_are_turned_as_exif_says_only_where_the_entry_says_so(orientation):
    shown, data = turned(orientation)
    plain = Decoding(3)
    np.testing.assert_array_equal(decode_image(data, plain).image, photo(3).transpose(2, 0, 1))
    upright = Decoding(3, frozenset({"exif"}), dense=True)
    np.testing.assert_array_equal(decode_image(data, upright).image, shown.transpose(2, 0, 1))
    if orientation == 1:
        decode_image(data, Decoding(3, dense=True))
    else:
        with pytest.raises(UnreadableImage, match=f"EXIF orientation {orientation}") as error:
            decode_image(data, Decoding(3, dense=True))
        assert "convert: [exif]" in error.value.remedy


def test_boxes_of_a_turned_image_are_those_of_the_image_as_shown(tmp_path):
    shown, data = turned(6)
    files = {f"images/{n}.png": encode(photo(n)) for n in range(8)} | {"images/3.png": data}
    files |= {f"labels/{n}.txt": b"0 0.5 0.25 0.5 0.25" for n in range(8)}
    source = {"kind": "yolo", "path": str(write_folder(tmp_path / "set", files))}
    entry = {
        **RGB_ENTRY,
        "task": "detection",
        "classes": ["a"],
        "splits": RANDOM,
        "source": {**source, "images": "images", "labels": "labels"},
    }
    with pytest.raises(PermafrostError, match="1 of 8 images cannot be used.*EXIF orientation 6"):
        Prepared(tmp_path / "no").run(entry)
    Prepared(tmp_path / "out").run({**entry, "convert": ["exif"]})
    read = open_source({**entry, "convert": ["exif"]})
    record = read.records()[3]
    height, width = shown.shape[:2]
    assert record.image_size == (height, width) == (32, 24)
    np.testing.assert_allclose(
        record.objects.boxes, [[0.25 * width, 0.125 * height, 0.75 * width, 0.375 * height]]
    )


def test_an_image_for_which_memory_lacks_is_named_and_never_skipped():
    with (
        pytest.raises(UnreadableImage, match="its mask: ValueError: odd") as damaged,
        readable("its mask"),
    ):
        raise ValueError("odd")
    words = "its image: its mask: MemoryError"
    with (
        pytest.raises(UnreadableImage, match=words) as lacking,
        readable("its image"),
        readable("its mask"),
    ):
        raise MemoryError("27 TiB")
    assert damaged.value.skippable and not lacking.value.skippable
    assert "more memory" in lacking.value.remedy
