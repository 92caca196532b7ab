"""What a user writes: YAML, entries of catalogues, configurations, suites."""

from __future__ import annotations

import copy
import re
from pathlib import Path

import yaml
from permafrost.backbones import registry
from permafrost.data.sources import check_source
from permafrost.data.sources import read_entry as read_dataset
from permafrost.plan.catalogue import Catalogue, read_yaml
from permafrost.plan.configuration import Configuration
from permafrost.plan.grid import Grid
from permafrost.plan.suites import read_suite
from permafrost.plan.validation import load_schema, validate

from helpers.fuzzing import Reader
from helpers.fuzzing.bounds import sandbox, written
from helpers.plans import CONFIG

_CONFIG = Path(__file__).parents[3] / "config"
_ODD = b"a: &x [1, 0x1f, 1e3, .inf, ~, 2020-01-31, !!binary aGk=]\nb: {<<: {c: *x}, d: !!set {e}}\n? [f]\n: g\n"


def _catalogue(data: bytes) -> None:
    """Any bytes as a file of backbones, or of datasets."""
    kind = "dataset" if data[:1] == b"d" else "backbone"
    (sandbox() / f"{kind}s").mkdir(exist_ok=True)
    written(data[1:], f"{kind}s/own.yaml")
    catalogue = Catalogue(kind, [sandbox()], {}, sandbox())
    for name, entry in list(catalogue.choose(["all"]).items())[:5]:
        where = catalogue.where(name)
        if kind == "dataset":
            check_source(read_dataset(entry, where=where), where=where)
        else:
            registry.read_entry(entry, where=where)


def _configuration(data: bytes) -> None:
    """Any bytes as a configuration: checked, and its jobs listed."""
    config = read_yaml(written(data, "config.yaml"))
    config = {**copy.deepcopy(_REST), **config, "catalogues": []}
    validate(config, "config", where="config.yaml")
    chosen = Configuration(config, sandbox(), where="config.yaml", checked=False, identify=False)
    Grid(chosen).every()


def _texts(folder: str, prefix: bytes) -> list[bytes]:
    """Entries of the catalogue, one for each kind and source."""
    found: dict[object, bytes] = {}
    for path in sorted((_CONFIG / folder).glob("*.yaml")):
        for name, entry in yaml.safe_load(path.read_text()).items():
            source = entry.get("source", {})
            key = (entry.get("kind"), entry.get("task"), source.get("kind"))
            text = yaml.safe_dump({name: entry}, sort_keys=False).encode()
            if key not in found and len(text) < 2000:
                found[key] = prefix + text
    return list(found.values())


def _configurations() -> list[bytes]:
    given = {key: value for key, value in CONFIG.items() if key != "catalogues"}
    more = {"bootstrap": {"resamples": 50}, "measures": {"names": ["rankme"]}, "profile": {}}
    examples = [(_CONFIG / f"{name}.yaml").read_bytes() for name in ("demo", "config")]
    return [yaml.safe_dump(given).encode(), yaml.safe_dump(given | more).encode(), *examples]


def _words() -> tuple[str, ...]:
    """Keys of the schemas."""
    text = " ".join(
        yaml.safe_dump(load_schema(name)) for name in ("config", "backbone", "dataset", "suite")
    )
    keys = sorted(set(re.findall(r"^ +([a-z_]+):", text, flags=re.MULTILINE)))
    return (*keys, "<<", "*x", "&x ", "!!python/object/apply:os.system", "'../../x'", "{data}/")


_REST = {key: value for key, value in CONFIG.items() if key in ("backbones", "datasets", "data")}
_WORDS = _words()
READERS = {
    "yaml": Reader(
        lambda data: read_yaml(written(data, "any.yaml")), lambda: [_ODD, b"a: 1\n"], _WORDS
    ),
    "catalogue": Reader(
        _catalogue, lambda: _texts("backbones", b"b") + _texts("datasets", b"d"), _WORDS
    ),
    "configuration": Reader(_configuration, _configurations, _WORDS),
    "suite": Reader(
        lambda data: read_suite(written(data, "suite.yaml")),
        lambda: [path.read_bytes() for path in sorted((_CONFIG / "suites").glob("*.yaml"))],
        _WORDS,
    ),
}
