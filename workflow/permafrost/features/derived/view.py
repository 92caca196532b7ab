"""The store of a derived backbone: its rows are read from the parents' stores, and computed by its steps."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import numpy as np

from permafrost.backbones.derived import Step, at_depth
from permafrost.backbones.outputs.depth import nearest_block
from permafrost.core.errors import PermafrostError
from permafrost.core.identity import file_digest
from permafrost.core.option_models import read
from permafrost.core.store_readers import open_store
from permafrost.core.stores import Store
from permafrost.features.dates import date_counts
from permafrost.features.derived.steps import Learned, apply

#: samples that are read together; the parents' may be wider than what is made of them
TOGETHER = 1024
#: file in a derived store: what its steps learned
LEARNED = "learned.npz"
DERIVED = "derived"


def read_array(store: Store, depth: float | None) -> dict:
    """What is read of a parent's store at a depth: ``array``; of a block also ``name``, ``block`` and ``of``.

    Parameters
    ----------
    depth : None: the backbone's output.

    Raises
    ------
    PermafrostError : the store does not hold the block.
    """
    if depth is None:
        return {"array": "embeddings"}
    about = store.attributes
    kept = about.get("depths")
    if not kept:
        why = about.get("notes", {}).get("depths", "extraction.depths did not ask for any")
        raise PermafrostError(
            f"{about['backbone']} has no features of blocks: {why}",
            where=store.path,
            remedy="name derived backbones with the step depth under extra_backbones, of backbones that have"
            " blocks; an entry point declares its blocks in `layers`",
        )
    number, count = nearest_block(depth, kept[0]["of"]), kept[0]["of"]
    found = next((one for one in kept if one["block"] == number), None)
    if found is None:
        raise PermafrostError(
            f"block {number} of {count}, at depth {depth:g}, was not stored",
            where=store.path,
            remedy=f"add {depth:g} to extraction.depths, or write extraction: {{depths: all}}",
        )
    return found


class Parents:
    """Stores of the same samples, whose features are read as one array.

    Parameters
    ----------
    stores : of one split, one per parent.
    scale : steps that each parent's features go through before they are joined.
    learned : what these steps learned, one per parent.
    depth : of the blocks whose features are read; None: the outputs.
    """

    def __init__(
        self,
        stores: list[Store],
        scale: list[Step],
        learned: list[Learned],
        depth: float | None = None,
    ) -> None:
        self.stores, self.scale, self.learned = stores, scale, learned
        self.arrays = [read_array(store, depth)["array"] for store in stores]
        first = stores[0]
        several = "dates" in first.attributes
        self._counts = date_counts(first.samples(), first.attributes) if several else None
        self.dates = None if self._counts is None else first.shape("embeddings")[1]

    def widths(self) -> list[int]:
        """Number of features of each parent."""
        return [store.shape(name)[-1] for store, name in zip(self.stores, self.arrays, strict=True)]

    def there(self, start: int, stop: int) -> np.ndarray:
        """(rows · dates,) bool: which rows of `read` are of real dates."""
        if self._counts is None:
            return np.ones(stop - start, bool)
        return (np.arange(self.dates) < self._counts[start:stop, None]).reshape(-1)

    def read(self, start: int, stop: int) -> np.ndarray:
        """(rows · dates, d) float64 features of the samples [start, stop)."""
        parts = []
        for place, store in enumerate(self.stores):
            rows = store.read(self.arrays[place], start, stop)
            rows = rows.reshape(-1, rows.shape[-1]).astype(np.float64)
            if self.scale:
                rows = apply(self.scale, rows, [self.learned[place]])
                if self.scale[0].scale == "standardise":
                    # so that a backbone with more features does not count for more
                    rows /= np.sqrt(rows.shape[1])
            parts.append(rows)
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


class DerivedStore(Store):
    """A store without features of its own.

    Its attribute ``derived`` names the parents with the fingerprints of their stores, which are in the same folder.
    They are opened, and checked, with it.
    """

    def __init__(self, path: Path, *, expect: str | None = None, split: str | None = None) -> None:
        super().__init__(path, expect=expect, split=split)
        about = self.attributes[DERIVED]
        features, own = self.path.parent.parent, self.attributes["split"]
        self.parents = [
            open_store(_parent(features, name, self.path), expect=written, split=own)
            for name, written in about["of"].items()
        ]
        with self._reading(f"{LEARNED} is missing or damaged"):
            if file_digest(self.path / LEARNED) != about["learned_sha256"]:
                raise self._refuse(f"{LEARNED} is not what was written")
            kept = _kept(self.path / LEARNED)
        where = f"{self.path}: steps"
        depth, after = at_depth(about["steps"], str(self.path))
        scale, steps = (
            [read(Step, one, where=where) for one in given] for given in (about["scale"], after)
        )
        self._steps, self._kept = steps, kept["steps"]
        self._rows = Parents(self.parents, scale, kept["scale"], depth)

    def __contains__(self, name: str) -> bool:
        return name == "embeddings" or super().__contains__(name)

    def shape(self, name: str) -> tuple[int, ...]:
        if name != "embeddings":
            return super().shape(name)
        return (*self.parents[0].shape(name)[:-1], self.attributes["feature_dim"])

    def chunk_rows(self, name: str) -> int:
        if name == "embeddings":
            return self.parents[0].chunk_rows(self._rows.arrays[0])
        return super().chunk_rows(name)

    def read(self, name: str, start: int = 0, stop: int | None = None) -> np.ndarray:
        if name != "embeddings":
            return super().read(name, start, stop)
        stop = len(self) if stop is None else min(stop, len(self))
        shape = (stop - start, *self.shape(name)[1:])
        found = np.empty(shape, np.float32)
        for first in range(start, stop, TOGETHER):
            last = min(first + TOGETHER, stop)
            rows = apply(self._steps, self._rows.read(first, last), self._kept)
            if self._rows.dates is not None:
                # missing dates stay 0, as in the stores of others
                rows = np.where(self._rows.there(first, last)[:, None], rows, 0)
            found[first - start : last - start] = rows.reshape(-1, *shape[1:])
        return found


def _parent(features: Path, name: str, path: Path) -> Path:
    """The store of a parent; `name` comes from a file, so it must be a plain name."""
    if Path(name).name != name or name in ("", ".", ".."):
        raise PermafrostError(
            f"it reads a backbone called {name!r}, which is not the name of a backbone",
            where=path,
            remedy="delete the store",
        )
    return features / name / path.name


def write_learned(path: Path, scale: list[Learned], steps: list[Learned]) -> None:
    """Write what was learned; `_kept` reads it."""
    named = {
        f"{key}.{place}.{name}": array
        for key, listed in (("scale", scale), ("steps", steps))
        for place, arrays in enumerate(listed)
        for name, array in arrays.items()
    }
    counts = {"scale": np.array(len(scale)), "steps": np.array(len(steps))}
    with open(path, "wb") as stream:
        np.savez(stream, **named, **counts)


def _kept(path: Path) -> dict[str, list[Learned]]:
    with ZipFile(path) as packed:
        if any(one.compress_type for one in packed.infolist()):
            # a small file could fill the memory
            raise ValueError("it is compressed")
    # without pickles, a file cannot run code
    with np.load(path, allow_pickle=False) as held:
        found: dict[str, list[Learned]] = {
            key: [{} for _ in range(int(held[key]))] for key in ("scale", "steps")
        }
        for label in held.files:
            key, _, rest = label.partition(".")
            place, _, name = rest.partition(".")
            if name:
                found[key][int(place)][name] = held[label]
    return found
