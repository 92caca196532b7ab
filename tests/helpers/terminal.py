"""What a program writes to a terminal."""

from __future__ import annotations

import os
import pty
import re
import subprocess


def on_terminal(command: list[str], **options) -> tuple[int, str]:
    """Run a command with a terminal as its input, output and error; its status and all that it wrote."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, **options, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    written = b""
    try:
        while chunk := os.read(ours, 1 << 16):
            written += chunk
    except OSError:
        pass  # Linux says so when the other side was closed
    os.close(ours)
    return process.wait(timeout=60), written.decode()


def seen(written: str) -> str:
    """The same without colours and moves of the cursor: every frame below the one before."""
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "", written)
