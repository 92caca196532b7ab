"""Extraction in parts: the bytes of an undivided run, whatever the number of parts."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from helpers.stages.specifications import extraction_of, specification
from helpers.stores.images import IMAGES, SPLITS, Dataset, SeveralDataset
from permafrost.core.errors import PermafrostError
from permafrost.features import maps, writing
from permafrost.features.health import CollapseGate
from permafrost.features.parts import Part
from permafrost.features.writing import Rows

RESNET = {"kind": "timm", "model": "test_resnet", "weights": {"source": "random"}, "seed": 3}
EXTRACTION = {"size": 32}


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Many chunks and shards in little data, of lengths that do not divide each other."""
    monkeypatch.setattr(writing, "ROWS_PER_CHUNK", 10)
    monkeypatch.setattr(maps, "CHUNK_BYTES", 60_000)
    monkeypatch.setattr(maps, "SHARD_BYTES", 200_000)


def contents(folder):
    """Path to bytes of the files of three stores."""
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for split in SPLITS
        for file in sorted((folder / f"{split}.zarr").rglob("*"))
        if file.is_file()
    }


DATASETS = {
    "images": lambda folder: Dataset(folder, counts=(83, 11, 24)),
    "ragged": lambda folder: Dataset(folder, counts=(50, 0, 9), ragged=True),
    "maps": lambda folder: Dataset(folder, counts=(61, 13, 20), masks=True),
    "maps, a split without images": lambda folder: Dataset(folder, counts=(40, 0, 7), masks=True),
    "series": lambda folder: SeveralDataset(folder, samples=(31, 6, 9)),
}


@pytest.mark.parametrize("name", DATASETS)
def test_the_bytes_of_an_undivided_run(tmp_path, name):
    dataset = DATASETS[name](tmp_path)
    entry = {**RESNET, "layers": ["layer4", "layer2"]} if dataset.masks else RESNET
    if name == "series":
        entry = {**RESNET, "input": {"bands": ["red", "green", "blue"]}}
    whole = dataset.extract(entry, extraction=EXTRACTION, out="whole", batch_size=8)
    expected = contents(tmp_path / "whole")
    assert sum("/c/" in path for path in expected) > 7
    # the numbers of parts only once: what they do is the same for all
    for parts in (1, 2, 3, 7) if name == "images" else (3,):
        dataset.extract(entry, extraction=EXTRACTION, out=f"in-{parts}", batch_size=8, parts=parts)
        found = contents(tmp_path / f"in-{parts}")
        assert found.keys() == expected.keys()
        assert [path for path in expected if found[path] != expected[path]] == []
    assert whole["train"].attributes["gates"] == []


class Recorded:
    """Stands for a zarr array: remembers which rows were assigned together."""

    name, dtype = "array", np.dtype(np.int64)

    def __init__(self, count: int) -> None:
        self.shape, self.rows, self.blocks = (count,), np.full(count, -1), []

    def __setitem__(self, where: slice, values) -> None:
        self.blocks.append((where.start, where.stop))
        self.rows[where] = values


@pytest.mark.parametrize("parts", [1, 2, 3, 10, 30])
@pytest.mark.parametrize("block", [1, 4, 7, 50])
@pytest.mark.parametrize("count", [1, 20, 47])
def test_every_block_is_written_whole_by_one_part(count, block, parts):
    whole = Recorded(count)
    begun = []
    for number in range(parts):
        first, last = Part(number, parts).span(count, 3)
        begun.append((first, last))
        rows = Rows(whole, block, (first, last))
        start = first
        while start < count and not (start >= last and rows.complete):
            rows.put(np.arange(start, min(start + 3, count)))
            start += 3
        rows.finish()
    assert begun[0][0] == 0
    assert [first for first, _ in begun[1:]] == [last for _, last in begun[:-1]]
    assert whole.rows.tolist() == list(range(count))
    assert sorted(whole.blocks) == [
        (start, min(start + block, count)) for start in range(0, count, block)
    ]


def test_rows_that_never_came_are_found():
    rows = Rows(Recorded(20), 5, (6, 12))
    rows.put(np.arange(6, 12))
    assert not rows.complete
    with pytest.raises(RuntimeError, match="3 of 20 rows of array were not written"):
        rows.finish()


def test_the_first_part_is_never_empty_and_names_say_which():
    assert Part(0, 8).span(5, 4) == (0, 4)
    assert Part(3, 8).span(5, 4) == (4, 4)
    assert Part(4, 8).span(5, 4) == (4, 5)
    assert Part.of("7-of-8") == Part(7, 8)
    for wrong in ("8-of-8", "1of2", "a-of-3", "-of-", "-1-of-2"):
        with pytest.raises(PermafrostError, match="names no part"):
            Part.of(wrong)


def gate_of(rows) -> CollapseGate:
    gate = CollapseGate()
    for start in range(0, len(rows), 4):
        gate.update(rows[start : start + 4])
    return gate


@pytest.mark.parametrize("parts", [1, 2, 3, 5])
@pytest.mark.parametrize("kind", ["noise", "point", "line", "two lines", "one feature", "late"])
def test_collapse_is_noticed_across_parts(kind, parts):
    generator = np.random.default_rng(0)
    steps = generator.normal(size=(40, 1))
    line = generator.normal(size=6)
    rows = {
        "noise": generator.normal(size=(40, 6)),
        "point": np.full((40, 6), 2.5),
        "line": 3.0 + steps * line,
        "two lines": np.concatenate([steps[:20] * line, steps[20:] * line[::-1]]),
        "one feature": steps,
        "late": np.concatenate([np.zeros((36, 6)), generator.normal(size=(4, 6))]),
    }[kind].astype(np.float32)
    pieces = np.array_split(rows, parts)
    states = json.loads(json.dumps([gate_of(piece).state() for piece in pieces]))
    assert CollapseGate.of_parts(states).gates() == gate_of(rows).gates()
    assert bool(gate_of(rows).gates()) == (kind in ("point", "line"))


def parts_of(dataset, *, batch_sizes=(8, 8, 8)):
    """Three parts, and what joins them."""
    spec = specification(
        {
            "stage": "extract",
            "backbone": "tried",
            "dataset": "tiny",
            "entry": RESNET,
            "extraction": extraction_of(**EXTRACTION),
            "files": {},
            "inputs": {"images": IMAGES},
        }
    )
    folders = [dataset.folder / "parts" / f"{part}-of-3" for part in range(3)]
    for folder, batch_size in zip(folders, batch_sizes, strict=True):
        dataset.extract_part(spec, folder, batch_size=batch_size)
    outputs = {split: dataset.folder / "joined" / f"{split}.zarr" for split in SPLITS}
    return folders, lambda chosen: dataset.join(chosen, outputs)


@pytest.fixture
def joined(tmp_path):
    """Three parts, and a function that expects an error when they are joined: nothing is left of the train split."""
    folders, join = parts_of(Dataset(tmp_path, counts=(83, 11, 24)))

    def refused(match, chosen=folders):
        with pytest.raises(PermafrostError, match=match) as error:
            join(chosen)
        assert "run snakemake again" in str(error.value)
        assert not list(tmp_path.glob("joined/*.zarr"))
        assert not list(tmp_path.glob("joined/.*"))

    return folders, refused, join


def test_a_missing_part(joined):
    folders, refused, join = joined
    refused("of 3 parts, 0, 2 are here", [folders[0], folders[2]])
    shutil.rmtree(folders[1])
    refused("the part is missing")


def test_a_damaged_part(joined):
    folders, refused, join = joined
    chunk = next(path for path in sorted((folders[2] / "train.zarr").rglob("c/*/*")))
    content = chunk.read_bytes()
    chunk.write_bytes(content[:-1])
    refused("files of its array 'embeddings' are missing or damaged")
    chunk.unlink()
    refused("files of its array 'embeddings' are missing or damaged")
    chunk.write_bytes(content)
    join(folders)


def test_an_altered_part(joined):
    folders, refused, join = joined
    place = folders[1] / "train.zarr" / "zarr.json"
    content = json.loads(place.read_text())
    content["attributes"]["pooling"] = "max"
    place.write_text(json.dumps(content))
    refused("its attributes are not what was written")
    del content["attributes"]["complete"]
    place.write_text(json.dumps(content))
    refused("never completed")


def test_a_part_of_another_plan(joined):
    folders, refused, join = joined
    place = folders[1] / "train.zarr" / "zarr.json"
    place.write_text(place.read_text().replace("fingerprint-of-features", "another-fingerprint"))
    with pytest.raises(PermafrostError, match="another plan"):
        join(folders)


def test_parts_with_other_batches(tmp_path):
    folders, join = parts_of(Dataset(tmp_path, counts=(83, 11, 24)), batch_sizes=(8, 8, 4))
    with pytest.raises(PermafrostError, match="parts with batch_size 4 and 8 cannot be joined"):
        join(folders)


def test_without_links_chunks_are_copied(joined, monkeypatch, tmp_path):
    import errno
    import os

    folders, _, join = joined
    join(folders)
    chunk = next((tmp_path / "joined" / "train.zarr").rglob("c/*/*"))
    assert chunk.stat().st_nlink == 2
    linked = contents(tmp_path / "joined")

    link = os.link

    def refuse(source, target):
        if "c" in source.parts:
            raise OSError(errno.EPERM, "no links here")
        link(source, target)

    monkeypatch.setattr(os, "link", refuse)
    join(folders)
    assert contents(tmp_path / "joined") == linked
    assert next((tmp_path / "joined" / "train.zarr").rglob("c/*/*")).stat().st_nlink == 1
