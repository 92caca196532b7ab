"""The examples in the docstrings of the Python interface, and its stub for type checkers."""

from __future__ import annotations

import ast
import doctest
from importlib import import_module
from pathlib import Path

import permafrost
import pytest
from permafrost import interface


@pytest.mark.parametrize("module", sorted(set(interface._LATER.values())))
def test_the_examples_of_docstrings_run(module):
    result = doctest.testmod(import_module(f"permafrost.interface.{module}"), raise_on_error=False)
    # who reads a run, or runs a network, has its examples in docs/python.md
    assert result.failed == 0 and (result.attempted or module in ("results", "extraction"))


def test_the_stub_names_what_is_offered_and_where_it_is():
    stub = ast.parse(Path(permafrost.__file__).with_suffix(".pyi").read_text())
    imported = {
        alias.asname: node.module
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for name in interface._MODULES:
        assert imported.pop(name) == "permafrost.evaluators"
    assert imported == {
        name: f"permafrost.interface.{module}" for name, module in interface._LATER.items()
    }
    assert sorted([*imported, *interface._MODULES]) == sorted(interface.__all__)
