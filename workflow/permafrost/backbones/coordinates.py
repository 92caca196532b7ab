"""Encoders of longitude and latitude: the location-only baseline."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import numpy as np
from annotated_types import Interval
from scipy.special import sph_harm_y

from permafrost.backbones.entry import Function, Seeded
from permafrost.backbones.weights.published import at_address, obtain
from permafrost.core.errors import PermafrostError
from permafrost.core.identity import file_digest
from permafrost.core.options import LeftOut, Options, Text
from permafrost.data.embeddings.places import DEGREES, Place, moved, unit_vectors

if TYPE_CHECKING:
    from permafrost.backbones.weights.published import Published

#: locations per batch
PLACES = 4096


@dataclass(frozen=True, kw_only=True)
class LikeFile(Options):
    """A weights file; for SatCLIP with the name of published weights of the same architecture."""

    source: Literal["file"]
    path: Text
    like: LeftOut[Text] = None


@dataclass(frozen=True, kw_only=True)
class CoordinatesOptions(Seeded):
    """An encoder of longitude and latitude."""

    encoder: Literal["harmonics", "sines", "satclip", "geoclip", "entrypoint"]
    """Spherical harmonics, sines of many wavelengths, SatCLIP of torchgeo, GeoCLIP, or your own module, which
    gets (n, 2) longitude and latitude."""
    degree: Annotated[int, Interval(ge=1, le=60)] = 10
    """Number of degrees of the spherical harmonics, from 0; the number of features is its square."""
    octaves: Annotated[int, Interval(ge=1, le=24)] = 12
    """Number of wavelengths of the sines, each half the previous one."""
    weights: LeftOut[Text | LikeFile] = None
    """Name of torchgeo's weights (SatCLIP_Weights.SATCLIP_VIT16_L40), or a file; for SatCLIP with the name of
    weights of the same architecture. If left out, weights are random."""
    entrypoint: LeftOut[Function] = None
    """path/to/file.py:function or package.module:function."""
    options: dict = field(default_factory=dict)
    """Further arguments of the model or function."""


@dataclass
class _Encoder:
    """Implements `Located`; ``encode`` maps (n,) longitudes and (n,) latitudes in degrees to (n, K)."""

    encode: Callable[[np.ndarray, np.ndarray], np.ndarray]
    about: dict
    parameters: int = 0
    weights_sha256: str | None = None
    packages: tuple[str, ...] = ()

    needs_place, layer, pooling = True, "place", "none"

    def features(self, places: Sequence[Place]) -> tuple[np.ndarray, dict[int, str]]:
        lon, lat = (np.array([getattr(p, name) for p in places], float) for name in ("lon", "lat"))
        return self._encoded(lon, lat), {}

    def maps(self, place: Place, rows: int, columns: int) -> np.ndarray:
        lon, lat = moved(place.crs, DEGREES, *place.cells(rows, columns))
        return self._encoded(lon, lat).T.reshape(-1, rows, columns)

    def describe(self) -> dict:
        return self.about

    def _encoded(self, lon: np.ndarray, lat: np.ndarray) -> np.ndarray:
        parts = [
            self.encode(lon[start : start + PLACES], lat[start : start + PLACES])
            for start in range(0, max(1, len(lon)), PLACES)
        ]
        return np.concatenate(parts).astype(np.float32)


def harmonics(lon: np.ndarray, lat: np.ndarray, degree: int) -> np.ndarray:
    """(n, degree²) real spherical harmonics of all degrees below `degree`, orthonormal on the sphere.

    Ordered by degree l, then by order m from -l to l: ``√2 Im Y(l, |m|)``, ``Y(l, 0)``,
    ``√2 Re Y(l, m)``.

    Parameters
    ----------
    lon, lat : (n,) in degrees.
    """
    polar, azimuth = np.radians(90.0 - lat), np.radians(lon)
    columns = []
    for at in range(degree):
        whole = [sph_harm_y(at, order, polar, azimuth) for order in range(at + 1)]
        columns += [np.sqrt(2) * one.imag for one in whole[:0:-1]]
        columns += [whole[0].real] + [np.sqrt(2) * one.real for one in whole[1:]]
    return np.stack(columns, axis=1)


def sines(lon: np.ndarray, lat: np.ndarray, octaves: int) -> np.ndarray:
    """(n, 6 · octaves) sines and cosines of ``π 2^k x`` for coordinates x on the unit sphere, k from 0.

    Parameters
    ----------
    lon, lat : (n,) in degrees.
    """
    phases = unit_vectors(lon, lat)[:, :, None] * np.pi * 2.0 ** np.arange(octaves)
    return np.concatenate([np.sin(phases), np.cos(phases)], axis=1).reshape(len(lon), 6 * octaves)


def locate(options: CoordinatesOptions, where: str, *, weights_folder: Path) -> _Encoder:
    """Build the encoder of an entry.

    Parameters
    ----------
    weights_folder : for published weights: searched, and the target of downloads.

    Raises
    ------
    PermafrostError : options or weights do not fit the encoder.
    """
    if options.encoder == "harmonics":
        return _Encoder(
            lambda lon, lat: harmonics(lon, lat, options.degree),
            {"encoder": "harmonics", "degree": options.degree},
            packages=("scipy",),
        )
    if options.encoder == "sines":
        return _Encoder(
            lambda lon, lat: sines(lon, lat, options.octaves),
            {"encoder": "sines", "octaves": options.octaves},
            packages=("numpy",),
        )
    if options.encoder == "geoclip":
        return _geoclip(options, where)
    if options.encoder == "satclip":
        return _satclip(options, where, weights_folder)
    return _own(options, where)


def published(options: CoordinatesOptions, where: str) -> Published | None:
    """The published weights of an entry; None for a file, random weights or other encoders."""
    if options.encoder != "satclip" or not isinstance(options.weights, str):
        return None
    from permafrost.backbones.torchgeo.weights import find_weights

    return at_address(options.weights, find_weights(options.weights, where)[0].url)


def _satclip(options: CoordinatesOptions, where: str, weights_folder: Path) -> _Encoder:
    from torchgeo.models import satclip

    from permafrost.backbones.backbone import isolated_seed
    from permafrost.backbones.torchgeo.weights import LocalWeights, find_weights, offered
    from permafrost.backbones.weights.checkpoint import check_finite

    weights = digest = None
    download: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    if options.weights is not None:
        named = isinstance(options.weights, str)
        if not named and cast(LikeFile, options.weights).like is None:
            raise PermafrostError(
                "a SatCLIP file needs the name of weights with the same architecture",
                where=f"{where}: weights",
                remedy="add like: SatCLIP_Weights.SATCLIP_VIT16_L40",
            )
        weights, model = find_weights(
            cast(str, options.weights if named else cast(LikeFile, options.weights).like), where
        )
        if model != "satclip":
            raise PermafrostError(
                f"{weights} are weights of {model}, not of satclip", where=f"{where}: weights"
            )
        if named:
            path, digest = obtain(published(options, where), weights_folder, where=where)
            download = offered(path)
        else:
            weights = LocalWeights(weights, model, cast(LikeFile, options.weights).path, where)
            digest = file_digest(weights.path)
    with isolated_seed(options.seed), download:
        try:
            module = satclip(weights, **options.options)
        except PermafrostError:
            raise
        except (RuntimeError, KeyError, TypeError, OSError) as error:
            raise PermafrostError(
                f"torchgeo cannot build the model of these weights and options ({_line(error)})",
                where=where,
                remedy="correct `weights` and `options`",
            ) from error
    check_finite(module.state_dict(), where=where)
    # float64, as its authors do: the recursion for harmonics of degree 40 is inaccurate in float32
    return _of_module(
        module.double(),
        {"encoder": "satclip", "weights": None if weights is None else str(weights)},
        packages=("torch", "torchgeo"),
        digest=digest,
        where=where,
    )


def _geoclip(options: CoordinatesOptions, where: str) -> _Encoder:
    from permafrost.backbones.backbone import isolated_seed
    from permafrost.backbones.geoclip import LocationEncoder
    from permafrost.backbones.weights.checkpoint import load_into, read_state_dict

    with isolated_seed(options.seed):
        module = LocationEncoder()
    digest = None
    if options.weights is not None:
        if isinstance(options.weights, str):
            raise PermafrostError(
                f"GeoCLIP has no weights named {options.weights!r}",
                where=f"{where}: weights",
                remedy="give the authors' location_encoder_weights.pth: {source: file, path: …}",
            )
        path = options.weights.path
        state, digest = read_state_dict(path, where=where)
        load_into(module, state, where=f"{where}: {path}")
    # float64, since phases of hundreds of turns in float32 would depend on the batch by rounding
    return _of_module(
        module.double(), {"encoder": "geoclip"}, packages=("torch",), digest=digest, where=where
    )


def _own(options: CoordinatesOptions, where: str) -> _Encoder:
    from permafrost.backbones.backbone import isolated_seed
    from permafrost.backbones.entrypoint import load_function

    if options.entrypoint is None:
        raise PermafrostError("encoder: entrypoint needs the key `entrypoint`", where=where)
    where = f"{where}: {options.entrypoint}"
    function = load_function(options.entrypoint, where)
    with isolated_seed(options.seed):
        try:
            module = function(**options.options)
        # user code may raise anything
        except Exception as error:
            raise PermafrostError(f"the function failed: {_line(error)}", where=where) from error
    return _of_module(module, {"encoder": "entrypoint"}, packages=("torch",), where=where)


def _of_module(
    module, about: dict, *, packages: tuple[str, ...], where: str, digest: str | None = None
) -> _Encoder:
    """The encoder of a torch module that maps (n, 2) longitude and latitude in degrees to (n, K)."""
    import torch
    from torch import nn

    if not isinstance(module, nn.Module):
        raise PermafrostError(
            f"the function returned a {type(module).__name__}, not a torch.nn.Module", where=where
        )
    module.eval()
    kind = next(
        (one.dtype for one in module.parameters() if one.is_floating_point()), torch.float32
    )

    def encode(lon: np.ndarray, lat: np.ndarray) -> np.ndarray:
        places = torch.from_numpy(np.stack([lon, lat], axis=1)).to(kind)
        with torch.inference_mode():
            try:
                made = module(places)
            # user code may raise anything
            except Exception as error:
                raise PermafrostError(
                    f"the forward pass failed on {len(places)} places: {_line(error)}", where=where
                ) from error
        if not isinstance(made, torch.Tensor) or made.ndim != 2 or len(made) != len(places):
            raise PermafrostError(
                f"{len(places)} places gave {getattr(made, 'shape', type(made).__name__)}, not one row each",
                where=where,
                remedy="let the module return (n, K) for (n, 2) longitude and latitude",
            )
        return made.float().numpy()

    count = sum(one.numel() for one in module.parameters())
    return _Encoder(encode, about, count, digest, packages)


def _line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:400]
