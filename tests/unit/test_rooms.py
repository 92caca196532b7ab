"""The rooms of the library and the direction of its imports."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import permafrost
import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(permafrost.__file__).parent
ROOMS = [
    "core",
    "data",
    "backbones",
    "features",
    "metrics",
    "probes",
    "statistics",
    "plan",
    "report",
    "evaluators",
    "operate",
    "interface",
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
        if ".".join(module) in ("permafrost.core.tasks", "permafrost.core.rows_store"):
            # registries that name modules of later rooms, of tasks and of what changes rows, for those who load them
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


def imports_of(path: Path, modules: set[str]) -> set[str]:
    """Modules of the library that a file imports when it is imported or when its functions run."""
    names = set()
    for node in _statements(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        else:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= inner if inner <= modules else {node.module, *(inner & modules)}
    return names & modules


def _statements(tree: ast.AST):
    """Import statements, without those that only a type checker sees."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield from _statements(node)


@functools.cache
def graph() -> dict[str, set[str]]:
    """Module -> the modules that it imports."""
    files = {}
    for path in PACKAGE.rglob("*.py"):
        parts = ["permafrost", *path.relative_to(PACKAGE).with_suffix("").parts]
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return {name: imports_of(path, set(files)) - {name} for name, path in files.items()}


def circles(arrows: dict[str, set[str]]) -> list[str]:
    """What stands in or between circles: all that remains when ends of arrows are taken away again and again."""
    left = dict(arrows)
    while True:
        imported = {target for targets in left.values() for target in targets}
        ends = [name for name, to in left.items() if not to & left.keys() or name not in imported]
        if not ends:
            return sorted(left)
        for name in ends:
            del left[name]


def test_no_modules_import_each_other_in_a_circle():
    assert circles(graph()) == []


@pytest.mark.parametrize(
    "room", ["data", "backbones", "features", "statistics", "report", "evaluators", "operate"]
)
def test_no_folders_of_a_room_import_each_other_in_a_circle(room):
    arrows: dict[str, set[str]] = {}
    for module, targets in graph().items():
        if module.startswith(f"permafrost.{room}."):
            inner = {_folder(target, room) for target in targets} - {None}
            arrows.setdefault(_folder(module, room), set()).update(inner)
    # the modules beside the folders stand above them
    arrows.pop(None, None)
    assert circles({folder: targets - {folder} for folder, targets in arrows.items()}) == []


def _folder(module: str, room: str) -> str | None:
    parts = module.split(".")
    is_below = parts[:2] == ["permafrost", room] and (PACKAGE / room / parts[-1]).is_dir()
    if parts[:2] != ["permafrost", room]:
        return None
    return parts[2] if len(parts) > 3 or is_below else None


def test_a_circle_is_seen():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == ["b", "c"]


def test_the_house_is_described_as_it_is():
    house = (ROOT / "docs" / "architecture.md").read_text()
    assert re.findall(r"^\| `(\w+)` \|", house, flags=re.MULTILINE) == ROOMS
    named = re.findall(r"`((?:config|docs|workflow|tests)/[\w./-]+)`|`(README\.md)`", house)
    files = {one or other for one, other in named}
    assert len(files) > 15 and [name for name in files if not (ROOT / name).exists()] == []


def test_the_drawing_of_the_rooms_leads_to_everything_that_they_import():
    house = (ROOT / "docs" / "architecture.md").read_text()
    drawing = house.split("```mermaid\nflowchart BT")[1].split("```")[0]
    reached: dict[str, set[str]] = {room: set() for room in ROOMS}
    for room, other in re.findall(r"(\w+) --> (\w+)", drawing):
        reached[room].add(other)
    for room in ROOMS:  # those before it are complete
        reached[room] |= {further for other in reached[room] for further in reached[other]}
    for module, targets in graph().items():
        rooms = {target.split(".")[1] for target in targets if "." in target}
        if module.count("."):
            own = module.split(".")[1]
            assert rooms - {own} <= reached[own], module


def test_every_folder_of_the_large_rooms_is_described():
    house = (ROOT / "docs" / "architecture.md").read_text()
    named = set(re.findall(r"`((?:metrics|probes|statistics|report|evaluators)/\w+)`", house))
    rooms = ("metrics", "probes", "statistics", "report", "evaluators")
    folders = {
        f"{room}/{path.name}"
        for room in rooms
        for path in (PACKAGE / room).iterdir()
        if path.is_dir()
    }
    modules = {f"{name.partition('/')[0]}/{name.partition('/')[2]}.py" for name in named - folders}
    described = {name for name in folders if "__" not in name and name != "report/template"}
    assert described <= named
    assert [name for name in modules if not (PACKAGE / name).exists()] == []
