"""A server of files on this machine that can be told to behave badly."""

import contextlib
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


@dataclass
class Served:
    """A file: its bytes, and what the server says of its version."""

    data: bytes
    etag: str | None = '"one"'
    modified: str | None = None


@dataclass(frozen=True)
class Seen:
    """A request that came."""

    method: str
    path: str
    headers: dict[str, str]


@dataclass
class Script:
    """What the server does.

    Attributes:
        files: By path.
        act: Asked first for every request; returns whether it has answered.
        ranges: Whether parts are given.
        requests: What came, in order.
        sent: Bytes of files that were sent.
    """

    files: dict[str, Served] = field(default_factory=dict)
    act: "Callable[[Handler], bool]" = lambda _: False
    ranges: bool = True
    requests: list[Seen] = field(default_factory=list)
    sent: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def paths(self) -> list[str]:
        return [seen.path for seen in self.requests]


class Handler(BaseHTTPRequestHandler):
    """Answers as its script says."""

    protocol_version = "HTTP/1.1"
    server: "Server"

    @property
    def script(self) -> Script:
        return self.server.script

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    @property
    def asked(self) -> tuple[int, int | None] | None:
        """The range that is asked for: its first byte and its end, if that is told."""
        match = _RANGE.fullmatch(self.headers.get("Range", ""))
        if match is None:
            return None
        return int(match[1]), int(match[2]) + 1 if match[2] else None

    def say(self, status: int, *headers: tuple[str, str], length: int | None = 0) -> None:
        """Send the beginning of an answer."""
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def body(self, data: bytes) -> None:
        """Send bytes of a file."""
        if self.command == "HEAD":
            return
        with self.script.lock:
            self.script.sent += len(data)
        self.wfile.write(data)

    def hang_up(self) -> None:
        """Break the connection."""
        self.close_connection = True

    def file(self, served: Served) -> None:
        """Send a file, or the part of it that is asked for."""
        data, total = served.data, len(served.data)
        marks = [("ETag", served.etag), ("Last-Modified", served.modified)]
        headers = [(name, value) for name, value in marks if value is not None]
        condition = self.headers.get("If-Range")
        if (
            self.asked is None
            or not self.script.ranges
            or (condition is not None and condition not in (served.etag, served.modified))
        ):
            self.say(200, *headers, length=total)
            self.body(data)
            return
        start, end = self.asked
        end = total if end is None else min(end, total)
        if start >= end:
            self.say(416, ("Content-Range", f"bytes */{total}"))
            return
        self.say(
            206, *headers, ("Content-Range", f"bytes {start}-{end - 1}/{total}"), length=end - start
        )
        self.body(data[start:end])

    def _answer(self) -> None:
        with self.script.lock:
            self.script.requests.append(Seen(self.command, self.path, dict(self.headers)))
        try:
            if self.script.act(self):
                return
            served = self.script.files.get(unquote(urlsplit(self.path).path))
            if served is None:
                self.say(404)
            else:
                self.file(served)
        except OSError:
            self.hang_up()


class Server(ThreadingHTTPServer):
    """The server of a script."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, script: Script, host: str) -> None:
        self.script = script
        super().__init__((host, 0), Handler)

    def handle_error(self, *_: Any) -> None:
        """Say nothing: clients break off."""


@dataclass(frozen=True)
class Serving:
    """A running server: its script, and where it is."""

    script: Script
    base: str

    def url(self, path: str) -> str:
        """Return the address of a path that begins with `/`."""
        return f"{self.base}{path}"


@contextlib.contextmanager
def serving(
    script: Script | None = None, *, host: str = "127.0.0.1", tls: Any = None
) -> Iterator[Serving]:
    """Run a server for the time of a block.

    Args:
        script: What it does.
        host: An address of this machine.
        tls: An `ssl.SSLContext` with a certificate, for https.
    """
    script = script or Script()
    server = Server(script, host)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
    )
    thread.start()
    try:
        yield Serving(script, f"{'http' if tls is None else 'https'}://{host}:{server.server_port}")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
