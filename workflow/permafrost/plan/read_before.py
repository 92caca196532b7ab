"""What existing outputs were made from, compared with what is there now, for a plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from permafrost.core.read_files import Data, Here, changed, place_of, records, shown
from permafrost.core.text import shortened

# jobs that are listed, and letters of the files of each
_SHOWN, _LONGEST = 20, 200


class ReadBefore:
    """What the existing outputs of a folder of results were made from, as far as it is not declared.

    Parameters
    ----------
    results : folder of the results.
    here : digests of now.
    data : path of a record -> gives the digest of the files of the dataset's source.
    """

    def __init__(self, results: Path, here: Here, data: Mapping[str, Data]) -> None:
        self._records = dict(records(results))
        # all files are looked at here, so that a plan reads none later
        self._changed = {
            place: changed(record, here, data.get(place)) for place, record in self._records.items()
        }
        self.changes: dict[str, list[str]] = {}

    def __bool__(self) -> bool:
        return bool(self._records)

    def planned(self, spec: Mapping[str, Any], base: str) -> dict[str, str] | None:
        """``read`` of a job's specification; None: it has none.

        Parameters
        ----------
        base : fingerprint of the job without it.
        """
        place = place_of(spec)
        record = self._records.get(place)
        if record is None or record.base not in (base, ""):
            return None
        if different := self._changed[place]:
            self.changes[place] = sorted(different)
            return {**record.found, **different}
        return record.planned if record.base else record.found


def change_lines(changes: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Lines for a terminal: which jobs run again, and which files they had read.

    Parameters
    ----------
    changes : from `ReadBefore`.
    """
    if changes:
        yield f"Run again: {len(changes)} job{'s' * (len(changes) > 1)} whose files have changed"
    for number, (place, keys) in enumerate(sorted(changes.items())):
        if number == _SHOWN:
            yield f"  and {len(changes) - _SHOWN} more"
            return
        yield f"  {place.removesuffix('.json')}: {shortened(shown(keys), _LONGEST)}"
