"""``permafrost doctor``: check that this machine and this project have what a run needs."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path

from permafrost.core.text import printable
from permafrost.stages.list import add_json, add_places, offers_of, print_json
from permafrost.stages.run import find_root


def add_arguments(parser) -> None:
    add_json(parser)
    add_places(parser)


def run(arguments) -> int:
    """Print the findings; exit status 0 if nothing needed is missing, else 1."""
    from permafrost.operate.doctor import MISSING, examine

    findings = examine(partial(offers_of, arguments), find_root(Path.cwd()))
    missing = sum(finding.state == MISSING for finding in findings)
    if arguments.json:
        checks = [asdict(finding) for finding in findings]
        print_json({"ok": not missing, "checks": checks})
        return int(bool(missing))
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        print(printable(f"{finding.state:<8}  {finding.name:<{width}}  {finding.found}"))
        if finding.remedy and finding.state == MISSING:
            print(printable(f"{'':<{width + 12}}Remedy: {finding.remedy}"))
    print(f"\n{missing} missing" if missing else "\nnothing is missing")
    return int(bool(missing))
