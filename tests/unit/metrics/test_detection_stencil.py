"""Numbers and files read without objects are those of the standard library's parser."""

import json
import random

import numpy as np
import pytest
from permafrost.core.errors import PermafrostError
from permafrost.metrics.detection.inputs import parsing, plain
from permafrost.metrics.detection.inputs.decimals import short_decimals
from permafrost.metrics.detection.ragged import by_descending


def test_short_decimals_are_the_floats_of_json_or_are_left_to_it():
    draw = random.Random(0)
    tokens = ["0", "-0", "-0.0", "01", "1.", ".5", "-", "1.2.3", "1/2", "12345678", "123456789"]
    tokens += [str(round(draw.uniform(-999, 999), draw.randint(0, 7))) for _ in range(2000)]
    tokens += ["".join(draw.choices("0123456789.-", k=draw.randint(1, 9))) for _ in range(2000)]
    text = (" " * 8 + " ".join(tokens) + " ").encode()
    lengths = np.array([*map(len, tokens)])
    ends = 8 + np.cumsum(lengths + 1) - 1
    values, pointed, odd = short_decimals(text, ends - lengths, ends)
    for token, value, point, other in zip(tokens, values.tolist(), pointed, odd, strict=True):
        if not other:
            expected = json.loads(token)
            assert float(expected).hex() == value.hex() and (type(expected) is float) == point
    assert not odd[[tokens.index(token) for token in ("0", "12345678")]].any()


@pytest.mark.parametrize("layout", [{}, {"indent": 1}, {"separators": (",", ":")}])
def test_a_file_of_like_entries_is_read_as_json_reads_it(tmp_path, monkeypatch, layout):
    monkeypatch.setattr(plain, "_PIECE", 400)
    draw = random.Random(1)
    entries = [
        {
            "image_id": draw.choice([1, 10**12]),
            "segmentation": {"size": [4, 5], "counts": draw.choice(["", "0\\:1", "\\\\", "o"])},
            "category_id": 3,
            "bbox": [draw.choice([1, 2.5, 1e-07, 0.1 + 0.2]) for _ in range(4)],
            "score": draw.choice([1, 0.5, 2e-05]),
        }
        for _ in range(200)
    ]
    path = tmp_path / "found.json"
    path.write_text(json.dumps(entries, **layout))
    read = plain.plain_columns(path, drop=False)
    assert read.vectors("bbox", 4)[0].tolist() == [entry["bbox"] for entry in entries]
    assert read.numbers("score").tolist() == [entry["score"] for entry in entries]
    assert read.identities("image_id").tolist() == [entry["image_id"] for entry in entries]
    assert [*read.raw("segmentation")[0]] == [entry["segmentation"] for entry in entries]


@pytest.mark.parametrize("wrong", ['} {"', '}, , {"', '}, {"id": 1, "', '}, {"image_id": 1, "'])
def test_a_file_with_an_entry_unlike_the_others_is_not_read_by_the_stencil(tmp_path, wrong):
    text = json.dumps([{"image_id": 1, "category_id": 2, "score": 0.5}] * 3)
    path = tmp_path / "found.json"
    path.write_text(text.replace('}, {"', wrong, 1))
    assert plain.plain_columns(path, drop=False) is None


@pytest.mark.parametrize("colon", [":", " :"])
def test_a_repeated_key_is_refused(colon):
    text = f'{{"a": "x:y", "b"{colon} 1, "c": {{"d": 2, "d"{colon} 3}}}}'
    with pytest.raises(PermafrostError, match="the key 'd' occurs twice"):
        parsing.parse(text.encode(), "file")
    assert parsing.parse(text.replace('"d": 2, ', "").encode(), "file")["c"] == {"d": 3}


def test_one_sort_orders_by_group_and_descending_value():
    draw = np.random.default_rng(0)
    for most in (1, 50, 1 << 50):
        groups, values = draw.integers(0, most, 999), draw.integers(-2, 3, 999) / 2
        np.testing.assert_array_equal(by_descending(groups, values), np.lexsort((-values, groups)))
