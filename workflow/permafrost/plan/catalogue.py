"""The catalogues: named backbones and datasets, from YAML files and from the configuration itself."""

from __future__ import annotations

import argparse
import contextlib
import copy
import hashlib
import marshal
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from permafrost.core import schema_checks
from permafrost.core.errors import PermafrostError, near_names
from permafrost.core.home import HOME, MARK, home_from
from permafrost.core.identity import canonical_json
from permafrost.core.inputs import check_file
from permafrost.core.names import NAME_WORDS, is_name
from permafrost.core.outputs import whole_file
from permafrost.core.specification import substitute
from permafrost.plan import validation
from permafrost.plan.plugins import plugins_in_use
from permafrost.plan.validation import validate

EVERY = "all"
# keys of an entry that describe it or control how it is run, but do not affect results
NOT_RESULT = frozenset(
    {
        "title",
        "description",
        "published",
        "licence",
        "citation",
        "url",
        "year",
        "parameters",
        "trained_on",
        "images_of",
        "size_bytes",
        "download",
        "runtime",
        # the environment's file counts instead, as one of the backbone's files
        "environment",
    }
)


class StrictLoader(
    # mypy does not accept an expression as a base class
    yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader  # type: ignore[misc]
):
    """A YAML loader that never runs code, and refuses a key written twice in one mapping."""

    def get_single_node(self):
        node = super().get_single_node()
        # before merge keys (<<) are resolved: a merged key may be overridden
        for mapping in _mappings(node):
            self._refuse_repeats(mapping)
        return node

    def _refuse_repeats(self, mapping: yaml.MappingNode) -> None:
        seen = set()
        for key, _ in mapping.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:merge":
                continue
            name = self.construct_object(key)
            if name in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {name!r} is written twice", key.start_mark
                )
            seen.add(name)


def _mappings(node: yaml.Node | None) -> Iterator[yaml.MappingNode]:
    """All mappings under a YAML node, each once, even if several aliases refer to it."""
    pending, seen = [node], set()
    while pending:
        node = pending.pop()
        if id(node) in seen or not isinstance(node, yaml.CollectionNode):
            continue
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            yield node
            pending.extend(part for pair in node.value for part in pair)
        else:
            pending.extend(node.value)


def read_yaml(path: Path) -> dict:
    """The mapping in a YAML file, ``{}`` for an empty file; never runs code.

    Raises
    ------
    PermafrostError : the file is missing, is not valid YAML, repeats a key, or is not a mapping.
    """
    check_file(path)
    try:
        with open(path, encoding="utf-8") as stream:
            content = yaml.load(stream, Loader=StrictLoader)
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        raise PermafrostError(
            f"cannot be read as YAML ({_words(error)})", where=path, remedy="correct the file"
        ) from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise PermafrostError(
            "the file must hold a mapping of names to entries",
            where=path,
            remedy="correct the file",
        )
    return content


def _words(error: Any) -> str:
    """The parser's message, with line and column if known."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return " ".join(str(error).split())
    problem = ", ".join(" ".join(part.split()) for part in (error.context, error.problem) if part)
    if "cannot start any token" in problem:
        problem = "a tab, @, ` or % begins a value: write spaces for a tab, and put texts that begin so in quotes"
    return f"{problem}: line {mark.line + 1}, column {mark.column + 1}"


def check_configuration_files(arguments: list[str]) -> None:
    """Exit with an error message if a configuration file of this command is not valid YAML.

    Snakemake reads these files before the Snakefile; its own errors name neither file nor line.

    Parameters
    ----------
    arguments : Snakemake's command line. ``config/config.yaml`` is always checked, if it exists.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--configfile", "--configfiles", nargs="+", type=Path, default=[])
    given = parser.parse_known_args(arguments)[0].configfile
    own = Path("config/config.yaml")
    try:
        for path in [*([own] if own.exists() else []), *given]:
            if path in given and not path.exists():
                raise PermafrostError(
                    "there is no such configuration file",
                    where=path,
                    remedy="correct the path; targets stand before --configfile, or after --",
                )
            read_yaml(path)
    except PermafrostError as error:
        sys.exit(f"permafrost: error: {error}")


def catalogue_folders(config: dict, root: Path) -> list[Path]:
    """The catalogue folders of a configuration, each once, however its path is spelled.

    Parameters
    ----------
    root : the folder that relative paths refer to; ``{permafrost}`` is the workflow's folder.
    """
    named = [substitute(one, home_from(root), MARK) for one in config.get("catalogues", ["config"])]
    folders: dict[Path, Path] = {}
    for folder in named:
        folders.setdefault((root / folder).resolve(), root / folder)
    return list(folders.values())


class Catalogue:
    """Entries of one kind (``backbone`` or ``dataset``), each with the file that defines it.

    Only requested entries are validated, each once, so a broken entry does not affect the others.

    Parameters
    ----------
    folders : from `catalogue_folders`; extra : entries in the configuration itself.
    root : the folder that relative paths in entries refer to.

    Raises
    ------
    PermafrostError : a folder does not exist, a file is not YAML, or a name is invalid or defined
        twice.
    """

    def __init__(self, kind: str, folders: list[Path], extra: dict, root: Path = Path()) -> None:
        self.kind, self._home = kind, home_from(root)
        self._entries: dict[str, tuple[dict, str]] = {}
        self._valid: set[str] = set()
        self._completed: dict[str, dict] = {}
        for folder in folders:
            paths = _files(folder, kind)
            kept = _kept(kind, paths) if folder.resolve() == HOME / "config" else None
            for path in paths:
                written = kept["written"][path.name] if kept else _entries(read_yaml(path), kind)
                for name, entry in written:
                    self._add(name, entry, str(path))
            self._completed |= kept["completed"] if kept else {}
        for name, entry in extra.items():
            self._add(name, entry, f"extra_{kind}s in the configuration")

    def _add(self, name, entry, origin: str) -> None:
        if not is_name(name) or name == EVERY:
            raise PermafrostError(
                f"{name!r} is not a valid name for a {self.kind}",
                where=origin,
                remedy=f"use {NAME_WORDS} (but not {EVERY!r} alone)",
            )
        if name in self._entries:
            raise PermafrostError(
                f"the {self.kind} {name!r} is also defined in {self._entries[name][1]}",
                where=origin,
                remedy="rename one of them",
            )
        self._entries[name] = (substitute(entry, self._home, MARK), f"{origin}: {name}")

    def add_derived(self, name: str, entry: dict) -> None:
        """Add an entry that `derive` of the configuration makes; its name is that of no other entry."""
        self._entries[name] = ({"kind": "derived", **entry}, f"derive in the configuration: {name}")

    def has(self, name: str) -> bool:
        """Whether there is an entry of this name."""
        return name in self._entries

    def names(self, names: list[str]) -> list[str]:
        """`names`, with ``[all]`` replaced by all names of the catalogue, sorted."""
        return sorted(self._entries) if names == [EVERY] else names

    def choose(self, names: list[str]) -> dict[str, dict]:
        """The entries of these names, in their order; ``[all]``: the whole catalogue."""
        return {name: self.entry(name) for name in self.names(names)}

    def entry(self, name: str) -> dict:
        """The validated entry with defaults; an unknown name or an invalid entry is refused."""
        if name not in self._entries:
            raise PermafrostError(
                f"there is no {self.kind} {name!r} in the catalogues, {self._near(name)}",
                where=f"{self.kind}s in the configuration",
                remedy=f"correct the name, or add the entry under extra_{self.kind}s"
                f" or in config/{self.kind}s/",
            )
        entry, where = self._entries[name]
        if name in self._valid:
            return entry
        if name in self._completed:
            entry = substitute(self._completed[name], self._home, MARK)
            self._entries[name] = (entry, where)
        else:
            _complete(entry, self.kind, where)
        self._valid.add(name)
        return entry

    def _near(self, name: str) -> str:
        return near_names(name, self._entries, listing=f"`permafrost list {self.kind}s`")

    def written(self, name: str) -> object:
        """The entry as its file holds it, not validated, so of any type; used for listings."""
        return self._entries[name][0]

    def where(self, name: str) -> str:
        """File and name of the entry, for error messages."""
        return self._entries[name][1]


def _entries(content: dict, kind: str) -> list[tuple]:
    """Entries of a catalogue file, which may also be a drafted configuration with ``extra_…s``."""
    drafted = content.get(f"extra_{kind}s")
    if not isinstance(drafted, dict):
        return list(content.items())
    others = [pair for pair in content.items() if pair[0] not in (f"extra_{kind}s", f"{kind}s")]
    return [*others, *drafted.items()]


def _files(folder: Path, kind: str) -> list[Path]:
    if not folder.is_dir():
        raise PermafrostError(
            "the catalogue folder does not exist", where=folder, remedy="correct `catalogues:`"
        )
    return sorted(p for p in (folder / f"{kind}s").glob("*") if p.suffix in (".yaml", ".yml"))


# --- the workflow's own entries -------------------------------------------------------------------


_HEAD = 64  # bytes: digests of what the entries depend on, and of the entries


def _kept(kind: str, paths: list[Path]) -> dict | None:
    """The entries of the workflow's own files, as written and completed; checked once, then kept next to the byte code.

    Parameters
    ----------
    paths : all files of one folder.

    Returns
    -------
    ``written`` : a file's name to pairs of name and entry. ``completed`` : name to the valid entry
    with defaults. None: an entry is invalid or needs a plug-in, or nothing can be kept.
    """
    of = hashlib.sha256()
    code = (__file__, validation.__file__, schema_checks.__file__)
    for path in (*map(Path, code), validation.SCHEMAS / f"{kind}.schema.yaml", *paths):
        check_file(path)
        of.update(f"{path.name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\0".encode())
    folder, version = Path(__file__).parent / "__pycache__", sys.implementation.cache_tag
    file = folder / f"{kind}s.{version}.marshal"
    with contextlib.suppress(OSError):
        kept = file.read_bytes()
        head, content = kept[:_HEAD], kept[_HEAD:]
        # damaged content may ask for any amount of memory, or be other entries
        if head == of.digest() + hashlib.sha256(content).digest():
            return marshal.loads(content)
    if any(plugins_in_use()) or not os.access(folder, os.W_OK):
        return None
    entries = _checked(kind, paths)
    with (
        contextlib.suppress(OSError, ValueError, PermafrostError),
        whole_file(file, exclusive=False) as partial,
    ):
        content = marshal.dumps(entries)
        partial.write_bytes(of.digest() + hashlib.sha256(content).digest() + content)
    return entries


def _checked(kind: str, paths: list[Path]) -> dict | None:
    written = {path.name: _entries(read_yaml(path), kind) for path in paths}
    completed = copy.deepcopy({name: one for pairs in written.values() for name, one in pairs})
    try:
        for name, entry in completed.items():
            _complete(entry, kind, name)
    except PermafrostError:
        return None
    # an installed package may have offered a kind meanwhile
    return None if any(plugins_in_use()) else {"written": written, "completed": completed}


def _complete(entry: dict, kind: str, where: str) -> None:
    """Refuse an invalid entry, and fill in its defaults."""
    if not isinstance(entry, dict):
        raise PermafrostError(
            "an entry must be a mapping", where=where, remedy="give it keys, e.g. `kind: …`"
        )
    validate(entry, kind, where=where)
    _check_plain(entry, where)


def _check_plain(entry: dict, where: str) -> None:
    """Refuse YAML values that a fingerprint cannot hold: dates, bytes, sets, NaN, infinity."""
    try:
        canonical_json(entry)
    except TypeError as error:
        raise PermafrostError(
            f"the entry holds something other than text, numbers, lists and mappings ({error})",
            where=where,
            remedy="put it in quotes (YAML reads 2020-01-31 as a date)",
        ) from error
    except PermafrostError as error:
        raise PermafrostError(error.problem, where=where, remedy=error.remedy) from error


def result_fields(entry: dict) -> dict:
    """The part of an entry that results depend on."""
    return {key: value for key, value in entry.items() if key not in NOT_RESULT}
