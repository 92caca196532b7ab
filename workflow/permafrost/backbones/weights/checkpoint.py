"""Read weights files without running code, check them, and load them into a module."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from fnmatch import translate
from pathlib import Path

import torch
from torch import nn

from permafrost.core.errors import PermafrostError, first_line, near_names
from permafrost.core.identity import file_digest

#: keys of checkpoints that contain the weights, in the order of preference
WRAPPERS = ("state_dict_ema", "model_ema", "state_dict", "model")
_PREFIXES = ("module.", "model.", "_orig_mod.")


def load_file_into(
    module: nn.Module,
    path,
    *,
    drop: Sequence[str] | None = None,
    prefix: str | None = None,
    ignore: tuple[str, ...] = (),
    first_convs: tuple[str, ...] = (),
    where: str,
) -> tuple[dict, str]:
    """Load all of the weights file `path` into `module`.

    Parameters
    ----------
    drop, prefix : see `select`.
    ignore, first_convs : see `load_into`.

    Returns
    -------
    (notes on adaptations, for `Backbone.notes`; SHA-256 of the file, for
    `Backbone.weights_sha256`).

    Raises
    ------
    PermafrostError : the file cannot be read safely, or does not fit; names the tensors.
    """
    state, digest = read_state_dict(path, where=where)
    place = f"{where}: {path}"
    state, notes = select(state, drop, prefix, where=place)
    notes |= load_into(module, state, ignore=ignore, first_convs=first_convs, where=place)
    return notes, digest


def read_state_dict(path, *, where: str) -> tuple[dict[str, torch.Tensor], str]:
    """Read the tensors by name and the SHA-256 of a file; see `read_content`.

    Weights nested in a checkpoint (``state_dict``, ``model``, …) are extracted.

    Raises
    ------
    PermafrostError : the file cannot be read safely, or does not contain a state dict.
    """
    path = Path(path)
    return _unwrap(read_content(path, where=where), path, where), file_digest(path)


def read_content(path, *, where: str):
    """Read the content of a weights file without running its code.

    Supports ``.safetensors`` and anything that ``torch.load(weights_only=True)`` reads.

    Raises
    ------
    PermafrostError : the file is missing, damaged, or a pickle that would run code.
    """
    path = Path(path)
    if not path.is_file():
        raise PermafrostError(
            "the weights file does not exist",
            where=f"{where}: weights.path {path}",
            remedy="correct the path, or `data:` in the configuration",
        )
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        more = "WeightsUnpickler" in str(error) or "weights_only" in str(error)
        reason = "it is a pickle of more than tensors" if more else first_line(error)
        raise PermafrostError(
            f"the weights file cannot be read safely ({reason})",
            where=f"{where}: weights.path {path}",
            remedy="convert it without running its code, and name the converted file:"
            f" permafrost convert-checkpoint {path} {path.with_suffix('.safetensors')}"
            if more
            else "save only tensors: a state dict with torch.save or safetensors",
        ) from error


def select(
    state: dict, drop: Sequence[str] | None, prefix: str | None, *, where: str
) -> tuple[dict, dict]:
    """Drop tensors of a state dict by pattern, and remove a prefix from names.

    Parameters
    ----------
    state : tensors by name; nested mappings have dotted names (``encoder.weight``).
    drop : patterns (``decoder*``) of names in the file; each must match something.
    prefix : removed from names that begin with it; other names stay unchanged.

    Returns
    -------
    (state, notes ``{"dropped": {"count", "names"}}``, empty if nothing was dropped).

    Raises
    ------
    PermafrostError : a pattern or the prefix matches nothing, or two tensors get the same name.
    """
    if not isinstance(state, dict):
        raise PermafrostError(
            "the weights file does not contain a mapping of names to tensors", where=where
        )
    names = _dotted(state)
    dropped: set[str] = set()
    for pattern in drop or ():
        fits = re.compile(translate(pattern)).match
        found = {name for name in names if fits(name)}
        if not found:
            raise PermafrostError(
                f"drop: {pattern!r} drops nothing, {near_names(pattern, names)}",
                where=where,
                remedy="correct the pattern, or leave it out",
            )
        dropped |= found
    if prefix and not any(name.startswith(prefix) for name in set(names) - dropped):
        raise PermafrostError(
            f"prefix: no name begins with {prefix!r}, {near_names(prefix, names)}",
            where=where,
            remedy="correct the prefix, or leave it out",
        )
    kept = _kept(state, dropped, prefix or "", where)
    listed = [name for name in names if name in dropped]
    return kept, {"dropped": {"count": len(listed), "names": listed}} if listed else {}


def _dotted(state: dict, before: str = "") -> list[str]:
    names = []
    for key, value in state.items():
        name = f"{before}{key}"
        names += _dotted(value, f"{name}.") if isinstance(value, dict) else [name]
    return names


def _kept(state: dict, dropped: set[str], prefix: str, where: str, before: str = "") -> dict:
    kept = {}
    for key, value in state.items():
        name = f"{before}{key}"
        if name in dropped:
            continue
        if isinstance(value, dict):
            value = _kept(value, dropped, prefix, where, f"{name}.")
            if not value:
                continue
        # the prefix applies to top-level names only
        short = key if before or not prefix else str(key).removeprefix(prefix)
        if short in kept:
            raise PermafrostError(
                f"prefix: two tensors would have the name {short!r}",
                where=where,
                remedy="drop the other one",
            )
        kept[short] = value
    return kept


def unwrapped(content):
    """The mapping of tensors inside a trainer's checkpoint; any other content unchanged."""
    for key in WRAPPERS:
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            return content[key]
    return content


def _unwrap(content, path: Path, where: str) -> dict[str, torch.Tensor]:
    content = unwrapped(content)
    tensors = isinstance(content, dict) and content and all(map(torch.is_tensor, content.values()))
    if not tensors:
        raise PermafrostError(
            "the weights file does not contain a state dict (a mapping of names to tensors)",
            where=f"{where}: {path}",
            remedy="save model.state_dict()",
        )
    for prefix in _PREFIXES:
        if all(key.startswith(prefix) for key in content):
            content = {key.removeprefix(prefix): value for key, value in content.items()}
    return content


def check_finite(state: dict[str, torch.Tensor], *, where: str) -> None:
    """Raise `PermafrostError` if a tensor has NaN or infinity; names the tensor."""
    for name, tensor in state.items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            count = int((~torch.isfinite(tensor)).sum())
            raise PermafrostError(
                f"the tensor {name!r} holds {count} values that are NaN or infinite",
                where=where,
                remedy="use weights of a finished training run",
            )


def load_into(
    module: nn.Module,
    state: dict[str, torch.Tensor],
    *,
    ignore: tuple[str, ...] = (),
    first_convs: tuple[str, ...] = (),
    where: str,
) -> dict:
    """Load all of `state` into `module`.

    Parameters
    ----------
    ignore : prefixes of tensors that may be unused (a removed classifier).
    first_convs : names of input convolutions to adapt if the checkpoint is for 3 channels and the
        input has another number (repeated and rescaled; summed for one channel).

    Returns
    -------
    Notes on adaptations.

    Raises
    ------
    PermafrostError : names or shapes do not match, or values are not finite; names the tensors.
    """
    notes: dict = {}
    wanted = module.state_dict()
    state = _filtered(module, state, wanted)
    left_over = (
        [key for key in state if key not in wanted and key.startswith(ignore)] if ignore else []
    )
    state = {key: value for key, value in state.items() if key not in left_over}
    for name in first_convs:
        adapted = _adapt(state.get(f"{name}.weight"), wanted.get(f"{name}.weight"), name, where)
        if adapted is not None:
            notes["input_convolution"] = f"{name} adapted from 3 to {adapted.shape[1]} channels"
            state[f"{name}.weight"] = adapted
    _refuse_misfit(state, wanted, where)
    check_finite(state, where=where)
    module.load_state_dict(state, strict=True)
    return notes


def _filtered(module: nn.Module, state, wanted) -> dict[str, torch.Tensor]:
    """Convert the state dict by timm's ``checkpoint_filter_fn`` if more tensors fit afterwards."""
    if _fitting(state, wanted) == len(wanted):
        return state
    translate = getattr(sys.modules.get(type(module).__module__), "checkpoint_filter_fn", None)
    if translate is None:
        return state
    try:
        translated = translate(dict(state), module)
    except Exception:
        # a checkpoint of another architecture: the comparison of names gives a clearer error
        return state
    return translated if _fitting(translated, wanted) > _fitting(state, wanted) else state


def _fitting(state, wanted) -> int:
    return sum(key in state and state[key].shape == tensor.shape for key, tensor in wanted.items())


def _adapt(weight, target, name: str, where: str):
    if weight is None or target is None or weight.ndim != 4 or weight.shape[1] == target.shape[1]:
        return None
    have, want = weight.shape[1], target.shape[1]
    if have != 3:
        raise PermafrostError(
            f"the input convolution {name} was trained with {have} channels and {want} are fed, and"
            " their order is unknown",
            where=where,
            remedy=f"name the {have} bands under input.bands, with input.missing: zero where some lack",
        )
    from timm.models import adapt_input_conv

    return adapt_input_conv(want, weight)


def _refuse_misfit(state, wanted, where: str) -> None:
    missing = sorted(set(wanted) - set(state))
    unexpected = sorted(set(state) - set(wanted))
    shapes = [
        f"{key} {tuple(state[key].shape)} instead of {tuple(wanted[key].shape)}"
        for key in wanted
        if key in state and state[key].shape != wanted[key].shape
    ]
    parts = [
        f"{len(names)} {what}: {', '.join(names[:8])}{', …' if len(names) > 8 else ''}"
        for what, names in (
            ("missing", missing),
            ("unexpected", unexpected),
            ("of another shape", shapes),
        )
        if names
    ]
    if parts:
        raise PermafrostError(
            f"the checkpoint does not fit the model; tensors {'; '.join(parts)}",
            where=where,
            remedy="name the model that the checkpoint was saved from; of a larger one, such as an autoencoder, leave"
            " the rest out: weights.drop: [decoder*], weights.prefix: encoder.",
        )
