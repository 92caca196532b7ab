"""A web server on this machine that misbehaves as it is told, for whatever downloads."""

from __future__ import annotations

import contextlib
import io
import json
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit


@dataclass
class Served:
    """A file, and how its server behaves.

    Attributes
    ----------
    ranges : whether parts are given; else every answer is the whole.
    breaks_after : bytes of the body after which each answer in turn breaks off; then none does.
    statuses : what the first requests are answered with, before the file is given.
    length : the length that is declared, where that is another than the file's.
    foreign_part : whether a part is given of another place than was asked for.
    redirects_to : the address that is given in place of the file.
    """

    content: bytes
    etag: str | None = '"one"'
    ranges: bool = True
    head: bool = True
    breaks_after: list[int] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    length: int | None = None
    foreign_part: bool = False
    redirects_to: str | None = None


class FileServer:
    """``files`` by path; ``asked`` holds method, path and headers of every request."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.files: dict[str, Served] = {}
        self.asked: list[tuple[str, str, dict[str, str]]] = []

    def gets(self) -> list[str | None]:
        """The ranges that were asked for, one of each GET."""
        return [headers.get("Range") for method, _, headers in self.asked if method == "GET"]

    def add_hub(self, repository: str, files: dict[str, bytes], sha256: dict[str, str]) -> None:
        """A dataset repository as the hub's interface tells of it."""
        tree = [
            {"type": "file", "oid": "0" * 40, "path": name, "size": len(content)}
            | (
                {"lfs": {"oid": sha256[name], "size": len(content), "pointerSize": 130}}
                if name in sha256
                else {}
            )
            for name, content in files.items()
        ]
        listing = json.dumps(tree).encode()
        self.files[f"/api/datasets/{repository}/tree/main"] = Served(listing)
        for name, content in files.items():
            self.files[f"/datasets/{repository}/resolve/main/{name}"] = Served(content)


def zipped(files: dict[str, bytes], folder: str = "") -> bytes:
    """A zip of these files, below `folder` (with a slash at its end)."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, inner in files.items():
            archive.writestr(f"{folder}{name}", inner)
    return content.getvalue()


@contextlib.contextmanager
def file_server() -> Iterator[FileServer]:
    """Serve until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self):
            self.answer(body=False)

        def do_GET(self):
            self.answer(body=True)

        def answer(self, *, body: bool):
            path = unquote(urlsplit(self.path).path)
            server.asked.append((self.command, path, dict(self.headers)))
            served = server.files.get(path)
            if served is None:
                return self.refuse(404)
            if served.redirects_to is not None:
                self.send_response(302)
                self.send_header("Location", served.redirects_to)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            if not body and not served.head:
                return self.refuse(405)
            if body and served.statuses:
                return self.refuse(served.statuses.pop(0))
            self.send(served, body)

        def refuse(self, status: int):
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def send(self, served: Served, body: bool):
            asked, start = self.headers.get("Range"), 0
            same = self.headers.get("If-Range") in (None, served.etag)
            if asked and served.ranges and same:
                start = int(asked.removeprefix("bytes=").rstrip("-"))
                if start >= len(served.content):
                    self.send_response(416)
                    self.send_header("Content-Range", f"bytes */{len(served.content)}")
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                start = 0 if served.foreign_part else start
                end = len(served.content)
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {start}-{end - 1}/{end}")
            else:
                self.send_response(200)
            content = served.content[start:]
            self.send_header("Content-Length", str(served.length or len(content)))
            if served.etag:
                self.send_header("ETag", served.etag)
            self.end_headers()
            if not body:
                return
            broken = served.breaks_after.pop(0) if served.breaks_after else None
            self.wfile.write(content[:broken])
            self.close_connection = broken is not None or served.length is not None

        def log_message(self, *_):
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_):
            pass  # clients may hang up

    httpd = Server(("127.0.0.1", 0), Handler)
    server = FileServer(f"http://127.0.0.1:{httpd.server_port}")
    thread = threading.Thread(target=httpd.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join()
