"""The kinds of backbones: the module that builds each, and what is known of it before it is built.

A new kind is a module beside this one and an entry in `KINDS`; docs/architecture.md lists what else it touches. Light:
the plan reads it before any job runs, and a job's identity follows only the entry of its own kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module

from permafrost.core.plugins import Registry


@dataclass(frozen=True)
class Known:
    """What is known of a backbone before it is built.

    Attributes
    ----------
    wants : fields of `permafrost.backbones.input.contract.InputContract` that it brings along.
    channels : number of channels that the weights were trained with; None if any number fits.
    radar : of models that need the wavelength of every band, what stands for it in bands of radar; else None.
    needs_widths, widths_nm : whether the model needs the width of every band, and those that the entry gives.
    """

    wants: Mapping
    channels: int | None = None
    radar: dict[str, float] | None = None
    needs_widths: bool = False
    widths_nm: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Kind:
    """A kind of backbone.

    Attributes
    ----------
    module : with ``build(options, plan, resources)`` and, without `wants`, ``wants(options, where)``: fields of
        `InputContract` that the kind or its weights bring along. Without `pixels`, with
        ``locate(options, where, weights_folder=)``. With ``published(options, where)`` if weights may be downloaded.
    options : class in it, a `permafrost.core.options.Options`.
    wants : fields of `InputContract` that are the same for all entries of the kind.
    library : package whose models and weights `plan.installed` describes, in a method of this name.
    known_by : ``module:function`` that gives a `Known` from entry, where and offered; it imports no large library.
    pixels : whether it takes pixels; else it takes the places of images.
    """

    module: str
    options: str
    wants: Mapping | None = None
    library: str | None = None
    known_by: str | None = None
    pixels: bool = True

    def load(self):
        """Its module."""
        return import_module(self.module)

    def options_class(self) -> type:
        """The dataclass of its options."""
        return getattr(self.load(), self.options)

    def known(self, entry: dict, where: str, offered: Callable) -> Known | None:
        """What is known of an entry before its job runs; None if only the job can tell.

        A kind whose registry entry says nothing of what it wants is such a one.

        Parameters
        ----------
        offered : gives a `plan.installed.Installed`, or None; asked only for kinds that come with a library.

        Raises
        ------
        PermafrostError : the entry names something that does not exist.
        """
        if self.known_by is not None:
            module, _, name = self.known_by.partition(":")
            return getattr(import_module(module), name)(entry, where, offered)
        if self.library is not None:
            # an environment of its own may have models that are not installed here
            installed = None if "environment" in entry else offered()
            return None if installed is None else getattr(installed, self.library)(entry, where)
        return None if self.wants is None else Known(self.wants)


KINDS = {
    "imagestats": Kind(
        "permafrost.backbones.imagestats",
        "ImageStatisticsOptions",
        wants={"normalization": "none"},
    ),
    "rcf": Kind("permafrost.backbones.rcf", "RcfOptions", wants={"normalization": "dataset"}),
    "timm": Kind("permafrost.backbones.timm_models", "TimmOptions", library="timm"),
    "torchgeo": Kind("permafrost.backbones.torchgeo.models", "TorchgeoOptions", library="torchgeo"),
    "terratorch": Kind(
        "permafrost.backbones.terratorch.models",
        "TerratorchOptions",
        known_by="permafrost.backbones.terratorch.families:known",
    ),
    "galileo": Kind(
        "permafrost.backbones.galileo.models",
        "GalileoOptions",
        known_by="permafrost.backbones.galileo.bands:known",
    ),
    "olmoearth": Kind(
        "permafrost.backbones.olmoearth.models",
        "OlmoEarthOptions",
        known_by="permafrost.backbones.olmoearth.bands:known",
    ),
    "entrypoint": Kind(
        "permafrost.backbones.entrypoint",
        "EntrypointOptions",
        wants={"normalization": "dataset", "unit": "unit_interval", "dates": "each"},
    ),
    "embeddings": Kind("permafrost.backbones.embeddings", "EmbeddingsOptions", pixels=False),
    "coordinates": Kind("permafrost.backbones.coordinates", "CoordinatesOptions", pixels=False),
}

KINDS = PLUGINS = Registry("backbones", KINDS)


def kind_of(entry: Mapping) -> Kind:
    """The kind of a validated entry."""
    return KINDS[entry["kind"]]
