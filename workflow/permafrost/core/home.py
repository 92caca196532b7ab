"""Folder of the workflow: above the package in a clone, inside the package in an installed wheel."""

from __future__ import annotations

import os
from pathlib import Path

#: the file that other Snakefiles include; in a clone, the target of the link inside the package
SNAKEFILE = (Path(__file__).resolve().with_name("shipped") / "Snakefile").resolve()
#: folder with the workflow's catalogues (``config``) and profiles
HOME = SNAKEFILE.parent
#: placeholder for `HOME` in the folders and entries of catalogues
MARK = "{permafrost}"


def home_from(root: Path) -> str:
    """`HOME` for jobs that run in `root`; "." if they are the same, so that a clone can be moved."""
    return "." if Path(os.path.realpath(root)) == HOME else str(HOME)
