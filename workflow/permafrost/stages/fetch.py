"""``permafrost fetch``: downloads datasets, one by one, resumed where a connection broke off."""

from __future__ import annotations

import sys


def add_arguments(parser) -> None:
    from permafrost.stages.list import add_places

    parser.add_argument("names", nargs="+", metavar="NAME", help="datasets")
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask before it starts")
    parser.add_argument(
        "--dry-run",
        "-n",
        action="store_true",
        help="say what would be downloaded and from where, without a network",
    )
    add_places(parser)


def run(arguments) -> int:
    from permafrost.data.download.fetching import check_room, fetch, missing_steps, with_sizes
    from permafrost.stages.list import offers_of

    offers = offers_of(arguments)
    entries = {name: offers.dataset(name) for name in dict.fromkeys(arguments.names)}
    for name, entry in entries.items():
        where = offers.datasets.where(name)
        steps = missing_steps(entry, where=where)
        if not steps:
            print(f"{name}: nothing to fetch, the data are here")
            continue
        dry = arguments.dry_run
        download = with_sizes(steps, ask=not dry)
        free = None if dry else check_room(download, offers.data)
        print(announcement(name, entry, download, offers.data, free), flush=True)
        if dry:
            continue
        if not (arguments.yes or _confirmed()):
            print(f"{name}: not fetched")
            return 1
        fetch(entry, download, where=where)
        print(f"{name}: fetched")
    return 0


def announcement(name: str, entry: dict, download, folder, free: int | None = None) -> str:
    """What is said before a download starts."""
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
