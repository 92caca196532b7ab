"""Check that a backbone's files, modules and package are still those of the plan."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from permafrost.backbones.backbone import Backbone
from permafrost.backbones.digest import embeddings_read
from permafrost.backbones.imported import loaded_modules
from permafrost.backbones.located import Located
from permafrost.core.errors import PermafrostError
from permafrost.core.promised import Promised
from permafrost.data.files.folders import Read, content_digest, content_state
from permafrost.features.specification import BackboneSpec


class PromisedBackbone:
    """The expected identity of a backbone: its files, the project's modules that it loads, its package.

    Create it before the backbone is built, since it records which modules are loaded. Call `check`
    before building, after building, and before a result is sealed.

    Parameters
    ----------
    spec : with ``files`` and ``package``; without them, as in a job written by hand, nothing is
        checked.
    where : the backbone's name in errors.
    digest_of : computes the digest of a file, or of the files in a folder that are read.
    """

    def __init__(
        self,
        spec: BackboneSpec,
        where: str,
        digest_of: Callable[[str, Read | None], str] = content_digest,
    ) -> None:
        self._where = where
        self._files: dict[str, str] = spec.files
        self._package: dict[str, str] = spec.package
        entrypoint = str(spec.entry.get("entrypoint") or "").rpartition(":")[0]
        self._entrypoint = entrypoint or str(spec.entry.get("model_file") or "")
        self._before = set(sys.modules)
        read = embeddings_read(spec.entry)
        self._promised = [
            Promised(
                f"the file {path}" if read is None else f"{path} with its embeddings",
                digest,
                partial(digest_of, path, read),
                partial(content_state, path, read),
                where=where,
            )
            for path, digest in self._files.items()
        ]

    def check(self, backbone: Backbone | Located | None = None) -> None:
        """Compare files, modules, package and, if `backbone` is given, its weights with the plan.

        Raises
        ------
        PermafrostError : something changed since the plan was made, or is missing in the plan.
        """
        for promised in self._promised:
            promised.check()
        self._check_package()
        if self._entrypoint and (self._files or self._package):
            self._check_modules()
        loaded = backbone.weights_sha256 if backbone is not None else None
        if self._files and loaded is not None and loaded not in self._files.values():
            raise PermafrostError(
                "the weights file changed since this run was planned",
                where=self._where,
                remedy="start snakemake again",
            )

    def _check_package(self) -> None:
        for name, planned in self._package.items():
            try:
                found = version(name)
            except PackageNotFoundError:
                found = "not installed"
            if found != planned:
                raise PermafrostError(
                    f"the package {name} was planned as {planned}, and is {found} here",
                    where=self._where,
                    remedy="install the planned version, or start snakemake again",
                )

    def _check_modules(self) -> None:
        folders = [Path.cwd()]
        if self._entrypoint.endswith(".py"):
            folders.append(Path(self._entrypoint).parent)
        else:
            package = sys.modules.get(self._entrypoint.partition(".")[0])
            folders += map(Path, getattr(package, "__path__", ()))
        known = {Path(path).resolve() for path in self._files}
        loaded = loaded_modules(self._before, folders)
        strangers = sorted({path for path in loaded.values() if path.resolve() not in known})
        if strangers:
            shown = [_shown(path) for path in strangers]
            raise PermafrostError(
                f"the entry point loads {', '.join(shown)}, which is not in its import statements",
                where=self._where,
                remedy=f"list it in the entry: `files: [{', '.join(shown)}]`",
            )


def _shown(path: Path) -> str:
    here = Path.cwd()
    return (path.relative_to(here) if path.is_relative_to(here) else path).as_posix()
