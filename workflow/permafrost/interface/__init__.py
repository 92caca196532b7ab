"""What ``import permafrost as pf`` offers to notebooks and scripts: the stages' own code on arrays and results.

Names are imported when they are asked for, so that ``pf.KNN`` loads no torch.
"""

from importlib import import_module

# bare names of modules here, since no stage of a plan is to depend on them by this
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
}

__all__ = [*_LATER, "detection"]


def __getattr__(name: str):
    if name == "detection":
        return import_module("permafrost.evaluators.detection")
    if name not in _LATER:
        raise AttributeError(f"permafrost has no {name!r}; available: {', '.join(sorted(__all__))}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
