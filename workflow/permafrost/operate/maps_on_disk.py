"""Remove feature stores with maps after use, and bound how many are on disk during a run."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from permafrost.core.errors import PermafrostError
from permafrost.core.snakemake_internals import (
    choose_among,
    dependent_jobs,
    jobs_of_rules,
    readers_left,
    remove_after_use,
    running_jobs,
)
from permafrost.core.specification import SPLITS
from permafrost.core.text import bytes_of, bytes_words
from permafrost.operate.estimate.sizes import dataset_size, size_of_features, store_bytes
from permafrost.plan.grid import Grid
from permafrost.plan.parts import FOLDER

Pair = tuple[str, str]


def limit_maps(
    workflow,
    grid: Grid,
    results: str,
    rules: tuple[str, ...],
    parts: tuple[str, ...],
    *,
    on_store: bool,
) -> None:
    """Do what ``runtime.keep_maps`` says; call it before the first job starts.

    Parameters
    ----------
    results : the folder of the outputs.
    rules, parts : names of the rules that extract features, and parts of them.
    on_store : whether results are on an object store.

    Raises
    ------
    PermafrostError : results are on an object store.
    """
    keep = grid.config["runtime"]["keep_maps"]
    if keep is True:
        return
    if on_store:
        raise PermafrostError(
            "maps on an object store are not removed",
            where="runtime.keep_maps",
            remedy="set keep_maps: true, or results in a folder",
        )
    mapped = set(grid.mapped())
    jobs = {
        _pair_of(job): job
        for job in jobs_of_rules(workflow, rules)
        # a target such as `features` has no output, and asks for the stores themselves
        if _pair_of(job) in mapped and all(one.output for one in dependent_jobs(workflow, job))
    }
    remove_after_use(jobs.values())
    jobs = {pair: jobs[pair] for pair in _parents_first(list(jobs), grid)}
    if keep is not False:
        size = _expected(grid, Path(results))
        choose_among(
            workflow,
            MapsOnDisk(workflow, jobs, rules + parts, results, bytes_of(keep), size).allowed,
        )


def _parents_first(pairs: list[Pair], grid: Grid) -> list[Pair]:
    """Each pair, then those with harder images, which read its maps: their maps are removed before others begin."""
    places = {pair: place for place, pair in enumerate(pairs)}

    def order(pair: Pair) -> tuple[int, bool]:
        origin = grid.origins[pair[0]][0] if pair[0] in grid.harder else pair[0]
        return places.get((origin, pair[1]), places[pair]), origin != pair[0]

    return sorted(pairs, key=order)


def lacks_layers(grid: Grid, results: str, dataset: str, backbone: str) -> bool:
    """Whether a store of the pair is on disk, and lacks maps that a probe of this plan reads."""
    path = Path(results, "features", dataset, backbone, f"{SPLITS[0]}.zarr", "zarr.json")
    try:
        about = json.loads(path.read_bytes())["attributes"]
        left_out = {one["name"] for one in about["left_out"]}
        # coarse to fine, as when the layers were chosen
        every = sorted(
            [*about["layers"], *about["left_out"]], key=lambda one: int(one["array"][3:])
        )
    except (OSError, ValueError, KeyError):
        return False
    kept = grid.kept_layers(dataset, backbone)
    if kept is None:
        return True
    heights = {one["name"]: one["height"] for one in every}
    return not left_out.isdisjoint(kept.chosen(heights, about["working_size"][0]))


def _pair_of(job) -> Pair:
    return job.wildcards.dataset, job.wildcards.backbone


def _expected(grid: Grid, results: Path) -> Callable[[Pair], float]:
    """Function that estimates the bytes of a pair's feature stores, for prepared datasets."""
    known: dict[Pair, float] = {}

    def expected(pair: Pair) -> float:
        if pair not in known:
            card = results / "images" / pair[0] / "card.json"
            size = dataset_size(grid.datasets[pair[0]], card)
            features = size_of_features(grid, size, *pair, results)
            alone = pair[0] in grid.harder
            known[pair] = store_bytes(size, features, grid.config["extraction"], test_alone=alone)
        return known[pair]

    return expected


class MapsOnDisk:
    """Holds extractions back while the maps on disk and those being written reach a bound.

    Parameters
    ----------
    jobs : the extraction of each pair with maps.
    rules : names of the rules that write maps. results : as in `limit_maps`.
    most : bytes of maps on disk.
    expected : estimates the bytes of a pair's stores.
    """

    def __init__(
        self,
        workflow,
        jobs: dict[Pair, Any],
        rules: tuple[str, ...],
        results: str,
        most: float,
        expected: Callable[[Pair], float],
    ) -> None:
        self._workflow, self._jobs, self._rules, self._results = workflow, jobs, rules, results
        self._most, self._expected = most, expected
        self._perhaps = set(jobs)  # may be on disk
        self._order = {pair: place for place, pair in enumerate(jobs)}

    def allowed(self, ready: Iterable) -> list:
        """The jobs that may start: all but extractions for which there is no room."""
        running = running_jobs(self._workflow)
        at_work = set().union(*map(self._pairs, running))
        held = self._held(at_work)
        allowed: list[Any] = []
        waiting: list[Any] = []
        for job in ready:
            (allowed if self._pairs(job) <= held.keys() else waiting).append(job)
        waiting.sort(key=lambda job: min(self._order[pair] for pair in self._pairs(job)))
        allowed += self._that_fit(waiting, held)
        if not allowed and not running and waiting:
            self._make_room(held)
            held = self._held(at_work)
            allowed = self._that_fit(waiting, held) or [self._too_large(waiting[0], held)]
        self._perhaps |= set().union(*map(self._pairs, allowed))
        return allowed

    def _pairs(self, job) -> set[Pair]:
        """The pairs whose maps a job, or a group of jobs, writes."""
        members = job.jobs if job.is_group() else [job]
        return {
            pair
            for one in members
            if one.rule.name in self._rules and (pair := _pair_of(one)) in self._jobs
        }

    def _held(self, at_work: set[Pair]) -> dict[Pair, float]:
        """Pair -> bytes of its maps that are on disk or being written."""
        held: dict[Pair, float] = {}
        for pair in sorted(self._perhaps, key=self._order.__getitem__):
            stores = [str(path) for path in self._jobs[pair].output]
            if pair in at_work or os.path.exists("/".join((self._results, FOLDER, *pair))):
                held[pair] = self._expected(pair)
            elif any(map(os.path.exists, stores)):
                held[pair] = sum(map(_bytes_below, stores))
        self._perhaps = set(held)
        return held

    def _that_fit(self, waiting: list, held: dict[Pair, float]) -> list:
        """The first of the waiting jobs whose maps fit into the room that is left."""
        used, fit, counted = sum(held.values()), [], set(held)
        for job in waiting:
            new = self._pairs(job) - counted
            wanted = sum(map(self._expected, new))
            # in order, so that large maps do not wait for ever behind small ones
            if used + wanted > self._most:
                break
            used, counted = used + wanted, counted | new
            fit.append(job)
        return fit

    def _make_room(self, held: dict[Pair, float]) -> None:
        """Delete the maps that no job of this run will read: of failed jobs, and of earlier runs."""
        for pair in held:
            if not readers_left(self._workflow, self._jobs[pair]):
                for path in self._jobs[pair].output:
                    shutil.rmtree(path, ignore_errors=True)

    def _too_large(self, job, held: dict[Pair, float]):
        """The job, whose maps do not fit even if nothing else runs; prints what exceeds the bound."""
        pairs = self._pairs(job)
        names = ", ".join(f"{backbone} on {dataset}" for dataset, backbone in pairs)
        wanted = bytes_words(sum(map(self._expected, pairs)))
        used = (
            f", {bytes_words(sum(held.values()))} of others wait for the same job" if held else ""
        )
        print(
            f"permafrost: runtime.keep_maps ({bytes_words(self._most)}) is exceeded: "
            f"the maps of {names} take about {wanted}{used}",
            file=sys.stderr,
        )
        return job


def _bytes_below(folder: str) -> int:
    return sum(
        (Path(place) / name).stat().st_size for place, _, names in os.walk(folder) for name in names
    )
