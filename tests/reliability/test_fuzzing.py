"""What `tests/fuzz` tries: its readers, its bounds, and all inputs that it kept."""

from __future__ import annotations

import os
import subprocess

import pytest
from helpers.fuzzing import NAMES, bounds, kept, reader_of
from permafrost.core.errors import PermafrostError
from permafrost.data.files.decode import UnreadableImage


@pytest.fixture(autouse=True)
def _needs_peer(request):
    if "polygons" in request.node.name:
        pytest.importorskip("pycocotools")


@pytest.mark.parametrize("name", NAMES)
def test_good_inputs_their_halves_and_all_kept_inputs_keep_all_promises(name):
    reader = reader_of(name)
    seeds = list(reader.seeds())
    for data in (*seeds, *(seed[: len(seed) // 2] for seed in seeds), b""):
        bounds.attempt(reader.read, data, reader.accepted)
    for path in kept(name):
        bounds.attempt(reader.read, path.read_bytes(), reader.accepted)


@pytest.mark.parametrize("name", NAMES)
def test_a_good_input_is_read(name):
    reader = reader_of(name)
    refused = []
    for seed in reader.seeds():
        try:
            reader.read(seed)
            return
        except (PermafrostError, UnreadableImage) as error:
            refused.append(str(error))
    raise AssertionError(refused)


def _endless(_data: bytes) -> None:
    while True:
        pass


def _greedy(_data: bytes) -> None:
    bytearray(300 << 20)[::4096] = bytes(300 << 8)


def _greedy_and_refused(_data: bytes) -> None:
    try:
        raise MemoryError
    except MemoryError as error:
        raise PermafrostError("damaged") from error


def _writes(path) -> object:
    return lambda _data: open(path, "wb").close()


def _swallows(path) -> object:
    def read(_data: bytes) -> None:
        try:
            os.mkdir(path)
        except BaseException as error:
            raise PermafrostError("damaged") from error

    return read


def test_every_broken_promise_is_a_finding(tmp_path, monkeypatch):
    monkeypatch.setattr(bounds, "SECONDS", 2)
    monkeypatch.setattr(bounds, "BYTES", 100 << 20)
    outside = tmp_path / "outside"
    for read, kind in (
        (lambda data: data[9], "exception"),
        (_endless, "hang"),
        (_greedy, "memory"),
        (_greedy_and_refused, "memory"),
        (_writes(outside), "escape"),
        (_swallows(outside), "escape"),
        (lambda _data: subprocess.run(["true"], check=True), "escape"),
        (lambda _data: os.system("true"), "escape"),
    ):
        with pytest.raises(bounds.Finding) as found:
            bounds.attempt(read, b"")
        assert found.value.kind == kind
    assert not outside.exists()


def test_a_value_a_refusal_and_a_file_in_the_folder_are_none():
    def refuse(_data: bytes) -> None:
        raise UnreadableImage("damaged")

    for read in (len, refuse, _writes(bounds.sandbox() / "own")):
        bounds.attempt(read, b"")
    with pytest.raises(bounds.Finding):
        bounds.attempt(lambda data: data[0], b"")
    bounds.attempt(lambda data: data[0], b"", (IndexError,))
