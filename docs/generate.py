"""Pages of the site that are made when it is built: the first one, and all of the reference. A hook of mkdocs.

As a program, it writes the schemas of tables: run it after a change of their columns, metrics or tasks.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
SCHEMAS = ROOT / "workflow/schemas"
#: schema of a table to its columns in the library, ``module:NAME``
TABLES = {
    "predictions": "probes.embeddings.predictions:LabelPredictions",
    "predictions_settings": "probes.embeddings.settings:SettingPredictions",
    "predictions_regression": "probes.embeddings.predictions:NumberPredictions",
    "predictions_retrieval": "probes.retrieval:Queries",
    "predictions_segmentation": "probes.dense.tables:MaskPredictions",
    "predictions_pixel_regression": "probes.dense.tables:RasterPredictions",
    "predictions_detection": "probes.detection.table:ObjectPredictions",
    "scores": "statistics.scores.score_table:Scores",
    "comparisons": "statistics.scores.comparison_table:Comparisons",
    "measures": "statistics.measures.feature_measures:Measures",
    "similarity": "statistics.measures.similarities:Similarities",
    "profiles": "statistics.scores.profile_table:Profiles",
    "leaderboard": "statistics.leaderboard.leaderboard:Leaderboard",
    "standings": "statistics.across_datasets.standings_table:Standings",
}
# a page by its file in a clone, as code or plain, that is not the target of a link
_PAGE = re.compile(r"(?<!\]\()(?<![/\w])(`?)docs/(?P<name>[\w/-]+)\.md(?P<anchor>#[\w-]+)?\1")
CATALOGUES = {
    "backbones": ("parameters", "year", "trained_on"),
    "datasets": ("task", "sensor", "gsd_m"),
}


def on_files(files, config):
    """Add the pages to what mkdocs found."""
    from mkdocs.structure.files import File

    for name, text in pages().items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown, page, files, **_):
    """Make links of pages that a text names by their files in a clone, such as docs/NAME.md."""
    up = "../" * page.file.src_uri.count("/")

    def link(found: re.Match) -> str:
        file = f"{found['name']}.md"
        if files.get_file_from_path(file) is None:
            return found[0]
        return f"[{found['name'].replace('-', ' ')}]({up}{file}{found['anchor'] or ''})"

    # blocks of code stay as they are
    parts = re.split(r"(^ *```.*?^ *```)", markdown, flags=re.DOTALL | re.MULTILINE)
    return "".join(
        part if number % 2 else _PAGE.sub(link, part) for number, part in enumerate(parts)
    )


def pages() -> dict[str, str]:
    """Name to markdown of every page that is made."""
    sys.path.insert(0, str(ROOT / "workflow"))
    readme = (ROOT / "README.md").read_text()
    return {
        "index.md": re.sub(r"\]\(docs/", "](", readme),
        "changes.md": (ROOT / "CHANGELOG.md").read_text(),
        "quirks.md": (ROOT / "workflow/permafrost/evaluators/detection/QUIRKS.md").read_text(),
        "reference/results.md": (ROOT / "results/README.md").read_text(),
        **{f"reference/{name}.md": _schema(name) for name in ("config", "backbone", "dataset")},
        **{f"reference/{kind}.md": _catalogue(kind) for kind in CATALOGUES},
        "reference/coverage.md": _coverage(),
        "reference/columns.md": _columns(),
        "reference/options.md": _commands(),
        "reference/python.md": _python(),
    }


# --- schemas --------------------------------------------------------------------------------------


def _read(name: str) -> dict:
    return yaml.safe_load((SCHEMAS / f"{name}.schema.yaml").read_text())


def _schema(name: str) -> str:
    """Every key of a schema: a table of the top, and one of each part that others refer to."""
    schema = _read(name)
    lines = [f"# {schema.get('title', name)}", "", _text(schema.get("description", "")), ""]
    lines += [*_table(schema), ""]
    for part, entry in schema["$defs"].items():
        lines += [f"## {part}", "", _text(entry.get("description", "")), "", *_table(entry), ""]
    return "\n".join(lines)


def _table(entry: dict) -> list[str]:
    rows = list(_keys(entry, ""))
    if not rows:
        return []
    return ["| key | value | default | |", "|---|---|---|---|", *rows]


def _keys(entry: dict, above: str) -> Iterator[str]:
    """A line for each key, those of objects below their own."""
    for key, value in entry.get("properties", {}).items():
        value = value if isinstance(value, dict) else {}  # true: anything
        default = f"`{_yaml(value['default'])}`" if "default" in value else ""
        needed = " (needed)" if key in entry.get("required", []) else ""
        yield f"| `{above}{key}`{needed} | {_kind(value)} | {default} | {_text(value.get('description', ''))} |"
        yield from _keys(value, f"{above}{key}.")
        for inner, mark in (("items", "[]."), ("additionalProperties", ".NAME.")):
            if isinstance(value.get(inner), dict):
                yield from _keys(value[inner], f"{above}{key}{mark}")


def _kind(value: dict) -> str:
    """What a value may be, in words."""
    if "$ref" in value:
        part = value["$ref"].rpartition("/")[2]
        return (
            f"[{part}](#{part.lower()})" if value["$ref"].startswith("#/$defs/") else f"as `{part}`"
        )
    if "const" in value:
        return f"`{_yaml(value['const'])}`"
    if "enum" in value:
        return ", ".join(f"`{_yaml(one)}`" for one in value["enum"])
    for several in ("oneOf", "anyOf"):
        if several in value:
            return " or ".join(dict.fromkeys(_kind(one) for one in value[several]))
    if value.get("type") == "array" and isinstance(value.get("items"), dict):
        return f"list of {_kind(value['items'])}"
    kinds = value.get("type", "any")
    return " or ".join(kinds) if isinstance(kinds, list) else str(kinds)


def _yaml(value) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=10_000).strip()
    return text.removesuffix("...").strip().replace("|", "\\|")


def _text(text: str) -> str:
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def table_class(name: str):
    """The class of one of `TABLES`."""
    module, _, attribute = TABLES[name].partition(":")
    return getattr(importlib.import_module(f"permafrost.{module}"), attribute)


def schema_text(name: str) -> str:
    """The file of the schema of a table."""
    text = yaml.safe_dump(
        table_class(name).schema(), sort_keys=False, allow_unicode=True, width=120
    )
    return f"# written by `envs/run python docs/generate.py` from permafrost.{TABLES[name]}\n{text}"


def _columns() -> str:
    lines = ["# Columns of results", ""]
    for name in TABLES:
        table = table_class(name)
        lines += [
            f"## {name}",
            "",
            _text(table.descriptions()[""]),
            "",
            "| column | type | |",
            "|---|---|---|",
        ]
        for column, entry in table.schema()["properties"].items():
            lines.append(f"| `{column}` | {entry['x-arrow']} | {_text(entry['description'])} |")
        lines.append("")
    return "\n".join(lines)


# --- catalogues, commands, Python -----------------------------------------------------------------


def _catalogue(kind: str) -> str:
    columns = CATALOGUES[kind]
    lines = [f"# Catalogue of {kind}", ""]
    for path in sorted((ROOT / "config" / kind).glob("*.yaml")):
        entries = yaml.safe_load(path.read_text()) or {}
        lines += [f"## {path.name}", "", f"| name | {' | '.join(columns)} | licence | citation |"]
        lines.append("|---" * (len(columns) + 3) + "|")
        for name, entry in sorted(entries.items()):
            shown = [_text(entry.get(one, "")) for one in (*columns, "licence", "citation")]
            lines.append(f"| `{name}` | {' | '.join(shown)} |")
        lines.append("")
    return "\n".join(lines)


def _entries(kind: str) -> dict[str, dict]:
    """All entries of the catalogue."""
    files = sorted((ROOT / "config" / kind).glob("*.yaml"))
    return {n: e for file in files for n, e in (yaml.safe_load(file.read_text()) or {}).items()}


def _coverage() -> str:
    """How much of what others offer the catalogue has, and what is missing."""
    parts = list(covered_parts())
    lines = ["# What is covered", ""]
    lines += [
        "Counts of this page are made from the catalogue, the locked packages and `docs/coverage.yaml`.",
        "",
    ]
    lines += ["| of | covered | of all | source |", "|---|---|---|---|"]
    for one in parts:
        lines.append(f"| {one['title']} | {one['covered']} | {one['all']} | {one['source']} |")
    for one in parts:
        if one["missing"]:
            lines += ["", f"## {one['title']}: not covered", ""]
            lines += [f"- {why}: {', '.join(names)}" for why, names in one["missing"].items()]
    return "\n".join([*lines, ""])


def covered_parts() -> Iterator[dict]:
    """Of each list of others: ``title``, ``covered``, ``all``, ``source``, and ``missing``, names by their reason."""
    told = yaml.safe_load((ROOT / "docs/coverage.yaml").read_text())
    entries = {kind: _entries(kind) for kind in CATALOGUES}
    installed = json.loads((ROOT / "workflow/permafrost/plan/installed.json").read_text())
    library, backbones = installed["torchgeo"], entries["backbones"]
    source = f"the locked torchgeo {installed['versions']['torchgeo']}"
    named = {
        entry["weights"] for entry in backbones.values() if isinstance(entry.get("weights"), str)
    }
    yield _part("torchgeo, weights", source, {
        name: None if name in named else known.get("problem", "no entry; an entry of kind torchgeo may name it")
        for name, known in library["weights"].items()
    })  # fmt: skip
    given = [entry["source"] for entry in entries["datasets"].values()]
    used = {one["name"] for one in given if one["kind"] == "torchgeo"}
    yield _part("torchgeo, classes of images with an entry", source, {
        name: None if name in used else "no entry; see [classes of torchgeo](../datasets.md#classes-of-torchgeo)"
        for name in library["datasets"]
    })  # fmt: skip
    bench = [
        name for name in library["datasets"] if re.fullmatch("CopernicusBench.+S[1235]P?", name)
    ]
    read, unread = _torchgeo_classes()
    yield _part("Copernicus-Bench, datasets that kind torchgeo reads", source, {
        name: None if name in read else unread.get(name, "not run by the test") for name in bench
    })  # fmt: skip
    about = told["terratorch"]
    yield _part("TerraTorch, backbones of its registry", f"TerraTorch {about['version']}", {
        name: _refusal(name) for name in about["names"]
    })  # fmt: skip
    for part in told["parts"]:
        said = f"[{part['version']}]({part['source']}), read {part['read']}"
        reasons, counts = {}, {}
        for name, item in part["items"].items():
            item = item if isinstance(item, dict) else {"by": item}
            if item["by"] is not None and item["by"] not in entries[part["kind"]]:
                raise ValueError(f"docs/coverage.yaml: there is no entry {item['by']!r}")
            reasons[name] = None if item["by"] else part["why"]
            counts[name] = item.get("count", 1)
        yield _part(part["title"], said, reasons, counts)


def _part(title: str, source: str, reasons: dict, counts: dict | None = None) -> dict:
    """A part from names -> why they lack, None for what is covered; each counts once unless `counts` says more."""
    missing: dict[str, list[str]] = {}
    for name, why in reasons.items():
        if why is not None:
            missing.setdefault(" ".join(why.split()), []).append(f"`{name}`")
    sizes = {name: 1 for name in reasons} | (counts or {})
    found = sum(size for name, size in sizes.items() if reasons[name] is None)
    return {
        "title": title,
        "source": source,
        "covered": found,
        "all": sum(sizes.values()),
        "missing": missing,
    }


def _refusal(name: str) -> str | None:
    """Why kind terratorch refuses a name of TerraTorch's registry; None if it builds it."""
    from permafrost.backbones.terratorch.families import family_of
    from permafrost.core.errors import PermafrostError

    try:
        family_of(name, "x")
    except PermafrostError as error:
        return error.problem.partition(f"{name} ")[2] or error.problem
    return None


def _torchgeo_classes() -> tuple[set[str], dict[str, str]]:
    """Classes that docs/datasets.md says are read, and those that it says are not, with the reason."""
    text = (ROOT / "docs/datasets.md").read_text()
    table = text.partition("<!-- table of classes -->")[2].partition("<!-- end of the table -->")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in table.splitlines()
        if line[:1] == "|"
    ]
    refused = {
        row[0]: "its mask and its image have pixels of different sizes"
        for row in rows
        if "**refused**" in row[-1]
    }
    read = {row[0] for row in rows if len(row) == 5 and row[0] not in refused}
    others = {name: row[1] for row in rows if len(row) == 2 for name in row[0].split(", ")}
    return read, {**others, **refused}


def _commands() -> str:
    from permafrost.stages.cli import parser_of
    from permafrost.stages.commands import GROUPS

    lines = ["# Options of commands", ""]
    for group, commands in GROUPS.items():
        for name in commands:
            lines += [
                f"## {name}",
                "",
                f"{group}.",
                "",
                "```text",
                parser_of(name).format_help().rstrip(),
                "```",
                "",
            ]
    return "\n".join(lines)


def _python() -> str:
    import permafrost as pf
    from permafrost import interface

    lines = ["# Python interface", "", "What [Python](../python.md) shows in use.", ""]
    for name in sorted(interface._LATER):
        offered = getattr(pf, name)
        lines += [f"## pf.{name}", "", "```text", f"{name}{inspect.signature(offered)}", ""]
        lines += [inspect.getdoc(offered) or "", "```", ""]
        for method, member in (
            inspect.getmembers(offered, callable) if inspect.isclass(offered) else []
        ):
            own = method in vars(offered) or method in vars(offered.__mro__[1])
            if not method.startswith("_") and own and inspect.getdoc(member):
                head = f"{name}.{method}{inspect.signature(member)}"
                lines += ["```text", head, "", inspect.getdoc(member), "```", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "workflow"))
    from permafrost.plan import generated

    for name in TABLES:
        (SCHEMAS / f"{name}.schema.yaml").write_text(schema_text(name))
    for name in generated.GENERATED:
        (SCHEMAS / f"{name}.schema.yaml").write_text(generated.text_of(name))
