"""Published results that a configuration names: their fingerprints and checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.plan.mistakes import Mistakes

# (column of the published table, key that maps its names to names of this run)
_SAME = (("backbone", "backbones"), ("dataset", "datasets"), ("method", "methods"))


def named_published(config: Mapping) -> list[dict]:
    """The entries of ``published`` with defaults; a plain path becomes an entry with that file."""
    entries = []
    for given in config.get("published") or ():
        entry = {"file": given} if isinstance(given, str) else given
        entries.append(
            {
                "source": Path(entry["file"]).name,
                "url": "",
                "date": "",
                "duplicates": "refuse",
                **{names: {} for _, names in _SAME},
                **entry,
            }
        )
    return entries


def identify_published(
    config: Mapping, locate: Callable[[str], Path], digest: Callable[[Path], str], where: str
) -> tuple[list[dict], list[str]]:
    """The identities (entry with digest, without path) of the files, and their paths.

    Parameters
    ----------
    locate : gives the path of a file that an entry names.
    digest : gives the SHA-256 of a file.

    Raises
    ------
    PermafrostError : a file cannot be read.
    """
    identities, places = [], []
    for number, entry in enumerate(named_published(config), start=1):
        path = locate(entry.pop("file"))
        try:
            entry["digest"] = digest(path)
        except PermafrostError as error:
            raise PermafrostError(
                error.problem,
                where=f"{where}: published, entry {number}",
                remedy="correct file, or leave the entry out",
            ) from error
        identities.append({**entry, "name": path.name})
        places.append(str(path))
    return identities, places


def check_published(
    entries: list[dict],
    places: list[str],
    own: Mapping[str, Iterable[str]],
    where: str,
    mistakes: Mistakes,
) -> None:
    """Add unreadable files, repeated sources and unknown names to `mistakes`.

    Parameters
    ----------
    entries, places : from `identify_published`.
    own : names of ``backbones``, ``datasets`` and ``methods`` of the run.
    """
    if not entries:
        return
    from permafrost.statistics.leaderboard.published import read_published
    from permafrost.statistics.leaderboard.published_table import wrong_names

    sources = [entry["source"] for entry in entries]
    for source in sorted({one for one in sources if sources.count(one) > 1}):
        mistakes.add(
            PermafrostError(
                f"two entries have the source {source!r}",
                where=f"{where}: published",
                remedy="give each its own source",
            )
        )
    for number, (entry, path) in enumerate(zip(entries, places, strict=True), start=1):
        with mistakes.gathered():
            rows = read_published(path, duplicates=entry["duplicates"]).rows
            for what, names in _SAME:
                place = f"{where}: published, entry {number}, {names}"
                mistakes.add(*wrong_names(what, entry[names], rows, own[names], place))
