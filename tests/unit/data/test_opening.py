"""One opener: nothing beside a file, no address, no more memory than the bound, and no other opener."""

from __future__ import annotations

import ast
import io
import json
import re
import subprocess
import sys
import zlib
from pathlib import Path

import h5py
import helpers.hostile
import numpy as np
import permafrost
import pytest
import rasterio
from helpers.datasets.images import encode, folder_entry, open_source, photo
from helpers.datasets.tortilla import with_footer
from helpers.file_server import file_server
from helpers.hostile import SIDE, empty_hdf5, equal_texts, npz, sparse_tiff
from helpers.predictions.rasters import command, write
from permafrost.core.errors import PermafrostError
from permafrost.core.opened import recording
from permafrost.data.files import opening
from permafrost.data.files.decode import Decoding, read_tiff
from permafrost.data.files.georeference import degrees
from permafrost.data.files.members import DirectoryMembers
from permafrost.data.files.opening import UnreadableImage, bounded, open_raster, raster_of
from permafrost.data.files.vectors import check_beginning
from permafrost.data.proposal.looks import look_at
from permafrost.data.sources.grid_scenes import declared_crs
from permafrost.evaluators.raster.files import FORMATS, opened

PACKAGE = Path(permafrost.__file__).parent
OPENER = "data/files/opening.py"
# modules whose functions open rasters or arrays -> those functions
_OPEN = {
    "rasterio": {"open", "MemoryFile"},
    "rasterio.io": {"DatasetReader", "MemoryFile"},
    "rasterio.vrt": {"WarpedVRT"},
    "h5py": {"File"},
    "h5f": {"open", "open_file_image"},
    "Image": {"open"},
    "np": {"load", "memmap", "fromfile"},
}
_OTHERS = {"osgeo", "tifffile", "imageio", "cv2", "skimage", "xarray", "netCDF4", "rioxarray"}
#: what may be elsewhere: rasters that are written, what jobs themselves wrote, and views of what the
#: opener opened
ELSEWHERE = {
    ("data/files/tortilla_parts.py", "h5py.File"),
    ("interface/extraction.py", "rasterio.open"),
    ("probes/dense/raster_writer.py", "rasterio.open"),
    ("data/store/findings.py", "np.load"),
    ("features/derived/view.py", "np.load"),
    ("data/resplit/degradations.py", "Image.open"),
    ("data/sources/grid_rasters.py", "rasterio.vrt.WarpedVRT"),
}


def openings(source: str) -> set[str]:
    """Functions that open rasters or arrays for reading or writing, as a module imports or calls them."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
            module = ast.unparse(node.value)
            if node.attr in _OPEN.get({"numpy": "np"}.get(module, module), ()):
                found.add(f"{module}.{node.attr}")
        elif isinstance(node, ast.ImportFrom):
            module = {"numpy": "np", "PIL.Image": "Image", "h5py.h5f": "h5f"}.get(
                node.module, node.module
            )
            found |= {
                f"{module}.{one.name}" for one in node.names if one.name in _OPEN.get(module, ())
            }
            found |= {module} if str(module).partition(".")[0] in _OTHERS else set()
        elif isinstance(node, ast.Import):
            found |= {one.name for one in node.names if one.name.partition(".")[0] in _OTHERS}
    return found


def test_nothing_else_opens_rasters_and_arrays():
    found = {
        (path.relative_to(PACKAGE).as_posix(), what)
        for path in PACKAGE.rglob("*.py")
        for what in openings(path.read_text())
    }
    assert {one for one in found if one[0] != OPENER} == ELSEWHERE
    assert {"rasterio.MemoryFile", "h5f.open", "Image.open", "np.load"} <= {
        what for path, what in found if path == OPENER
    }


@pytest.mark.parametrize(
    "path", sorted(path for path, what in ELSEWHERE if what == "rasterio.open")
)
def test_what_opens_elsewhere_writes(path):
    calls = [
        node
        for node in ast.walk(ast.parse((PACKAGE / path).read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "rasterio.open"
    ]
    assert calls and all(ast.unparse(call.args[1]) == "'w'" for call in calls)


# --- beside a file -------------------------------------------------------------------------------


def with_sidecars(path: Path, **options) -> Path:
    """A raster of ones, and beside it a mask, nodata, another place and other pixels for overviews."""
    values = np.ones((3, 64, 64), np.uint8)
    sides = {"width": 64, "height": 64, "count": 3, "dtype": "uint8"}
    with rasterio.open(path, "w", **sides, **options) as file:
        file.write(values)
    for beside in path.parent.glob(f"{path.name}.*"):
        beside.unlink()
    with rasterio.open(
        f"{path}.msk", "w", driver="GTiff", width=64, height=64, count=1, dtype="uint8"
    ) as file:
        file.write(np.zeros((1, 64, 64), np.uint8))
        file.update_tags(**{f"INTERNAL_MASK_FLAGS_{band}": "2" for band in (1, 2, 3)})
    nodata = '<PAMRasterBand band="1"><NoDataValue>1</NoDataValue></PAMRasterBand>'
    Path(f"{path}.aux.xml").write_text(f"<PAMDataset><SRS>EPSG:32633</SRS>{nodata}</PAMDataset>")
    for ending in ("tfw", "wld", "pgw", "jgw"):
        path.with_suffix(f".{ending}").write_text("10\n0\n0\n-10\n500000\n4000000\n")
    with rasterio.open(
        f"{path}.ovr", "w", driver="GTiff", width=32, height=32, count=3, dtype="uint8"
    ) as file:
        file.write(np.full((3, 32, 32), 9, np.uint8))
    return path


def described(dataset) -> tuple:
    flags = {flag.name for flags in dataset.mask_flag_enums for flag in flags}
    smaller = dataset.read(out_shape=(3, 16, 16))
    return dataset.nodata, flags, dataset.transform.is_identity, dataset.crs, smaller.max()


@pytest.mark.parametrize("driver", ["GTiff", "PNG"])
def test_what_lies_beside_a_file_is_not_read(tmp_path, driver):
    path = with_sidecars(tmp_path / f"a.{driver[-3:].lower()}", driver=driver)
    with rasterio.open(path) as usual:
        assert described(usual)[1:3] == ({"per_dataset"}, False)
    alone = (None, {"all_valid"}, True, None, 1)
    with open_raster(path, driver) as dataset:
        assert described(dataset) == alone
    with raster_of(path.read_bytes(), driver) as dataset:
        assert described(dataset) == alone
    with opened(path) as dataset:
        assert described(dataset) == alone


def test_a_draft_and_an_evaluation_ignore_what_lies_beside(tmp_path, capsys):
    path = with_sidecars(tmp_path / "a.tif", driver="GTiff")
    (look,) = look_at(DirectoryMembers(tmp_path, "set"), ["a.tif"], where="set")
    assert (look.nodata, look.crs, look.lon) == (None, None, None)
    command(
        "--reference", path, "--prediction", path, "--reference-band", 1, "--prediction-band", 1
    )
    assert "4096" in capsys.readouterr().out.replace(",", "")


def test_files_that_c_libraries_open_are_recorded(tmp_path):
    path = write(tmp_path / "a.tif", np.ones((4, 4), np.uint8))
    array = empty_hdf5(tmp_path / "a.hdf5", shape=(4, 4), chunks=(2, 2))
    with recording() as found:
        open_raster(path, "GTiff").close()
        opening.open_hdf5(array).close()
    assert set(found.files) == {str(path), str(array)}


# --- addresses -----------------------------------------------------------------------------------

VRT = (
    '<VRTDataset rasterXSize="8" rasterYSize="8"><VRTRasterBand dataType="Byte" band="1"><SimpleSource>'
    "<SourceFilename>{}</SourceFilename><SourceBand>1</SourceBand></SimpleSource></VRTRasterBand></VRTDataset>"
)
FORMS = ["{url}/a.tif", "/vsicurl/{url}/a.tif", "/vsicurl_streaming/{url}/a.tif", "/vsizip//vsicurl/{url}/a.zip/a.tif",
         "/vsizip/{{/vsicurl/{url}/a.zip}}/a.tif", "/vsisubfile/0_9,/vsicurl/{url}/a.tif",
         "GTIFF_DIR:1:/vsicurl/{url}/a.tif", "HTTP:{url}", "NETCDF:/vsicurl/{url}/a.nc:x", "WMS:{url}",
         "zip+{url}/a.zip!a.tif", "/vsimem/a.tif"]  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_addresses_and_virtual_files_are_refused(tmp_path, form):
    with file_server() as server:
        name = form.format(url=server.url)
        for read in (
            lambda: open_raster(name, *FORMATS),
            lambda: read_tiff(name, Decoding(3)),
            lambda: opening.open_hdf5(name),
        ):
            with pytest.raises(UnreadableImage, match="no regular file of this machine"):
                read()
        with pytest.raises(PermafrostError), opened(name):
            pass
        assert server.asked == []


@pytest.mark.parametrize("inner", ["/vsicurl/{url}/a.tif", "{url}/a.tif", "WMS:{url}"])
def test_a_raster_that_leads_to_an_address_makes_no_request(tmp_path, inner):
    reference = write(tmp_path / "r.tif", np.ones((8, 8), np.uint8))
    with file_server() as server:
        path = tmp_path / "pred.tif"
        path.write_text(VRT.format(inner.format(url=server.url)))
        with pytest.raises(PermafrostError, match="cannot be opened.*") as error:
            command("--reference", reference, "--prediction", path)
        assert "GeoTIFF" in error.value.remedy
        for read in (
            lambda: open_raster(path, *FORMATS),
            lambda: raster_of(path.read_bytes(), "GTiff").__enter__(),
        ):
            with pytest.raises(rasterio.errors.RasterioIOError):
                read()
        assert server.asked == []


def test_a_local_name_that_looks_like_a_part_of_another_file_is_that_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(Path("a.tif"), np.ones((4, 4), np.uint8))
    write(Path("GTIFF_DIR:1:a.tif"), np.full((4, 4), 2, np.uint8))
    with open_raster("GTIFF_DIR:1:a.tif", "GTiff") as dataset:
        assert dataset.read().max() == 2


@pytest.mark.parametrize("form", ["{url}/crs", "/vsicurl/{url}/crs", " {url}/crs"])
def test_a_coordinate_system_is_not_fetched(form):
    with file_server() as server:
        name = form.format(url=server.url)
        assert np.isnan(degrees(name, [0.0], [0.0])).all()
        with pytest.raises(PermafrostError, match="not a coordinate system"):
            declared_crs(name, where="set")
        assert server.asked == []


@pytest.mark.parametrize(
    "content",
    [
        {
            "type": "FeatureCollection",
            "crs": {"type": "link", "properties": {"url": "URL"}},
            "features": [],
        },
        {
            "type": "FeatureCollection",
            "crs": {"type": "URL", "properties": {"url": "URL"}},
            "features": [],
        },
        {"type": "gdal_streamed_alg", "command_line": "gdal vector pipeline ! read /vsicurl/URL"},
    ],
)
@pytest.mark.parametrize("escaped", [False, True])
def test_shapes_that_lead_to_an_address_are_refused(tmp_path, content, escaped):
    text = json.dumps(content)
    if escaped:
        text = text.replace("crs", "\\u0063rs").replace("gdal_s", "gd\\u0061l_s")
    (tmp_path / "a.geojson").write_text(text)
    with pytest.raises(ValueError, match="coordinate system is a|a command for GDAL"):
        check_beginning(DirectoryMembers(tmp_path, "set"), "a.geojson")


# --- the bound -----------------------------------------------------------------------------------


def test_headers_that_claim_too_much_are_refused_by_name_with_little_memory(tmp_path):
    sparse_tiff(tmp_path / "sparse.tif", tiled=True, blockxsize=512, blockysize=512)
    sparse_tiff(tmp_path / "tile.tif", tiled=True, blockxsize=SIDE, blockysize=SIDE)
    sides = {"width": 40_000, "height": 40_000, "count": 1, "dtype": "uint8"}
    with rasterio.open(
        tmp_path / "plane.tif", "w", driver="GTiff", **sides, SPARSE_OK=True, tiled=True
    ):
        pass
    write(tmp_path / "small.tif", np.ones((3, 8, 8), np.uint8))
    empty_hdf5(tmp_path / "empty.hdf5")
    empty_hdf5(
        tmp_path / "chunk.hdf5", chunks=(60_000, 60_000), shape=(8, 8), maxshape=(None, None)
    )
    empty_hdf5(tmp_path / "small.hdf5", shape=(8, 8), chunks=(8, 8))
    (tmp_path / "bomb.npz").write_bytes(npz())
    needed = {"id": "a", "file_format": "GTiff", "offset": 0, "length": 1}
    footer = equal_texts(**{f"tortilla:{name}": value for name, value in needed.items()})
    sides = dict.fromkeys(("xmin", "ymin", "xmax", "ymax"), 1.0)
    tables = {"texts": equal_texts(e=1.0), "objects": equal_texts("label", **sides)}
    for name, data in tables.items():
        (tmp_path / f"{name}.parquet").write_bytes(data)
    (tmp_path / "footer.tortilla").write_bytes(with_footer(b"", footer))
    assert (tmp_path / "empty.hdf5").stat().st_size < 10_000
    program = [sys.executable, helpers.hostile.__file__, str(tmp_path)]
    done = subprocess.run(
        program, capture_output=True, text=True, env={"PYTHONPATH": str(PACKAGE.parent)}
    )
    lines = done.stdout.splitlines()
    assert (done.returncode, len(lines)) == (0, 21), done.stderr
    wrong = [
        line
        for line in lines
        if not re.search("MB are read at once|decompression bomb|MB of memory; if that", line)
    ]
    assert wrong == []


def test_more_bands_than_are_read_are_refused_by_name(tmp_path):
    for count in (4096, 4097):
        sides = {"width": 1, "height": 1, "count": count, "dtype": "uint8", "interleave": "pixel"}
        with rasterio.open(tmp_path / f"{count}.tif", "w", driver="GTiff", **sides):
            pass
    with open_raster(tmp_path / "4096.tif", "GTiff") as most:
        assert most.count == 4096
    path = tmp_path / "4097.tif"
    with pytest.raises(
        PermafrostError, match="4097.tif: has 4,097 bands, and at most 4,096 are read"
    ) as error:
        command("--reference", path, "--prediction", path)
    assert "write the bands to use" in error.value.remedy


def test_an_entry_may_allow_more_or_less(tmp_path):
    folder = tmp_path / "set"
    for name in ("field", "forest"):
        (folder / name).mkdir(parents=True)
        for seed in range(4):
            (folder / name / f"{seed}.png").write_bytes(encode(photo(seed, (600, 600))))
    with pytest.raises(
        UnreadableImage, match="would take 1 MB of memory, and at most 1 MB"
    ) as error:
        open_source(folder_entry(folder, largest_image_mb=1)).decode(0)
    assert "largest_image_mb in the entry" in error.value.remedy
    assert open_source(folder_entry(folder, largest_image_mb=2)).decode(0).image.shape[1:] == (
        600,
        600,
    )


def test_the_bound_holds_in_its_context_only():
    data = io.BytesIO()
    np.save(data, np.zeros(200_000))
    with bounded(1, "an option"), pytest.raises(UnreadableImage, match="2 MB") as error:
        opening.load_npy(data.getvalue())
    assert error.value.remedy.endswith("with an option")
    assert len(opening.load_npy(data.getvalue())) == 200_000


def test_the_command_bounds_what_it_reads(tmp_path):
    path = write(tmp_path / "r.tif", np.ones((1100, 1100), np.uint8))
    bound = ("--largest-image-mb", 1, "--block", 1100)
    with pytest.raises(PermafrostError, match="r.tif: it would take 1 MB of memory") as error:
        command("--reference", path, "--prediction", path, *bound)
    assert "--largest-image-mb" in error.value.remedy
    with pytest.raises(PermafrostError, match="below 1"):
        command("--reference", path, "--prediction", path, "--largest-image-mb", 0)


@pytest.mark.parametrize("inflated", [1000, 10**7])
def test_a_chunk_that_inflates_to_more_than_it_holds_is_refused(tmp_path, inflated):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        array = file.create_dataset("data", (1000,), "uint8", chunks=(1000,), compression="gzip")
        array.id.write_direct_chunk((0,), zlib.compress(bytes(inflated)))
    file = opening.open_hdf5(tmp_path / "a.h5")
    with bounded(0.001, "an option"):
        if inflated == 1000:
            assert opening.open_array(file, "data").shape == (1000,)
        else:
            with pytest.raises(UnreadableImage, match="unpacks to more than it holds"):
                opening.open_array(file, "data")
    file.close()


def test_arrays_in_other_files_are_refused(tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(64))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("data", (8, 8), "uint8", external=[(str(secret), 0, 64)])
        file["link"] = h5py.ExternalLink("b.h5", "/data")
        layout = h5py.VirtualLayout((8, 8), "uint8")
        layout[:] = h5py.VirtualSource("b.h5", "data", shape=(8, 8))
        file.create_virtual_dataset("seen", layout)
        file.create_group("group")
    file = opening.open_hdf5(tmp_path / "a.h5")
    for name, why in {
        "data": "another file",
        "seen": "another file",
        "link": "a link",
        "group": "no array",
    }.items():
        with pytest.raises(UnreadableImage, match=why):
            opening.open_array(file, name)
    file.close()
