"""Folder of the workflow: above the package in a clone, inside the package in an installed wheel."""

from __future__ import annotations

import os
from pathlib import Path

#: what `include:` and `module` of another Snakefile name; a link in a clone, where its place is meant
SNAKEFILE = (Path(__file__).resolve().with_name("shipped") / "Snakefile").resolve()
#: holds the workflow's catalogues (``config``) and profiles
HOME = SNAKEFILE.parent
#: placeholder for `HOME` in the folders and entries of catalogues
MARK = "{permafrost}"


def home_from(root: Path) -> str:
    """`HOME` for jobs in `root`: relative if it is that folder, so that a clone may be moved."""
    return "." if Path(os.path.realpath(root)) == HOME else str(HOME)
