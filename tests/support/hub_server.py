"""A hub of models on this machine: the Hugging Face Hub's API in its own shapes, with failures by script.

Two servers: the hub itself, and the host that it redirects large files to, which must never see a token.
"""

import hashlib
import json
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

CHUNK = 1 << 16
"""Bytes of a chunk of Xet's storage."""
PAGE = 4
"""Entries on one page of a tree, so that a small repository has several."""


def blob_id(data: bytes) -> str:
    """Return the name that git gives to a file's bytes."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


@dataclass(frozen=True)
class Served:
    """A file of a repository; an `lfs` one is on the other host.

    Attributes:
        data: The bytes that the metadata speak of.
    """

    data: bytes
    lfs: bool

    @property
    def etag(self) -> str:
        """What the hub calls these bytes."""
        return hashlib.sha256(self.data).hexdigest() if self.lfs else blob_id(self.data)


Files = dict[str, Served]


def served_directory(directory: Path) -> Files:
    """Return the files of a directory as a hub would hold them: weights and tokenizers in LFS."""
    return {
        str(path.relative_to(directory)): Served(
            path.read_bytes(), lfs=path.suffix == ".safetensors" or path.name == "tokenizer.json"
        )
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


@dataclass(frozen=True)
class Seen:
    """A request that a server got."""

    host: str
    method: str
    path: str
    headers: dict[str, str]


@dataclass
class Fault:
    """What to do in place of the right answer.

    Attributes:
        part: Requests whose path holds this.
        act: Answers; called with the handler. It may return True to have the right answer after all.
        times: How often.
        host: `hub` or `cdn`.
    """

    part: str
    act: "Callable[[Handler], bool | None]"
    times: int = 1000
    host: str = "hub"


@dataclass
class Repository:
    """One repository: its commits, and what its branches and tags name.

    Attributes:
        token: The only token that may read it; None: anybody may.
    """

    commits: dict[str, Files] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    token: str | None = None

    def commit(self, ref: str, files: Files) -> str:
        """Add a commit, let `ref` name it, and return it."""
        text = json.dumps({path: served.etag for path, served in sorted(files.items())})
        commit = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
        self.commits[commit] = files
        self.refs[ref] = commit
        return commit

    def resolved(self, revision: str) -> str | None:
        """Return the commit that a revision names."""
        return revision if revision in self.commits else self.refs.get(revision)


class Hub:
    """The state of both servers."""

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.faults: list[Fault] = []
        self.seen: list[Seen] = []
        # What the other host serves, by SHA-256; a test may put other bytes there.
        self.storage: dict[str, bytes] = {}
        # Whether large files are offered by Xet as well.
        self.xet = False
        self.endpoint = ""
        self.cdn = ""
        self.released = threading.Event()
        self._lock = threading.Lock()

    def add(self, name: str, files: Files, *, ref: str = "main", token: str | None = None) -> str:
        """Add a commit to a repository, which is made where it is missing; return the commit."""
        repository = self.repositories.setdefault(name, Repository())
        repository.token = token
        self.storage |= {served.etag: served.data for served in files.values() if served.lfs}
        return repository.commit(ref, files)

    def fail(self, part: str, act: "Callable[[Handler], bool | None]", **members: Any) -> None:
        """Answer requests whose path holds `part` by `act`."""
        self.faults.append(Fault(part, act, **members))

    def take_fault(self, host: str, path: str) -> Fault | None:
        """Return the fault that is due, and count it."""
        with self._lock:
            for fault in self.faults:
                if fault.host == host and fault.part in path and fault.times > 0:
                    fault.times -= 1
                    return fault
        return None

    def requests(self, part: str, host: str | None = None) -> list[Seen]:
        """Return the requests whose path holds `part`."""
        return [seen for seen in self.seen if part in seen.path and host in (None, seen.host)]


class Handler(BaseHTTPRequestHandler):
    """Answers one connection of the hub or of the other host."""

    protocol_version = "HTTP/1.1"
    hub: Hub
    host: str

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
        """Say nothing."""

    def do_HEAD(self) -> None:
        """Answer without a body."""
        self._answer()

    def do_GET(self) -> None:
        """Answer."""
        self._answer()

    def _answer(self) -> None:
        hub = self.hub
        headers = {name.lower(): value for name, value in self.headers.items()}
        hub.seen.append(Seen(self.host, self.command, self.path, headers))
        fault = hub.take_fault(self.host, self.path)
        if fault is not None and not fault.act(self):
            return
        url = urllib.parse.urlsplit(self.path)
        path = urllib.parse.unquote(url.path)
        if self.host == "cdn" and path.startswith(("/cas/", "/xorb/")):
            self._answer_storage(path)
        elif self.host == "cdn":
            self.send_file(hub.storage[path.rpartition("/")[2]], path.rpartition("/")[2])
        elif path.startswith("/api/resolve-cache/models/"):
            *name, commit, file = path.removeprefix("/api/resolve-cache/models/").split("/", 3)
            self._answer_resolve(f"{'/'.join(name)}/resolve/{commit}/{file}")
        elif "/xet-read-token/" in path:
            facts = {
                "X-Xet-Cas-Url": f"{hub.cdn}/cas",
                "X-Xet-Access-Token": "token-of-the-storage",
                "X-Xet-Token-Expiration": str(int(time.time()) + 3600),
            }
            self.send_body(200, b"{}", headers=facts)
        elif path.startswith("/api/models/"):
            self._answer_api(path.removeprefix("/api/models/"), url)
        else:
            self._answer_resolve(path.removeprefix("/"))

    def _answer_api(self, path: str, url: urllib.parse.SplitResult) -> None:
        name, kind, revision = self._split(path, ("/revision/", "/tree/"))
        found = self._repository(name, revision)
        if found is None:
            return
        repository, commit = found
        files = repository.commits[commit]
        if kind == "/revision/":
            siblings = [{"rfilename": path} for path in files]
            self.send_json(
                {
                    "_id": "0" * 24,
                    "id": name,
                    "modelId": name,
                    "sha": commit,
                    "private": False,
                    "gated": False,
                    "disabled": False,
                    "lastModified": "2026-01-01T00:00:00.000Z",
                    "createdAt": "2026-01-01T00:00:00.000Z",
                    "tags": [],
                    "downloads": 0,
                    "likes": 0,
                    "siblings": siblings,
                }
            )
            return
        start = int(urllib.parse.parse_qs(url.query).get("cursor", ["0"])[0])
        entries = [_entry(path, served) for path, served in files.items()]
        folders = sorted({path.rpartition("/")[0] for path in files if "/" in path})
        entries += [
            {"type": "directory", "oid": "0" * 40, "size": 0, "path": path} for path in folders
        ]
        more = {}
        if start + PAGE < len(entries):
            target = f"{self.hub.endpoint}{url.path}?recursive=true&cursor={start + PAGE}"
            more = {"Link": f'<{target}>; rel="next"'}
        self.send_json(entries[start : start + PAGE], headers=more)

    def _answer_resolve(self, path: str) -> None:
        name, _, rest = self._split(path, ("/resolve/",))
        revision, _, file = rest.partition("/")
        found = self._repository(name, revision)
        if found is None:
            return
        repository, commit = found
        served = repository.commits[commit].get(file)
        if served is None:
            self.refuse(404, "EntryNotFound", "Entry not found")
            return
        facts = {"X-Repo-Commit": commit}
        if not served.lfs and "resolve-cache" not in self.path:
            target = f"/api/resolve-cache/models/{name}/{commit}/{urllib.parse.quote(file)}"
            self.send_body(307, b"", headers={**facts, "Location": target})
            return
        if not served.lfs:
            self.send_file(served.data, served.etag, headers=facts)
            return
        facts |= {
            "X-Linked-Size": str(len(served.data)),
            "X-Linked-ETag": f'"{served.etag}"',
            "Location": f"{self.hub.cdn}/signed/{served.etag}?Signature=very-secret-signature",
        }
        if self.hub.xet:
            route = f"{self.hub.endpoint}/api/models/{name}/xet-read-token/{commit}"
            facts |= {"X-Xet-Hash": served.etag, "Link": f'<{route}>; rel="xet-auth"'}
        self.send_body(302, b"Found", headers=facts)

    def _answer_storage(self, path: str) -> None:
        """Answer as the storage behind Xet does: what a file is made of, and one block that holds all of it."""
        name = path.rpartition("/")[2]
        data = self.hub.storage[name]
        count = -(-len(data) // CHUNK)
        if path.startswith("/xorb/"):
            self.send_file(_block(data), "block")
            return
        if "/v1/reconstructions/" not in path:
            self.send_body(404, b"", headers={})
            return
        asked = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")[0]
        first = int(asked) // CHUNK
        before = sum(len(_chunk(data, index)) for index in range(first))
        chunks = {"start": first, "end": count}
        place = {
            "range": chunks,
            "url": f"{self.hub.cdn}/xorb/{name}?Signature=very-secret-signature",
            "url_range": {"start": before, "end": len(_block(data)) - 1},
        }
        term = {"hash": name, "unpacked_length": len(data) - first * CHUNK, "range": chunks}
        self.send_json(
            {
                "offset_into_first_range": int(asked) - first * CHUNK,
                "terms": [term],
                "fetch_info": {name: [place]},
            }
        )

    def _split(self, path: str, kinds: tuple[str, ...]) -> tuple[str, str, str]:
        for kind in kinds:
            name, found, rest = path.partition(kind)
            if found:
                return name, kind, rest
        return path, "", ""

    def _repository(self, name: str, revision: str) -> tuple[Repository, str] | None:
        """Return a repository and the commit; None after the refusal was sent."""
        repository = self.hub.repositories.get(name)
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if repository is None:
            # The real hub does not tell strangers whether a repository is private or not there.
            status = 404 if token else 401
            self.refuse(status, "RepoNotFound", "Repository not found")
        elif repository.token is not None and repository.token != token:
            text = f"Access to model {name} is restricted. You must have access to it"
            self.refuse(403 if token else 401, "GatedRepo", text)
        elif (commit := repository.resolved(revision)) is None:
            self.refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        else:
            return repository, commit
        return None

    def refuse(self, status: int, code: str = "", text: str = "", **headers: str) -> None:
        """Answer with an error as the hub words it."""
        facts = {"X-Error-Code": code, "X-Error-Message": text} if code else {}
        body = json.dumps({"error": text}).encode()
        self.send_body(status, body, headers={**facts, **headers})

    def send_json(self, document: Any, headers: dict[str, str] | None = None) -> None:
        """Answer with a document."""
        facts = {"Content-Type": "application/json", **(headers or {})}
        self.send_body(200, json.dumps(document).encode(), headers=facts)

    def send_file(self, data: bytes, etag: str, headers: dict[str, str] | None = None) -> None:
        """Answer with a file, or with the rest of it where a range of these very bytes is asked for."""
        facts = {"ETag": f'"{etag}"', "Accept-Ranges": "bytes", **(headers or {})}
        asked, condition = self.headers.get("Range"), self.headers.get("If-Range")
        if asked is None or condition not in (None, f'"{etag}"'):
            self.send_body(200, data, headers=facts)
            return
        first, _, last = asked.removeprefix("bytes=").partition("-")
        start, end = int(first), min(int(last or len(data)), len(data) - 1)
        if start >= len(data):
            self.send_body(416, b"", headers={"Content-Range": f"bytes */{len(data)}"})
            return
        facts["Content-Range"] = f"bytes {start}-{end}/{len(data)}"
        self.send_body(206, data[start : end + 1], headers=facts)

    def send_body(
        self, status: int, body: bytes, *, headers: dict[str, str], length: int | None = None
    ) -> None:
        """Answer with these bytes; `length` is what the answer says of them."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        if length not in (None, len(body)):
            self.close_connection = True


def _chunk(data: bytes, index: int) -> bytes:
    piece = data[index * CHUNK : (index + 1) * CHUNK]
    size = len(piece).to_bytes(3, "little")
    return b"\0" + size + b"\0" + size + piece


def _block(data: bytes) -> bytes:
    """Return a file as a block of Xet's storage, uncompressed."""
    return b"".join(_chunk(data, index) for index in range(-(-len(data) // CHUNK)))


def _entry(path: str, served: Served) -> dict[str, Any]:
    entry = {"type": "file", "oid": blob_id(served.data), "size": len(served.data), "path": path}
    if served.lfs:
        sha256 = hashlib.sha256(served.data).hexdigest()
        pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {len(served.data)}\n"
        entry["oid"] = blob_id(pointer.encode())
        entry["lfs"] = {"oid": sha256, "size": len(served.data), "pointerSize": len(pointer)}
    return entry


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that go away."""


@contextmanager
def running_hub() -> Iterator[Hub]:
    """Serve a hub and its other host on this machine for the time of a block."""
    hub = Hub()
    servers = []
    for host in ("hub", "cdn"):
        handler = type(f"{host}Handler", (Handler,), {"hub": hub, "host": host})
        server = _Server(("127.0.0.1", 0), handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    hub.endpoint, hub.cdn = (f"http://127.0.0.1:{server.server_address[1]}" for server in servers)
    try:
        yield hub
    finally:
        hub.released.set()
        for server in servers:
            server.shutdown()
            server.server_close()
