"""Quick reading of files of detections: the same numbers as Python's parser, to the last bit, or none."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
from permafrost.metrics.detection.inputs.parsing import parse_unique
from permafrost.metrics.detection.inputs.stencil import Stencil

SHORT = ("%.1f", "%.2f", "%.3f", "%d", "%.4f", "%.0e")
LONG = ("%.6f", "%r", "%e", "%.17g", "%.8f")
NO_JSON = ("00", "1.", ".5", "-", "+1", "01.5", "1..2", "--1", "1-2", "1/2")
KEYS = ("image_id", "category_id", "bbox", "score")


class Written:
    """Entries as some program may write them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.short, self.odd = self.random.random() < 0.8, self.random.random() < 0.4

    def number(self) -> str:
        pick = self.random
        if self.odd and pick.random() < 0.01:
            return pick.choice(NO_JSON)
        few = self.short and pick.random() < 0.93
        most = [0.0, -0.0, 1.0, pick.random(), 900 * pick.random(), -90 * pick.random()]
        far = [1e-7 * pick.random(), 1e300 * pick.random(), 99999.99, 9999999.5]
        return pick.choice(SHORT if few else LONG) % pick.choice(most if few else most + far)

    def chunk(self) -> bytes:
        pick = self.random
        keys = [*KEYS, *pick.choice([(), ("id",), ("area",)])]
        pick.shuffle(keys)
        space, between = pick.choice(["", " "]), pick.choice([",", ", ", ",\n", " , "])
        entries = []
        for _ in range(pick.randint(1, 40)):
            parts = []
            for key in keys:
                value = str(pick.randint(1, 10 ** pick.randint(1, 6)))
                if key == "bbox":
                    value = "[" + f",{space}".join(self.number() for _ in range(4)) + "]"
                elif key in ("score", "area"):
                    value = self.number()
                parts.append(f'"{key}":{space}{value}')
            entries.append("{" + f",{space}".join(parts) + "}")
        return between.join(entries).encode()


def test_a_stencil_reads_what_the_parser_reads_or_nothing():
    read = 0
    for seed in range(1500):
        chunk = Written(seed).chunk()
        try:
            found = Stencil(chunk).read(chunk)
        except (ValueError, TypeError):
            continue
        read += 1
        rows = [
            [one for value in entry.values() for one in (value if type(value) is list else [value])]
            for entry in json.loads(b"[" + chunk + b"]")
        ]
        numbers = np.ascontiguousarray(found.numbers)
        np.testing.assert_array_equal(
            numbers.view(np.uint64), np.array(rows, np.float64).view(np.uint64), str(seed)
        )
        whole = [all(type(one) is int for one in column) for column in zip(*rows, strict=True)]
        assert not (found.whole & ~np.array(whole)).any(), seed
    assert read > 500


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace(b"}", b"} ", 1),
        lambda text: text.replace(b'"score"', b'"Score"', 1),
        lambda text: text.replace(b"[1,", b"[ 1,", 1),
        lambda text: text.replace(b"{", b"[", 1),
        lambda text: text + b",",
        lambda text: text[:-1],
        lambda text: text.replace(b"0.5", b"", 1),
        lambda text: text.replace(b"0.5", b"0.5,1", 1),
    ],
)
def test_a_chunk_that_differs_from_its_stencil_is_not_read(change):
    entry = b'{"image_id":7,"category_id":2,"bbox":[1,2,3.5,4],"score":0.5}'
    chunk = b",".join([entry] * 3)
    stencil = Stencil(chunk)
    assert len(stencil.read(chunk).numbers) == 3
    with pytest.raises(ValueError):
        stencil.read(change(chunk))


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "a": 2}',
        '[{"b": {"a:": 1, "a:": 2}}]',
        '{"a" : 1, "a" : 2}',
        '{"\\"": 1, "\\"": 1}',
    ],
)
def test_a_repeated_key_is_an_error(text):
    with pytest.raises(ValueError, match="twice|repeat|duplicate"):
        parse_unique(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        '{"a:b": "c:d", "e": [{"f\\"": 1.5}, 2]}',
        "[NaN, Infinity, -0.0, 1e400]",
        "[123456789012345678901234567890, 1e-320, 0.1]",
        '["\\u00e9\\ud83d\\ude00", ""]',
        "7",
    ],
)
def test_what_is_parsed_is_what_python_parses(text):
    for content in (text.encode(), text.encode("utf-16")):
        assert repr(parse_unique(content)) == repr(json.loads(text))
