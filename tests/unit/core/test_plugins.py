"""What plug-ins read while they are loaded, and for which of them it counts."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from permafrost.core.plugins import Registry, read_by
from permafrost.probes import kinds

FILES = {
    "first.py": "import shared_part\nONE = 1\n",
    "second.py": "import shared_part\nONE, OTHER = 1, open('second.json').read()\n",
    "alone.py": "ONE = open('alone.json').read()\n",
    "shared_part.py": "TEXT = open('shared.json').read()\n",
}
OWN = {
    "first": {"first.py", "shared_part.py", "shared.json"},
    "second": {"second.py", "second.json", "first.py", "shared_part.py", "shared.json"},
    "alone": {"alone.py", "alone.json"},
}


@pytest.fixture
def plugins(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    for name in ("second", "alone", "shared"):
        (tmp_path / f"{name}.json").write_text("{}")
    added = Registry("probes", {})
    monkeypatch.setattr(kinds, "PLUGINS", added)
    before = set(sys.modules)
    yield added
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize("name", OWN)
def test_what_a_plug_in_reads_counts_for_it_also_by_a_module_that_another_loaded_first(
    plugins, name
):
    for one in OWN:
        plugins.add(one, f"{one}.py:ONE")
    parts = {"entry": f"{name}.py"} | ({} if name == "alone" else {"part": "shared_part.py"})
    read = read_by({f"probes.{name}": parts})
    assert {os.path.basename(path) for one in read for path in one.files} == OWN[name]


def test_a_plug_in_of_an_installed_package_is_loaded_to_know_what_it_reads(plugins, monkeypatch):
    about = Path("alone-1.0.dist-info")
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: alone\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[permafrost.probes]\nalone = alone:ONE\n")
    monkeypatch.syspath_prepend(str(Path.cwd()))
    read = read_by({"probes.alone": {}, "probes.absent": {}})
    assert {os.path.basename(path) for one in read for path in one.files} == OWN["alone"]
