"""Build the documentation of this version into a site of several versions: envs/run python docs/versions.py SITE.

SITE gets a folder per version; `versions.json`, from which every page offers the others; and a first page that leads to
the newest.
Run it in the clone of each version that is to be offered, with the same SITE.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def build(site: Path) -> Path:
    """Build this version; returns its folder."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", site / version]
    subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    write_list(site)
    return site / version


def write_list(site: Path) -> None:
    """Write the list of the versions that have a folder, and the first page."""
    found = [path.parent.name for path in site.glob("*/index.html")]
    found.sort(key=lambda name: [int(number) for number in re.findall(r"\d+", name)], reverse=True)
    listed = [{"version": name, "title": name, "aliases": []} for name in found]
    listed[0]["aliases"] = ["latest"]
    (site / "versions.json").write_text(json.dumps(listed, indent=1))
    to_newest = f'<meta http-equiv="refresh" content="0; url={found[0]}/">\n'
    (site / "index.html").write_text(f"<!doctype html>\n<title>Permafrost</title>\n{to_newest}")


if __name__ == "__main__":
    build(Path(sys.argv[1]).resolve())
