"""A registry on this machine that holds a closure, and changes its answers as a script says."""

import contextlib
import hashlib
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from dis_derivations.distribution.pushing import PushPlan
from dis_derivations.registry.documents import INDEX, MANIFEST

_RANGE = re.compile(r"bytes=(\d+)-(\d*)")
TAG = "one"
REPOSITORY = "good/closure"


@dataclass
class Reply:
    """An answer on its way out.

    Attributes:
        status: Of HTTP.
        headers: In order; a length is added unless there is one, or the body comes in chunks.
        body: What follows them.
        raw: Writes the whole answer itself, in the place of all else.
    """

    status: int
    headers: dict[str, str]
    body: bytes = b""
    raw: "Callable[[Handler], None] | None" = None


@dataclass(frozen=True)
class Asked:
    """A request that came."""

    method: str
    path: str
    headers: dict[str, str]

    @property
    def is_index(self) -> bool:
        return self.path.endswith(f"/manifests/{TAG}")

    @property
    def is_part(self) -> bool:
        return "/manifests/sha256:" in self.path

    @property
    def is_blob(self) -> bool:
        return "/blobs/sha256:" in self.path

    @property
    def is_token(self) -> bool:
        return self.path.startswith("/token")


Change = Callable[[Asked, Reply], Reply]


def honest(_asked: Asked, reply: Reply) -> Reply:
    """Change nothing."""
    return reply


@dataclass
class Site:
    """What a registry holds, and what it was asked.

    Attributes:
        manifests: By tag and by digest.
        blobs: By digest.
        change: Changes each answer.
        requests: What came, in order.
    """

    manifests: dict[str, bytes] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    change: Change = honest
    requests: list[Asked] = field(default_factory=list)
    host: str = ""

    def hold(self, plan: PushPlan) -> None:
        """Hold a closure, as if it had been pushed."""
        for part in plan.parts:
            for name in (*plan.tags(part), part.descriptor.digest):
                self.manifests[name] = part.manifest
            for blob in part.blobs:
                self.blobs[blob.digest] = b"".join(blob.read(0, blob.size))
        self.manifests[TAG] = self.manifests[plan.digest] = plan.index

    def add(self, data: bytes) -> str:
        """Hold a blob; return its digest."""
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        self.blobs[digest] = data
        return digest

    def put(self, data: bytes, *tags: str) -> str:
        """Hold a manifest under its digest and under tags; return its digest."""
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        for name in (digest, *tags):
            self.manifests[name] = data
        return digest


class Handler(BaseHTTPRequestHandler):
    """Answers from its site, changed."""

    protocol_version = "HTTP/1.1"
    server: "_Server"

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def do_PATCH(self) -> None:
        self._answer()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def send(self, data: bytes) -> None:
        """Write to the connection as it is."""
        with contextlib.suppress(OSError):
            self.wfile.write(data)
            self.wfile.flush()

    def _answer(self) -> None:
        site = self.server.site
        asked = Asked(self.command, self.path, dict(self.headers.items()))
        site.requests.append(asked)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        reply = site.change(asked, _reply(site, asked, body))
        if reply.raw is not None:
            reply.raw(self)
            self.close_connection = True
            return
        lines = [f"HTTP/1.1 {reply.status} Said"]
        lines += [f"{name}: {value}" for name, value in reply.headers.items()]
        if not {"Content-Length", "Transfer-Encoding"} & reply.headers.keys():
            lines.append(f"Content-Length: {len(reply.body)}")
        head = "\r\n".join([*lines, "", ""]).encode("latin-1")
        self.send(head + (b"" if asked.method == "HEAD" else reply.body))
        if reply.headers.get("Content-Length", str(len(reply.body))) != str(len(reply.body)):
            self.close_connection = True


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    site: Site

    def handle_error(self, *_: Any) -> None:
        """Say nothing of connections that break."""


def _reply(site: Site, asked: Asked, body: bytes) -> Reply:
    path = urlsplit(asked.path).path
    name = path.rpartition("/")[2]
    if asked.method in ("POST", "PUT", "PATCH"):
        return _taken(site, asked, body, name)
    if "/manifests/" in path and name in site.manifests:
        data = site.manifests[name]
        kind = INDEX if b'"manifests":[' in data else MANIFEST
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        return Reply(200, {"Content-Type": kind, "Docker-Content-Digest": digest}, data)
    if "/blobs/" in path and name in site.blobs:
        return _blob(site.blobs[name], asked, name)
    if path.endswith("/tags/list"):
        return Reply(200, {}, b'{"name":"x","tags":["one","one.records"]}')
    if path == "/v2/":
        return Reply(200, {})
    return Reply(404, {}, b'{"errors":[{"code":"NOT_FOUND"}]}')


def _blob(data: bytes, asked: Asked, name: str) -> Reply:
    headers = {"ETag": f'"{name}"', "Content-Type": "application/octet-stream"}
    match = _RANGE.fullmatch(asked.headers.get("Range", ""))
    if match is None:
        return Reply(200, headers, data)
    start = int(match[1])
    end = min(int(match[2]) + 1 if match[2] else len(data), len(data))
    headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(data)}"
    return Reply(206, headers, data[start:end])


def _taken(site: Site, asked: Asked, body: bytes, name: str) -> Reply:
    if "/manifests/" in asked.path:
        site.put(body, name)
        return Reply(201, {})
    if asked.method == "POST":
        return Reply(202, {"Location": f"/v2/{REPOSITORY}/blobs/uploads/1?state=x"})
    site.add(body)
    return Reply(201, {})


@contextlib.contextmanager
def serving(site: Site) -> Iterator[Site]:
    """Serve a site for the time of a block."""
    server = _Server(("127.0.0.1", 0), Handler)
    server.site = site
    site.host = f"127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
