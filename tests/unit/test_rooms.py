"""The rooms of the library and the direction of its imports."""

from __future__ import annotations

import ast
from pathlib import Path

import permafrost
import pytest

PACKAGE = Path(permafrost.__file__).parent
ROOMS = [
    "core",
    "data",
    "backbones",
    "features",
    "metrics",
    "probes",
    "statistics",
    "report",
    "evaluators",
    "plan",
    "stages",
]


def rooms_imported(source: str, module: list[str], *, is_package: bool = False) -> set[str]:
    """Rooms that a module refers to by an import statement, or by the text of a dotted name."""
    package = module if is_package else module[:-1]
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            base = base + (node.module.split(".") if node.module else [])
            names += [[*base, alias.name] for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.append(node.value.partition(":")[0].split("."))
    return {name[1] for name in names if name[0] == "permafrost" and len(name) > 1} & set(ROOMS)


def test_every_folder_of_the_library_is_a_known_room():
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name[0] != "_"}
    assert folders == set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_from_itself_and_from_rooms_before_it(room):
    allowed = set(ROOMS[: ROOMS.index(room) + 1])
    wrong = {}
    for path in sorted((PACKAGE / room).rglob("*.py")):
        module = ["permafrost", *path.relative_to(PACKAGE).with_suffix("").parts]
        is_package = module[-1] == "__init__"
        module = module[:-1] if is_package else module
        text = path.read_text()
        if ".".join(module) == "permafrost.core.tasks":
            # the registry of tasks names modules of later rooms for those who load them
            text = text.replace('"permafrost.', '"')
        later = rooms_imported(text, module, is_package=is_package) - allowed
        if later:
            wrong[".".join(module)] = sorted(later)
    assert wrong == {}


@pytest.mark.parametrize(
    "source",
    [
        "from ..report import page",
        "from ..report.page import build",
        "from .. import report",
        "from permafrost import report",
        "import permafrost.report.page",
        "def f():\n    from permafrost.report import page",
        "KINDS = {'page': 'permafrost.report.page:build'}",
    ],
)
def test_every_way_of_importing_is_seen(source):
    assert rooms_imported(source, ["permafrost", "data", "card"]) == {"report"}


def test_an_import_within_the_room_is_no_import_of_a_room_of_that_name():
    assert rooms_imported("from . import report", ["permafrost", "data", "card"]) == {"data"}


def test_every_room_says_what_it_is_for():
    for room in ROOMS:
        text = ast.get_docstring(ast.parse((PACKAGE / room / "__init__.py").read_text()))
        assert text, f"{room}/__init__.py has no docstring"
