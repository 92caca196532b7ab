"""Which of the library's modules a stage uses, and one hash of their content.

The modules are found by following import statements (also those inside functions) and the dotted
names of modules in string constants, by which registries name what they load on demand. String
constants also name the other files that a module reads, such as templates.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "permafrost"
ROOT = Path(__file__).resolve().parents[1]
_MODULE_NAME = re.compile(rf"{PACKAGE}(\.\w+)+")
_FILE_NAME = re.compile(r"\w[\w-]*([./]\w[\w-]*){0,6}")
# sources are followed as modules, what is written for people is read by no stage, and the last two are
# what a compiler leaves beside the sources (Numba's cache)
NOT_READ = (".py", ".pyc", ".md", ".nbi", ".nbc")


@functools.cache
def stage_modules(stage: str) -> tuple[str, ...]:
    """Dotted names of all modules of the library that ``permafrost.stages.{stage}`` can import."""
    pending, found = [f"{PACKAGE}.stages.{stage}"], set()
    while pending:
        module = pending.pop()
        if module in found:
            continue
        found.add(module)
        pending.extend(_read(module).modules - found)
    return tuple(sorted(found))


@functools.cache
def stage_files(stage: str) -> tuple[Path, ...]:
    """All files of the library, sources and others such as templates, that a stage uses."""
    files: set[Path] = set()
    for module in stage_modules(stage):
        files |= {module_path(module), *_read(module).files}
    return tuple(sorted(files))


@functools.cache
def stage_libraries(stage: str) -> tuple[str, ...]:
    """Top-level names of what a stage's modules import from outside this library."""
    return tuple(sorted(set().union(*(_read(name).libraries for name in stage_modules(stage)))))


@functools.cache
def code_hash(stage: str) -> str:
    """32 hexadecimal digits of the SHA-256 over the content of `stage_files`."""
    total = hashlib.sha256()
    for file in stage_files(stage):
        # line ends differ between checkouts, not between versions
        content = file.read_bytes().replace(b"\r\n", b"\n")
        total.update(f"{file.relative_to(ROOT).as_posix()}\0{len(content)}\0".encode() + content)
    return total.hexdigest()[:32]


def module_path(module: str) -> Path | None:
    """The file of a module of this library, or None if there is no such module."""
    base = ROOT.joinpath(*module.split(".")[1:])
    package, source = base / "__init__.py", base.with_suffix(".py")
    if package.is_file():
        return package
    return source if module != PACKAGE and source.is_file() else None


@dataclass(frozen=True)
class _Uses:
    modules: frozenset[str]
    files: frozenset[Path]
    libraries: frozenset[str]


@functools.cache
def _read(module: str) -> _Uses:
    """What one module refers to: modules of this library, other files beside or below it, other libraries."""
    path = module_path(module)
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    named: set[str] = set()
    files: set[Path] = set()
    libraries: set[str] = set()
    for node in _walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            named.update(alias.name for alias in node.names)
            libraries.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(package, node)
            named.add(base)
            libraries.add(base.partition(".")[0])
            named.update(f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            named |= _modules_in_text(node.value, package)
            files |= _files_in_text(node.value, path.parent)
    inside = {name for name in named if name.split(".")[0] == PACKAGE and module_path(name)}
    # importing a.b.c runs a/__init__ and a/b/__init__ first
    parents = {name[:dot] for name in inside for dot, char in enumerate(name) if char == "."}
    inside |= {name for name in parents if module_path(name)}
    return _Uses(frozenset(inside), frozenset(files), frozenset(libraries - {PACKAGE, ""}))


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes from `node` on, without what only type checkers see."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING")):
            yield from _walk(child)


def _absolute(package: str, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    base = package.split(".")[: len(package.split(".")) - node.level + 1]
    return ".".join([*base, *([node.module] if node.module else [])])


def _modules_in_text(text: str, package: str) -> set[str]:
    """``permafrost.x.y`` or ``.y`` (relative, as importlib takes it), also with ``:attribute``."""
    name = text.partition(":")[0]
    if name.startswith("."):
        name = package + name
    return {name} if _MODULE_NAME.fullmatch(name) else set()


def _files_in_text(text: str, folder: Path) -> set[Path]:
    """The file beside or below `folder` that `text` names, or all files of the folder it names."""
    if not _FILE_NAME.fullmatch(text):
        return set()
    place = folder / text
    found = place.rglob("*") if place.is_dir() else [place]
    return {file for file in found if file.is_file() and file.suffix not in NOT_READ}
