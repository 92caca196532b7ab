"""What the light package has to do, run in a process of its own: by a test here, and where it alone is installed.

``python light.py MODULE,MODULE,…`` behaves as if all other modules of the environment were not installed.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys


class _Hiding:
    """A finder of modules that does not find those of a set."""

    def __init__(self, finder, hidden: set[str]) -> None:
        self._finder, self._hidden = finder, hidden

    def find_spec(self, name: str, path=None, target=None):
        if name.partition(".")[0] in self._hidden:
            return None
        return self._finder.find_spec(name, path, target)

    def __getattr__(self, name: str):
        return getattr(self._finder, name)


def hide(modules: set[str]) -> None:
    """Let this process find no module of these names."""
    sys.meta_path[:] = [_Hiding(finder, modules) for finder in sys.meta_path]


def imported() -> dict[str, str]:
    """What the import of each module of the package that needs an extra says."""
    import permafrost

    said = {}
    for module in pkgutil.walk_packages(permafrost.__path__, "permafrost."):
        if ".shipped" not in module.name:
            try:
                importlib.import_module(module.name)
            except Exception as error:
                said[module.name] = f"{type(error).__name__}: {error}"
    return said


def interface() -> dict[str, str]:
    """What each function of the Python interface says, or its result."""
    import numpy as np
    import permafrost as pf
    from permafrost.interface.plots import Plot

    rng = np.random.default_rng(0)
    y = np.tile([0, 1, 2], 40)
    p = np.where(rng.random(120) < 0.8, y, 0)
    x = rng.normal(size=(120, 4)) + y[:, None]
    images = np.zeros((2, 3, 8, 8), np.uint8)
    calls = {
        "evaluate": lambda: pf.evaluate(y, p, ["accuracy"])["value"][0],
        "compare": lambda: len(pf.compare(y, {"a": p, "b": y})),
        "measures": lambda: len(pf.measures(x, y, ["rankme"])),
        "LinearSweep": lambda: pf.LinearSweep(C=[1.0]).fit(x, y).score(x, y),
        "LinearSweep, adam": lambda: pf.LinearSweep(C=[1.0], solver="adam").fit(x, y).score(x, y),
        "SGDLinear": lambda: pf.SGDLinear(0.1, epochs=1).fit(x, y).score(x, y),
        "Ridge": lambda: pf.Ridge().fit(x, x[:, 0]).score(x, x[:, 0]),
        "KNN": lambda: pf.KNN().fit(x, y).score(x, y),
        "extract": lambda: pf.extract("imagestats", images).shape,
        "Results": lambda: pf.Results("nowhere"),
        "detection": lambda: pf.detection.COCOeval.__name__,
        "Plot": lambda: Plot({"title": {"text": ""}})._repr_svg_(),
    }
    return {name: _said(call) for name, call in calls.items()}


def commands() -> dict[str, str]:
    """How the help of each command ends, where it fails."""
    import contextlib
    import io

    from permafrost.stages.cli import main
    from permafrost.stages.commands import COMMANDS

    said = {}
    for command in COMMANDS:
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            try:
                status = main([command, "--help"])
            except SystemExit as end:
                status = end.code
        if status:
            said[command] = output.getvalue()
    return said


def _said(call) -> str:
    try:
        return str(call())
    except Exception as error:
        return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    hide(set(filter(None, sys.argv[1].split(","))))
    parts = {part.__name__: part() for part in (imported, interface, commands)}
    print(json.dumps(parts, indent=1))
