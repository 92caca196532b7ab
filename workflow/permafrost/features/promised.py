"""Check that a backbone's files and package are still those of the plan."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version

from permafrost.backbones.backbone import Backbone
from permafrost.backbones.digest import embeddings_read
from permafrost.backbones.located import Located
from permafrost.core.errors import PermafrostError
from permafrost.core.opened import declare
from permafrost.core.promised import Promised
from permafrost.data.files.folders import Read, content_digest, content_state
from permafrost.features.specification import BackboneSpec


class PromisedBackbone:
    """The expected identity of a backbone: its files with the modules that it imports, its package.

    Call `check` before building, after building, and before a result is sealed.

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
        read = embeddings_read(spec.entry)
        for path in self._files:
            declare(path, read)
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
        """Compare files, package and, if `backbone` is given, its weights with the plan.

        Raises
        ------
        PermafrostError : something changed since the plan was made.
        """
        for promised in self._promised:
            promised.check()
        self._check_package()
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
