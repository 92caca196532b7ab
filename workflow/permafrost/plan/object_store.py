"""Results on an object store: what Snakemake's storage plugins keep there, and where its jobs find copies of it.

With ``--default-storage-provider``, every file of a rule is an object of the store. A job reads and writes copies in
a folder of its machine, which Snakemake fetches before and stores afterwards. So a command that is told a folder of
results, rather than files of it, must be told the folder of the copies.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.snakemake_internals import default_storage

# how Snakemake's messages name what lies on a store
_SHOWN = re.compile(r"(.+) \((?:in|send to|retrieve from) storage\)")


def check_archive(places: Places, asked: Iterable[str]) -> None:
    """Refuse to pack an archive of what is not on this machine.

    Parameters
    ----------
    asked : the rules that are to run.
    """
    if places.on_store and "archive" in asked:
        raise PermafrostError(
            "an archive is packed from files, but these results are on an object store",
            remedy="copy them into this folder, then run `permafrost archive` (docs/clusters.md)",
        )


class Places:
    """Where results lie: in their folder, or on an object store and as copies on this machine.

    Parameters
    ----------
    workflow : Snakemake's.
    results : folder of the results, from the working folder.

    Attributes
    ----------
    on_store : whether results lie on an object store.
    folder : where the jobs of this machine find and leave them.
    """

    def __init__(self, workflow, results: str) -> None:
        self._provider, self._prefix = default_storage(workflow)
        self.on_store = self._provider is not None
        self.folder = results
        if self.on_store:
            if os.path.isabs(results) or ".." in Path(results).parts:
                raise PermafrostError(
                    f"with an object store, results are below its prefix, not in {results}",
                    where="results",
                    remedy="name a folder in the working folder, such as `results: results`",
                )
            self.folder = str(self._object(results).local_path())

    def stored(self, path: str) -> str:
        """What Snakemake's records call a file of the results: its address on the store, or its path."""
        return self._object(path).query if self.on_store else path

    def copy(self, path: str) -> str:
        """Where this machine's jobs find a file of the results."""
        return str(self._object(path).local_path()) if self.on_store else path

    def read(self, path: str) -> bytes:
        """The bytes of one file of the results, wherever it lies.

        Raises
        ------
        OSError : there is none, or the store does not give it.
        """
        if not self.on_store:
            return Path(path).read_bytes()
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "copy"
            wanted = self._object(path)
            wanted.set_local_path(copy)
            try:
                if not wanted.exists():
                    raise FileNotFoundError(path)
                wanted.retrieve_object()
            except OSError:
                raise
            except Exception as error:  # each plugin has errors of its own
                raise OSError(f"{wanted.print_query}: {error}") from error
            return copy.read_bytes()

    def _object(self, path: str):
        """Snakemake's storage object of a path, named as its rules name it."""
        prefix = (
            self._prefix if not self._prefix or self._prefix.endswith("/") else f"{self._prefix}/"
        )
        return self._provider.object(f"{prefix}{os.path.normpath(path)}")


def is_there(file) -> bool:
    """Whether a file of a job exists, on the store that it belongs to or here."""
    if getattr(file, "is_storage", False):
        return file.storage_object.exists()
    return Path(file).exists()


def bring(file, *, since: float) -> None:
    """Fetch a file of a job that lies on a store and not here, if it was written since then.

    Parameters
    ----------
    since : seconds since 1970.
    """
    if getattr(file, "is_storage", False):
        _bring(file.storage_object, since)


def bring_shown(workflow, shown: str, *, since: float) -> str:
    """The same for a file as Snakemake's messages name it; returns where it lies here."""
    provider, _ = default_storage(workflow)
    address = _SHOWN.fullmatch(shown)
    if provider is None or address is None:
        return shown
    wanted = provider.object(address[1])
    _bring(wanted, since)
    return str(wanted.local_path())


def _bring(wanted, since: float) -> None:
    copy = wanted.local_path()
    with contextlib.suppress(
        Exception
    ):  # each plugin has errors of its own; a log that is not there is none
        if not copy.exists() and wanted.exists() and wanted.mtime() >= since:
            copy.parent.mkdir(parents=True, exist_ok=True)
            wanted.retrieve_object()
