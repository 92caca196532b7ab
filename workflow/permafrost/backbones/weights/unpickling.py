"""The isolated process of ``permafrost convert-checkpoint``: pickle to safetensors without running code.

`conversion.py` runs this file as a script with ``-I -S``, so only the standard library is
available. Standard input is the checkpoint, standard output the safetensors file, standard error
one JSON report. Names in the pickle that are not in `_known` become inert placeholders. Sizes are
compared with the file size before memory is allocated.
"""

from __future__ import annotations

import collections
import contextlib
import io
import json
import math
import os
import pickle
import resource
import struct
import sys
import zipfile
from collections.abc import Iterator
from typing import Any, BinaryIO, Literal, NamedTuple

#: as in `permafrost.backbones.weights.checkpoint`, which cannot be imported here
WRAPPERS = ("state_dict_ema", "model_ema", "state_dict", "model")
# torch's element types and storages -> types of safetensors
_KINDS = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32",
    "int16": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip
_STORAGES = {
    "DoubleStorage": "F64", "FloatStorage": "F32", "HalfStorage": "F16", "BFloat16Storage": "BF16",
    "LongStorage": "I64", "IntStorage": "I32", "ShortStorage": "I16", "CharStorage": "I8", "ByteStorage": "U8",
    "BoolStorage": "BOOL", "UntypedStorage": "U8",
}  # fmt: skip
_BYTES = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "F16": 2, "BF16": 2, "I16": 2}
_VIEWS: dict[int, Literal["B", "H", "I", "Q"]] = {1: "B", 2: "H", 4: "I", 8: "Q"}
_MAGIC = 0x1950A86A20F9469CFC6C
# modules and functions that legitimate checkpoints never name
_ACTING = frozenset({
    "os", "posix", "nt", "subprocess", "pty", "socket", "shutil", "runpy", "importlib", "imp", "ctypes", "pickle",
    "code", "codeop", "webbrowser", "multiprocessing", "commands", "popen2", "sys", "signal",
})  # fmt: skip
_ACTING_BUILTINS = frozenset({
    "eval", "exec", "execfile", "compile", "__import__", "open", "input", "breakpoint",
})  # fmt: skip
_DENIED = (
    "os.", "subprocess.", "socket.", "ctypes.", "shutil.", "exec", "compile", "import", "open",
)  # fmt: skip
_MOST_TENSORS = 1_000_000
_SMALL = 64 << 20


class Refused(Exception):
    """The file cannot be converted; the message gives the reason."""


class Storage(NamedTuple):
    key: str
    kind: str
    count: int  # type: ignore[assignment]  # hides tuple.count


class Tensor(NamedTuple):
    """A view of a storage; offset and stride in elements, `kind` is safetensors' type."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    kind: str


class Absent:
    """Placeholder for any class or function that a pickle names; stores its state and does nothing."""

    named = ""
    state: Any = None

    def __new__(cls, *_args, **_kwargs):
        return object.__new__(cls)

    def __init__(self, *_args, **_kwargs) -> None:
        pass

    def __call__(self, *_args, **_kwargs) -> Absent:
        return self

    def __setstate__(self, state) -> None:
        self.state = state

    def __setitem__(self, _key, _value) -> None:
        pass

    def append(self, _item) -> None:
        pass

    add = extend = append


def _tensor(storage, offset, shape, stride, *rest) -> Tensor:
    """Replaces ``torch._utils._rebuild_tensor``, ``_v2`` and ``_v3``."""
    if not isinstance(storage, Storage):
        raise Refused("a tensor in it has no storage")
    kind = rest[2] if len(rest) > 2 and isinstance(rest[2], str) else storage.kind
    return Tensor(storage, offset, tuple(shape), tuple(stride), kind)


def _reconstructed(kind, *_) -> Absent:
    return kind() if isinstance(kind, type) and issubclass(kind, Absent) else Absent()


_known: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("collections", "defaultdict"): lambda *_: {},
    ("collections", "Counter"): lambda content=(): dict(content),
    ("torch", "Size"): tuple,
    ("copyreg", "_reconstructor"): _reconstructed,
    ("torch._utils", "_rebuild_tensor"): _tensor,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch._utils", "_rebuild_tensor_v3"): _tensor,
    ("torch._utils", "_rebuild_parameter"): lambda data, *_: data,
    ("torch._utils", "_rebuild_parameter_with_state"): lambda data, *_: data,
    **{("builtins", one.__name__): one for one in (dict, list, tuple, set, frozenset, int, float, bool, str)},
    **{("torch", name): kind for name, kind in {**_KINDS, **_STORAGES}.items()},
    ("torch.storage", "UntypedStorage"): "U8",
}  # fmt: skip
_MODULES = {"__builtin__": "builtins", "copy_reg": "copyreg"}


class Unpickler(pickle.Unpickler):
    """Unpickles tensors, mappings and sequences; everything else becomes a placeholder."""

    def __init__(self, file) -> None:
        super().__init__(file, encoding="utf-8", errors="surrogateescape")

    def find_class(self, module: str, name: str):
        module = _MODULES.get(module, module)
        if (module, name) in _known:
            return _known[module, name]
        builtin = module in ("builtins", "io", "_io") and name in _ACTING_BUILTINS
        if builtin or module.partition(".")[0] in _ACTING:
            raise Refused(
                f"it would call {module}.{name}, which no checkpoint needs: do not use this file"
            )
        return type("Absent", (Absent,), {"named": f"{module}.{name}"})

    def persistent_load(self, pid) -> Storage:
        match pid:
            case ("storage", str(kind), str(key), _, int(count), *view) if not any(view):
                if count < 0:
                    raise Refused("a storage in it has a negative size")
                return Storage(key, kind, count)
        raise Refused("it holds tensors of a kind that is not understood")


# --- the file ------------------------------------------------------------------------------------


class _Zip:
    """A checkpoint of torch.save since 1.6: a zip with uncompressed members."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._size = file, size
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
        self._members = {member.filename: member for member in members}
        pickles = [
            name for name in self._members if name.count("/") == 1 and name.endswith("/data.pkl")
        ]
        if len(pickles) != 1:
            raise Refused("it is a zip, but none that torch.save wrote")
        self._folder = pickles[0].removesuffix("data.pkl")
        if f"{self._folder}constants.pkl" in self._members:
            raise Refused("it is a TorchScript program, not a checkpoint")
        if sum(member.file_size for member in members) > size:
            raise Refused("its parts are larger than the file, as in a zip bomb")
        if f"{self._folder}byteorder" in self._members and self._read("byteorder") != b"little":
            raise Refused("its numbers are big-endian")

    def content(self):
        return Unpickler(io.BytesIO(self._read("data.pkl"))).load()

    def raw(self, storage: Storage) -> bytes:
        return self._read(f"data/{storage.key}")

    def _read(self, name: str) -> bytes:
        member = self._members.get(f"{self._folder}{name}")
        if member is None:
            raise Refused(f"its part {name!r} is missing")
        if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 1:
            raise Refused("its parts are compressed or encrypted, which torch.save never does")
        self._file.seek(member.header_offset)
        header = self._file.read(30)
        if len(header) < 30:
            raise Refused(f"its part {name!r} is cut off")
        self._file.seek(sum(struct.unpack("<HH", header[26:])), os.SEEK_CUR)
        content = self._file.read(min(member.file_size, self._size))
        if len(content) != member.file_size:
            raise Refused(f"its part {name!r} is cut off")
        return content


class _Legacy:
    """A checkpoint of torch.save before 1.6: consecutive pickles, then the storages."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._size = file, size
        if Unpickler(file).load() != _MAGIC or Unpickler(file).load() != 1001:
            raise Refused("torch.save did not write it")
        if not dict(Unpickler(file).load()).get("little_endian"):
            raise Refused("its numbers are big-endian")
        self._places: dict[str, tuple[int, int]] = {}
        self._kinds: dict[str, str] = {}

    def content(self):
        kinds = self._kinds

        class Noting(Unpickler):
            def persistent_load(self, pid) -> Storage:
                storage = super().persistent_load(pid)
                kinds[storage.key] = storage.kind
                return storage

        content = Noting(self._file).load()
        for key in list(Unpickler(self._file).load()):
            (count,) = struct.unpack("<q", self._file.read(8))
            length = count * _BYTES.get(kinds[key], 1)
            place = self._file.tell()
            if not 0 <= length <= self._size - place:
                raise Refused("it is cut off, or its sizes are wrong")
            self._places[key] = place, length
            self._file.seek(place + length)
        return content

    def raw(self, storage: Storage) -> bytes:
        if storage.key not in self._places:
            raise Refused(f"its storage {storage.key!r} is missing")
        place, length = self._places[storage.key]
        self._file.seek(place)
        return self._file.read(length)


# --- the content ---------------------------------------------------------------------------------


def _inside(node) -> list[tuple[str, Any]] | None:
    """(name, part) of a container or a pickled torch.nn.Module; None for anything else."""
    if isinstance(node, dict):
        return [(str(key), value) for key, value in node.items()]
    if isinstance(node, list | tuple | set | frozenset) and not isinstance(node, Tensor | Storage):
        return [(str(number), value) for number, value in enumerate(node)]
    state = node.state if isinstance(node, Absent) else None
    if not (isinstance(state, dict) and isinstance(state.get("_modules"), dict)):
        return None
    passing = state.get("_non_persistent_buffers_set") or ()
    parts: list[tuple[str, Any]] = []
    for group in ("_parameters", "_buffers", "_modules"):
        held = state.get(group)
        if isinstance(held, dict):
            parts += [(str(k), v) for k, v in held.items() if v is not None and k not in passing]
    return parts


def collect(root) -> tuple[dict[str, Tensor], dict[str, str]]:
    """(tensors by dotted name, left-out objects: name to type); a container without tensors is one object."""
    tensors: dict[str, Tensor] = {}
    left: dict[str, str] = {}
    seen: set[int] = set()
    pending = [("", root)]
    while pending:
        name, node = pending.pop()
        if isinstance(node, Tensor):
            if name in tensors:
                raise Refused(f"two tensors in it have the name {name!r}")
            tensors[name] = node
            if len(tensors) > _MOST_TENSORS:
                raise Refused(f"it holds more than {_MOST_TENSORS} tensors")
            continue
        parts = _inside(node)
        if not parts or id(node) in seen or not _holds_tensors(node):
            left[name] = _words(node)
            continue
        seen.add(id(node))
        pending += [(f"{name}.{key}" if name else key, part) for key, part in reversed(parts)]
    return tensors, left


def _holds_tensors(root) -> bool:
    seen, pending = set(), [root]
    while pending:
        node = pending.pop()
        if isinstance(node, Tensor):
            return True
        if id(node) not in seen:
            seen.add(id(node))
            pending += [part for _, part in _inside(node) or ()]
    return False


def _words(node) -> str:
    if isinstance(node, Absent):
        return node.named or "an object"
    if isinstance(node, type) and issubclass(node, Absent):
        return node.named
    return type(node).__name__


def weights_of(content, key: str | None) -> tuple[dict[str, Tensor], dict[str, str]]:
    """As `collect`, for the weights: under `key`, else a trainer's usual key, else all tensors."""
    top = dict(_inside(content) or ())
    if key is None:
        key = next((k for k in WRAPPERS if _inside(top.get(k)) and _holds_tensors(top[k])), None)
    elif key not in top:
        raise Refused(f"it has no key {key!r}, only {', '.join(map(repr, top)) or 'tensors'}")
    tensors, left = collect(top[key] if key is not None else content)
    if not tensors:
        raise Refused("it holds no tensors")
    if key is not None:
        left = {f"{key}.{name}": what for name, what in left.items()}
        for other, value in top.items():
            if other != key:
                count = len(collect(value)[0])
                left[other] = _words(value) + (f" with {count} tensors" if count else "")
    return tensors, left


# --- the safetensors file ------------------------------------------------------------------------


def check_tensors(tensors: dict[str, Tensor], most: int) -> int:
    """Total bytes of all tensors; raises `Refused` for invalid sizes or names, or above `most` bytes."""
    total = 0
    for name, tensor in tensors.items():
        numbers = (tensor.offset, *tensor.shape, *tensor.stride)
        sane = all(type(n) is int and 0 <= n < 1 << 62 for n in numbers)
        if not sane or len(tensor.shape) != len(tensor.stride):
            raise Refused(f"the tensor {name!r} has an impossible size")
        total += math.prod(tensor.shape) * _BYTES.get(tensor.kind, 1)
        if total > most:
            raise Refused("its tensors are much larger than the file")
        try:
            name.encode()
        except UnicodeEncodeError:
            raise Refused(f"the name {name!a} of a tensor is no text") from None
        if name == "__metadata__":
            raise Refused("a tensor has the name __metadata__, which safetensors keeps for itself")
    return total


def write(out: BinaryIO, tensors: dict[str, Tensor], raw_of) -> None:
    """Write a safetensors file; `raw_of` returns the bytes of a storage."""
    header, place = {}, 0
    for name, tensor in tensors.items():
        end = place + math.prod(tensor.shape) * _BYTES.get(tensor.kind, 1)
        header[name] = {"dtype": tensor.kind, "shape": tensor.shape, "data_offsets": [place, end]}
        place = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    out.write(struct.pack("<Q", len(text)) + text)
    storage, raw = None, memoryview(b"")
    for name, tensor in tensors.items():
        if tensor.storage != storage:
            storage, raw = tensor.storage, memoryview(raw_of(tensor.storage))
        for piece in _elements(name, tensor, raw):
            out.write(piece)


def _elements(name: str, tensor: Tensor, raw: memoryview) -> Iterator:
    """Yield the tensor's bytes in the order of its elements."""
    size = _BYTES.get(tensor.kind, 1)
    view = raw[: len(raw) // size * size].cast(_VIEWS[size])
    if 0 in tensor.shape:
        return
    steps = zip(tensor.shape, tensor.stride, strict=True)
    if tensor.offset + sum((n - 1) * step for n, step in steps) >= len(view):
        raise Refused(f"the tensor {name!r} reaches beyond its storage")
    yield from _strided(view, tensor.offset, tensor.shape, tensor.stride)


def _strided(view: memoryview, start: int, shape, stride) -> Iterator:
    expected = 1
    for n, step in zip(reversed(shape), reversed(stride), strict=True):
        if n != 1 and step != expected:
            break
        expected *= n
    else:
        yield view[start : start + expected]
        return
    if len(shape) == 1:
        piece = view[start : start + (shape[0] - 1) * stride[0] + 1 : stride[0] or 1].tobytes()
        yield piece if stride[0] else piece * shape[0]
        return
    for number in range(shape[0]):
        yield from _strided(view, start + number * stride[0], shape[1:], stride[1:])


# --- the process ---------------------------------------------------------------------------------


def isolate(size: int) -> None:
    """Forbid network (if possible), new files, programs and imports in this process, and limit resources."""
    for flags in ("CLONE_NEWUSER", "CLONE_NEWNET"), ("CLONE_NEWNET",):
        with contextlib.suppress(OSError, AttributeError):
            os.unshare(sum(getattr(os, flag) for flag in flags))
            break
    limits = {
        "AS": (1 << 30) + 4 * size,
        "FSIZE": _most_bytes(size) + (256 << 20),
        "CPU": 120 + size // (10 << 20),
        "NPROC": 0,
        "NOFILE": 16,
        "CORE": 0,
    }
    for name, limit in limits.items():
        with contextlib.suppress(OSError, ValueError, AttributeError):
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (limit, limit))
    sys.addaudithook(_deny)


def _deny(event: str, _arguments) -> None:
    if event.startswith(_DENIED):
        raise Refused(f"it tried to {event}: do not use this file")


def _most_bytes(size: int) -> int:
    # tied weights and expanded views can exceed their storages
    return max(_SMALL, 4 * size)


def main(key: str | None) -> dict:
    """Convert standard input to standard output; returns the report."""
    source, size = sys.stdin.buffer, os.fstat(0).st_size
    b"-".decode("cp437")  # imports the codec for names in a zip, before imports are forbidden
    isolate(size)
    archive = source.read(4) == b"PK\x03\x04"
    source.seek(0)
    file = (_Zip if archive else _Legacy)(source, size)
    tensors, left = weights_of(file.content(), key)
    total = check_tensors(tensors, _most_bytes(size))
    write(sys.stdout.buffer, tensors, file.raw)
    sys.stdout.buffer.flush()
    return {"tensors": len(tensors), "bytes": total, "left_out": left}


if __name__ == "__main__":
    try:
        report = main(sys.argv[1] if len(sys.argv) > 1 else None)
    except Refused as error:
        report = {"refused": str(error)}
    except MemoryError:
        report = {"refused": "it asks for more memory than a checkpoint of its size needs"}
    except RecursionError:
        report = {"refused": "it is nested too deeply"}
    # a malicious file can cause any error in the standard library
    except Exception as error:
        report = {
            "refused": f"torch.save did not write it, or it is damaged ({type(error).__name__}: {error})"
        }
    sys.stderr.write(json.dumps(report))
    sys.stderr.flush()
    os._exit(1 if "refused" in report else 0)
