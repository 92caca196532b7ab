"""The documentation as a site: it builds without a warning, asks nothing of others, and its reference is whole."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from permafrost import interface
from permafrost.stages.commands import COMMANDS

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0 and "WARNING" not in done.stderr, done.stderr
    return folder


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
