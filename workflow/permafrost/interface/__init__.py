"""The Python interface, ``import permafrost as pf``: the pipeline's code on arrays and results.

Names are imported at first use, so that ``pf.KNN`` does not load torch.
"""

from importlib import import_module

# without the package's name, so that jobs do not depend on these modules (see `plan.sources`)
_LATER = {
    "KNN": "estimators",
    "LinearSweep": "estimators",
    "Results": "results",
    "Ridge": "regressor",
    "SGDLinear": "estimators",
    "compare": "scoring",
    "evaluate": "scoring",
    "extract": "extraction",
    "measures": "scoring",
    "neuco_bench": "scoring",
    "rank": "ranking",
}

# packages of `permafrost.evaluators`
_MODULES = ("detection", "map_accuracy")

__all__ = [*_LATER, *_MODULES]


def __getattr__(name: str):
    if name in _MODULES:
        return import_module(f"permafrost.evaluators.{name}")
    if name not in _LATER:
        raise AttributeError(f"permafrost has no {name!r}; available: {', '.join(sorted(__all__))}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
