"""Into how many parts preparation and extraction are divided, and which of them a job joins."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from permafrost.backbones.kinds import kind_of
from permafrost.core.errors import look_up
from permafrost.plan.grid import Grid
from permafrost.plan.object_store import Places
from permafrost.plan.plan import Plan

#: folder of the parts of datasets, and of datasets and backbones, below the results; each is called ``2-of-8``
FOLDER = "parts"
PATTERN = r"\d+-of-\d+"


def check_parts(grid: Grid) -> None:
    """Refuse parts of datasets that nothing is known of."""
    parts = grid.config["runtime"]["parts"]
    for name in parts if isinstance(parts, Mapping) else ():
        if all(name != names[0] for names in grid.misfits):
            look_up(grid.datasets, name, "the run has no dataset", where="runtime: parts")


def number_of_parts(grid: Grid, stage: str, *names: str) -> int:
    """How many jobs share the work of this one of ``prepare`` or ``extract``; 1 where a single one does it."""
    dataset, *backbone = names
    # which images leave the dataset is known when all were looked at
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
    """Whether images without an embedding leave the datasets."""
    return any(entry.get("unmatched") == "drop" for entry in grid.backbones.values())


class JoinedParts:
    """The folders of the parts that the outputs of a job of ``prepare`` or ``extract`` are joined of.

    Snakemake runs a job again when the set of its inputs changes, and the number of parts changes no result. So where
    the outputs are there and of this plan, their parts are those that they were made of, whatever is asked for now.

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
        self._known: dict[tuple[str, ...], list[str]] = {}

    def __call__(self, stage: str, *names: str) -> list[str]:
        """The folders of the parts of a job, none where it does all by itself."""
        key = stage, *names
        if key not in self._known:
            self._known[key] = self._find(stage, names)
        return self._known[key]

    def _find(self, stage: str, names: tuple[str, ...]) -> list[str]:
        folder = "/".join((self._results, FOLDER, *names))
        wanted = _names(folder, number_of_parts(self._plan, stage, *names))
        if self._planned:
            made = self._made_of(stage, names, folder)
            # whether outputs are there is asked last: they may lie on a store
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
        """The parts that outputs were joined of, by Snakemake's records; None where it knows no such outputs."""
        inputs = self._inputs_of(self._places.stored(self._voucher(stage, names)))
        if inputs is None:
            return None
        part = re.compile(f"{re.escape(self._places.stored(folder))}/({PATTERN})")
        return [f"{folder}/{known[1]}" for known in map(part.fullmatch, inputs) if known]

    def _is_current(self, stage: str, names: tuple[str, ...]) -> bool:
        """Whether the outputs are there and of this plan."""
        path = self._voucher(stage, names)
        try:
            made = _fingerprint(self._places, path)
        except (OSError, ValueError, KeyError, TypeError):
            return False
        return made == getattr(self._plan, stage)(*names).fingerprint

    def _voucher(self, stage: str, names: tuple[str, ...]) -> str:
        """The output that says of what plan all outputs of a job are; image stores may be deleted."""
        return f"{self._results}/{_VOUCHERS[stage].format(*names)}"

    def _all_there(self, folders: list[str]) -> bool:
        return all(Path(self._places.copy(folder)).is_dir() for folder in folders)


_VOUCHERS = {"prepare": "images/{}/card.json", "extract": "features/{}/{}/train.zarr"}


def _fingerprint(places: Places, path: str) -> str:
    """Of the plan that a card or a store was made from."""
    if path.endswith(".zarr"):
        return json.loads(places.read(f"{path}/zarr.json"))["attributes"]["fingerprint"]
    return json.loads(places.read(path))["fingerprint"]


def _names(folder: str, count: int) -> list[str]:
    return [f"{folder}/{number}-of-{count}" for number in range(count)] if count > 1 else []
