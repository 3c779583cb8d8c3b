"""A server that gives tokens for a registry, as `docker-registry` checks them: signed by a key that it knows."""

import base64
import contextlib
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.x509.oid import NameOID

SERVICE = "tests"
ISSUER = "the token server of the tests"


@dataclass
class TokenServer:
    """A server for tokens.

    Attributes:
        users: Passwords by user.
        seconds: What a token lives.
        headers: The `Authorization` of each request; None where there was none.
        scopes: What was asked for.
        identities: Identity tokens that are known.
        shown: Identity tokens that came, each in a form.
    """

    users: dict[str, str]
    seconds: int = 60
    place: str = ""
    headers: list[str | None] = field(default_factory=list)
    scopes: list[list[str]] = field(default_factory=list)
    identities: set[str] = field(default_factory=set)
    shown: list[str] = field(default_factory=list)
    key: ec.EllipticCurvePrivateKey = field(
        default_factory=lambda: ec.generate_private_key(ec.SECP256R1())
    )

    @property
    def realm(self) -> str:
        return f"http://{self.place}/token"

    def settings(self, directory: Path) -> dict[str, str]:
        """Return the `auth.token` block of a registry that believes this server."""
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / "issuer.pem"
        path.write_bytes(self._certificate().public_bytes(serialization.Encoding.PEM))
        return {
            "realm": self.realm,
            "service": SERVICE,
            "issuer": ISSUER,
            "rootcertbundle": str(path),
        }

    def _key_id(self) -> str:
        """Return what `docker-registry` calls the key: https://github.com/docker/libtrust, `keyIDFromCryptoKey`."""
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        der = self.key.public_key().public_bytes(serialization.Encoding.DER, form)
        text = base64.b32encode(hashlib.sha256(der).digest()[:30]).decode()
        return ":".join(text[start : start + 4] for start in range(0, len(text), 4))

    def _certificate(self) -> x509.Certificate:
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, ISSUER)])
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(self.key.public_key())
            .serial_number(1)
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .sign(self.key, hashes.SHA256())
        )

    def token(self, scopes: list[str]) -> str:
        """Return a token for scopes."""
        access = []
        for scope in scopes:
            kind, name, actions = scope.split(":", 2)
            access.append({"type": kind, "name": name, "actions": actions.split(",")})
        now = int(time.time())
        claims = {
            "iss": ISSUER,
            "sub": "somebody",
            "aud": SERVICE,
            "exp": now + self.seconds,
            "nbf": now - 5,
            "iat": now,
            "jti": str(time.monotonic_ns()),
            "access": access,
        }
        header = {"typ": "JWT", "alg": "ES256", "kid": self._key_id()}
        signed = f"{_part(header)}.{_part(claims)}"
        r, s = decode_dss_signature(self.key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{signed}.{_encoded(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


@contextlib.contextmanager
def serving_tokens(tokens: TokenServer) -> Iterator[TokenServer]:
    """Serve for the time of a block."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            _answer(self, tokens)

        def do_POST(self) -> None:
            _answer_form(self, tokens)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    tokens.place = f"127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield tokens
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _answer(handler: BaseHTTPRequestHandler, tokens: TokenServer) -> None:
    told = handler.headers.get("Authorization")
    query = parse_qs(urlsplit(handler.path).query)
    tokens.headers.append(told)
    tokens.scopes.append(query.get("scope", []))
    known = {
        "Basic " + base64.b64encode(f"{user}:{text}".encode()).decode()
        for user, text in tokens.users.items()
    }
    _give(handler, tokens, query.get("scope", []), "token", is_known=told in known)


def _answer_form(handler: BaseHTTPRequestHandler, tokens: TokenServer) -> None:
    """Answer as https://distribution.github.io/distribution/spec/auth/oauth/ says."""
    form = parse_qs(handler.rfile.read(int(handler.headers["Content-Length"])).decode())
    tokens.headers.append(handler.headers.get("Authorization"))
    scopes = form.get("scope", [""])[0].split()
    tokens.scopes.append(scopes)
    tokens.shown.append(form.get("refresh_token", [""])[0])
    known = (
        form.get("grant_type") == ["refresh_token"]
        and form.get("service") == [SERVICE]
        and tokens.shown[-1] in tokens.identities
    )
    _give(handler, tokens, scopes, "access_token", is_known=known)


def _give(
    handler: BaseHTTPRequestHandler,
    tokens: TokenServer,
    scopes: list[str],
    name: str,
    *,
    is_known: bool,
) -> None:
    if not is_known:
        handler.send_response(401)
        handler.end_headers()
        return
    body = json.dumps({name: tokens.token(scopes), "expires_in": tokens.seconds}).encode()
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def _part(document: dict[str, Any]) -> str:
    return _encoded(json.dumps(document).encode())


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
