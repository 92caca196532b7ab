"""Preview of a drafted dataset for `permafrost new`: thumbnails, and a baseline's score."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from permafrost.backbones.input.fed import formula, values_words
from permafrost.core.errors import PermafrostError
from permafrost.core.home import HOME
from permafrost.core.memory import keep_freed_memory
from permafrost.core.specification import SPLITS
from permafrost.core.tasks import targets_of
from permafrost.probes.kinds import KINDS
from permafrost.report.explanations.gates import explain_at_length
from permafrost.report.figures.style import save_figure
from permafrost.report.notation import interval_of, number
from permafrost.stages.cli import main
from permafrost.statistics.leaderboard.rows import gates_of, metric_name, overall

if TYPE_CHECKING:
    from permafrost.operate.drafts import Entry
    from permafrost.plan.plan import Plan

# largest number of images of each split, for thumbnails and for a score
_SHEET, _TRIAL = 96, 2000
#: the first that fits is scored
_BASELINES = ("imagestats", "imagestats-all")
_NEIGHBOURS: dict[str, dict[str, Any]] = {
    "5-nn": {"kind": "knn", "k": 5},
    "5-nn-patches": {"kind": "dense_knn", "k": 5},
}
# a plan needs a probe, and for detection there is none by nearest neighbours
_OBJECTS = {"objects": {"kind": "detection"}}
_SIZE = 224


@dataclass(frozen=True)
class FirstLook:
    """A prepared draft.

    Attributes
    ----------
    plan : of the draft alone, with baselines and nearest neighbours.
    name : of the dataset.
    folder : temporary folder with the results.
    """

    plan: Plan
    name: str
    folder: Path

    @property
    def card(self) -> Path:
        return self.folder / "results" / "images" / self.name / "card.json"

    def store(self, stage: str, split: str) -> Path:
        return self.folder / "results" / stage / f"{split}.zarr"

    def write_sheet(self, file: Path, source: str) -> None:
        """Write thumbnails, with the names of their labels, to a PNG file."""
        from permafrost.data.store.card import read_card
        from permafrost.report.material.examples import draw_sheet

        figure = draw_sheet(
            read_card(self.card), self.store(f"images/{self.name}", "train"), source=source
        )
        save_figure(figure, file.with_suffix(""))

    def fed_lines(self) -> list[str]:
        """The input of the baseline: the formula of each channel from stored values."""
        from permafrost.data.store.card import read_card
        from permafrost.operate.offers import Offers, planned_input
        from permafrost.plan.catalogue import Catalogue

        content = {self.name: self.plan.datasets[self.name]}
        offers = Offers(
            Catalogue("dataset", [], content, self.folder),
            Catalogue("backbone", [HOME / "config"], {}, self.folder),
            self.folder,
            self.folder / "data",
            {"extraction": {"size": _SIZE}},
        )
        backbone = self.baseline()
        plan = planned_input(offers, self.name, backbone, read_card(self.card))
        units = self.plan.datasets[self.name].get("units") or "of each sensor"
        channels = ", ".join(
            f"{one.name} = {formula(one, plan.normalization)}" for one in plan.channels
        )
        return [
            f"units    {_flow(units)}",
            f"fed      to {backbone}: {values_words(plan)}; {channels}",
        ]

    def baseline(self) -> str:
        return self.plan.backbones_on(self.name)[0]

    def score(self) -> list[str]:
        """Score the baseline by nearest neighbours as in a run; lines with score and interval."""
        from permafrost.core.tables import read_table
        from permafrost.data.store.card import read_card
        from permafrost.plan.record import record_plan

        probes = [one for one in self.plan.probes_of(self.name) if one in _NEIGHBOURS]
        if not probes:
            task = self.plan.datasets[self.name]["task"]
            return [f"no number: {task} has no probe by nearest neighbours; run its probes instead"]
        backbone, probe = self.baseline(), probes[0]
        recorded = record_plan(self.plan, str(self.folder / "results"))
        names = self.name, backbone
        features = [self.store(f"features/{self.name}/{backbone}", split) for split in SPLITS]
        made = [self.folder / f"results/{one}.parquet" for one in ("predictions", "scores")]

        def run(stage: str, job, *arguments) -> None:
            _command([stage, "--job", job.fingerprint, "--plan", recorded, *map(str, arguments)])

        run("extract", self.plan.extract(*names), "--card", self.card, "--output", *features)
        job = self.plan.probe(*names, probe, 0)
        kind = self.plan.probes[probe]["kind"]
        run(kind, job, "--features", *features, "--output", made[0])
        scores = self.plan.bootstrap(*names, probe, 0)
        run("bootstrap", scores, "--predictions", made[0], "--output", made[1])
        row = overall(read_table(made[1])[0].to_pylist())[0]
        card = read_card(self.card)
        images = ", ".join(f"{card.splits[split]['count']} {split}" for split in SPLITS)
        return [
            f"images   {images}; split by {card.split_method}",
            f"score    {metric_name(row['metric'])} {number(row['value'])} {interval_of(row)}: 5 nearest neighbours of"
            f" {backbone}, {100 * row['confidence']:g} % interval over {row['n_units']} {row['unit']}s",
            *(f"look at  {explain_at_length(gate)}" for gate in gates_of(row)),
        ]


@contextlib.contextmanager
def first_look(entry: Entry, *, whole: bool) -> Iterator[FirstLook]:
    """Prepare images of a draft in a temporary folder.

    Parameters
    ----------
    whole : up to 2,000 images of each split, for `FirstLook.score`; else 96, for thumbnails.

    Raises
    ------
    PermafrostError : a run would refuse the entry or its data.
    """
    from permafrost.data.store.prepare import PrepareSpec, prepare
    from permafrost.plan.catalogue import result_fields
    from permafrost.plan.plan import Plan

    keep_freed_memory()
    with tempfile.TemporaryDirectory(prefix="permafrost-new-") as made:
        folder = Path(made)
        content = entry.located
        if not whole and not targets_of(content["task"]).numbers:
            # a few images may not contain all classes
            content = {**content, "allow_missing_classes": True}
        config = {
            "catalogues": ["{permafrost}/config"],
            "backbones": list(_BASELINES),
            "datasets": [entry.name],
            "extra_datasets": {entry.name: content},
            "probes": _probes(content["task"]),
            "extraction": {"size": _SIZE},
        }
        # jobs look for the cache of digests below their working directory
        with contextlib.chdir(folder):
            look = FirstLook(Plan(config, folder, where=entry.where), entry.name, folder)
            prepare(
                PrepareSpec(
                    dataset=entry.name, entry=result_fields(look.plan.datasets[entry.name])
                ),
                outputs={split: look.store(f"images/{entry.name}", split) for split in SPLITS},
                card_path=look.card,
                fingerprint=look.plan.prepare(entry.name).fingerprint,
                most=_TRIAL if whole else _SHEET,
            )
            yield look


def _probes(task: str) -> dict[str, dict]:
    serving = {n: one for n, one in _NEIGHBOURS.items() if task in KINDS[one["kind"]].tasks}
    return serving or _OBJECTS


def _command(arguments: list[str]) -> None:
    """Run a job's command in this process without its output; raises its error."""
    said = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
        status = main(arguments)
    if status:
        raise PermafrostError(said.getvalue().strip() or f"{arguments[0]} failed", where="--try")


def _flow(value) -> str:
    import yaml

    if isinstance(value, str):
        return value
    return yaml.safe_dump(value, default_flow_style=True, sort_keys=False).strip()
