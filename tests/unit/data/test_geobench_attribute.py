"""The pickled attribute of GEO-Bench: every form is read, and nothing of it ever runs."""

import os
import pickle
import subprocess
from collections import OrderedDict
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from helpers.datasets.geobench import as_written, pickled
from permafrost.data.files.decode import UnreadableImage
from permafrost.data.sources.geobench_attribute import corner_of, label_of, read_attribute


@pytest.mark.parametrize("protocol", range(3, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    ("label", "expected"),
    [
        (7, 7),
        (np.int64(7), 7),
        (np.float32(7), 7),
        (np.array(7), 7),
        ([0, 1, 1], (0, 1, 1)),
        (np.array([0, 1, 1]), (0, 1, 1)),
        (np.array([0, 1, 1], ">i2"), (0, 1, 1)),
        (np.array([False, True, True]), (0, 1, 1)),
        ([np.int64(0), np.int64(1)], (0, 1)),
    ],
)
def test_every_kind_of_label_is_read(label, expected, protocol):
    text = pickled(as_written(label, ["Red", "Blue"]), protocol=protocol)
    assert label_of(read_attribute(text)) == expected


@pytest.mark.parametrize(
    "module", ["geobench.dataset", "geobench.io.dataset", "ccb.io.dataset", "geobench", "ccb"]
)
def test_classes_of_all_times_are_read_without_their_modules(module):
    stored = as_written(1, ["Red"], module=module)
    stored["Red"] |= {"date": date(2020, 1, 2), "meta_info": OrderedDict(a=np.float64(1))}
    attribute = read_attribute(pickled(stored))
    assert label_of(attribute) == 1
    assert attribute["bands_order"] == ["Red"]
    crs, x, y = corner_of(attribute, "Red")
    assert crs.startswith("PROJCS") and (x, y) == (624600, 4877280)


def test_a_literal_its_bytes_and_the_pickle_itself_are_the_same():
    text = pickled(as_written(3, ["Red"]))
    raw = pickle.dumps({"label": 3})
    for stored in (text, text.encode(), np.void(text.encode()), raw, np.void(raw), np.array(raw)):
        assert label_of(read_attribute(stored)) == 3


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ({"transform": None, "crs": None}, None),
        ({"transform": (1e-4, 0, float("nan"), 0, -1e-4, 51.0), "crs": "EPSG:4326"}, None),
        ({"transform": (1e-4, 0), "crs": "EPSG:4326"}, None),
        ({"transform": (1e-4, 0, 5.9, 0, -1e-4, 51.0), "crs": 7}, None),
        (
            {"transform": (1e-4, 0, 5.9, 0, -1e-4, 51.0), "crs": "EPSG:4326"},
            ("EPSG:4326", 5.9, 51.0),
        ),
    ],
)
def test_places_of_other_forms(place, expected):
    attribute = read_attribute(pickled(as_written(1, ["Red"], place=place)))
    assert corner_of(attribute, "Red") == expected
    assert corner_of(attribute, "Green") is None


class _Calls:
    """A pickle of this calls a function."""

    def __init__(self, function, *arguments) -> None:
        self.call = function, arguments

    def __reduce__(self):
        return self.call


class _Masked:
    def __reduce__(self):
        return np.ma.MaskedArray, ([1, 2],)


def _object_array() -> np.ndarray:
    array = np.empty(1, object)
    array[0] = _Calls(os.mkdir, "made")
    return array


def _hostile() -> dict[str, object]:
    from numpy._core.multiarray import scalar
    from numpy._core.numeric import _frombuffer

    inner = pickle.dumps(_Calls(os.mkdir, "made"))
    return {
        "a call": _Calls(os.mkdir, "made"),
        "a call below": {"label": 1, "meta_info": [_Calls(os.mkdir, "made")]},
        "a shell": _Calls(os.system, "mkdir made"),
        "eval": _Calls(eval, "__import__('os').mkdir('made')"),
        "a process": _Calls(subprocess.Popen, ["mkdir", "made"]),
        "getattr": _Calls(getattr, date, "today"),
        "an object scalar": _Calls(scalar, np.dtype("O"), inner),
        "an object array": _object_array(),
        "an object buffer": _Calls(_frombuffer, inner, np.dtype("O"), (1,), "C"),
        "a subclass of ndarray": _Masked(),
        "a path": Path("made"),
    }


@pytest.mark.parametrize("name", _hostile())
@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_a_hostile_pickle_runs_nothing(name, protocol, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = str(pickle.dumps({"label": _hostile()[name]}, protocol=protocol))
    with pytest.raises(UnreadableImage) as refused:
        label_of(read_attribute(text))
    assert os.listdir(tmp_path) == []
    assert "label" in str(refused.value) or "nothing of it was run" in str(refused.value)


def test_what_a_geobench_module_imports_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for module, name in (
        ("geobench.dataset", "os.mkdir"),
        ("geobench.dataset", "Path"),
        ("os", "mkdir"),
    ):
        hostile = pickle.PROTO + b"\x04" + _text(module) + _text(name) + pickle.STACK_GLOBAL
        hostile += _text("made") + pickle.TUPLE1 + pickle.REDUCE + pickle.STOP
        with pytest.raises(UnreadableImage, match=f"names {module}.{name}"):
            read_attribute(str(hostile))
    assert os.listdir(tmp_path) == []


def test_a_pickle_cannot_change_the_classes_that_the_next_one_gets():
    # BUILD on a class: attributes of it would be set for ever
    build = pickle.PROTO + b"\x04" + _text("geobench.dataset") + _text("Sentinel2")
    build += pickle.STACK_GLOBAL + pickle.NONE + pickle.EMPTY_DICT + _text("__setstate__")
    build += pickle.NONE + pickle.SETITEM + pickle.TUPLE2 + pickle.BUILD + pickle.STOP
    with pytest.raises(UnreadableImage):
        read_attribute(str(build))
    assert label_of(read_attribute(pickled(as_written(1, ["Red"])))) == 1


def _text(value: str) -> bytes:
    return pickle.SHORT_BINUNICODE + bytes([len(value)]) + value.encode()


@pytest.mark.parametrize(
    "stored",
    [
        "",
        "b'",
        "b''",
        "__import__('os').mkdir('made')",
        "{'label': 1}",
        "'text'",
        5,
        b"\x80\x04",
        str(pickle.dumps([1])),
        str(pickle.dumps({"label": 1}))[:-5] + "'",
    ],
)
def test_what_is_no_such_attribute_is_one_error(stored, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnreadableImage, match="attribute 'pickle'") as refused:
        read_attribute(stored)
    assert refused.value.remedy
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "label", [None, "forest", 1.5, float("nan"), {"boxes": []}, [1, "a"], b"1"]
)
def test_a_label_that_is_no_class_id_is_refused(label):
    with pytest.raises(UnreadableImage, match="label"):
        label_of({"label": label})


@pytest.mark.parametrize(
    "data",
    [
        # a number of an object, which unpickling would make room for, in each form that a pickle has
        b"\x80\x02}r\x00\x00\x00\x7f.",
        b"}p2000000000\n.",
        # a length of a text, of bytes and of a frame
        b"\x80\x04\x8d\x00\x00\x00\x00\x02\x00\x00\x00.",
        b"\x80\x04\x8e\x00\x00\x00\x00\x02\x00\x00\x00.",
        b"\x80\x04\x95\x00\x00\x00\x00\x02\x00\x00\x00}.",
    ],
)
def test_what_a_pickle_announces_takes_no_memory(data):
    with pytest.raises(UnreadableImage, match="cannot be read: (ValueError|UnpicklingError)"):
        read_attribute(data)


@pytest.mark.parametrize("text", ["(" * 3000, "b''+" + "(" * 3000, "b'' b''", "b'", "{}"])
def test_a_text_that_is_not_one_literal_of_bytes_is_refused_before_it_is_parsed(text):
    with pytest.raises(UnreadableImage, match="it is not the text of bytes"):
        read_attribute(text)
