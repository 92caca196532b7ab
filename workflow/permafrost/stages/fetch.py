"""``permafrost fetch``: download datasets and published weights; resumes broken downloads."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from permafrost.backbones.weights.published import FOLDER, check
from permafrost.core.errors import PermafrostError
from permafrost.core.text import bytes_words, printable
from permafrost.data.download.fetching import Download, check_room, fetch, missing_steps, with_sizes
from permafrost.data.download.steps import Get, fetchable
from permafrost.data.download.weights import first_to_be_had, get_weights
from permafrost.stages.list import add_json, add_places, offers_of, print_json

if TYPE_CHECKING:
    from permafrost.operate.offers import Offers


def add_arguments(parser) -> None:
    parser.add_argument(
        "names",
        nargs="+",
        metavar="NAME",
        help="datasets, or configuration files (.yaml): all of their datasets and weights",
    )
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask for confirmation")
    parser.add_argument(
        "--dry-run",
        "-n",
        action="store_true",
        help="list the downloads and their sources, without network access",
    )
    add_json(parser)
    add_places(parser)


@dataclass(frozen=True)
class _Wanted:
    """A missing dataset or missing weights: name, entry, files, and how to fetch them."""

    name: str
    entry: dict
    download: Download
    get: Callable[[], None]


def run(arguments) -> int:
    if arguments.json:
        return _run_for_a_program(arguments)
    (offers, wanted, failed), dry = _missing(arguments), arguments.dry_run
    for one in wanted:
        free = None if dry else check_room(one.download, offers.data)
        print(announcement(one.name, one.entry, one.download, offers.data, free), flush=True)
    if len(wanted) > 1:
        unknown = sum(one.download.unknown for one in wanted)
        more = f" and {unknown} files of unknown size" if unknown else ""
        print(
            f"together: {bytes_words(sum(one.download.size for one in wanted))}{more}", flush=True
        )
    if dry or not wanted:
        return _failures(failed)
    if not (arguments.yes or _confirmed()):
        print("\n".join(f"{one.name}: not fetched" for one in wanted))
        return 1
    for one in wanted:
        with _failing_alone(failed):
            one.get()
            print(f"{one.name}: fetched", flush=True)
    return _failures(failed)


@contextlib.contextmanager
def _failing_alone(failed: list[PermafrostError]) -> Iterator[None]:
    """Collect a `PermafrostError` raised inside, so that the others are still fetched."""
    try:
        yield
    except PermafrostError as error:
        failed.append(error)


def _failures(failed: list[PermafrostError]) -> int:
    """Print the failures; returns the exit status."""
    for error in failed:
        print(f"permafrost fetch: error: {error}", file=sys.stderr)
    return int(bool(failed))


def _run_for_a_program(arguments) -> int:
    """Like `run`, with JSON on standard output and all messages on standard error."""
    if not (arguments.dry_run or arguments.yes):
        raise PermafrostError("--json asks for no confirmation", remedy="give --yes, or --dry-run")
    with contextlib.redirect_stdout(sys.stderr):
        _, wanted, failed = _missing(arguments)
        fetched = []
        for one in wanted if not arguments.dry_run else ():
            with _failing_alone(failed):
                one.get()
                fetched.append(one)
    print_json(
        [
            {
                "name": one.name,
                "licence": one.entry.get("licence"),
                "bytes": one.download.size,
                "files_of_unknown_size": one.download.unknown,
                "fetched": one in fetched,
                "files": [
                    {"url": get.url, "path": str(get.path), "bytes": get.size}
                    for get in one.download.files
                ],
            }
            for one in wanted
        ]
    )
    return _failures(failed)


def _missing(arguments) -> tuple[Offers, list[_Wanted], list[PermafrostError]]:
    """The catalogues, the missing items of those named, and errors of items that failed."""
    files = [Path(name) for name in arguments.names if _is_file(name)]
    arguments.config = [*arguments.config, *files]
    offers, dry = _offers(arguments), arguments.dry_run
    failed: list[PermafrostError] = []
    wanted = [*_weights(offers, dry, failed)] if files else []
    return offers, [*wanted, *_datasets(offers, arguments.names, dry, failed)], failed


def _is_file(name: str) -> bool:
    return Path(name).suffix in (".yaml", ".yml")


def _offers(arguments) -> Offers:
    offers = offers_of(arguments)
    if any(map(_is_file, arguments.names)):
        named = [*offers.config.get("datasets", []), *offers.config.get("backbones", [])]
        if not named:
            raise PermafrostError(
                "the configuration names neither datasets nor backbones",
                where=", ".join(map(str, arguments.config)),
                remedy="name some; the demo needs no download",
            )
    return offers


def _datasets(offers, names: list[str], dry: bool, failed: list) -> list[_Wanted]:
    """The missing datasets of the arguments and of their configuration files."""
    from permafrost.operate.offers import state_of

    chosen = [name for name in names if not _is_file(name)]
    asked = set(chosen)
    if len(chosen) < len(names):
        chosen += offers.datasets.names(offers.config.get("datasets", []))
    wanted = []
    for name, entry in {name: offers.dataset(name) for name in chosen}.items():
        where = offers.datasets.where(name)
        by_hand = name not in asked and not fetchable(entry)
        here = by_hand and state_of(entry) in ("here", "generated")
        with _failing_alone(failed):
            steps = [] if here else missing_steps(entry, where=where, ask=not dry)
            if not steps:
                print(f"{name}: nothing to fetch, the data are on this machine")
                continue
            download = with_sizes(steps, ask=not dry)
            get = partial(fetch, entry, download, where=where)
            wanted.append(_Wanted(name, entry, download, get))
    return wanted


def _weights(offers, dry: bool, failed: list) -> list[_Wanted]:
    """The missing published weights of the configuration's backbones."""
    from permafrost.backbones.registry import published_weights, read_entry

    folder, wanted, seen = offers.data / FOLDER, [], set()
    entries = offers.backbones.choose(offers.config.get("backbones", []))
    for name, entry in entries.items():
        where = offers.backbones.where(name)
        with _failing_alone(failed):
            published = published_weights(read_entry(entry, where=where), where=where)
            if published is None or published.name in seen:
                continue
            seen.add(published.name)
            here = published.here(folder)
            if here is not None:
                check(*here, folder)
                print(f"{name}: nothing to fetch, the weights are on this machine ({here[1]})")
                continue
            gets = [Get(file.url, folder / file.name) for file in published.files]
            get = gets[0] if dry else first_to_be_had(gets)
            wanted.append(_wanted_weights(name, entry, published, folder, gets, get))
    return wanted


def _wanted_weights(name: str, entry: dict, published, folder: Path, gets: list, get) -> _Wanted:
    def bring():
        get_weights(gets, [file.sha256 for file in published.files])
        check(*published.here(folder), folder)

    return _Wanted(
        f"weights of {name}", entry, Download([get], get.size or 0, int(get.size is None)), bring
    )


def announcement(name: str, entry: dict, download, folder, free: int | None = None) -> str:
    """The text printed before a download.

    Parameters
    ----------
    entry : of a dataset or a backbone.
    free : free bytes in `folder`; None: unknown.
    """
    room = "" if free is None else f"; {bytes_words(free)} are free in {folder}"
    told = download.unknown and "size_bytes" in entry
    about = f", about {bytes_words(entry['size_bytes'])}" if told else ""
    lines = [
        f"{name}: {entry.get('title', name)}",
        f"  licence   {entry.get('licence', 'not given')}",
        f"  citation  {entry.get('citation', 'not given')}",
        f"  size      {download}{about}{room}",
    ]
    for get in download.files:
        size = "size unknown" if get.size is None else bytes_words(get.size)
        checked = f"{get.checksum[0]} {get.checksum[1]}" if get.checksum else "no checksum known"
        lines += [f"  from      {get.url}", f"            to {get.path} ({size}, {checked})"]
    return "\n".join(printable(line) for line in lines)


def _confirmed() -> bool:
    if not sys.stdin.isatty():
        raise PermafrostError("no terminal to ask for confirmation", remedy="give --yes")
    return input("Fetch it? [y/N] ").strip().lower() in ("y", "yes")
