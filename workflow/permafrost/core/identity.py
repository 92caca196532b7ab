"""Identity of a result: canonical JSON, fingerprints, and seeds derived from them."""

from __future__ import annotations

import ast
import hashlib
import json
import math
from collections.abc import Iterator
from pathlib import Path

from permafrost.core.errors import PermafrostError

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical_json(value) -> str:
    """JSON with sorted keys, no spaces, and ``1.0`` written as ``1``.

    YAML entries that differ only in key order, comments or number notation give the same string.

    Raises
    ------
    PermafrostError : a number is not finite, or two keys have the same text.
    TypeError : a value has no canonical form.
    """
    return _ENCODER.encode(_canonical(value))


def unique_keys(pairs: list[tuple]) -> dict:
    """A ``object_pairs_hook`` for `json` that raises ValueError for a duplicate key."""
    found = dict(pairs)
    if len(found) != len(pairs):
        seen = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {key!r} occurs twice in one object")
            seen.add(key)
    return found


def _canonical(value):
    if isinstance(value, dict):
        named = {str(key): _canonical(item) for key, item in value.items()}
        if len(named) < len(value):
            raise PermafrostError(
                f"two keys of {list(value)} have the same text", remedy="give each key its own text"
            )
        return named
    if isinstance(value, list | tuple):
        return [_canonical(item) for item in value]
    if isinstance(value, float):
        if not math.isfinite(value):
            raise PermafrostError(
                f"the number {value} cannot identify a result", remedy="give a finite number"
            )
        return int(value) if value.is_integer() else value
    if value is None or isinstance(value, str | int | bool):
        return value
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no canonical form")


def fingerprint(*parts) -> str:
    """32 hexadecimal digits of the SHA-256 of the canonical JSON of `parts`."""
    return hashlib.sha256(canonical_json(list(parts)).encode()).hexdigest()[:32]


def derive_seed(*parts) -> int:
    """A seed in [0, 2^63) that depends only on `parts`, the identity of the run."""
    digest = hashlib.sha256(("seed" + canonical_json(list(parts))).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def content_digest(content: dict, key: str) -> str:
    """SHA-256 of a JSON object without its entry `key`, which holds this digest; in hexadecimal."""
    rest = {name: value for name, value in content.items() if name != key}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def file_digest(path) -> str:
    """SHA-256 of a file, in hexadecimal; raises OSError if it cannot be read."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def code_digest(path) -> str:
    """SHA-256 of a Python file's code, in hexadecimal: comments and layout do not count.

    Docstrings count, since code may read ``__doc__``, and so do type comments, which TorchScript
    reads. A file that cannot be parsed counts by its bytes.

    Raises
    ------
    OSError : the file cannot be read.
    """
    content = Path(path).read_bytes()
    try:
        code = syntax(ast.parse(content, type_comments=True), docstrings=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        code = content
    return hashlib.sha256(code).hexdigest()


def syntax(tree: ast.Module, *, docstrings: bool) -> bytes:
    """A syntax tree as text, without positions, comments and empty fields.

    Empty fields are omitted, so fields that a newer Python adds do not change the text.
    """
    return "".join(_written(tree, docstrings)).encode("utf-8", "surrogatepass")


def _written(node, docstrings: bool) -> Iterator[str]:
    if isinstance(node, ast.AST):
        yield f"({type(node).__name__}"
        documented = isinstance(
            node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        )
        for name, value in ast.iter_fields(node):
            if name == "body" and documented and not docstrings:
                value = [one for one in value if not _is_text(one)]
            # `type: ignore` is of line numbers
            if value is not None and value != [] and name != "type_ignores":
                yield f" {name}="
                yield from _written(value, docstrings)
        yield ")"
    elif isinstance(node, list):
        yield "["
        for item in node:
            yield from _written(item, docstrings)
        yield "]"
    else:
        yield f"{type(node).__name__}:{node!r},"


def _is_text(node: ast.AST) -> bool:
    """Whether a statement is a docstring or an attribute docstring."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
