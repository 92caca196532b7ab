"""What cannot change a result changes no fingerprint, with its counterpart that can."""

from __future__ import annotations

import copy

import pytest
from helpers.plans import CONFIG, changed, fill_root, make_plan
from permafrost.core.identity import code_digest, file_digest
from permafrost.plan import digests
from permafrost.plan.plugins import identified


@pytest.fixture
def root(tmp_path):
    return fill_root(tmp_path / "project")


@pytest.fixture
def config():
    return copy.deepcopy(CONFIG)


# --- code of the user ------------------------------------------------------------------------------

CODE = b'''"""A network."""
import math

SCALE = 2  # times
TEXT = """two
lines"""

def build(inputs):
    """The network."""
    return [math.pi, SCALE]  # type: ignore
'''
SAME = {
    "a comment": CODE + b"# a remark\n",
    "another comment": CODE.replace(b"# times", b"# factor"),
    "a comment above": b"#!/usr/bin/env python\n# mine\n\n" + CODE,
    "blank lines": CODE.replace(b"\n\n", b"\n\n\n\n"),
    "a wrapped line": CODE.replace(
        b"[math.pi, SCALE]", b"[\n        math.pi,\n        SCALE\n    ]"
    ),
    "quotes": CODE.replace(b'"""The network."""', b"'The network.'"),
    "line ends of Windows": CODE.replace(b"\n", b"\r\n"),
}
OTHER = {
    "a number": CODE.replace(b"SCALE = 2", b"SCALE = 2.0"),
    "a docstring": CODE.replace(b"The network.", b"The networks."),
    "a text": CODE.replace(b"two\n", b"two\n\n"),
    "a name": CODE.replace(b"import math", b"import math as math"),
    "order": CODE.replace(b"math.pi, SCALE", b"SCALE, math.pi"),
    "a type comment": CODE.replace(b"# times", b"# type: float"),
    "no code": b"def build(:\n",
}


@pytest.mark.parametrize("change", SAME)
def test_comments_and_layout_are_no_part_of_code(tmp_path, change):
    (tmp_path / "one.py").write_bytes(CODE)
    (tmp_path / "other.py").write_bytes(SAME[change])
    assert SAME[change] != CODE
    assert code_digest(tmp_path / "one.py") == code_digest(tmp_path / "other.py")


@pytest.mark.parametrize("change", OTHER)
def test_all_else_is_a_part_of_code(tmp_path, change):
    (tmp_path / "one.py").write_bytes(CODE)
    (tmp_path / "other.py").write_bytes(OTHER[change])
    assert code_digest(tmp_path / "one.py") != code_digest(tmp_path / "other.py")


@pytest.mark.parametrize(
    "content", [b"def build(:\n", b"x = '\x00'\n", b"x = " + b"-" * 50_000 + b"1"]
)
def test_what_python_cannot_parse_counts_by_its_bytes(tmp_path, content):
    path = tmp_path / "broken.py"
    path.write_bytes(content)
    assert code_digest(path) == file_digest(path)


AUTHORS = {"kind": "galileo", "model": "nano", "model_file": "authors.py", "weights": None}


@pytest.mark.parametrize(
    "name", ["own.py", "helper.py", "package/__init__.py", "run_by_path.py", "authors.py"]
)
def test_a_comment_in_a_file_of_a_backbone_reruns_nothing(root, config, name):
    (root / "package").mkdir()
    for file in ("helper.py", "package/__init__.py", "authors.py", "run_by_path.py"):
        (root / file).write_text("WIDTH = 3\n")
    (root / "own.py").write_text("import helper\nimport package\n\ndef build(inputs): ...\n")
    config["extra_backbones"]["own"]["files"] = ["run_by_path.py"]
    config["extra_backbones"]["authors"] = AUTHORS
    config.update(backbones=["own", "authors"], datasets=["world"])
    backbone = "authors" if name == "authors.py" else "own"
    before, path = make_plan(root, config), root / name
    path.write_text(f"# a remark\n\n{path.read_text()}")
    assert changed(before, make_plan(root, config)) == set()
    path.write_text(f"{path.read_text()}\nMORE = 1\n")
    rerun = changed(before, make_plan(root, config))
    assert {names for names in rerun if names[0] == "extract"} == {("extract", "world", backbone)}


def test_a_comment_in_a_plug_in_is_no_part_of_it(tmp_path):
    (tmp_path / "helper.py").write_text("WIDTH = 3\n")
    (tmp_path / "mine.py").write_text("import helper\nKIND = helper.WIDTH\n")

    def found():
        cache = digests.DigestCache(tmp_path / "cache.json")
        return identified("mine.py:KIND", tmp_path, cache.digest)

    before = found()
    for name in before["files"]:
        path = tmp_path / {"entrypoint": "mine.py"}.get(name, "helper.py")
        text = path.read_text()
        path.write_text(f"{text}# a remark\n")
        assert found() == before
        path.write_text(f"{text}MORE = 1\n")
        assert found() != before
        path.write_text(text)
    assert set(before["files"]) == {"entrypoint", "module helper"}


def test_a_cache_of_bytes_is_no_cache_of_code(tmp_path, monkeypatch):
    monkeypatch.setattr(digests, "_SETTLED_NS", -(10**12))
    path = tmp_path / "own.py"
    path.write_bytes(CODE)
    cache = digests.DigestCache(tmp_path / "cache.json")
    state = digests.content_state(path)
    cache._known[str(path)] = [*state, file_digest(path)]
    assert cache.digest(path) == code_digest(path)
