"""The client against Debian's docker-registry."""

import base64
import hashlib
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from dis_derivations.registry import uploads
from dis_derivations.registry.client import RegistryClient
from dis_derivations.registry.credentials import CredentialStore, Login
from dis_derivations.registry.documents import (
    EMPTY,
    EMPTY_CONFIG,
    MANIFEST,
    Descriptor,
    ImageManifest,
)
from dis_derivations.registry.errors import RegistryMismatchError, RegistryRefusedError
from dis_derivations.registry.login import check_login
from dis_derivations.registry.reference import RegistryReference, parse_reference
from dis_derivations.registry.uploads import Blob, blob_of_file
from dis_derivations.transport.address import parse_address
from dis_derivations.transport.conduct import Conduct
from dis_store import Store
from dis_store.digest import Digest, Sha256
from dis_store.errors import DisError, InterruptedBuildError
from dis_store.writing.downloads import downloading
from real_registry import RealRegistry, Settings, running_registry
from token_server import TokenServer, serving_tokens

ME = Login("me", "a pass:word")
CHUNK_BYTES = 4 << 20


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRegistry]:
    with running_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture
def client(tmp_path: Path) -> Iterator[RegistryClient]:
    with RegistryClient({"HOME": str(tmp_path)}, Conduct(ranges=2, piece_bytes=1 << 20)) as opened:
        yield opened


def reference_to(registry: RealRegistry, name: str) -> RegistryReference:
    return parse_reference(registry.reference(name))


def manifest_of(*layers: Descriptor, subject: Descriptor | None = None) -> bytes:
    config = Descriptor(EMPTY_CONFIG, Sha256.of(EMPTY), len(EMPTY))
    return ImageManifest(config, layers, "application/x.test", {"a": "b"}, subject).encode()


def test_a_blob_that_was_sent_is_there_and_comes_back(
    registry: RealRegistry, client: RegistryClient
) -> None:
    place = reference_to(registry, "blobs/one")
    digest = client.push_bytes(place, b"hello")

    assert client.has_blob(place, digest)
    assert client.read_blob(place, digest, 5) == b"hello"
    assert not client.has_blob(place, Sha256.of(b"another"))


def test_an_empty_blob_is_sent_and_comes_back(
    registry: RealRegistry, client: RegistryClient
) -> None:
    place = reference_to(registry, "blobs/empty")
    digest = client.push_bytes(place, b"")

    assert client.has_blob(place, digest)
    assert client.read_blob(place, digest, 0) == b""


def test_a_blob_is_mounted_from_another_repository(
    registry: RealRegistry, client: RegistryClient
) -> None:
    data = random.Random(1).randbytes(10_000)  # noqa: S311 - bytes of a test
    client.push_bytes(reference_to(registry, "mount/source"), data)

    blob = Blob(Sha256.of(data), len(data), lambda start, end: pytest.fail("bytes were sent"))
    target = reference_to(registry, "mount/target")

    assert client.push_blob(target, blob, mount_from="mount/source") == "mounted"
    assert client.push_blob(target, blob) == "present"


def test_a_manifest_comes_back_by_tag_and_by_digest(
    registry: RealRegistry, client: RegistryClient
) -> None:
    place = reference_to(registry, "manifests:one")
    client.push_bytes(place, EMPTY)
    data = manifest_of()

    digest = client.push_manifest(place, data, MANIFEST)

    assert client.resolve(place) == client.find(place) == digest
    assert client.manifest(place).data == client.manifest(place.with_digest(digest)).data == data
    assert client.find(place.with_tag("two")) is None
    assert client.find(place.with_digest(Sha256.of(b"x"))) is None
    assert client.tags(place) == ["one"]
    with pytest.raises(RegistryRefusedError) as caught:
        client.manifest(place.with_tag("two"))
    assert caught.value.is_missing
    assert str(place.with_tag("two")) in caught.value.what


def test_what_refers_to_a_manifest_is_listed_by_the_tag_that_stands_for_it(
    registry: RealRegistry, client: RegistryClient
) -> None:
    place = reference_to(registry, "referrers:one")
    client.push_bytes(place, EMPTY)
    data = manifest_of()
    subject = Descriptor(MANIFEST, client.push_manifest(place, data, MANIFEST), len(data))
    first = manifest_of(subject=subject)
    client.push_bytes(place, b"x")
    second = manifest_of(Descriptor("t/x", Sha256.of(b"x"), 1), subject=subject)
    for each in (first, second, first):
        client.push_manifest(place.base, each, MANIFEST)

    found = client.referrers(place.with_digest(subject.digest))

    assert {each.digest for each in found} == {Sha256.of(first), Sha256.of(second)}
    assert len(found) == 2
    assert client.referrers(place.with_digest(subject.digest), "application/other") == []
    assert client.referrers(place.with_digest(Sha256.of(first))) == []


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Blob:
    """A blob of more than two chunks, which are small here."""
    monkeypatch.setattr(uploads, "CHUNK_BYTES", CHUNK_BYTES)
    monkeypatch.setattr(uploads, "WHOLE_BYTES", CHUNK_BYTES)
    data = random.Random(2).randbytes(1 << 20)  # noqa: S311 - bytes of a test
    path = tmp_path / "large"
    hasher = hashlib.sha256()
    with path.open("wb") as file:
        for number in range(2 * (CHUNK_BYTES >> 20) + 3):
            piece = bytes([number]) + data[1:]
            file.write(piece)
            hasher.update(piece)
    return blob_of_file(path, Sha256(f"sha256:{hasher.hexdigest()}"), path.stat().st_size)


def test_an_upload_goes_on_where_a_killed_one_stopped(
    registry: RealRegistry, client: RegistryClient, large: Blob
) -> None:
    place = reference_to(registry, "resume/push")

    def broken(start: int, end: int) -> Iterator[bytes]:
        if start >= CHUNK_BYTES:
            raise InterruptedBuildError("killed")
        yield from large.read(start, end)

    with pytest.raises(InterruptedBuildError):
        client.push_blob(place, Blob(large.digest, large.size, broken))
    assert not client.has_blob(place, large.digest)
    read: list[int] = []

    def counted(start: int, end: int) -> Iterator[bytes]:
        for piece in large.read(start, end):
            read.append(len(piece))
            yield piece

    again = Blob(large.digest, large.size, counted)
    told: list[int] = []
    assert client.push_blob(place, again, on_bytes=told.append) == "sent"

    assert sum(read) == large.size - CHUNK_BYTES
    assert sum(told) == large.size
    assert client.has_blob(place, large.digest)


def test_an_upload_goes_on_after_a_restart_of_the_registry_in_the_middle(
    tmp_path: Path, large: Blob
) -> None:
    conduct = Conduct(first_delay=0.5, attempts=8)
    with (
        running_registry(tmp_path / "registry") as registry,
        RegistryClient({"HOME": str(tmp_path)}, conduct) as client,
    ):
        restarted: list[bool] = []
        place = reference_to(registry, "resume/restart")

        def restarting(start: int, end: int) -> Iterator[bytes]:
            if start >= CHUNK_BYTES and not restarted:
                restarted.append(True)
                registry.stop()
                registry.start()
            yield from large.read(start, end)

        blob = Blob(large.digest, large.size, restarting)

        assert client.push_blob(place, blob) == "sent"
        assert client.has_blob(place, large.digest)


def test_a_download_goes_on_where_a_killed_one_stopped(
    registry: RealRegistry, client: RegistryClient, large: Blob, tmp_path: Path
) -> None:
    from dis_derivations.transport.transfer import Listener

    place = reference_to(registry, "resume/pull")
    client.push_blob(place, large)
    came: list[int] = []

    def stop() -> None:
        if sum(came) > large.size // 2:
            raise InterruptedBuildError("killed")

    with Store.open(tmp_path / "store") as store:
        foundation, key = store.new_tree().foundation, Digest.of(b"key")
        with pytest.raises(InterruptedBuildError), downloading(foundation, key, stop) as download:
            client.fetch_blob(
                place, large.digest, large.size, download, Listener(came.append, stop)
            )
        before = len(registry.requests())
        told: list[int] = []
        with downloading(foundation, key, lambda: None) as download:
            content = client.fetch_blob(
                place, large.digest, large.size, download, Listener(told.append, lambda: None)
            )

    assert content.sha256 == large.digest
    assert sum(told) == large.size
    # Less was asked for again than there is; nothing, where all had come before it was told.
    asked = [line for line in registry.requests()[before:] if line.startswith("GET")]
    assert len(asked) < large.size / client.conduct.piece_bytes


def test_a_blob_that_changed_in_the_registry_is_refused_and_not_kept(
    registry: RealRegistry, client: RegistryClient, tmp_path: Path
) -> None:
    from dis_derivations.transport.transfer import Listener

    place = reference_to(registry, "changed")
    data = random.Random(3).randbytes(3 << 20)  # noqa: S311 - bytes of a test
    digest = client.push_bytes(place, data)
    registry.blob_path(digest).write_bytes(data[:-1] + b"x")

    with Store.open(tmp_path / "store") as store:
        foundation, key = store.new_tree().foundation, Digest.of(b"key")
        with (
            downloading(foundation, key, lambda: None) as download,
            pytest.raises(RegistryMismatchError),
        ):
            client.fetch_blob(
                place, digest, len(data), download, Listener(lambda _: None, lambda: None)
            )
        assert not download.directory.exists()


def test_a_blob_that_is_not_what_its_digest_says_is_not_taken_by_the_registry(
    registry: RealRegistry, client: RegistryClient
) -> None:
    place = reference_to(registry, "lying")
    blob = Blob(Sha256.of(b"what"), 4, lambda start, end: [b"else"])

    with pytest.raises(RegistryRefusedError):
        client.push_blob(place, blob)
    assert not client.has_blob(place, blob.digest)


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRegistry]:
    settings = Settings(users={ME.user: ME.password}, delete=False)
    with running_registry(tmp_path_factory.mktemp("closed"), settings) as running:
        yield running


def test_a_registry_with_users_takes_the_password_that_is_stored(
    closed: RealRegistry, tmp_path: Path
) -> None:
    environment = {"HOME": str(tmp_path)}
    place = reference_to(closed, "private")
    with RegistryClient(environment) as client, pytest.raises(RegistryRefusedError) as caught:
        client.push_bytes(place, b"x")
    assert caught.value.hint == f"store a password for it: dis login {closed.host}"

    assert check_login(environment, closed.host, ME, None)
    CredentialStore(environment).store(closed.host, ME)

    with RegistryClient(environment) as client:
        assert client.has_blob(place, client.push_bytes(place, b"x"))


def basic(password: str) -> dict[str, str]:
    token = base64.b64encode(f"{ME.user}:{password}".encode()).decode()
    return {"Authorization": f"Basic {token}"}


def test_who_asks_may_bring_credentials_of_their_own_in_the_place_of_those_that_are_stored(
    closed: RealRegistry, tmp_path: Path
) -> None:
    place = reference_to(closed, "brought")
    environment = {"HOME": str(tmp_path)}
    with RegistryClient(environment, login=ME) as client:
        digest = client.push_bytes(place, b"brought")
        address = client.blob_address(place, digest)
        # The right password is known; the one that was brought counts.
        with pytest.raises(RegistryRefusedError):
            client.exchange(place).ask("GET", address, None, basic("wrong"))

    with RegistryClient(environment) as client:
        with pytest.raises(RegistryRefusedError):
            client.exchange(place).ask("GET", address)
        with client.exchange(place).ask("GET", address, None, basic(ME.password)) as answer:
            assert answer.read(100) == b"brought"


def test_what_cannot_be_reached_is_said_to_be_that_and_nothing_of_it_has_arrived(
    tmp_path: Path,
) -> None:
    environment, conduct = {"HOME": str(tmp_path)}, Conduct(attempts=1)
    with RegistryClient(environment, conduct) as client, pytest.raises(DisError) as caught:
        client.tags(parse_reference("oci://127.0.0.1:9/nowhere"))

    assert "cannot be reached" in str(caught.value.cause)
    assert caught.value.hint == (
        "see whether its name and port are right; then run the same command again later"
    )


def test_a_wrong_password_is_not_stored(closed: RealRegistry, tmp_path: Path) -> None:
    with pytest.raises(RegistryRefusedError) as caught:
        check_login({"HOME": str(tmp_path)}, closed.host, Login("me", "wrong"), None)
    assert "wrong" not in str(caught.value)


def test_a_registry_without_deletion_is_pushed_to_and_pulled_from(
    closed: RealRegistry, tmp_path: Path
) -> None:
    with RegistryClient({"HOME": str(tmp_path)}, login=ME) as client:
        place = reference_to(closed, "kept:one")
        client.push_bytes(place, EMPTY)
        digest = client.push_manifest(place, manifest_of(), MANIFEST)
        assert client.resolve(place) == digest


@pytest.fixture
def tokens() -> Iterator[TokenServer]:
    with serving_tokens(TokenServer({ME.user: ME.password})) as running:
        yield running


def test_a_token_server_elsewhere_is_told_the_password_only_when_the_user_agreed(
    tokens: TokenServer, tmp_path: Path
) -> None:
    environment = {"HOME": str(tmp_path)}
    settings = Settings(token=tokens.settings(tmp_path / "issuer"))
    with running_registry(tmp_path / "registry", settings) as registry:
        CredentialStore(environment).store(registry.host, ME)
        place = reference_to(registry, "tokens")
        with RegistryClient(environment) as client, pytest.raises(RegistryRefusedError) as caught:
            client.push_bytes(place, b"x")
        assert tokens.headers == [None]
        hint = f"dis login {registry.host} --realm http://{tokens.place}/"
        assert hint in str(caught.value.hint)

        realm = parse_address(f"http://{tokens.place}/")
        assert check_login(environment, registry.host, ME, realm)
        CredentialStore(environment).store(registry.host, ME, realm)

        with RegistryClient(environment) as client:
            assert client.has_blob(place, client.push_bytes(place, b"x"))
    assert ["repository:tokens:pull,push"] in tokens.scopes
    assert ["repository:tokens:pull"] in tokens.scopes


def test_a_token_that_has_expired_is_fetched_again(tokens: TokenServer, tmp_path: Path) -> None:
    tokens.seconds = -3600
    settings = Settings(token=tokens.settings(tmp_path / "issuer"))
    with running_registry(tmp_path / "registry", settings) as registry:
        agreed = frozenset({parse_address(tokens.realm).origin})
        place = reference_to(registry, "expired")
        with RegistryClient({"HOME": str(tmp_path)}, login=ME, agreed=agreed) as client:
            with pytest.raises(DisError):
                client.push_bytes(place, b"x")
            refused = len(tokens.headers)
            tokens.seconds = 60
            digest = client.push_bytes(place, b"x")
            assert client.has_blob(place, digest)
    assert 1 <= refused < 6
    assert len(tokens.headers) > refused


@pytest.mark.parametrize("known", [True, False])
def test_an_identity_token_goes_to_the_server_for_tokens_alone_and_in_the_body(
    tokens: TokenServer, tmp_path: Path, known: bool
) -> None:
    tokens.identities = {"an identity" if known else "another"}
    settings = Settings(token=tokens.settings(tmp_path / "issuer"))
    agreed = frozenset({parse_address(tokens.realm).origin})
    with running_registry(tmp_path / "registry", settings) as registry:
        entry = {"auth": "MDAwMDA6", "identitytoken": "an identity"}
        path = tmp_path / ".docker" / "config.json"
        path.parent.mkdir()
        path.write_text(json.dumps({"auths": {registry.host: entry}}), "utf-8")
        place = reference_to(registry, "identity")
        with RegistryClient({"HOME": str(tmp_path)}) as client, pytest.raises(RegistryRefusedError):
            client.push_bytes(place, b"nobody agreed to this server")
        assert tokens.shown == []
        with RegistryClient({"HOME": str(tmp_path)}, agreed=agreed) as client:
            if known:
                assert client.has_blob(place, client.push_bytes(place, b"x"))
            else:
                with pytest.raises(RegistryRefusedError):
                    client.push_bytes(place, b"x")
    assert set(tokens.headers) == {None}
    assert set(tokens.shown) == {"an identity"}


def test_the_password_is_in_no_error_and_in_no_file_but_its_own(
    closed: RealRegistry, tmp_path: Path
) -> None:
    environment = {"HOME": str(tmp_path)}
    CredentialStore(environment).store(closed.host, Login("me", "canary-of-a-password"))
    with RegistryClient(environment) as client, pytest.raises(RegistryRefusedError) as caught:
        client.push_bytes(reference_to(closed, "x"), b"x")

    assert "canary" not in f"{caught.value.what} {caught.value.cause} {caught.value.hint}"
    mode = CredentialStore(environment).path.stat().st_mode & 0o777
    assert mode == 0o600
    files = [Path(where, name) for where, _, names in os.walk(tmp_path) for name in names]
    assert files == [CredentialStore(environment).path]
