"""The documentation as a site: it builds without a warning, asks nothing of others, and its reference is whole."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import permafrost
import pytest
import yaml
from permafrost import interface
from permafrost.stages.commands import COMMANDS

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The folder of this version in a site of several; it is the newest."""
    versions = tmp_path_factory.mktemp("site")
    for older in ("0.0.9", "0.0.10"):
        (versions / older).mkdir()
        (versions / older / "index.html").write_text("")
    command = [sys.executable, "docs/versions.py", str(versions)]
    # loading the hook of docs/generate.py writes a __pycache__ beside it
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0 and "WARNING" not in done.stderr, done.stderr
    return versions / permafrost.__version__


def test_a_site_lists_its_versions_and_begins_with_the_newest(site):
    listed = json.loads((site.parent / "versions.json").read_text())
    assert [one["version"] for one in listed] == [permafrost.__version__, "0.0.10", "0.0.9"]
    assert [one["aliases"] for one in listed] == [["latest"], [], []]
    assert f"url={permafrost.__version__}/" in (site.parent / "index.html").read_text()
    # what the theme reads to offer them
    assert '"version": {"provider": "mike"}' in (site / "index.html").read_text()


def test_it_holds_pages_only(site):
    assert not [
        path for path in site.rglob("*") if path.name == "__pycache__" or path.suffix == ".py"
    ]


def test_pages_that_texts_name_by_their_files_are_links(site):
    page = text_of(site, "reference/config")
    assert re.search(r'<a href="\.\./\.\./derived-datasets/">derived datasets</a>', page)
    assert re.search(r'<a href="\.\./fix-errors/|<a href="\.\./ranking/', text_of(site, "changes"))
    for path in site.rglob("index.html"):
        prose = re.sub(r"<pre.*?</pre>", "", path.read_text(), flags=re.DOTALL)
        assert not re.search(r"<code>docs/[\w-]+\.md</code>", prose), path


def text_of(site: Path, page: str) -> str:
    return (site / page / "index.html").read_text()


def test_a_page_loads_nothing_from_elsewhere(site):
    for page in site.rglob("*.html"):
        loaded = re.findall(
            r"<(?:script|img|link|iframe)\b[^>]*?(?:src|href)=\"([^\"]+)\"", page.read_text()
        )
        # pages of results hold their style and script
        alone = page.relative_to(site).parts[0] == "results"
        assert loaded or alone, page
        assert [one for one in loaded if re.match(r"(?:https?:)?//", one)] == [], page


def test_every_page_stands_in_the_navigation(site):
    class Loader(yaml.SafeLoader):
        pass

    Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, suffix, node: suffix)
    navigation = yaml.load((ROOT / "mkdocs.yml").read_text(), Loader)["nav"]
    named = re.findall(r"[\w/-]+\.md", str(navigation))
    assert len(named) == len(set(named))
    assert {path.name for path in (ROOT / "docs").glob("*.md")} <= set(named)


def test_the_reference_names_every_key_command_and_entry(site):
    for name, page in (("config", "config"), ("backbone", "backbone"), ("dataset", "dataset")):
        schema = yaml.safe_load((ROOT / f"workflow/schemas/{name}.schema.yaml").read_text())
        text = text_of(site, f"reference/{page}")
        for part in [schema, *schema.get("$defs", {}).values()]:
            for key in part.get("properties", {}):
                assert f"<code>{key}</code>" in text, (name, key)
    options = text_of(site, "reference/options")
    assert all(f'id="{command}"' in options for command in COMMANDS)
    for kind in ("backbones", "datasets"):
        text = text_of(site, f"reference/{kind}")
        for path in (ROOT / "config" / kind).glob("*.yaml"):
            for entry in yaml.safe_load(path.read_text()) or {}:
                assert f"<code>{entry}</code>" in text, entry
    offered = text_of(site, "reference/python")
    assert all(f"pf.{name}" in offered for name in interface._LATER)
    columns = text_of(site, "reference/columns")
    assert all(
        f"<code>{name}</code>" in columns for name in ("p_adjusted", "mean_rank", "rank_low")
    )
