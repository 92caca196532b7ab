"""What the profile of a backbone is told, from the configuration's `profile`."""

from __future__ import annotations

from permafrost.core.errors import PermafrostError

#: stands in the leaderboard where a score has the name of its probe
NAME = "profile"
#: options of extraction that change only what is written
_OF_WRITING = frozenset({"dtype"})


def profiling(config: dict, *, where: str) -> dict | None:
    """The options of the stage that a complete configuration asks for, or None: nothing is profiled.

    Device and threads are no part of them (threads only where they are given): a profile is of the machine
    it was made on, which it names, and another machine makes none anew.

    Raises
    ------
    PermafrostError : a probe has the name under which profiles stand in the leaderboard.
    """
    options = config["profile"]
    if options is not None and config["probes"].get(NAME):
        raise PermafrostError(
            f"a probe is called {NAME!r}, as the profiles are in the leaderboard",
            where=f"{where}: probes.{NAME}",
            remedy="give the probe another name",
        )
    return options


def of_forward_pass(extraction: dict) -> dict:
    """The options of extraction that change what the forward pass costs."""
    return {key: value for key, value in extraction.items() if key not in _OF_WRITING}
