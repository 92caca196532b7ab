"""The registry of kinds of backbones: the module that builds each, and what planning knows of it.

A new kind is a module next to this one and an entry in `KINDS`; docs/architecture.md lists the
rest. Planning imports this module, so it imports no large library. A job's fingerprint covers only
the entry of its own kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module

from permafrost.core.errors import PermafrostError
from permafrost.core.plugins import Registry


@dataclass(frozen=True)
class Known:
    """Information on a backbone before it is built.

    Attributes
    ----------
    wants : fields of `permafrost.backbones.input.contract.InputContract` that it defines.
    channels : number of channels that the weights were trained with; None: any number.
    radar : for models that need the wavelength of every band, the numbers for bands of radar; else
        None.
    needs_widths : whether the model needs the width of every band.
    widths_nm : widths in nm given by the entry.
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
    module : has ``build(options, plan, resources)``; unless `wants` is given, it has
        ``wants(options, where)``, which returns fields of `InputContract`; and
        ``published(options, where)`` if weights can be downloaded. If `pixels` is false, it has
        ``locate(options, where, weights_folder=)`` instead.
    options : name of the options class in the module, a `permafrost.core.options.Options`.
    wants : fields of `InputContract`, if they are the same for all entries of the kind.
    library : package whose models and weights `plan.installed` describes, by a method of this name.
    known_by : ``module:function`` that returns a `Known` from (entry, where, offered), without
        importing a large library.
    pixels : whether it reads pixels; else it reads locations of images, or features of others.
    derived : whether it reads features of others; its module then only has the options.
    blocks : whether it can be a network of blocks, whose features can be stored.
    fitted : values of options with which it is fitted to images of train; empty: never.
    """

    module: str
    options: str
    wants: Mapping | None = None
    library: str | None = None
    known_by: str | None = None
    pixels: bool = True
    derived: bool = False
    blocks: bool = True
    fitted: Mapping = field(default_factory=dict)

    def is_fitted(self, entry: Mapping) -> bool:
        """Whether a backbone of this kind depends on images of train, apart from their normalisation."""
        given = [entry.get(key) == value for key, value in self.fitted.items()]
        return bool(given) and all(given)

    def load(self):
        """Import its module."""
        return import_module(self.module)

    def options_class(self) -> type:
        """The class of its options."""
        return getattr(self.load(), self.options)

    @property
    def deep(self) -> bool:
        """Whether features of its blocks can be stored."""
        return self.pixels and self.blocks

    def check_model(self, where: str) -> None:
        """Refuse a derived backbone where a model is run."""
        if self.derived:
            raise PermafrostError(
                "a derived backbone has no model: it reads the stored features of others",
                where=where,
                remedy="run it in a configuration, beside those it is derived from",
            )

    def known(self, entry: dict, where: str, offered: Callable) -> Known | None:
        """Information on an entry before its job runs; None if only the job can find out.

        Parameters
        ----------
        offered : returns a `plan.installed.Installed`, or None; called only for kinds with a
            library.

        Raises
        ------
        PermafrostError : the entry names something that does not exist.
        """
        if self.known_by is not None:
            module, _, name = self.known_by.partition(":")
            return getattr(import_module(module), name)(entry, where, offered)
        if self.library is not None:
            # a separate environment may have models that the main one lacks
            installed = None if "environment" in entry else offered()
            return None if installed is None else getattr(installed, self.library)(entry, where)
        return None if self.wants is None else Known(self.wants)


KINDS = {
    "imagestats": Kind(
        "permafrost.backbones.imagestats",
        "ImageStatisticsOptions",
        wants={"normalization": "none"},
        blocks=False,
    ),
    "rcf": Kind(
        "permafrost.backbones.rcf",
        "RcfOptions",
        wants={"normalization": "dataset"},
        blocks=False,
        fitted={"mode": "empirical"},
    ),
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
    "derived": Kind("permafrost.backbones.derived", "DerivedOptions", pixels=False, derived=True),
}

KINDS = PLUGINS = Registry("backbones", KINDS)


def kind_of(entry: Mapping) -> Kind:
    """The kind of a validated entry."""
    return KINDS[entry["kind"]]
