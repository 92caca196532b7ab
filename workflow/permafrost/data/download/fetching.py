"""Find and download missing files of a dataset, by the entry's ``download`` or as torchgeo's class would."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from permafrost.core.errors import PermafrostError
from permafrost.core.text import bytes_words
from permafrost.data.download.hub import hub_files, named_files
from permafrost.data.download.steps import Get, Step, Unpack
from permafrost.data.download.transfer import fetch_file, remote_size
from permafrost.data.download.unpacking import unpack
from permafrost.data.files.members import is_junk

_PAGES = ("drive.google.com",)


def missing_steps(entry: dict, *, where: object, ask: bool = True) -> list[Step]:
    """Downloads and archives to unpack until the dataset is complete; an empty list if it is.

    Parameters
    ----------
    entry : complete, with the data folder in its paths.
    ask : list the files on the hub; otherwise use the names in the entry.

    Raises
    ------
    PermafrostError : the data can only be downloaded by hand, or the hub is unreachable.
    """
    if "download" in entry:
        return [step for item in entry["download"] for step in _of_item(item, where, ask)]
    if entry["source"]["kind"] == "torchgeo":
        return _of_torchgeo(entry, where)
    if entry["source"]["kind"] == "demo":
        return []
    raise _by_hand(entry, "the entry does not say where its data can be had", where)


def _of_item(item: dict, where: object, ask: bool) -> Iterator[Step]:
    """Steps of one item of an entry's ``download``."""
    path = Path(item["path"])
    if item.get("unpack"):
        if not _holds_files(path):
            archive = path.with_name(f"{path.name}.archive")
            yield from _files_of({**item, "path": str(archive)}, where, ask)
            yield Unpack(archive, path, whole=True)
        return
    names = item.get("files", [])
    here = path.exists() and all("*" not in n and (path / n).exists() for n in names)
    if not here:
        yield from (get for get in _files_of(item, where, ask) if not get.path.exists())


def _files_of(item: dict, where: object, ask: bool) -> list[Get]:
    if "hub" in item:
        return hub_files(item, where) if ask else named_files(item)
    checksum = next(((name, item[name]) for name in ("sha256", "md5") if name in item), None)
    return [Get(item["url"], Path(item["path"]), item.get("bytes"), checksum)]


def _holds_files(folder: Path) -> bool:
    return folder.is_dir() and any(not is_junk(item.name) for item in folder.iterdir())


def _of_torchgeo(entry: dict, where: object) -> list[Step]:
    from permafrost.data.download.torchgeo_downloads import ask_torchgeo

    name, arguments = entry["source"]["name"], entry["source"].get("arguments", {})
    if "root" not in arguments:
        raise PermafrostError(
            "the entry does not define the folder of the data",
            where=where,
            remedy="give source.arguments a root",
        )
    asked = ask_torchgeo(entry, Path(arguments["root"]), where=where)
    if asked.programs and not asked.steps:
        how = "install its program, and run\n  " + "\n  ".join(asked.programs)
        raise _by_hand(
            entry, f"torchgeo's {name} leaves downloading to another program", where, how
        )
    if asked.problem and not asked.steps:
        problem = f"torchgeo's {name} downloads nothing, and does not find its data"
        raise _by_hand(entry, f"{problem} ({asked.problem})", where)
    _refuse_pages(entry, asked.steps, where)
    return asked.steps


def _refuse_pages(entry: dict, asked: list[Step], where: object) -> None:
    """Refuse addresses that lead to a page with a button instead of the file."""
    pages = [
        f"{step.url} to {step.path}"
        for step in asked
        if isinstance(step, Get) and urlsplit(step.url).netloc in _PAGES
    ]
    if pages:
        how = "get with a browser\n  " + "\n  ".join(pages)
        raise _by_hand(entry, "its addresses are pages to click through, not files", where, how)


def _by_hand(entry: dict, problem: str, where: object, how: str = "") -> PermafrostError:
    page = f" ({entry['url']})" if "url" in entry else ""
    return PermafrostError(problem, where=where, remedy=how or f"get the data by hand{page}")


@dataclass(frozen=True)
class Download:
    """The steps of a download and their sizes, as far as servers report them.

    Attributes
    ----------
    steps : in order.
    size : bytes to download, without files of unknown size.
    unknown : number of files of unknown size.
    """

    steps: list[Step]
    size: int
    unknown: int

    @property
    def files(self) -> list[Get]:
        return [step for step in self.steps if isinstance(step, Get)]

    def __str__(self) -> str:
        count = len(self.files)
        files = f"{count} file" + ("s" if count != 1 else "")
        if self.unknown == count > 0:
            return f"{files} of unknown size"
        more = f" and {self.unknown} of unknown size" if self.unknown else ""
        return f"{files}, {bytes_words(self.size)}{more}"


def with_sizes(steps: list[Step], *, ask: bool = True) -> Download:
    """The steps with sizes from the servers; without `ask`, only with sizes that are already known.

    Raises
    ------
    PermafrostError : a server does not have a file; nothing has been downloaded then.
    """
    sized, size, unknown = [], 0, 0
    for step in steps:
        if isinstance(step, Get) and not step.path.exists():
            told = remote_size(step) if ask else step.size
            step = replace(step, size=told)
            size += told or 0
            unknown += told is None
        sized.append(step)
    return Download(sized, size, unknown)


def check_room(download: Download, folder: Path) -> int:
    """Free bytes at `folder`; raises `PermafrostError` if they are too few.

    Unpacking an archive takes at least its own size again.
    """
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(existing).free
    archives = {step.archive for step in download.steps if isinstance(step, Unpack)}
    unpacked = sum(get.size or 0 for get in download.files if get.path in archives)
    needed = download.size + unpacked
    if needed > free:
        raise PermafrostError(
            f"at least {bytes_words(needed)} are needed, and {bytes_words(free)} are free",
            where=folder,
            remedy="make room, or choose another folder with --data",
        )
    return free


def fetch(entry: dict, download: Download, *, where: object) -> None:
    """Carry out the steps, then those that turn out to be still missing.

    Some classes of torchgeo ask for further files only once they have the first ones.

    Raises
    ------
    PermafrostError : a step failed, or the class asks again for a file that it has.
    """
    steps, done = download.steps, set()
    while steps:
        again = [step for step in steps if _key(step) in done]
        if again:
            raise PermafrostError(
                f"everything was fetched, but {_key(again[0])} is still missing",
                where=where,
                remedy="delete the dataset's folder and fetch again",
            )
        for step in steps:
            if isinstance(step, Get):
                fetch_file(step)
            else:
                unpack(step)
            done.add(_key(step))
        steps = missing_steps(entry, where=where)


def _key(step: Step) -> str:
    return str(step.path if isinstance(step, Get) else step.archive)
