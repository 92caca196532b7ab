"""Parts (shards) of preparation and extraction: their number, and which ones a job joins."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from permafrost.backbones.kinds import kind_of
from permafrost.core.errors import PermafrostError, look_up
from permafrost.plan.grid import Grid
from permafrost.plan.object_store import Places
from permafrost.plan.plan import Plan

#: folder of the parts below the results; a part is called, for example, ``2-of-8``
FOLDER = "parts"
PATTERN = r"\d+-of-\d+"


def check_parts(grid: Grid) -> None:
    """Refuse ``runtime.parts`` of unknown datasets, and of derived ones, whose stores are made whole."""
    parts = grid.config["runtime"]["parts"]
    for name in parts if isinstance(parts, Mapping) else ():
        if all(name != names[0] for names in grid.misfits):
            look_up(grid.datasets, name, "the run has no dataset", where="runtime: parts")
        if name in grid.origins:
            raise PermafrostError(
                f"{name} is derived, and jobs of derived datasets are not divided",
                where="runtime: parts",
                remedy=f"name {' or '.join(grid.origins[name])}",
            )


def number_of_parts(grid: Grid, stage: str, *names: str) -> int:
    """The number of jobs that share one job of ``prepare`` or ``extract``; 1: it is not divided.

    Parameters
    ----------
    names : the dataset, and for ``extract`` the backbone.
    """
    dataset, *backbone = names
    # which images are dropped is only known after all of them have been checked
    whole = (
        drops_images(grid)
        if stage == "prepare"
        else not kind_of(grid.backbones[backbone[0]]).pixels
    )
    parts = grid.config["runtime"]["parts"]
    if isinstance(parts, Mapping):
        parts = parts.get(dataset, 1)
    return 1 if whole else parts


def drops_images(grid: Grid) -> bool:
    """Whether images without an embedding are dropped from the datasets."""
    return any(entry.get("unmatched") == "drop" for entry in grid.backbones.values())


class JoinedParts:
    """The folders of the parts that a job of ``prepare`` or ``extract`` joins.

    Snakemake reruns a job if the set of its inputs changes, but the number of parts does not affect
    results. So if the outputs exist and belong to this plan, their parts are the recorded ones,
    even if the configuration now requests another number.

    Parameters
    ----------
    inputs_of : gives the inputs that Snakemake recorded for an output; None: it has no record.
    places : where the results are.
    planned : whether this process planned the run; if not, it runs a job whose parts exist.
    """

    def __init__(
        self,
        plan: Plan,
        results: str,
        inputs_of: Callable[[str], Iterable[str] | None],
        places: Places,
        *,
        planned: bool,
    ) -> None:
        self._plan, self._results = plan, results
        self._inputs_of, self._places, self._planned = inputs_of, places, planned
        self._known: dict[tuple[str, ...], list[str]] = {}

    def __call__(self, stage: str, *names: str) -> list[str]:
        """The folders of the parts of a job; empty if it is not divided."""
        key = stage, *names
        if key not in self._known:
            self._known[key] = self._find(stage, names)
        return self._known[key]

    def _find(self, stage: str, names: tuple[str, ...]) -> list[str]:
        folder = "/".join((self._results, FOLDER, *names))
        wanted = _names(folder, number_of_parts(self._plan, stage, *names))
        if self._planned:
            made = self._made_of(stage, names, folder)
            # the outputs are checked last, because that is slow on an object store
            other = made not in (None, wanted) and self._is_current(stage, names)
            return made if other else wanted
        if not self._all_there(wanted):
            copies = Path(self._places.copy(folder))
            counts = {path.name.partition("-of-")[2] for path in copies.glob("*-of-*")}
            for count in sorted(filter(str.isdecimal, counts)):
                if self._all_there(found := _names(folder, int(count))):
                    return found
        return wanted

    def _made_of(self, stage: str, names: tuple[str, ...], folder: str) -> list[str] | None:
        """The parts that Snakemake recorded for the outputs; None: it has no record."""
        inputs = self._inputs_of(self._places.stored(self._voucher(stage, names)))
        if inputs is None:
            return None
        part = re.compile(f"{re.escape(self._places.stored(folder))}/({PATTERN})")
        return [f"{folder}/{known[1]}" for known in map(part.fullmatch, inputs) if known]

    def _is_current(self, stage: str, names: tuple[str, ...]) -> bool:
        """Whether the outputs exist and belong to this plan."""
        path = self._voucher(stage, names)
        try:
            made = _fingerprint(self._places, path)
        except (OSError, ValueError, KeyError, TypeError):
            return False
        return made == getattr(self._plan, stage)(*names).fingerprint

    def _voucher(self, stage: str, names: tuple[str, ...]) -> str:
        """The output whose fingerprint counts for the whole job; image stores may be deleted."""
        return f"{self._results}/{_VOUCHERS[stage].format(*names)}"

    def _all_there(self, folders: list[str]) -> bool:
        return all(Path(self._places.copy(folder)).is_dir() for folder in folders)


_VOUCHERS = {"prepare": "images/{}/card.json", "extract": "features/{}/{}/train.zarr"}


def _fingerprint(places: Places, path: str) -> str:
    """The fingerprint in a card or a store."""
    if path.endswith(".zarr"):
        return json.loads(places.read(f"{path}/zarr.json"))["attributes"]["fingerprint"]
    return json.loads(places.read(path))["fingerprint"]


def _names(folder: str, count: int) -> list[str]:
    return [f"{folder}/{number}-of-{count}" for number in range(count)] if count > 1 else []
