"""A package index over HTTP on this machine that counts what it is asked for, and can be told to break off."""

import base64
import hashlib
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from dis_derivations.environments.wheel_names import parse_wheel_name
from file_server import Handler, Script, Served, serving


@dataclass
class SimpleIndex:
    """An index as PEP 503 and PEP 658 have it.

    Attributes:
        base: Its address, without `/simple/`.
        script: What its server does, and what came.
        user: `user:password` that it wants; None where everybody may ask.
        wheels_elsewhere: Redirects to a server that has the wheels; None where it has them itself.
        breaks_after: Of each answer with bytes of a wheel only so many are sent, and the connection ends; None for all.
        says_ranges: Whether it gives parts of files, and says so.
        stalls_after: As `breaks_after`, but nothing ends: the client waits until `goes_on` is set; None for never.
        goes_on: See there.
        sent: Bytes of wheels that were sent.
    """

    base: str
    script: Script
    user: str | None = None
    wheels_elsewhere: str | None = None
    breaks_after: int | None = None
    says_ranges: bool = True
    stalls_after: int | None = None
    goes_on: threading.Event = field(default_factory=threading.Event)
    sent: int = 0
    links: dict[str, list[str]] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """What pip is told."""
        return f"{self.base}/simple"

    @property
    def wheel_requests(self) -> list[str]:
        """The methods of all requests for wheels."""
        return [each.method for each in self.script.requests if each.path.endswith(".whl")]

    def add(
        self, wheel: Path, *, metadata: bool = True, digest: bool = True, data: bytes | None = None
    ) -> None:
        """Offer a wheel.

        Args:
            wheel: Its file.
            metadata: Whether its metadata are offered by themselves.
            digest: Whether its SHA-256 is told.
            data: What is sent in its place.
        """
        named = parse_wheel_name(wheel.name)
        content = wheel.read_bytes()
        self.script.files[f"/files/{wheel.name}"] = Served(content if data is None else data)
        told = f"#sha256={hashlib.sha256(content).hexdigest()}" if digest else ""
        more = ""
        if metadata:
            text = _metadata(wheel)
            self.script.files[f"/files/{wheel.name}.metadata"] = Served(text)
            more = f' data-core-metadata="sha256={hashlib.sha256(text).hexdigest()}"'
        links = self.links.setdefault(named.package, [])
        links[:] = [each for each in links if f">{wheel.name}<" not in each]
        links.append(f'<a href="/files/{wheel.name}{told}"{more}>{wheel.name}</a>')
        page = f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>".encode()
        self.script.files[f"/simple/{named.package}/"] = Served(page, etag=None)

    def answer(self, handler: Handler) -> bool:
        """Answer a request; tell whether that was done."""
        if self._refuses(handler):
            handler.say(401, ("WWW-Authenticate", 'Basic realm="index"'))
            return True
        path = handler.path.partition("?")[0]
        if path.startswith("/simple/"):
            served = self.script.files.get(path)
            if served is None:
                return False
            handler.say(200, ("Content-Type", "text/html"), length=len(served.data))
            handler.body(served.data)
            return True
        if not path.endswith(".whl"):
            return False
        if self.wheels_elsewhere is not None:
            handler.say(302, ("Location", f"{self.wheels_elsewhere}{path}"))
            return True
        self._send(handler, self.script.files[path].data)
        return True

    def _refuses(self, handler: Handler) -> bool:
        if self.user is None:
            return False
        wanted = f"Basic {base64.b64encode(self.user.encode()).decode()}"
        return handler.headers.get("Authorization") != wanted

    def _send(self, handler: Handler, data: bytes) -> None:
        marks = [("ETag", '"one"')]
        start, end, status = 0, len(data), 200
        if self.says_ranges:
            marks.append(("Accept-Ranges", "bytes"))
            if handler.asked is not None:
                start, asked_end = handler.asked
                end = len(data) if asked_end is None else min(asked_end, len(data))
                marks.append(("Content-Range", f"bytes {start}-{end - 1}/{len(data)}"))
                status = 206
        handler.say(status, *marks, length=end - start)
        if handler.command == "HEAD":
            return
        part = data[start:end]
        if self.breaks_after is not None and len(part) > self.breaks_after:
            part = part[: self.breaks_after]
            handler.hang_up()
        if self.stalls_after is not None:
            self._give(handler, part[: self.stalls_after])
            part = part[self.stalls_after :]
            handler.wfile.flush()
            self.goes_on.wait(60)
        self._give(handler, part)

    def _give(self, handler: Handler, part: bytes) -> None:
        with self.script.lock:
            self.sent += len(part)
        handler.body(part)


@contextmanager
def simple_index(host: str = "127.0.0.1") -> Iterator[SimpleIndex]:
    """Run an index for the time of a block."""
    with serving(Script(), host=host) as running:
        index = SimpleIndex(running.base, running.script)
        running.script.act = index.answer
        yield index


def pip_settings(url: str) -> dict[str, str]:
    """Return the environment in which pip knows that index alone, and keeps nothing."""
    return {
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_INDEX_URL": url,
        "PIP_EXTRA_INDEX_URL": "",
        "PIP_FIND_LINKS": "",
        "PIP_CONSTRAINT": "",
        "PIP_NO_CACHE_DIR": "1",
        "PIP_RETRIES": "0",
    }


def _metadata(wheel: Path) -> bytes:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        return archive.read(name)
