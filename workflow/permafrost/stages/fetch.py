"""``permafrost fetch``: downloads datasets and published weights, one by one, resumed where a connection broke off."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path


def add_arguments(parser) -> None:
    from permafrost.stages.list import add_json, add_places

    parser.add_argument(
        "names",
        nargs="+",
        metavar="NAME",
        help="datasets, or configuration files (.yaml): all of their datasets and weights",
    )
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask before it starts")
    parser.add_argument(
        "--dry-run",
        "-n",
        action="store_true",
        help="say what would be downloaded and from where, without a network",
    )
    add_json(parser)
    add_places(parser)


@dataclass(frozen=True)
class _Wanted:
    """What is missing: its name, what is said of it, its size, and how it is got."""

    name: str
    entry: dict
    download: object
    get: Callable[[], None]


def run(arguments) -> int:
    from permafrost.core.text import bytes_words
    from permafrost.data.download.fetching import check_room

    if arguments.json:
        return _run_for_a_program(arguments)
    offers, wanted, dry = *_missing(arguments), arguments.dry_run
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
        return 0
    if not (arguments.yes or _confirmed()):
        print("\n".join(f"{one.name}: not fetched" for one in wanted))
        return 1
    for one in wanted:
        one.get()
        print(f"{one.name}: fetched", flush=True)
    return 0


def _run_for_a_program(arguments) -> int:
    """The same with what is missing as JSON on standard output, and all words on the other one."""
    import contextlib

    from permafrost.core.errors import PermafrostError
    from permafrost.stages.list import print_json

    if not (arguments.dry_run or arguments.yes):
        raise PermafrostError("with --json nobody is asked", remedy="give --yes, or --dry-run")
    with contextlib.redirect_stdout(sys.stderr):
        _, wanted = _missing(arguments)
        for one in wanted if not arguments.dry_run else ():
            one.get()
    print_json(
        [
            {
                "name": one.name,
                "licence": one.entry.get("licence"),
                "bytes": one.download.size,
                "files_of_unknown_size": one.download.unknown,
                "fetched": not arguments.dry_run,
                "files": [
                    {"url": get.url, "path": str(get.path), "bytes": get.size}
                    for get in one.download.files
                ],
            }
            for one in wanted
        ]
    )
    return 0


def _missing(arguments):
    """The catalogues, and what is missing of all that is named."""
    files = [Path(name) for name in arguments.names if _is_file(name)]
    arguments.config = [*arguments.config, *files]
    offers, dry = _offers(arguments), arguments.dry_run
    wanted = [*_weights(offers, dry)] if files else []
    return offers, [*wanted, *_datasets(offers, arguments.names, dry)]


def _is_file(name: str) -> bool:
    return Path(name).suffix in (".yaml", ".yml")


def _offers(arguments):
    from permafrost.core.errors import PermafrostError
    from permafrost.stages.list import offers_of

    offers = offers_of(arguments)
    if any(map(_is_file, arguments.names)):
        named = [*offers.config.get("datasets", []), *offers.config.get("backbones", [])]
        if not named:
            raise PermafrostError(
                "the configuration names neither datasets nor backbones",
                where=", ".join(map(str, arguments.config)),
                remedy="name some; the demo needs nothing that is not here",
            )
    return offers


def _datasets(offers, names: list[str], dry: bool) -> list[_Wanted]:
    """The datasets that are missing, of those that are named and those of configuration files."""
    from permafrost.data.download.fetching import fetch, missing_steps, with_sizes
    from permafrost.data.download.steps import fetchable
    from permafrost.plan.offers import state_of

    chosen = [name for name in names if not _is_file(name)]
    asked = set(chosen)
    if len(chosen) < len(names):
        chosen += offers.datasets.names(offers.config.get("datasets", []))
    wanted = []
    for name in dict.fromkeys(chosen):
        entry, where = offers.dataset(name), offers.datasets.where(name)
        by_hand = name not in asked and not fetchable(entry)
        here = by_hand and state_of(entry) in ("here", "generated")
        steps = [] if here else missing_steps(entry, where=where)
        if not steps:
            print(f"{name}: nothing to fetch, the data are here")
            continue
        download = with_sizes(steps, ask=not dry)
        wanted.append(_Wanted(name, entry, download, partial(fetch, entry, download, where=where)))
    return wanted


def _weights(offers, dry: bool) -> list[_Wanted]:
    """The published weights that are missing of the configuration's backbones."""
    from permafrost.backbones.registry import published_weights, read_entry
    from permafrost.backbones.weights.published import FOLDER, check
    from permafrost.data.download.fetching import Download
    from permafrost.data.download.steps import Get
    from permafrost.data.download.weights import first_to_be_had, get_weights

    folder, wanted, seen = offers.data / FOLDER, [], set()
    for name in offers.backbones.names(offers.config.get("backbones", [])):
        entry, where = offers.backbones.entry(name), offers.backbones.where(name)
        published = published_weights(read_entry(entry, where=where), where=where)
        if published is None or published.name in seen:
            continue
        seen.add(published.name)
        here = published.here(folder)
        if here is not None:
            check(*here, folder)
            print(f"{name}: nothing to fetch, the weights are here ({here[1]})")
            continue
        gets = [Get(file.url, folder / file.name) for file in published.files]
        get = gets[0] if dry else first_to_be_had(gets)

        def bring(published=published, gets=gets):
            get_weights(gets, [file.sha256 for file in published.files])
            check(*published.here(folder), folder)

        download = Download([get], get.size or 0, int(get.size is None))
        wanted.append(_Wanted(f"weights of {name}", entry, download, bring))
    return wanted


def announcement(name: str, entry: dict, download, folder, free: int | None = None) -> str:
    """What is said before a download starts; `entry` is of a dataset or a backbone."""
    from permafrost.core.text import bytes_words, printable

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
    from permafrost.core.errors import PermafrostError

    if not sys.stdin.isatty():
        raise PermafrostError("nobody can be asked whether to start", remedy="give --yes")
    return input("Fetch it? [y/N] ").strip().lower() in ("y", "yes")
