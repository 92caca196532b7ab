"""The table of torchgeo's classes: their entries, their fixtures, and what becomes of them.

``PYTHONPATH=tests envs/run python tests/helpers/datasets/torchgeo_classes.py`` writes it into docs/datasets.md.
"""

from __future__ import annotations

import copy
import inspect
import shutil
import tarfile
from pathlib import Path

import numpy as np
import yaml

from helpers.datasets.images import catalogue_entry
from helpers.datasets.torchgeo_made import MADE

ROWS = yaml.safe_load((Path(__file__).parents[2] / "unit/data/torchgeo_classes.yaml").read_text())
#: of a row, what is no part of the entry itself
ABOUT_SOURCE = {"class", "catalogue", "bands", "parts", "arguments", "source", "fractions"}
ABOUT_FIXTURE = {"fixture", "patch", "few", "flat", "made"}
DOCUMENT = Path(__file__).parents[3] / "docs/datasets.md"
BEGIN, END = "<!-- table of classes -->\n\n", "<!-- end of the table -->"
SPLITS = {split: {"split": split} for split in ("train", "val", "test")}
NUMBERS = ("regression", "pixel_regression")
EXPECTED = {"stored", "samples", "first_dates", "note", "refused", "why"}


def unpack(archive: Path, place: Path) -> Path:
    """The folder of fixtures."""
    with tarfile.open(archive) as tar:
        tar.extractall(place, filter="data")
    return place / "torchgeo_fixtures"


def fixture_of(row: dict, fixtures: Path, place: Path) -> Path:
    """The folder that the class of a row is given as its root."""
    if "made" in row:
        return MADE[row["made"]](place)
    folder = fixtures / row["fixture"]
    if not row.get("flat"):
        return folder
    # archives in folders of the names that they unpack to
    place.mkdir()
    for file in [*folder.rglob("*.zip"), *folder.rglob("*.csv")]:
        shutil.copy(file, place)
    return place


def own_pixels(row: dict, entry: dict) -> dict[str, list[np.ndarray]]:
    """By split, all pixels of each sample as the class itself gives them: flat, modality after modality."""
    from torchgeo import datasets

    source = entry["source"]
    named = source.get("image_key", "image")
    keys = list(named.values()) if isinstance(named, dict) else [named]
    flat = [key for item in keys for key in ([item] if isinstance(item, str) else item)]
    pixels = {}
    for split, more in source.get("split_arguments", SPLITS).items():
        part = getattr(datasets, row["class"])(
            **copy.deepcopy(source["arguments"]), **copy.deepcopy(more)
        )
        samples = (part[i] for i in range(len(part)))
        pixels[split] = [
            np.concatenate([np.asarray(sample[key], np.float64).ravel() for key in flat])
            for sample in samples
        ]
    return pixels


def _bands(number: int) -> list[dict]:
    return [{"name": f"channel {i}"} for i in range(number)]


def _without_download(source: dict) -> dict:
    return {key: v for key, v in source.get("arguments", {}).items() if key != "download"}


def entry_of(row: dict, root: Path) -> dict:
    """The entry as somebody would write it, for the fixture at `root`."""
    from torchgeo import datasets

    if "catalogue" in row:
        entry = copy.deepcopy(catalogue_entry(row["catalogue"], root))
    else:
        entry = {"units": {"unit": "digital_number", "scale": 1}}
        if "bands" in row:
            entry["bands"] = _bands(row["bands"])
        entry["source"] = {"kind": "torchgeo", "name": row["class"]}
        if row["task"] in NUMBERS:
            entry["target"] = {"name": "target", "unit": "1"}
    entry |= {key: row[key] for key in row.keys() - ABOUT_SOURCE - ABOUT_FIXTURE - EXPECTED}
    if isinstance(row.get("classes"), int):
        entry["classes"] = [f"class {i}" for i in range(row["classes"])]
    if "modalities" in row:
        entry["modalities"] = {name: {"bands": _bands(n)} for name, n in row["modalities"].items()}
    source = entry["source"] = {**entry["source"], **row.get("source", {})}
    if "parts" in row:
        source["split_arguments"] = row["parts"]
    # groups of catalogues are too few in fixtures
    source.pop("group", None)
    source["arguments"] = {
        **_without_download(source),
        **row.get("arguments", {}),
        "root": str(root),
    }
    if "checksum" in inspect.signature(getattr(datasets, row["class"]).__init__).parameters:
        source["arguments"]["checksum"] = False
    parts = source.get("split_arguments", SPLITS)
    if len(parts) == 1:
        entry["splits"] = {"method": "random", "fractions": [0.4, 0.3, 0.3]}
    else:
        entry["splits"] = {"method": "given"}
        if "val" not in parts:
            entry["splits"]["val_from_train"] = row.get("fractions", 0.34)
    if entry["task"] not in NUMBERS:
        entry["allow_missing_classes"] = True
    return entry


def table() -> str:
    """The classes and their state, for the documentation."""
    lines = ["| class | task | sample | dates | how it is read |", "|---|---|---|---|---|"]
    for row in sorted(
        (row for row in ROWS if "class" in row), key=lambda row: row["class"].lower()
    ):
        entry = entry_of(row, Path("fixture"))
        stored = row.get("stored", {})
        shapes = [" × ".join(map(str, one)) for one in stored.values()]
        if len(stored) > 1:
            shapes = [f"{name} {shape}" for name, shape in zip(stored, shapes, strict=True)]
        known = row.get("first_dates")
        dates = entry.get("dates", "one") + (", known" if known else "")
        arguments = _without_download({"arguments": row.get("arguments", {})})
        said = [f"`{key}: {_flow(value)}`" for key, value in arguments.items()]
        said += [f"entry `{row['catalogue']}`"] if "catalogue" in row else []
        keys = ("image_key", "axes", "label_key", "label_channel")
        said += [
            f"`{key}: {_flow(row['source'][key])}`" for key in keys if key in row.get("source", {})
        ]
        said += ["**refused**: " + row["refused"]] if "refused" in row else []
        said += [row["note"]] if "note" in row else []
        cells = [row["class"], entry["task"].replace("_", " "), ", ".join(shapes) or "–", dates]
        lines.append(f"| {' | '.join(cells)} | {'; '.join(said).replace('|', '/')} |")
    lines += ["", "| not read | why |", "|---|---|"]
    for row in ROWS:
        if "why" in row:
            lines.append(f"| {', '.join(row['classes_not_read'])} | {row['why']} |")
    return "\n".join(lines) + "\n"


def _flow(value: object) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=1000, sort_keys=False)
    return text.strip().removesuffix("...").strip()


if __name__ == "__main__":
    text = DOCUMENT.read_text()
    head, _, rest = text.partition(BEGIN)
    DOCUMENT.write_text(head + BEGIN + table() + "\n" + rest[rest.index(END) :])
