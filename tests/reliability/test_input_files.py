"""What is given as a file and is none: refused by name, never waited for, read without end or as empty."""

from __future__ import annotations

import json
import os
import socket
import threading

import numpy as np
import pytest
from helpers.predictions.detections import coco_case
from permafrost.core import inputs
from permafrost.core.errors import PermafrostError
from permafrost.data.deepforest.reading import read_annotations
from permafrost.evaluators.detection import evaluate
from permafrost.evaluators.detection.partial import merge
from permafrost.evaluators.detection.slices import read_manifest
from permafrost.evaluators.panoptic.entries import Entry, Segments, read_truth
from permafrost.evaluators.panoptic.maps import read_map
from permafrost.evaluators.raster.files import opened

TRUTH, RESULTS = coco_case(2, images=4)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(inputs, "PATIENCE", 0.05)


def _open_raster(path):
    with opened(path):
        pass


def _read_map(path):
    nothing = np.empty(0)
    segments = Segments(nothing.astype(int), nothing.astype(int), nothing.astype(bool), nothing)
    read_map(path.parent, Entry(1, path.name, None, segments, "annotations[0]"))


READERS = {
    "truth": lambda path: evaluate(path, RESULTS, iou_type="bbox"),
    "predictions": lambda path: evaluate(TRUTH, path, iou_type="bbox"),
    "boxes": lambda path: read_annotations(path, "truth"),
    "manifest": lambda path: read_manifest(path, np.array([1, 2])),
    "part": lambda path: merge([path]),
    "raster": _open_raster,
    "panoptic": read_truth,
    "panoptic picture": _read_map,
}


def _link(target: str):
    return lambda path: path.symlink_to(target)


def _socket(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


KINDS = {
    "device": (_link("/dev/zero"), "is a device"),
    "terminal": (_link("/dev/tty"), "is a device"),
    "pipe": (os.mkfifo, "no data arrived in this pipe|is a pipe"),
    "folder": (os.mkdir, "is a folder|cannot be opened|the folder has no text file"),
    "socket": (_socket, "is a socket"),
    "loop": (lambda path: path.symlink_to(path), "cannot be read|cannot be opened|no such file"),
    "dead link": (_link("absent"), "does not exist|cannot be opened|no such file"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_file_is_refused_by_name(reader, kind, tmp_path, monkeypatch):
    # names of sockets are short
    monkeypatch.chdir(tmp_path)
    path = type(tmp_path)("given")
    make, message = KINDS[kind]
    make(path)
    with pytest.raises(PermafrostError, match=message) as caught:
        READERS[reader](path)
    assert "given" in str(caught.value)


def test_a_slow_pipe_is_read_to_its_end(tmp_path, monkeypatch):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    content = json.dumps(RESULTS).encode()
    wait = threading.Event()

    def write():
        with open(pipe, "wb") as stream:
            wait.wait(4 * inputs.PATIENCE)
            stream.write(content[:100])
            stream.flush()
            wait.wait(4 * inputs.PATIENCE)
            stream.write(content[100:])

    writer = threading.Thread(target=write)
    writer.start()
    assert inputs.read_bytes(pipe) == content
    writer.join()
    (tmp_path / "file").write_bytes(content)
    assert inputs.input_digest(pipe) == inputs.input_digest(tmp_path / "file")


def test_a_pipe_that_was_not_read_has_no_digest(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PermafrostError, match="not read"):
        inputs.input_digest(tmp_path / "pipe")
