"""The line of a running command: shown on a terminal, for long work only, and removed afterwards."""

from __future__ import annotations

import io
import re
import sys
import threading

import pytest
from permafrost.core import working


class Terminal(io.StringIO):
    def __init__(self):
        super().__init__()
        self.written = threading.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if "reading" in text:
            self.written.set()
        return super().write(text)


def test_long_work_shows_a_line_that_is_removed(monkeypatch):
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    monkeypatch.setattr(working, "DELAY_S", 0)
    with pytest.raises(ValueError, match="wrong"), working.working("reading"):
        # a job that is run inside redirects it
        monkeypatch.setattr(sys, "stderr", io.StringIO())
        assert terminal.written.wait(60)
        raise ValueError("wrong")
    assert re.search(r"reading \(00:00\)", terminal.getvalue())
    assert terminal.getvalue().endswith("\r")
    assert terminal.getvalue().split("\r")[-2].strip() == ""


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_a_log_and_short_work_show_nothing(stream, monkeypatch):
    monkeypatch.setattr(sys, "stderr", shown := stream())
    monkeypatch.setattr(working, "DELAY_S", 0 if stream is io.StringIO else 60)
    with working.working("reading"):
        pass
    assert shown.getvalue() == ""
