"""Check the submissions in one folder that a commons does not have yet; write comments/all.md; 1 if one is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

proposed, commons, comments = map(Path, sys.argv[1:])
if proposed.resolve() != proposed.absolute():
    sys.exit(f"{proposed} leads through a link")
known = {path.name for path in (commons / "submissions").iterdir()}
comments.mkdir()
new = sorted(path for path in proposed.iterdir() if path.name not in known)
failed = False
texts = []
for place, folder in enumerate(new):
    written = comments / f"{place}.md"
    command = [
        "permafrost",
        "accept",
        str(folder),
        "--into",
        str(commons),
        "--dry-run",
        "--comment",
        str(written),
    ]
    status = subprocess.run(command, check=False).returncode
    failed |= status != 0
    texts.append(
        written.read_text() if written.exists() else "The check itself failed: see its log.\n"
    )
# GitHub refuses longer comments; a block of code that is cut goes to the end
text = "\n".join(texts)[:60_000]
(comments / "all.md").write_text(text or "No new folder below commons/submissions.\n")
sys.exit(failed or not new)
