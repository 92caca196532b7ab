"""Find the modules of the library that a job uses, and hash their code.

Modules are found by following import statements (including those inside functions) and module
names in string constants, which registries use for modules that they load on demand. String
constants also name other files that a module reads, such as templates. Of the registries in
`CHOICES`, a job uses only the entry that its spec names.

The hash covers a module's syntax tree without comments, docstrings and layout, so editing these
reruns nothing. The results for each file are cached in ``__pycache__`` by the file's digest,
because parsing the whole library takes a second.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import os
import re
import sys
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from permafrost.core.identity import syntax
from permafrost.core.tasks import targets_of

PACKAGE = "permafrost"
ROOT = Path(__file__).resolve().parents[1]
_MODULE_NAME = re.compile(rf"{PACKAGE}(\.\w+)+")
_FILE_NAME = re.compile(r"\w[\w-]*([./]\w[\w-]*){0,6}")
# .py files are followed as modules, and stages do not read .md
NOT_READ = (".py", ".pyc", ".md")
#: registry -> keys of the spec that lead to the entry a job uses
CHOICES = {
    f"{PACKAGE}.backbones.kinds": ("entry", "kind"),
    f"{PACKAGE}.data.sources": ("entry", "source", "kind"),
    f"{PACKAGE}.core.tasks": ("task",),
}
#: registry -> key of the spec without which a job does not use it
ASKED_FOR = {
    f"{PACKAGE}.data.store.prepare": "matched",
    f"{PACKAGE}.core.store_readers": "rows",
    f"{PACKAGE}.core.rows_store": "harder",
    f"{PACKAGE}.data.resplit.job": "harder",
    f"{PACKAGE}.statistics.scores.score_table": "harder",
    f"{PACKAGE}.features.stored": "derived",
    f"{PACKAGE}.probes.embeddings.features": "rows",
    f"{PACKAGE}.stages.probe": "rows",
}
#: module -> property of targets; a job whose targets lack it gets no result from the module, which
#: at most refuses the entry
SERVES = {
    f"{PACKAGE}.data.labels.masks": "pixels",
    f"{PACKAGE}.data.labels.rasters": "pixels",
    f"{PACKAGE}.data.labels.detection": "objects",
}
# entries of tasks name modules of several rooms; each of these loaders loads those of its own room
_TASKS = f"{PACKAGE}.core.tasks"
_LOADERS = (f"{PACKAGE}.statistics.predictions.reading", f"{PACKAGE}.report.tasks.dataset_figures")
# entries name the commands of probes; the rest of this module does not affect results
_PROBES = f"{PACKAGE}.probes.kinds"
# marks modules of the library that plug-ins import, and modules that serve other targets
_PLUGINS, _OTHERS = "plugins", "others"
# increase when the format of the cache changes
_FORMAT = 2

Chosen = tuple[tuple[str, str], ...]  # pairs of registry and entry


def chosen_by(spec: dict) -> Chosen:
    """The registry entries that a job with this spec uses; of other registries it uses all."""
    chosen = []
    for registry, keys in CHOICES.items():
        value = spec
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, str):
            chosen.append((registry, value))
    chosen += [(registry, "") for registry, key in ASKED_FOR.items() if key not in spec]
    task = spec.get("task") or (spec.get("entry") or {}).get("task")
    if task is not None:
        targets = targets_of(task)
        chosen += [(_OTHERS, name) for name, kind in SERVES.items() if not getattr(targets, kind)]
    for plugin in (spec.get("plugins") or {}).values():
        chosen += [(_PLUGINS, module) for module in plugin["library"]]
    return tuple(chosen)


@functools.cache
def stage_modules(stage: str, chosen: Chosen = ()) -> tuple[str, ...]:
    """Dotted names of all library modules that the command of a stage can import, sorted."""
    pending, modules = [f"{PACKAGE}.stages.{stage}"], set()
    if module_path(_PROBES) and not module_path(pending[0]):
        pending = [f"{PACKAGE}.stages.probe", *_read(_PROBES).entries.get(stage, ())]
    pending += _existing({module for key, module in chosen if key == _PLUGINS})
    entries = dict(chosen)
    others = {module for key, module in chosen if key == _OTHERS} - set(pending)
    while pending:
        module = pending.pop()
        if module in modules:
            continue
        modules.add(module)
        uses = _read(module)
        used = {*uses.modules, *_loaded(module, entries)}
        pending.extend(used - modules - others)
    return tuple(sorted(modules))


def _loaded(module: str, chosen: dict[str, str]) -> set[str]:
    """The modules that `module` loads through a registry: those of the `chosen` entry, else all."""
    # modules that only read these two registries do not run their entries
    if module in (_PROBES, _TASKS):
        return set()
    registry, room = module, PACKAGE
    if module in _LOADERS:
        registry, room = _TASKS, ".".join(module.split(".")[:2])
    entries = _read(registry).entries
    if registry in chosen:
        entries = {chosen[registry]: entries.get(chosen[registry], ())}
    return {name for named in entries.values() for name in named if name.startswith(room)}


@functools.cache
def stage_files(stage: str, chosen: Chosen = ()) -> tuple[Path, ...]:
    """Paths of all library files that a stage uses: sources and others, such as templates."""
    files: set[Path] = set()
    for module in stage_modules(stage, chosen):
        files |= {module_path(module), *(ROOT / file for file in _read(module).files)}
    return tuple(sorted(files))


@functools.cache
def stage_libraries(stage: str, chosen: Chosen = ()) -> tuple[str, ...]:
    """Top-level names of the packages outside this library that a stage's modules import."""
    modules = stage_modules(stage, chosen)
    return tuple(sorted(set().union(*(_read(name).libraries for name in modules))))


def code_hash(stage: str, spec: dict | None = None) -> str:
    """SHA-256 of the syntax trees of a job's modules and of its other files, 32 hexadecimal digits.

    Parameters
    ----------
    spec : of the job, which selects registry entries; None: all entries count.
    """
    return _code_hash(stage, () if spec is None else chosen_by(spec))


@functools.cache
def _code_hash(stage: str, chosen: Chosen) -> str:
    total = hashlib.sha256()
    modules = {module_path(name): name for name in stage_modules(stage, chosen)}
    for file in stage_files(stage, chosen):
        meaning = _read(modules[file]).meaning if file in modules else _digest(_content(file))
        total.update(f"{_below_root(file)}\0{meaning}\0".encode())
    _keep()
    return total.hexdigest()[:32]


def module_path(module: str) -> Path | None:
    """The file of a module of this library; None: it does not exist."""
    return _library().modules.get(module)


def _below_root(path: Path) -> str:
    """The path of a library file below `ROOT`; `Path.relative_to` would dominate the run time."""
    return path.as_posix().removeprefix(f"{ROOT.as_posix()}/")


@dataclass(frozen=True)
class _Library:
    """Files of the library: modules by dotted name, other files, and a digest of all names."""

    modules: dict[str, Path]
    others: frozenset[str]
    digest: str


@functools.cache
def _library() -> _Library:
    modules: dict[str, Path] = {}
    others = set()
    for folder, folders, files in os.walk(ROOT):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        place = Path(folder).relative_to(ROOT).parts
        for name in sorted(files):
            if name.endswith(".py"):
                parts = (*place, *(() if name == "__init__.py" else (name[:-3],)))
                dotted = ".".join([PACKAGE, *parts])
                # a package takes precedence over a module of the same name
                if name == "__init__.py" or dotted not in modules:
                    modules[dotted] = ROOT.joinpath(*place, name)
            elif not name.endswith(NOT_READ):
                others.add("/".join([*place, name]))
    listed = [_below_root(path) for path in modules.values()] + sorted(others)
    digest = _digest(json.dumps([_FORMAT, sys.version_info[:2], listed]).encode())
    return _Library(modules, frozenset(others), digest)


@dataclass(frozen=True)
class _Uses:
    """The content of a module and its dependencies.

    Attributes
    ----------
    meaning : digest of its syntax tree.
    modules : modules of this library, without those that only `entries` name.
    entries : of a registry: key to the modules that it names.
    files : other files of the library in its folder or below.
    libraries : top-level names of imports from outside this library.
    """

    meaning: str
    modules: tuple[str, ...]
    entries: dict[str, tuple[str, ...]]
    files: tuple[str, ...]
    libraries: tuple[str, ...]


@functools.cache
def _read(module: str) -> _Uses:
    path = module_path(module)
    content = _content(path)
    digest, name = _digest(content), _below_root(path)
    kept = _kept()["files"].get(name)
    if kept is not None and kept["sha256"] == digest:
        return _Uses(**{key: value for key, value in kept.items() if key != "sha256"})
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    uses = _uses(
        ast.parse(content), package, name, registry=module in (*CHOICES, *ASKED_FOR, _PROBES)
    )
    _kept()["files"][name] = {"sha256": digest, **asdict(uses)}
    _kept()["changed"] = True
    return uses


def _uses(tree: ast.Module, package: str, name: str, *, registry: bool) -> _Uses:
    """The dependencies of a module, from its syntax tree; `name` is the path of its file."""
    folder = name.rpartition("/")[0]
    entries: dict[str, tuple[str, ...]] = {}
    named: set[str] = set()
    in_text: set[str] = set()
    files: set[str] = set()
    libraries: set[str] = set()
    for node in _walk(tree):
        if isinstance(node, ast.Import):
            named.update(alias.name for alias in node.names)
            libraries.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(package, node)
            named.add(base)
            libraries.add(base.partition(".")[0])
            named.update(f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            in_text |= _modules_in_text(node.value, package)
            files |= _files_in_text(node.value, folder)
    if registry:
        entries = _entries(tree, package)
        in_text -= {module for modules in entries.values() for module in modules}
    return _Uses(
        meaning=_digest(syntax(tree, docstrings=False)),
        modules=_existing(named | in_text),
        entries={key: _existing(set(modules)) for key, modules in entries.items()},
        files=tuple(sorted(files)),
        libraries=tuple(sorted(libraries - {PACKAGE, ""})),
    )


def _entries(tree: ast.Module, package: str) -> dict[str, tuple[str, ...]]:
    """Key -> modules that strings in a registry's top-level dictionary name."""
    entries = {}
    for statement in tree.body:
        value = getattr(statement, "value", None)
        for key, item in (
            zip(value.keys, value.values, strict=True) if isinstance(value, ast.Dict) else ()
        ):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                texts = (
                    node.value
                    for node in ast.walk(item)
                    if isinstance(node, ast.Constant) and isinstance(node.value, str)
                )
                entries[key.value] = tuple(
                    module for text in texts for module in _modules_in_text(text, package)
                )
    return entries


def _existing(named: set[str]) -> tuple[str, ...]:
    """Those names that are modules of this library, and their parent packages."""
    inside = {name for name in named if module_path(name)}
    # importing a.b.c runs a/__init__ and a/b/__init__ first
    parents = {name[:dot] for name in inside for dot, char in enumerate(name) if char == "."}
    return tuple(sorted(inside | {name for name in parents if module_path(name)}))


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes below `node`, without blocks under ``if TYPE_CHECKING``."""
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
    """The module in ``permafrost.x.y`` or ``.y`` (relative), optionally with ``:attribute``."""
    name = text.partition(":")[0]
    if name.startswith("."):
        name = package + name
    return {name} if _MODULE_NAME.fullmatch(name) else set()


def _files_in_text(text: str, folder: str) -> set[str]:
    """The file in or below `folder` that `text` names, or all files of a folder it names."""
    if not _FILE_NAME.fullmatch(text):
        return set()
    place = f"{folder}/{text}" if folder else text
    return {file for file in _library().others if file == place or file.startswith(f"{place}/")}


def _content(file: Path) -> bytes:
    # line endings depend on the checkout
    return file.read_bytes().replace(b"\r\n", b"\n")


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# --- cache between processes ----------------------------------------------------------------------


def _cache_file() -> Path:
    return ROOT / "__pycache__" / "sources.json"


@functools.cache
def _kept() -> dict:
    """The cache of earlier processes for this set of files: file to its digest and dependencies."""
    library = _library().digest
    try:
        content = json.loads(_cache_file().read_bytes())
        if content["library"] == library:
            return {**content, "changed": False}
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return {"library": library, "files": {}, "changed": False}


def _keep() -> None:
    """Write the cache if it changed; failing to write it is not an error."""
    kept = _kept()
    if not kept["changed"]:
        return
    kept["changed"] = False
    path = _cache_file()
    partial = path.with_suffix(f".{uuid.uuid4().hex}")
    try:
        path.parent.mkdir(exist_ok=True)
        partial.write_text(json.dumps({"library": kept["library"], "files": kept["files"]}))
        os.replace(partial, path)
    except OSError:
        partial.unlink(missing_ok=True)
