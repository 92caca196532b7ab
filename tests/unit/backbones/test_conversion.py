"""`permafrost convert-checkpoint`: what comes out of real pickles, and that hostile ones run nothing."""

from __future__ import annotations

import argparse
import builtins
import collections
import io
import os
import pickle
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from permafrost.backbones.weights import checkpoint, conversion, unpickling
from permafrost.backbones.weights.checkpoint import read_state_dict
from permafrost.backbones.weights.conversion import convert_checkpoint
from permafrost.core.errors import PermafrostError
from permafrost.stages.cli import main


def tensors() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    numbers = torch.randn(4, 3, 5, generator=generator)
    shared = torch.arange(6.0)
    return {
        "plain": numbers,
        "transposed": numbers.permute(2, 0, 1),
        "every_second": numbers[::2, 1],
        "expanded": torch.tensor([1.5, 2.5]).reshape(2, 1).expand(2, 3),
        "half": numbers.half(),
        "bfloat": numbers.bfloat16(),
        "double": numbers.double(),
        "count": torch.tensor(7),
        "bytes": torch.arange(5, dtype=torch.uint8),
        "mask": torch.tensor([True, False]),
        "empty": torch.zeros(0, 3),
        "tied": shared,
        "tied_part": shared[2:4],
    }


def converted(content, folder: Path, *, legacy: bool = False, key: str | None = None):
    source, target = folder / "given.pt", folder / "out.safetensors"
    torch.save(content, source, _use_new_zipfile_serialization=not legacy)
    done = convert_checkpoint(source, target, key)
    return done, read_state_dict(target, where="test")[0]


@pytest.mark.parametrize("legacy", [False, True])
def test_tensors_come_out_as_torch_reads_them(tmp_path, legacy):
    done, found = converted(tensors(), tmp_path, legacy=legacy)
    assert done.tensors == len(tensors()) and done.left_out == {}
    assert sorted(found) == sorted(tensors())
    for name, tensor in tensors().items():
        assert found[name].dtype == tensor.dtype and torch.equal(found[name], tensor), name


class Config:
    """A class of the training code, which nobody else has."""

    def __init__(self):
        self.rate = 0.1


@pytest.mark.parametrize("legacy", [False, True])
def test_what_trainers_add_is_left_out_and_listed(tmp_path, legacy, capsys):
    model = torch.nn.Linear(2, 2)
    content = {
        "state_dict": {**model.state_dict(), "version": 3, "_metadata": {"a": [1]}},
        "args": argparse.Namespace(lr=0.1),
        "best": np.float64(0.5),
        "hyper_parameters": collections.OrderedDict(width=[1, 2]),
        "callbacks": {"config": Config(), "limit": collections.defaultdict(int)},
        "optimizer": {"state": {0: {"exp_avg": torch.ones(2)}}, "param_groups": [{"lr": 1}]},
    }
    done, found = converted(content, tmp_path, legacy=legacy)
    assert set(found) == {"weight", "bias"} and torch.equal(found["weight"], model.weight)
    assert set(done.left_out) == {
        "state_dict.version", "state_dict._metadata", "args", "best", "hyper_parameters", "callbacks", "optimizer",
    }  # fmt: skip
    assert done.left_out["args"] == "argparse.Namespace"
    assert done.left_out["optimizer"] == "dict with 1 tensors"
    assert (
        main(["convert-checkpoint", str(tmp_path / "given.pt"), str(tmp_path / "2.safetensors")])
        == 0
    )
    said = capsys.readouterr().out
    assert "2.safetensors: 2 tensors" in said and "omitted: args (argparse.Namespace)" in said


def test_a_whole_module_gives_its_state_dict(tmp_path):
    model = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 1), torch.nn.BatchNorm2d(3))
    model[1].register_buffer("passing", torch.ones(1), persistent=False)
    _, found = converted(model, tmp_path)
    assert set(found) == set(model.state_dict())


def test_a_key_chooses_the_student_or_the_teacher(tmp_path):
    content = {"student": {"w": torch.zeros(2)}, "teacher": {"w": torch.ones(2)}, "epoch": 1}
    _, found = converted(content, tmp_path, key="teacher")
    assert torch.equal(found["w"], torch.ones(2))
    (tmp_path / "out.safetensors").unlink()
    _, found = converted(content, tmp_path)
    assert set(found) == {"student.w", "teacher.w"}
    with pytest.raises(PermafrostError, match="no key 'ema', only 'student', 'teacher', 'epoch'"):
        convert_checkpoint(tmp_path / "given.pt", tmp_path / "new.safetensors", "ema")


# --- hostile files -------------------------------------------------------------------------------


class Calls:
    """Calls a function when it is unpickled."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def refused(source: Path) -> str:
    """What is said of a file that must leave nothing behind."""
    before = set(os.listdir(source.parent))
    with pytest.raises(PermafrostError) as error:
        convert_checkpoint(source, source.parent / "out.safetensors")
    assert set(os.listdir(source.parent)) == before
    return str(error.value)


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize(
    "function",
    [
        os.system,
        builtins.eval,
        builtins.exec,
        subprocess.check_output,
        builtins.__import__,
        builtins.open,
    ],
    ids=lambda function: function.__name__,
)
def test_a_pickle_that_calls_a_program_or_code_is_refused(tmp_path, function, legacy):
    mark = tmp_path / "marks" / "mark"
    mark.parent.mkdir()
    text = (
        f"__import__('os').system('touch {mark}')" if function in (eval, exec) else f"touch {mark}"
    )
    content = {"state_dict": tensors(), "more": Calls(function, text)}
    torch.save(content, tmp_path / "hostile.pt", _use_new_zipfile_serialization=not legacy)
    assert f".{function.__name__}, which no checkpoint needs" in refused(tmp_path / "hostile.pt")
    assert not mark.exists()


def stored(
    pickled: bytes, path: Path, members: dict[str, bytes] | None = None, compress=False
) -> Path:
    """A file as torch.save writes it, around a pickle made by hand."""
    kind = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with zipfile.ZipFile(path, "w", kind) as archive:
        archive.writestr("archive/data.pkl", pickled)
        for name, content in (members or {}).items():
            archive.writestr(f"archive/{name}", content)
    return path


class Pickler(pickle.Pickler):
    """Writes a storage of this key, type and count where a tensor's storage goes."""

    def persistent_id(self, item):
        return item.pid if isinstance(item, Pid) else None


class Pid:
    def __init__(self, key="0", count=2, kind=torch.FloatStorage):
        self.pid = ("storage", kind, key, "cpu", count)


def tensor_of(storage, offset=0, shape=(2,), stride=(1,)) -> Calls:
    from torch._utils import _rebuild_tensor_v2

    return Calls(
        _rebuild_tensor_v2, storage, offset, shape, stride, False, collections.OrderedDict()
    )


def pickled(content) -> bytes:
    out = io.BytesIO()
    Pickler(out, 2).dump(content)
    return out.getvalue()


def test_gadgets_of_torch_and_of_others_run_nothing(tmp_path):
    inner = io.BytesIO()
    torch.save(Calls(os.system, f"touch {tmp_path}/mark"), inner)
    gadgets = {
        "load": Calls(torch.load, io.BytesIO(inner.getvalue()), None, None, False),
        "bytes": Calls(torch.storage._load_from_bytes, inner.getvalue()),
        "hub": Calls(torch.hub.load_state_dict_from_url, f"file://{tmp_path}/x"),
        "getattr": Calls(getattr, "", "format"),
        "numpy": Calls(np.load, f"{tmp_path}/x"),
    }
    source = stored(
        pickled({"w": tensor_of(Pid()), **gadgets}), tmp_path / "a.pt", {"data/0": bytes(8)}
    )
    done = convert_checkpoint(source, tmp_path / "out.safetensors")
    assert done.tensors == 1 and set(done.left_out) == set(gadgets)
    assert done.left_out["load"] == "torch.serialization.load"
    assert set(os.listdir(tmp_path)) == {"a.pt", "out.safetensors"}


DATA = {"data/0": bytes(8)}


@pytest.mark.parametrize(
    ("content", "members", "said"),
    [
        ({"w": tensor_of(Pid(), 0, (3,))}, DATA, "beyond its storage"),
        ({"w": tensor_of(Pid(), 5)}, DATA, "beyond its storage"),
        ({"w": tensor_of(Pid(count=1 << 40), 0, (1 << 40,))}, DATA, "much larger than the file"),
        ({"w": tensor_of(Pid(), 0, (1 << 50, 1 << 50), (0, 0))}, DATA, "much larger than the file"),
        ({"w": tensor_of(Pid(), 0, (-2,))}, DATA, "impossible size"),
        ({"w": tensor_of(Pid(), 0, (2,), (-1,))}, DATA, "impossible size"),
        ({"w": tensor_of(Pid(count=-1))}, DATA, "negative size"),
        ({"w": tensor_of(Pid("../../../etc/passwd"))}, DATA, "is missing"),
        ({"w": tensor_of(Pid("/etc/passwd"))}, DATA, "is missing"),
        ({"w": tensor_of("no storage")}, DATA, "has no storage"),
        ({"a.b": tensor_of(Pid()), "a": {"b": tensor_of(Pid())}}, DATA, "two tensors in it have the name 'a.b'"),
        ({"__metadata__": tensor_of(Pid())}, DATA, "__metadata__"),
        ({"\ud800": tensor_of(Pid())}, DATA, "is no text"),
        ({"epoch": 1}, {}, "holds no tensors"),
        ({"w": tensor_of(Pid())}, {**DATA, "constants.pkl": b""}, "TorchScript"),
        ({"w": tensor_of(Pid())}, {**DATA, "byteorder": b"big"}, "big-endian"),
    ],
)  # fmt: skip
def test_impossible_checkpoints_are_refused(tmp_path, content, members, said):
    assert said in refused(stored(pickled(content), tmp_path / "a.pt", members))


def test_a_zip_bomb_is_refused(tmp_path):
    bomb = {"data/0": bytes(50 << 20)}
    content = pickled({"w": tensor_of(Pid(count=10), 0, (10,))})
    assert "zip bomb" in refused(stored(content, tmp_path / "a.pt", bomb, compress=True))


def legacy(after: bytes) -> bytes:
    head = (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})
    return b"".join(pickle.dumps(one, 2) for one in head) + after


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK\x03\x04",
        b"no pickle",
        pickle.dumps({"w": 1}),
        # asks for a terabyte of one string, and for a memo of 2^31 places
        legacy(b"\x80\x02\x8d" + struct.pack("<Q", 1 << 40)),
        legacy(b"\x80\x02}r" + struct.pack("<I", (1 << 31) - 1) + b"."),
        # a billion laughs, by references to references
        legacy(b"\x80\x02]" + b"".join(b"2" + b"]" + b"(" + b"h\x00" * 9 + b"e" for _ in range(9)) + b"."),
        legacy(pickled({"w": tensor_of(Pid())}) + pickle.dumps(["0"]) + struct.pack("<q", 1 << 60)),
        legacy(pickled({"w": tensor_of(Pid())}) + pickle.dumps(["0"]) + struct.pack("<q", -9)),
        legacy(b"(" * 200_000 + b"."),
    ],
    ids=["empty", "zip", "text", "pickle", "string", "memo", "laughs", "huge", "negative", "marks"],
)  # fmt: skip
def test_damaged_files_and_those_that_ask_for_too_much_are_refused(tmp_path, content):
    (tmp_path / "a.pt").write_bytes(content)
    assert "cannot be converted" in refused(tmp_path / "a.pt")


def test_a_cycle_and_shared_parts_come_to_an_end(tmp_path):
    content = {"w": tensor_of(Pid())}
    content["self"] = content
    level = [tensor_of(Pid())]
    for _ in range(60):
        level = [level, level]
    content["wide"] = level
    source = stored(pickled(content), tmp_path / "a.pt", DATA)
    assert convert_checkpoint(source, tmp_path / "out.safetensors").tensors == 2


def test_the_process_can_neither_connect_nor_open_nor_start_anything(tmp_path):
    code = """
import sys; sys.path.insert(0, sys.argv[1])
import socket, unpickling, os
unpickling.isolate(1000)
for act in (lambda: socket.create_connection(("127.0.0.1", 9)), lambda: open("/etc/passwd"),
            lambda: os.system("true"), lambda: __import__("ftplib"), lambda: eval("1")):
    try:
        act()
        print("done")
    except unpickling.Refused:
        print("refused")
"""
    folder = Path(conversion.__file__).parent
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, folder], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["refused"] * 5


def test_nothing_is_written_over_and_only_safetensors_are(tmp_path):
    torch.save(tensors(), tmp_path / "a.pt")
    (tmp_path / "b.safetensors").write_text("mine")
    with pytest.raises(PermafrostError, match="exists already"):
        convert_checkpoint(tmp_path / "a.pt", tmp_path / "b.safetensors")
    with pytest.raises(PermafrostError, match=r"b\.safetensors"):
        convert_checkpoint(tmp_path / "a.pt", tmp_path / "b.pt")
    with pytest.raises(PermafrostError, match="correct its name"):
        convert_checkpoint(tmp_path / "none.pt", tmp_path / "c.safetensors")
    assert (tmp_path / "b.safetensors").read_text() == "mine"


def test_names_that_a_terminal_would_obey_are_shown_escaped(tmp_path, capsys):
    torch.save({"w": torch.ones(1), "\x1b[2J": "x"}, tmp_path / "a.pt")
    assert (
        main(["convert-checkpoint", str(tmp_path / "a.pt"), str(tmp_path / "b.safetensors")]) == 0
    )
    said = capsys.readouterr().out
    assert "\x1b" not in said and "\\x1b[2J" in said


def test_names_of_half_characters_are_reported(tmp_path):
    torch.save({"w": torch.ones(1), "\udc80": "x"}, tmp_path / "a.pt")
    assert convert_checkpoint(tmp_path / "a.pt", tmp_path / "b.safetensors").tensors == 1


def test_weights_are_looked_for_where_they_are_when_they_are_loaded():
    assert unpickling.WRAPPERS == checkpoint.WRAPPERS
