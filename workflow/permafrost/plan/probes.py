"""What the plan must know of probes: what they leave, whether chance plays a part, whether they serve the datasets."""

from __future__ import annotations

from permafrost.core.errors import PermafrostError
from permafrost.plan.mistakes import Mistakes
from permafrost.probes.kinds import KINDS

#: folder of results for predicted masks, which probes leave beside their table where they are asked to
MASKS = "masks"


def leaves(options: dict) -> str | None:
    """The folder of results in which a probe with these options leaves a second output; None: none."""
    asked = MASKS if options.get("masks", "none") != "none" else None
    return KINDS[options["kind"]].leaves or asked


def is_seeded(options: dict) -> bool:
    """Whether a probe with these options draws random numbers."""
    return KINDS[options["kind"]].seeded or options.get("solver") == "adam"


def check_probes(
    probes: dict, datasets: dict, named: list[str] | None, where: str, mistakes: Mistakes
) -> None:
    """Every dataset needs a probe that serves its task, and every probe a dataset.

    Parameters
    ----------
    probes, datasets : options and entries by name, of those that can be used.
    named : the datasets that the configuration asks for; None where that is not known.
    """
    for task in dict.fromkeys(entry["task"] for entry in datasets.values()):
        if not any(task in KINDS[options["kind"]].tasks for options in probes.values()):
            unserved = [repr(name) for name, entry in datasets.items() if entry["task"] == task]
            mistakes.add(_no_probe(task, unserved, where))
    if named is None or len(datasets) < len(named):
        # a dataset that cannot be used may be the one that a probe is for
        return
    tasks = {entry["task"] for entry in datasets.values()}
    for name, options in probes.items():
        served = KINDS[options["kind"]].tasks
        if not tasks & served:
            problem = (
                f"the probe {name!r} of kind {options['kind']} serves none of the datasets, whose"
                f" tasks are {', '.join(sorted(tasks))}"
            )
            remedy = f"add a dataset of the task {' or '.join(sorted(served))}, or remove the probe"
            mistakes.add(PermafrostError(problem, where=f"{where}: probes.{name}", remedy=remedy))


def _no_probe(task: str, datasets: list[str], where: str) -> PermafrostError:
    able = sorted(kind for kind, known in KINDS.items() if task in known.tasks)
    return PermafrostError(
        f"no probe of this configuration serves the task {task!r} of dataset"
        f"{'s' if len(datasets) > 1 else ''} {' and '.join(datasets)}",
        where=f"{where}: probes",
        remedy=f"add a probe of kind {' or '.join(able)}" if able else "drop the dataset",
    )
