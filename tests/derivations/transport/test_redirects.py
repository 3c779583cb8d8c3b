"""Where a redirect leads, what goes along with it, and where it must not lead."""

import base64
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dis_derivations.transport.address import UnsafeAddressError, parse_address
from dis_derivations.transport.client import Client
from dis_derivations.transport.errors import RefusedRequestError, TransferError
from dis_derivations.transport.reach import Reach, reach_of, reachable_from
from dis_derivations.transport.redirects import MAX_REDIRECTS
from file_server import Handler, Script, Served, Server, Serving, serving
from transport_site import BYTES, CONDUCT, Fetching

CANARY = "canary-5up3r"
MIRROR = "/mirror"


def to(location: str, code: int = 302) -> Callable[[Handler], bool]:
    def act(handler: Handler) -> bool:
        if handler.path.startswith(MIRROR):
            return False
        handler.say(code, ("Location", location))
        return True

    return act


@pytest.fixture
def other() -> Iterator[Serving]:
    """Another server, which has the file too."""
    with serving(Script({f"{MIRROR}/file": Served(BYTES)})) as running:
        yield running


def sent_to(serving: Serving) -> str:
    return "\n".join(
        f"{seen.path} {name}: {value}"
        for seen in serving.script.requests
        for name, value in seen.headers.items()
    )


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    "location", ["/mirror/file", "mirror/file", "../../mirror/./file", "/mirror/f%69le#part"]
)
def test_a_redirect_is_followed(site: Fetching, code: int, location: str) -> None:
    site.script.files = {f"{MIRROR}/file": Served(BYTES)}
    site.script.act = to(location, code)
    assert site.fetch() == BYTES


def test_a_password_does_not_go_to_another_server(site: Fetching, other: Serving) -> None:
    site.script.act = to(other.url(f"{MIRROR}/file?token=theirs"))
    address = parse_address(site.serving.url("/file").replace("//", f"//user:{CANARY}@"))
    assert site.fetch(address) == BYTES
    password = base64.b64encode(f"user:{CANARY}".encode()).decode()
    assert f"Basic {password}" in sent_to(site.serving)
    assert password not in sent_to(other)
    assert CANARY not in sent_to(other)
    assert "Authorization" not in sent_to(other)
    assert "token=theirs" in sent_to(other)


def test_a_password_does_not_come_back_from_another_server(site: Fetching, other: Serving) -> None:
    site.script.files = {f"{MIRROR}/file": Served(BYTES)}
    site.script.act = to(other.url("/back"))
    other.script.act = to(site.serving.url(f"{MIRROR}/file"))
    address = parse_address(site.serving.url("/file").replace("//", f"//user:{CANARY}@"))
    assert site.fetch(address) == BYTES
    for seen in site.script.requests:
        assert ("Authorization" in seen.headers) == (not seen.path.startswith(MIRROR))


def test_another_name_of_the_same_machine_is_another_server(site: Fetching) -> None:
    site.script.files = {f"{MIRROR}/file": Served(BYTES)}
    site.script.act = to(site.serving.url(f"{MIRROR}/file").replace("127.0.0.1", "localhost"))
    address = parse_address(site.serving.url("/file").replace("//", f"//user:{CANARY}@"))
    assert site.fetch(address) == BYTES
    assert "Authorization" not in site.script.requests[1].headers


def test_a_password_that_a_server_names_is_not_sent(site: Fetching, other: Serving) -> None:
    site.script.act = to(other.url(f"{MIRROR}/file").replace("//", "//them:theirs@"))
    assert site.fetch() == BYTES
    assert "Authorization" not in sent_to(other)


def test_a_password_comes_from_netrc_for_its_host_alone(
    site: Fetching, other: Serving, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text(f"machine 127.0.0.1 login user password {CANARY}\n")
    netrc.chmod(0o600)
    site.script.act = to(other.url(f"{MIRROR}/file"))
    site.client = Client.of(CONDUCT, {"NETRC": str(netrc)})
    assert site.fetch() == BYTES
    assert "Authorization" in sent_to(site.serving)
    assert "Authorization" not in sent_to(other)
    # What others can read is no secret.
    netrc.chmod(0o644)
    site.script.requests.clear()
    site.fetch(site.address("/again"))
    assert "Authorization" not in sent_to(site.serving)


def test_redirects_come_to_an_end(site: Fetching) -> None:
    site.script.act = to("/round")
    with pytest.raises(TransferError, match=f"more than {MAX_REDIRECTS}"):
        site.fetch()
    assert len(site.script.requests) == MAX_REDIRECTS + 1


@pytest.mark.parametrize(
    "location",
    [
        "http://example.org/file",
        "http://169.254.169.254/latest/meta-data",
        "https://169.254.169.254/latest/meta-data",
        "https://[fe80::1]/",
        "file:///etc/passwd",
        "ftp://127.0.0.1/file",
        "gopher://127.0.0.1/",
        "https://",
        "http://127.0.0.1:99999/",
        "http://127.0.0.1:0/",
        "http://2130706433/",
        "http://[::ffff:7f00:1]x/",
        "http://exa mple.org/",
        "x" * 9000,
        "https://a\x01b/",
    ],
)
def test_a_redirect_to_where_nothing_is_contacted_is_refused(site: Fetching, location: str) -> None:
    site.script.act = to(location)
    with pytest.raises((UnsafeAddressError, TransferError, RefusedRequestError)):
        site.fetch()
    assert len(site.script.requests) == 1


def test_nothing_of_the_world_leads_into_this_network(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reachable_from(Reach.WORLD) == {Reach.WORLD}
    assert Reach.MACHINE not in reachable_from(Reach.NETWORK)
    assert Reach.LINK not in reachable_from(Reach.MACHINE)
    client = Client.of(CONDUCT, {})
    # A name that leads to this machine, whatever it says of itself.
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda host, port, *_, **__: [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))
        ],
    )
    with serving() as running:
        port = running.base.rpartition(":")[2]
        address = parse_address(f"https://innocent.example:{port}/")
        with pytest.raises(UnsafeAddressError, match="this machine"):
            client.connections.send("GET", address, {}, reachable_from(Reach.WORLD))
        assert running.script.requests == []
        spoofed = parse_address(f"http://localhost:{port}/")
        monkeypatch.setattr(
            "dis_derivations.transport.connections.reach_of", lambda _: Reach.NETWORK
        )
        with pytest.raises(UnsafeAddressError, match="private network"):
            client.ask("GET", spoofed)
        assert running.script.requests == []


@pytest.mark.parametrize(
    ("address", "reach"),
    [
        ("127.0.0.1", Reach.MACHINE),
        ("127.9.9.9", Reach.MACHINE),
        ("::1", Reach.MACHINE),
        ("[::1]", Reach.MACHINE),
        ("::ffff:127.0.0.1", Reach.MACHINE),
        ("0.0.0.0", Reach.MACHINE),  # noqa: S104 - not bound
        ("::", Reach.MACHINE),
        ("10.1.2.3", Reach.NETWORK),
        ("172.16.0.1", Reach.NETWORK),
        ("192.168.1.1", Reach.NETWORK),
        ("100.64.0.1", Reach.NETWORK),
        ("fd00::1", Reach.NETWORK),
        ("224.0.0.1", Reach.NETWORK),
        ("::ffff:10.0.0.1", Reach.NETWORK),
        ("169.254.169.254", Reach.LINK),
        ("fe80::1%eth0", Reach.LINK),
        ("93.184.215.14", Reach.WORLD),
        ("2606:4700::1111", Reach.WORLD),
    ],
)
def test_how_far_away_an_address_is(address: str, reach: Reach) -> None:
    assert reach_of(address) is reach


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, Path]:
    """A certificate for 127.0.0.1 that signs itself."""
    top = tmp_path_factory.mktemp("tls")
    key, file = top / "key.pem", top / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-keyout", str(key), "-out", str(file), "-days", "30", "-subj", "/CN=test"),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file, key)
    return context, file


def test_encrypted_connections_are_made_with_the_authorities_of_the_environment(
    site: Fetching, certificate: tuple[ssl.SSLContext, Path]
) -> None:
    context, file = certificate
    with serving(Script({"/file": Served(BYTES)}), tls=context) as running:
        address = parse_address(running.url("/file"))
        with pytest.raises(TransferError, match=r"certificate of 127\.0\.0\.1.* is not trusted"):
            site.fetch(address)
        site.client = Client.of(CONDUCT, {"SSL_CERT_FILE": str(file)})
        assert site.fetch(address) == BYTES
        site.client.connections.close()


def test_nothing_leads_from_an_encrypted_connection_to_one_that_is_not(
    site: Fetching, certificate: tuple[ssl.SSLContext, Path]
) -> None:
    context, file = certificate
    with serving(Script(act=to(site.serving.url("/file"))), tls=context) as running:
        site.client = Client.of(CONDUCT, {"SSL_CERT_FILE": str(file)})
        with pytest.raises(UnsafeAddressError, match="from https to http"):
            site.fetch(parse_address(running.url("/file")))
        site.client.connections.close()
    assert site.script.requests == []


def test_a_proxy_of_the_environment_is_asked_and_gets_no_password_of_the_server(
    site: Fetching, certificate: tuple[ssl.SSLContext, Path]
) -> None:
    seen: list[str] = []

    class Proxy(Handler):
        """Refuses to connect, and notes what it was asked for."""

        def do_CONNECT(self) -> None:  # noqa: N802 - the name that the server looks for
            seen.append(f"{self.path} {dict(self.headers)}")
            self.say(403)

    server = Server(Script(), "127.0.0.1")
    server.RequestHandlerClass = Proxy
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        proxy = f"http://me:{CANARY}@127.0.0.1:{server.server_port}"
        site.client = Client.of(CONDUCT, {"HTTPS_PROXY": proxy})
        address = parse_address("https://user:other@models.example/file")
        with pytest.raises(TransferError, match="proxy") as caught:
            site.fetch(address)
        assert CANARY not in str(caught.value)
        assert seen[0].startswith("models.example:443 ")
        assert base64.b64encode(f"me:{CANARY}".encode()).decode() in seen[0]
        assert base64.b64encode(b"user:other").decode() not in seen[0]
        # What is on this machine, and what the environment excepts, is asked without one.
        count = len(seen)
        assert site.fetch() == BYTES
        site.client = Client.of(CONDUCT, {"HTTPS_PROXY": proxy, "NO_PROXY": "models.example"})
        with pytest.raises(TransferError, match="its name is not known"):
            site.fetch(address)
        assert len(seen) == count
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_where_head_is_not_allowed_the_first_byte_is_asked_for(site: Fetching) -> None:
    def act(handler: Handler) -> bool:
        if handler.command == "HEAD":
            handler.say(405)
            return True
        return False

    assert site.client.look(site.address()).size == len(BYTES)
    assert site.script.sent == 0
    site.script.act = act
    assert site.client.look(site.address()).size == len(BYTES)
    assert site.script.sent == 1
    site.script.ranges = False
    assert site.client.look(site.address()).size == len(BYTES)


def test_a_short_document_is_read_whole_or_not_at_all(site: Fetching) -> None:
    assert site.client.read(site.address(), len(BYTES)) == BYTES
    with pytest.raises(TransferError, match="sends more than 10 bytes"):
        site.client.read(site.address(), 10)
