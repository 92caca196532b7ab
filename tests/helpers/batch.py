"""A batch system of this machine in three commands, for profiles/generic: a folder with a file for each job."""

from __future__ import annotations

import stat
from pathlib import Path

# a session of its own for each job, whose number is the job's; what it ended with is left in a file
SUBMIT = """#!/bin/sh
folder={folder}
for script; do :; done
cp "$script" "$script.kept"
setsid sh -c 'echo $$ > "$0/new.$1"; sh "$2"; echo $? > "$0/$$.ended"' "$folder" $$ "$script.kept" \\
    > "$folder/$$.out" 2>&1 < /dev/null &
while [ ! -s "$folder/new.$$" ]; do sleep 0.02; done
number=$(cat "$folder/new.$$")
echo "$@" > "$folder/$number.asked"
echo "$number"
"""
STATUS = """#!/bin/sh
if [ -s "{folder}/$1.ended" ]; then
    [ "$(cat "{folder}/$1.ended")" = 0 ] && echo success || echo failed
elif kill -0 "$1" 2>/dev/null; then echo running
else echo failed
fi
"""
CANCEL = """#!/bin/sh
for number; do echo "$number" >> "{folder}/cancelled"; kill -KILL "-$number"; done
"""


class Batch:
    """The commands, below `folder`, and what was asked of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        for name, text in (("submit", SUBMIT), ("status", STATUS), ("cancel", CANCEL)):
            path = folder / name
            path.write_text(text.replace("{folder}", str(folder)))
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
        asked = {
            "rule": "{rule}",
            "threads": "{threads}",
            "mem_mb": "{resources.mem_mb}",
            "minutes": "{resources.runtime}",
            "gpu": "{resources.gpu}",
        }
        options = " ".join(f"{name}={value}" for name, value in asked.items())
        #: keys of profiles/generic/config.yaml
        self.settings = {
            "cluster-generic-submit-cmd": f"{folder}/submit {options}",
            "cluster-generic-status-cmd": f"{folder}/status",
            "cluster-generic-cancel-cmd": f"{folder}/cancel",
        }

    def asked(self) -> list[dict[str, str]]:
        """What each job asked for."""
        found = []
        for path in sorted(self.folder.glob("*.asked")):
            *options, _ = path.read_text().split()
            found.append({"number": path.stem, **dict(one.split("=", 1) for one in options)})
        return found

    @staticmethod
    def runs(number: str) -> bool:
        """Whether the job does; one that was killed may be listed until its parent has taken note."""
        try:
            stat = Path(f"/proc/{number}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return False
        return stat.rpartition(")")[2].split()[0] not in "ZX"

    def cancelled(self) -> list[str]:
        path = self.folder / "cancelled"
        return path.read_text().split() if path.exists() else []
