"""Use this evaluator instead of pycocotools in programs that import pycocotools."""

from __future__ import annotations

import sys
import warnings
from contextlib import ExitStack
from importlib.machinery import PathFinder
from types import ModuleType

from permafrost.evaluators.detection import coco, cocoeval, mask

_NAME = "pycocotools"


def init_as_pycocotools() -> ExitStack:
    """Make every later import of pycocotools in this process load this evaluator.

    ``import pycocotools`` and ``pycocotools.coco``, ``.cocoeval`` and ``.mask`` load the modules of
    the same names here. Nothing else changes. Modules imported earlier keep
    pycocotools; a warning names them. Importing this package alone replaces nothing.

    Returns
    -------
    The handle that undoes it: ``with init_as_pycocotools(): …``, or its method ``close()``. Names
    that were imported in between stay.

    Warns
    -----
    UserWarning : modules that already hold pycocotools' functions or classes.
    """
    package = ModuleType(_NAME, "The evaluator of permafrost in the place of pycocotools.")
    spec = PathFinder.find_spec(_NAME)
    # modules that are not replaced can still be imported if pycocotools is installed
    package.__path__ = list(spec.submodule_search_locations or []) if spec else []
    parts = {"coco": coco, "cocoeval": cocoeval, "mask": mask}
    vars(package).update(parts)
    modules = {_NAME: package, **{f"{_NAME}.{name}": part for name, part in parts.items()}}
    with warnings.catch_warnings():
        # reading attributes of other packages' classes may warn
        warnings.simplefilter("ignore")
        early = _users({*modules})
    if early:
        warnings.warn(
            f"imported pycocotools before, and go on with it: {', '.join(early)}. Call"
            " init_as_pycocotools() before they are imported",
            stacklevel=2,
        )
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    stack = ExitStack()
    stack.callback(_restore, before)
    return stack


def _restore(before: dict[str, ModuleType | None]) -> None:
    for name, module in before.items():
        if module is None:
            sys.modules.pop(name, None)
        else:
            sys.modules[name] = module


def _users(replaced: set[str]) -> list[str]:
    """Modules of other programs that hold objects of the replaced modules."""
    held = {id(module) for name, module in sys.modules.items() if name in replaced}
    found = []
    for name, module in sorted(sys.modules.items()):
        if name.partition(".")[0] == _NAME or not isinstance(module, ModuleType):
            continue
        # classes only: other objects may compute any attribute on access
        kinds = {e.__module__ for e in vars(module).values() if isinstance(e, type)}
        if kinds & replaced or any(id(e) in held for e in vars(module).values()):
            found.append(name)
    return found
