"""Results on an object store, through Snakemake's storage plugins, and their local copies.

With ``--default-storage-provider``, every file of a rule is an object of the store. A job reads and
writes copies in a local folder, which Snakemake downloads before and uploads afterwards. A command
that gets a folder of results, not single files, must therefore get the folder of the copies.
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

# an object of a store in Snakemake's messages
_SHOWN = re.compile(r"(.+) \((?:in|send to|retrieve from) storage\)")


def check_archive(places: Places, asked: Iterable[str]) -> None:
    """Refuse to pack an archive of results that are on an object store.

    Parameters
    ----------
    asked : names of the rules that will run.
    """
    if places.on_store and "archive" in asked:
        raise PermafrostError(
            "an archive is packed from files, but these results are on an object store",
            remedy="copy them into this folder, then run `permafrost archive` (docs/clusters.md)",
        )


class Places:
    """Where results are: in their folder, or on an object store with copies on this machine.

    Parameters
    ----------
    workflow : Snakemake's.
    results : folder of the results, relative to the working folder.

    Attributes
    ----------
    on_store : whether results are on an object store.
    folder : local folder that jobs on this machine read and write.

    Raises
    ------
    PermafrostError : results are on an object store, and `results` is outside the working folder.
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
        """A result file's name in Snakemake's records: its address on the store, or its path."""
        return self._object(path).query if self.on_store else path

    def copy(self, path: str) -> str:
        """The local path of a result file."""
        return str(self._object(path).local_path()) if self.on_store else path

    def read(self, path: str) -> bytes:
        """The bytes of one result file, downloaded if it is on a store.

        Raises
        ------
        OSError : the file does not exist, or cannot be read or downloaded.
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
            except Exception as error:  # each plugin raises its own types
                raise OSError(f"{wanted.print_query}: {error}") from error
            return copy.read_bytes()

    def _object(self, path: str):
        """Snakemake's storage object of a path, with the same name as in its rules."""
        prefix = (
            self._prefix if not self._prefix or self._prefix.endswith("/") else f"{self._prefix}/"
        )
        return self._provider.object(f"{prefix}{os.path.normpath(path)}")


def is_there(file) -> bool:
    """Whether a file of a job exists, on its store or on this machine."""
    if getattr(file, "is_storage", False):
        return file.storage_object.exists()
    return Path(file).exists()


def bring(file, *, since: float) -> None:
    """Download a job's file if it is only on a store, and was written after `since`.

    Parameters
    ----------
    since : seconds since 1970.
    """
    if getattr(file, "is_storage", False):
        _bring(file.storage_object, since)


def bring_shown(workflow, shown: str, *, since: float) -> str:
    """Like `bring`, for a file as Snakemake's messages name it; returns its local path."""
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
    ):  # each plugin raises its own types; a missing log is not an error
        if not copy.exists() and wanted.exists() and wanted.mtime() >= since:
            copy.parent.mkdir(parents=True, exist_ok=True)
            wanted.retrieve_object()
