"""A dataset's entry as Croissant metadata with its geographic extension (JSON-LD).

Formats: docs/croissant-spec-1.1.md and docs/croissant-geo-spec.md (1.0) of github.com/mlcommons/croissant.
"""

from __future__ import annotations

import mimetypes
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from permafrost.core.errors import PermafrostError
from permafrost.core.specification import SPLITS
from permafrost.data.bands.sensors import Band
from permafrost.data.sources import checked_entry, source_bands
from permafrost.data.store.image_store import ImageStore
from permafrost.operate.as_fed import prepared
from permafrost.operate.named import find_one
from permafrost.operate.offers import Offers

CONFORMS = ("http://mlcommons.org/croissant/1.1", "http://mlcommons.org/croissant/geo/1.0")
# fmt: off
_CROISSANT = (
    "arrayShape", "citeAs", "column", "containedIn", "equivalentProperty", "extract", "field", "fileObject",
    "fileProperty", "fileSet", "format", "includes", "isArray", "isLiveDataset", "jsonPath", "key", "md5",
    "parentField", "path", "recordSet", "references", "regex", "repeated", "replace", "samplingRate", "separator",
    "source", "subField", "transform",
)
# fmt: on
CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "dct": "http://purl.org/dc/terms/",
    "geocr": "http://mlcommons.org/croissant/geo/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "sc": "https://schema.org/",
    "conformsTo": "dct:conformsTo",
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "data": {"@id": "cr:data", "@type": "@json"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    # their order is that of the channels
    "geocr:bandNameList": {"@id": "geocr:bandNameList", "@container": "@list"},
    **{name: {"@container": "@language"} for name in ("description", "name")},
    **{name: f"cr:{name}" for name in _CROISSANT},
}
# licences of entries with an SPDX identifier; others are given as the entry states them
_SPDX = {"MIT", "CC0-1.0", "CC-BY-4.0", "CC-BY-SA-4.0", "CC-BY-NC-SA-4.0", "CDLA-Permissive-1.0"}
# what the hub itself writes for a repository, which has no checksum
_NO_CHECKSUM = "https://github.com/mlcommons/croissant/issues/80"


def croissant_of(offers: Offers, name: str) -> dict[str, Any]:
    """`croissant` of a dataset of the catalogue, with the extent of its images if they are prepared.

    Raises
    ------
    PermafrostError : not the name of one dataset.
    """
    what, name = find_one(offers, name)
    if what != "dataset":
        raise PermafrostError(
            f"Croissant describes datasets, and {name!r} is a {what}",
            remedy="name a dataset, or leave --croissant out",
        )
    card = prepared(offers, name)
    samples = (
        [ImageStore(card.with_name(f"{split}.zarr")).samples for split in SPLITS] if card else []
    )
    return croissant(name, offers.dataset(name)) | extent(samples)


def extent(samples: Sequence[pa.Table]) -> dict[str, Any]:
    """Bounding box of the images' centres, first and last date, and projection, as far as known.

    Parameters
    ----------
    samples : tables of prepared splits, with the columns of `data.store.image_store`.
    """
    if not samples:
        return {}
    found: dict[str, Any] = {}
    lon, lat = (_values(samples, name) for name in ("lon", "lat"))
    if lon and lat:
        box = f"{min(lat):.6g} {min(lon):.6g} {max(lat):.6g} {max(lon):.6g}"
        found["spatialCoverage"] = {"@type": "Place", "geo": {"@type": "GeoShape", "box": box}}
    names = {name for table in samples for name in table.column_names}
    dates = [
        one[:10]
        for name in sorted(names)
        if name == "date" or name.startswith("dates")
        for one in _values(samples, name)
    ]
    if dates:
        found["temporalCoverage"] = f"{min(dates)}/{max(dates)}"
    if len(projections := set(_values(samples, "crs"))) == 1:
        found["geocr:coordinateReferenceSystem"] = projections.pop()
    return found


def _values(samples: Sequence[pa.Table], name: str) -> list:
    """What is known of a column in all splits; lists are flattened."""
    values = []
    for table in samples:
        if name in table.column_names:
            column = table[name].combine_chunks()
            column = column.flatten() if pa.types.is_list(column.type) else column
            values += column.drop_null().to_pylist()
    return [one for one in values if one == one]


def croissant(name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata of a dataset, as far as its entry states them; nothing is guessed.

    Parameters
    ----------
    entry : a validated entry, as `operate.offers.Offers.dataset` returns it.
    """
    title = entry.get("title") or name
    bands = source_bands(checked_entry(dict(entry), where=name), where=name)
    licence = entry.get("licence")
    spdx = (licence or "").replace("CC BY", "CC-BY").replace(" ", "-")
    splits = entry["splits"]
    about: dict[str, Any] = {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "name": name,
        "alternateName": title,
        "description": f"{title}. Task: {entry['task'].replace('_', ' ')}.",
        "conformsTo": list(CONFORMS),
        "license": f"https://spdx.org/licenses/{spdx}" if spdx in _SPDX else licence,
        "citeAs": entry.get("citation"),
        "url": entry.get("url"),
        "keywords": [
            "Earth observation",
            entry["task"],
            *sorted({b.sensor for b in bands if b.sensor}),
        ],
        "geocr:spatialResolution": _quantity(entry.get("gsd_m"), "m"),
        "geocr:samplingStrategy": f"splits: {splits['method']}"
        + (", spatially random" if splits.get("spatially_random") else ""),
        **_bands(bands),
        "distribution": _distribution(entry.get("download", ())),
        "recordSet": _classes(entry.get("classes", ())),
    }
    return {key: value for key, value in about.items() if value not in (None, [])}


def _quantity(value: float | None, unit: str) -> dict | None:
    return (
        None if value is None else {"@type": "QuantitativeValue", "value": value, "unitText": unit}
    )


def _bands(bands: Sequence[Band]) -> dict[str, Any]:
    described = []
    for band in bands:
        optical = {
            "geocr:centerWavelength": _quantity(band.wavelength_nm, "nm"),
            "geocr:bandwidth": _quantity(band.width_nm, "nm"),
        }
        # a band of the extension has a centre: radar has none
        if band.wavelength_nm is not None:
            given = {key: value for key, value in optical.items() if value is not None}
            described.append({"@type": "geocr:SpectralBand", "name": band.name, **given})
    return {
        "geocr:bandConfiguration": {
            "@type": "geocr:BandConfiguration",
            "geocr:totalBands": len(bands),
            "geocr:bandNameList": [band.name for band in bands],
        },
        "geocr:spectralBandMetadata": described,
    }


def _distribution(downloads: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Files with checksums as they are; others as files of their repository, which the hub versions."""
    files: list[dict[str, Any]] = []
    of_repository: dict[str, list[str]] = defaultdict(list)
    for item in downloads:
        if "hub" in item:
            revision = item.get("revision", "main")
            home = f"https://huggingface.co/datasets/{item['hub']}"
            names = item.get("files") or [item["file"]]
            if "sha256" not in item and "md5" not in item:
                of_repository[f"{home}/tree/{revision}"] += names
                continue
            address = f"{home}/resolve/{revision}/{names[0]}"
        else:
            address = item["url"]
        sums = {key: item[key] for key in ("sha256", "md5") if key in item}
        if not sums:
            continue
        file = address.rpartition("/")[2]
        files.append(
            {
                "@type": "cr:FileObject",
                "@id": file,
                "name": file,
                "contentUrl": address,
                "encodingFormat": mimetypes.guess_type(file)[0] or "application/octet-stream",
                **({"contentSize": f"{item['bytes']} B"} if "bytes" in item else {}),
                **sums,
            }
        )
    for place, (address, names) in enumerate(of_repository.items()):
        repository = f"repository-{place}"
        files.append(
            {
                "@type": "cr:FileObject",
                "@id": repository,
                "name": repository,
                "contentUrl": address,
                "encodingFormat": "git+https",
                "sha256": _NO_CHECKSUM,
            }
        )
        files.append(
            {
                "@type": "cr:FileSet",
                "@id": f"{repository}-files",
                "name": f"{repository}-files",
                "containedIn": {"@id": repository},
                "encodingFormat": mimetypes.guess_type(names[0])[0] or "application/octet-stream",
                "includes": list(names),
            }
        )
    return files


def _classes(classes: Sequence[str]) -> list[dict[str, Any]]:
    """The names of the classes in the order of their ids, as an enumeration."""
    if not classes:
        return []
    fields = {"id": "sc:Integer", "name": "sc:Text"}
    return [
        {
            "@type": "cr:RecordSet",
            "@id": "classes",
            "name": "classes",
            "dataType": "sc:Enumeration",
            "key": {"@id": "classes/id"},
            "field": [
                {"@type": "cr:Field", "@id": f"classes/{one}", "name": one, "dataType": kind}
                for one, kind in fields.items()
            ],
            "data": [
                {"classes/id": place, "classes/name": one} for place, one in enumerate(classes)
            ],
        }
    ]
