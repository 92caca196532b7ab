"""Execute a notebook of this folder and write its page: envs/run python docs/notebooks/run.py NAME [RESULTS].

A notebook is a Python file in cells (`# %%`), which editors and Jupyter (with jupytext) open as such. Its page NAME.md
has its texts, its code, what the code printed, and its figures. `read_a_study` reads the folder of a finished run.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NAMES = ("own_embeddings", "read_a_study", "score_predictions")
_CELL = re.compile(r"^# %%( \[markdown\])?\n", re.MULTILINE)
_HEAD = "<!-- written by docs/notebooks/run.py from {name}.py -->\n"


def cells(text: str) -> Iterator[tuple[bool, str]]:
    """Whether a cell is Markdown, and its text, of every cell of a notebook."""
    parts = _CELL.split(text)[1:]
    for mark, body in zip(parts[::2], parts[1::2], strict=True):
        body = body.strip("\n")
        yield bool(mark), re.sub(r"^# ?", "", body, flags=re.MULTILINE) if mark else body


def page(name: str, folder: Path, results: Path | None = None) -> tuple[str, dict[str, str]]:
    """The page of a notebook, and name to content of its figures; it is executed in `folder`.

    Parameters
    ----------
    results : of a finished run, linked into the folder as ``results``.
    """
    if results is not None:
        (folder / "results").symlink_to(results.resolve())
    parts, figures, space = [], {}, {"__name__": "__main__"}
    with contextlib.chdir(folder):
        for prose, body in cells((HERE / f"{name}.py").read_text(encoding="utf-8")):
            if prose:
                parts.append(body)
                continue
            printed, shown = _run(body, space)
            parts.append(f"```python\n{body}\n```")
            if printed:
                parts.append(f"```text\n{printed}\n```")
            if hasattr(shown, "_repr_svg_"):
                file = f"{name}-{len(figures) + 1}.svg"
                figures[file] = shown._repr_svg_()
                parts.append(f"![{shown!r}](../images/{file})")
    return _HEAD.format(name=name) + "\n\n".join(parts) + "\n", figures


def _run(code: str, space: dict) -> tuple[str, object]:
    """What a cell prints, and the value of its last line if that is an expression."""
    tree, shown = ast.parse(code), None
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(tree, "cell", "exec"), space)
        if last is not None:
            shown = eval(compile(ast.Expression(last.value), "cell", "eval"), space)
    text = out.getvalue().replace(f"{ROOT}/", "").rstrip()
    return "\n".join(line.rstrip() for line in text.splitlines()), shown


def main(name: str, results: str | None = None) -> None:
    """Write a page and its figures."""
    # commands of this environment
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with tempfile.TemporaryDirectory() as folder:
        text, figures = page(name, Path(folder), None if results is None else Path(results))
    (HERE / f"{name}.md").write_text(text, encoding="utf-8")
    for file, content in figures.items():
        (HERE.parent / "images" / file).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
