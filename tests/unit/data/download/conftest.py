"""A server on this machine in the place of the web and of the hub."""

from __future__ import annotations

import pytest
from helpers.file_server import file_server
from permafrost.data.download import transfer


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(transfer, "PAUSES_S", (0.0, 0.0, 0.0))
    for name in ("http_proxy", "HTTP_PROXY", "HF_TOKEN", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    with file_server() as server:
        yield server


@pytest.fixture
def hub(server, monkeypatch):
    """The server as the hub."""
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    return server
