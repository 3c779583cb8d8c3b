"""What a hostile registry may do to one answer: a table of changes by name."""

import gzip
import json
import time
from collections.abc import Callable
from dataclasses import dataclass

from dis_derivations.registry.documents import MANIFEST
from hostile_registry import Asked, Change, Handler, Reply

Select = Callable[[Asked], bool]
_ENDLESS_BYTES = 64 << 20
_SLOW_SECONDS = 12.0


@dataclass(frozen=True)
class Answers:
    """Changes of answers.

    Attributes:
        elsewhere: The host of another server, to which nothing secret may come.
    """

    elsewhere: str

    def by_name(self) -> dict[str, Change]:
        """Return all changes, by what they do."""
        index: Select = lambda asked: asked.is_index  # noqa: E731
        part: Select = lambda asked: asked.is_part  # noqa: E731
        blob: Select = lambda asked: asked.is_blob  # noqa: E731
        changes: dict[str, Change] = {}
        for where, select in (("index", index), ("part", part), ("blob", blob)):
            for what, change in self._anywhere().items():
                changes[f"{where}: {what}"] = _only(select, change)
        for what, change in self._documents().items():
            changes[f"index: {what}"] = _only(index, change)
            changes[f"part: {what}"] = _only(part, change)
        for what, change in _files().items():
            changes[f"blob: {what}"] = _only(blob, change)
        for what, change in self._challenges().items():
            changes[f"challenge: {what}"] = change
        return changes

    def _anywhere(self) -> dict[str, Change]:
        away = f"http://{self.elsewhere}/stolen"
        return {
            "a byte is another one": lambda _, r: _body(r, r.body[:-1] + bytes([r.body[-1] ^ 1])),
            "it ends too early": lambda _, r: _said(r, r.body[:-1], len(r.body)),
            "it is longer than it says": lambda _, r: _said(r, r.body + b"more", len(r.body)),
            "it is longer": lambda _, r: _body(r, r.body + b"more"),
            "it is empty": lambda _, r: _body(r, b""),
            "it has no end": lambda _, __: _raw(_endless),
            "it is compressed": lambda _, r: _encoded(r),
            "it trickles": lambda _, __: _raw(_trickle_body),
            "its headers trickle": lambda _, __: _raw(_trickle_headers),
            "it has headers without end": lambda _, __: _raw(_endless_headers),
            "it has one header of a megabyte": lambda _, __: _raw(_long_header),
            "it says to go on for ever": lambda _, __: _raw(_endless_continue),
            "it is no HTTP": lambda _, __: _raw(lambda h: h.send(b"SSH-2.0-OpenSSH_9.2\r\n")),
            "it hangs up": lambda _, __: _raw(lambda _h: None),
            "it leads elsewhere": lambda _, __: Reply(307, {"Location": away}),
            "it leads in a circle": lambda a, __: Reply(307, {"Location": a.path}),
            "it leads to a file": lambda _, __: Reply(307, {"Location": "file:///etc/passwd"}),
            "it leads to another machine": lambda _, __: Reply(
                307, {"Location": "http://192.0.2.1/x"}
            ),
            "it leads to the metadata of a cloud": lambda _, __: Reply(
                302, {"Location": "http://169.254.169.254/latest"}
            ),
            "it leads to a password": lambda _, __: Reply(
                307, {"Location": f"http://a:b@{self.elsewhere}/stolen"}
            ),
            "it is not there": lambda _, __: Reply(404, {}),
            "it is forbidden": lambda _, __: Reply(403, {}, b"canary-password"),
            "it is busy for a day": lambda _, __: Reply(429, {"Retry-After": "86400"}),
            "it is busy for a strange time": lambda _, __: Reply(429, {"Retry-After": "-1e999"}),
            "it fails for ever": lambda _, __: Reply(503, {}),
            "it has no content": lambda _, __: Reply(204, {}),
            "it is not modified": lambda _, __: Reply(304, {}),
        }

    def _documents(self) -> dict[str, Change]:
        return {
            "it is no JSON": lambda _, r: _body(r, b"<html>"),
            "it is a list": lambda _, r: _body(r, b"[]"),
            "it is deep": lambda _, r: _body(r, b"[" * 100_000),
            "it has a million lists": lambda _, r: _body(
                r, b'{"schemaVersion":2,"x":[' + b"[]," * 1_300_000 + b"[]]}"
            ),
            "it has a key twice": lambda _, r: _body(r, r.body[:-1] + b',"schemaVersion":2}'),
            "it is longer than registries take": lambda _, r: _body(r, r.body + b" " * (5 << 20)),
            "its digest is another one": lambda _, r: Reply(
                200, {**r.headers, "Docker-Content-Digest": f"sha256:{'0' * 64}"}, r.body
            ),
            "its type is another one": lambda _, r: Reply(
                200,
                {
                    **r.headers,
                    "Content-Type": "application/vnd.docker.distribution.manifest.v2+json",
                },
                r.body,
            ),
            "it is a manifest of something else": lambda _, r: _body(
                r,
                json.dumps(
                    {
                        "schemaVersion": 2,
                        "mediaType": MANIFEST,
                        "config": {
                            "mediaType": "x",
                            "digest": f"sha256:{'1' * 64}",
                            "size": 2,
                        },
                        "layers": [],
                    }
                ).encode(),
            ),
        }

    def _challenges(self) -> dict[str, Change]:
        there = f"http://{self.elsewhere}/token"
        own = "http://HOST/token"
        long = "x" * 60_000
        return {
            "basic for ever": _challenge("Basic realm=x", _no_token),
            "a token from elsewhere": _challenge(f'Bearer realm="{there}",service="x"', _no_token),
            "a token from a file": _challenge('Bearer realm="file:///etc/passwd"', _no_token),
            "a token from another machine": _challenge(
                'Bearer realm="http://192.0.2.1/token"', _no_token
            ),
            "a token from nowhere": _challenge("Bearer", _no_token),
            "a long challenge": _challenge(f'Bearer realm="{own}",service="{long}"', _no_token),
            "a token without end": _challenge(
                f'Bearer realm="{own}"', lambda _a, _r: _raw(_endless)
            ),
            "a token with a line break": _challenge(
                f'Bearer realm="{own}"',
                lambda _a, _r: Reply(200, {}, b'{"token":"a\\r\\nX-Injected: yes"}'),
            ),
            "a token that is too long": _challenge(
                f'Bearer realm="{own}"',
                lambda _a, _r: Reply(200, {}, b'{"token":"' + b"x" * 100_000 + b'"}'),
            ),
            "a token that is a number": _challenge(
                f'Bearer realm="{own}"', lambda _a, _r: Reply(200, {}, b'{"token":1}')
            ),
            "a token that is no JSON": _challenge(
                f'Bearer realm="{own}"', lambda _a, _r: Reply(200, {}, b"token")
            ),
            "a token that leads elsewhere": _challenge(
                f'Bearer realm="{own}"', lambda _a, _r: Reply(302, {"Location": there})
            ),
            "a token that is never good": _challenge(
                f'Bearer realm="{own}"', lambda _a, _r: Reply(200, {}, b'{"token":"bad"}')
            ),
            "a redirect once it knows who asks": _challenged_redirect(
                "Basic realm=x", self.elsewhere
            ),
            "a redirect once it has seen a token": _challenged_redirect(
                f'Bearer realm="{own}"', self.elsewhere
            ),
            "a token that trickles": _challenge(
                f'Bearer realm="{own}"', lambda _a, _r: _raw(_trickle_body)
            ),
        }


def _files() -> dict[str, Change]:
    return {
        "it has no marks and no length": lambda _, r: Reply(
            200, {"Transfer-Encoding": "chunked"}, b"5\r\nhello\r\n0\r\n\r\n"
        ),
        "its range begins elsewhere": lambda _, r: _range(r, 1, len(r.body)),
        "its range is of a longer file": lambda _, r: _range(r, 0, len(r.body) + 1),
        "it is a part without a range": lambda _, r: Reply(206, {}, r.body),
        "it has no such part": lambda _, r: Reply(416, {"Content-Range": "bytes */0"}),
        "it is all ranges at once": lambda _, r: Reply(
            206, {"Content-Type": "multipart/byteranges; boundary=x"}, r.body
        ),
    }


def _only(select: Select, change: Change) -> Change:
    return lambda asked, reply: change(asked, reply) if select(asked) else reply


def _body(reply: Reply, body: bytes) -> Reply:
    headers = {k: v for k, v in reply.headers.items() if k != "Docker-Content-Digest"}
    return Reply(reply.status, headers, body)


def _said(reply: Reply, body: bytes, length: int) -> Reply:
    return Reply(reply.status, {**reply.headers, "Content-Length": str(length)}, body)


def _range(reply: Reply, start: int, size: int) -> Reply:
    end = start + len(reply.body) - 1
    headers = {**reply.headers, "Content-Range": f"bytes {start}-{end}/{size}"}
    return Reply(206, headers, reply.body)


def _encoded(reply: Reply) -> Reply:
    return Reply(
        reply.status, {**reply.headers, "Content-Encoding": "gzip"}, gzip.compress(bytes(8 << 20))
    )


def _raw(write: Callable[[Handler], None]) -> Reply:
    return Reply(200, {}, raw=write)


def _endless(handler: Handler) -> None:
    handler.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    piece = b"10000\r\n" + bytes(1 << 16) + b"\r\n"
    for _ in range(_ENDLESS_BYTES >> 16):
        handler.wfile.write(piece)


def _trickle_body(handler: Handler) -> None:
    handler.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    _trickle(handler, b"x")


def _trickle_headers(handler: Handler) -> None:
    handler.send(b"HTTP/1.1 200 OK\r\n")
    _trickle(handler, b"X-A: 1\r\n")


def _trickle(handler: Handler, piece: bytes) -> None:
    latest = time.monotonic() + _SLOW_SECONDS
    while time.monotonic() < latest:
        handler.wfile.write(piece)
        handler.wfile.flush()
        time.sleep(0.3)


def _endless_headers(handler: Handler) -> None:
    handler.send(b"HTTP/1.1 200 OK\r\n")
    for number in range(200_000):
        handler.wfile.write(b"X-%d: 1\r\n" % number)


def _long_header(handler: Handler) -> None:
    handler.send(b"HTTP/1.1 200 OK\r\nX-A: " + b"x" * (1 << 20) + b"\r\n\r\n")


def _endless_continue(handler: Handler) -> None:
    for _ in range(1_000_000):
        handler.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")


def _challenged_redirect(challenge: str, elsewhere: str) -> Change:
    """Return a change that sends everybody who proved who they are to another server."""

    def change(asked: Asked, reply: Reply) -> Reply:
        if asked.is_token:
            return Reply(200, {}, b'{"token":"canary-token"}')
        if "Authorization" in asked.headers:
            return Reply(307, {"Location": f"http://{elsewhere}/stolen"})
        told = challenge.replace("HOST", asked.headers.get("Host", ""))
        return Reply(401, {"WWW-Authenticate": told})

    return change


def _no_token(_asked: Asked, _reply: Reply) -> Reply:
    return Reply(404, {})


def _challenge(value: str, token: Change) -> Change:
    """Return a change that asks everybody who they are, for ever."""

    def change(asked: Asked, reply: Reply) -> Reply:
        if asked.is_token:
            return token(asked, reply)
        told = value.replace("HOST", asked.headers.get("Host", ""))
        return Reply(401, {"WWW-Authenticate": told}, b"canary-password")

    return change
