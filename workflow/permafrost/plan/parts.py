"""Into how many parts extraction is divided, and which of them a job joins."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from permafrost.backbones.input.contract import WITHOUT_PIXELS
from permafrost.core.errors import PermafrostError, near_names
from permafrost.plan.grid import Grid
from permafrost.plan.object_store import Places
from permafrost.plan.plan import Plan

#: folder of the parts of a dataset and backbone, below the results; that of each is called ``2-of-8``
FOLDER = "parts"
PATTERN = r"\d+-of-\d+"


def check_parts(grid: Grid) -> None:
    """Refuse parts of datasets that nothing is known of."""
    parts = grid.config["runtime"]["parts"]
    for name in parts if isinstance(parts, Mapping) else ():
        if name not in grid.datasets:
            raise PermafrostError(
                f"dataset {name!r} is not evaluated",
                where="runtime: parts",
                remedy=near_names(name, grid.datasets),
            )


def number_of_parts(grid: Grid, dataset: str, backbone: str) -> int:
    """How many jobs extract these features; 1 where a single one does."""
    if grid.backbones[backbone]["kind"] in WITHOUT_PIXELS:
        return 1
    parts = grid.config["runtime"]["parts"]
    return parts.get(dataset, 1) if isinstance(parts, Mapping) else parts


class JoinedParts:
    """The folders of the parts that the feature stores of a dataset and backbone are joined of.

    Snakemake runs a job again when the set of its inputs changes, and the number of parts changes no result. So where
    the stores are there and of this plan, their parts are those that they were made of, whatever is asked for now.

    Parameters
    ----------
    inputs_of : what Snakemake recorded as the inputs of an output; None where it knows nothing.
    places : where the results lie.
    planned : whether this process made the plan of the run. If not, it carries out a job whose parts are there.
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
        self._known: dict[tuple[str, str], list[str]] = {}

    def __call__(self, dataset: str, backbone: str) -> list[str]:
        """The folders, none where one job extracts all."""
        key = dataset, backbone
        if key not in self._known:
            self._known[key] = self._find(dataset, backbone)
        return self._known[key]

    def _find(self, dataset: str, backbone: str) -> list[str]:
        folder = f"{self._results}/{FOLDER}/{dataset}/{backbone}"
        wanted = _names(folder, number_of_parts(self._plan, dataset, backbone))
        if self._planned:
            made = self._made_of(dataset, backbone, folder)
            return (
                made
                if made not in (None, wanted) and self._is_current(dataset, backbone)
                else wanted
            )
        if not self._all_there(wanted):
            copies = Path(self._places.copy(folder))
            counts = {path.name.partition("-of-")[2] for path in copies.glob("*-of-*")}
            for count in sorted(filter(str.isdecimal, counts)):
                if self._all_there(found := _names(folder, int(count))):
                    return found
        return wanted

    def _made_of(self, dataset: str, backbone: str, folder: str) -> list[str] | None:
        """The parts that stores were joined of, by Snakemake's records; None where it knows no such stores."""
        inputs = self._inputs_of(self._places.stored(self._store(dataset, backbone)))
        if inputs is None:
            return None
        stored = f"{self._places.stored(folder)}/"
        return [
            f"{folder}/{path.removeprefix(stored)}" for path in inputs if path.startswith(stored)
        ]

    def _is_current(self, dataset: str, backbone: str) -> bool:
        """Whether the stores are there and of this plan."""
        try:
            raw = self._places.read(f"{self._store(dataset, backbone)}/zarr.json")
            made = json.loads(raw)["attributes"]["fingerprint"]
        except (OSError, ValueError, KeyError, TypeError):
            return False
        return made == self._plan.extract(dataset, backbone).fingerprint

    def _store(self, dataset: str, backbone: str) -> str:
        return f"{self._results}/features/{dataset}/{backbone}/train.zarr"

    def _all_there(self, folders: list[str]) -> bool:
        return all(Path(self._places.copy(folder)).is_dir() for folder in folders)


def _names(folder: str, count: int) -> list[str]:
    return [f"{folder}/{number}-of-{count}" for number in range(count)] if count > 1 else []
