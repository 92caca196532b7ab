"""Find out what a torchgeo dataset class would download and unpack, without a network.

The class is built while its functions for downloading, unpacking and calling programs are replaced
by functions that only record the call. This works for every class of torchgeo, with the addresses
and checksums of the installed version.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from permafrost.core.errors import PermafrostError, first_line
from permafrost.data.download.hub import mirrored
from permafrost.data.download.steps import Get, Step, Unpack
from permafrost.data.sources.torchgeo_samples import arguments_of, dataset_class

_SPLITS = ("train", "val", "test")


@dataclass
class Asked:
    """What the class requested.

    Attributes
    ----------
    steps : downloads and archives to unpack, in order.
    programs : command lines of programs that the class would call, such as azcopy.
    problem : error message if the class could not be built in the end; None if it could.
    """

    steps: list[Step] = field(default_factory=list)
    programs: list[str] = field(default_factory=list)
    problem: str | None = None

    def add(self, step: Step) -> None:
        if step not in self.steps:
            self.steps.append(step)


def ask_torchgeo(entry: dict, root: Path, *, where: object) -> Asked:
    """What is missing below `root`; the data are complete if there are no steps, programs and problem.

    If `root` is missing or empty, the class is built in a temporary folder, because some classes
    create folders before they search for data.

    Parameters
    ----------
    entry : of a dataset with a torchgeo source.
    root : replaces the entry's root.
    """
    if root.is_dir() and any(root.iterdir()):
        return _ask(entry, root, where)
    with tempfile.TemporaryDirectory() as scratch:
        asked = _ask(entry, Path(scratch), where)
        return Asked(
            [_moved(step, Path(scratch), root) for step in asked.steps],
            [command.replace(scratch, str(root)) for command in asked.programs],
            asked.problem and asked.problem.replace(scratch, str(root)),
        )


def _moved(step: Step, old: Path, new: Path) -> Step:
    places: dict[str, Any] = {
        name: new / place.relative_to(old)
        for name, place in vars(step).items()
        if isinstance(place, Path)
    }
    return replace(step, **places)


def _ask(entry: dict, root: Path, where: object) -> Asked:
    source, asked = entry["source"], Asked()
    cls = dataset_class(source["name"], where)
    known = arguments_of(cls)
    given = {**source.get("arguments", {}), "root": str(root)}
    given |= {"download": True} if known is None or "download" in known else {}
    per_split = source.get("split_arguments") or {split: {"split": split} for split in _SPLITS}
    with contextlib.ExitStack() as replaced:
        for owner, name, stand_in in list(_stand_ins(asked, root)):
            replaced.enter_context(_replaced(owner, name, stand_in))
        for arguments in per_split.values():
            try:
                cls(**given, **arguments)
            except PermafrostError:
                raise
            # classes fail in many ways if the files to download are missing
            except Exception as error:
                asked.problem = first_line(error, named=True)
    return asked


def _stand_ins(asked: Asked, root: Path) -> Iterator[tuple[object, str, Callable]]:
    """(owner, name, function) of all replacements: classes import these functions by name."""
    import torchgeo.datasets.utils as library

    stand_ins = {
        "download_url": _downloader(library.download_url, asked, root, unpacks=False),
        "download_and_extract_archive": _downloader(
            library.download_and_extract_archive, asked, root, unpacks=True
        ),
        "extract_archive": _unpacker(library.extract_archive, asked, root),
        "which": _program(asked),
    }
    for title, module in list(sys.modules.items()):
        if title.startswith("torchgeo.datasets"):
            for name, stand_in in stand_ins.items():
                if getattr(module, name, None) is getattr(library, name):
                    yield module, name, stand_in
    yield socket, "getaddrinfo", _no_network
    yield socket.socket, "connect", _no_network


def _downloader(original: Callable, asked: Asked, root: Path, *, unpacks: bool) -> Callable:
    signature = inspect.signature(original)

    def download(*args, **kwargs) -> None:
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        said = given.arguments
        folder = os.path.expanduser(said["download_root" if unpacks else "root"])
        path = os.path.join(folder, said["filename"] or os.path.basename(said["url"]))
        sums = {"md5": said["md5"], **said["kwargs"]}
        checksum = next(((name, digest) for name, digest in sums.items() if digest), None)
        asked.add(Get(mirrored(said["url"]), _within(root, path), checksum=checksum))
        if unpacks:
            asked.add(Unpack(_within(root, path), _within(root, said["extract_root"] or folder)))

    return download


def _unpacker(original: Callable, asked: Asked, root: Path) -> Callable:
    signature = inspect.signature(original)

    def unpack(*args, **kwargs):
        said = signature.bind(*args, **kwargs).arguments
        folder = said.get("to_path") or os.path.dirname(said["from_path"])
        asked.add(Unpack(_within(root, said["from_path"]), _within(root, folder)))
        return folder

    return unpack


def _program(asked: Asked) -> Callable:
    def which(name) -> Callable:
        def call(*args, **_) -> None:
            command = " ".join(map(str, (name, *args)))
            if command not in asked.programs:
                asked.programs.append(command)

        return call

    return which


def _no_network(*_) -> None:
    raise OSError("the class downloads by its own means")


def _within(root: Path, path) -> Path:
    """`path` unchanged; raises `PermafrostError` if it leads out of `root`."""
    path = Path(path)
    if not Path(os.path.abspath(path)).is_relative_to(os.path.abspath(root)):
        raise PermafrostError(
            f"torchgeo's class would write to {path}, outside of its root",
            where=root,
            remedy="let torchgeo download it, with download: true",
        )
    return path


@contextlib.contextmanager
def _replaced(owner: object, name: str, value: object) -> Iterator[None]:
    own = name in vars(owner)
    original = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, original) if own else delattr(owner, name)
