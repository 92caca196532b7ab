"""Permafrost measures how good the features of frozen geospatial backbones are.

``import permafrost as pf`` offers what the room ``interface`` lists, loaded when it is asked for.
"""

__version__ = "0.1.0"
# a bare name, and what is offered is listed there: every job depends on this file, and on none of that
_INTERFACE = "interface"


def __getattr__(name: str):
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_INTERFACE}"), name)


def __dir__() -> list[str]:
    from importlib import import_module

    return ["__version__", *import_module(f"{__name__}.{_INTERFACE}").__all__]
