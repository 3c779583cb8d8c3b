"""Secrets of every kind that fetching needs: they reach whom they are for, and are nowhere else."""

import base64
import contextlib
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from dis_derivations.registry.client import RegistryClient
from dis_derivations.registry.credentials import Login
from dis_derivations.registry.documents import (
    EMPTY,
    EMPTY_CONFIG,
    MANIFEST,
    Descriptor,
    ImageManifest,
)
from dis_derivations.registry.reference import parse_reference
from real_registry import RealRegistry, Settings, running_registry
from secret_canaries import Canary, Sighting, watched
from tiny_runs import write_manifest

TOKEN = Canary("hf_canary5up3r5ecret")
REGISTRY = Canary("c4nary@registry/ß")
NETRC = Canary("c4nary-of-netrc")
PROXY = Canary("c4nary:of@proxy", "proxyuser")
INDEX = Canary("c4nary-of-the-index")
CANARIES = (TOKEN, REGISTRY, NETRC, PROXY, INDEX)
MARK = "watched-by-the-test-of-secrets"
WEIGHTS = "application/vnd.cncf.model.weight.v1.raw"
# The fixture of this directory: calls `dis` in a process.
Command = Any


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRegistry]:
    settings = Settings(users={REGISTRY.user: REGISTRY.secret})
    with running_registry(tmp_path_factory.mktemp("registry"), settings) as running:
        yield running


class Proxy:
    """A proxy that lets nobody through, and quotes what it was sent."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                one, _ = self._server.accept()
                with one, contextlib.suppress(OSError):
                    data = one.recv(65536)
                    self.asked.append(data)
                    body = b"you sent " + data
                    one.sendall(
                        b"HTTP/1.1 407 Sent "
                        + data.partition(b"Authorization: ")[2][:60].split(b"\r")[0]
                        + b"\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body)
                        + body
                    )

    def close(self) -> None:
        self._server.close()


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with contextlib.closing(Proxy()) as running:
        yield running


@pytest.fixture
def home(tmp_path: Path, registry: RealRegistry) -> Path:
    """Return a home with the passwords of a user."""
    place = tmp_path / "home"
    (place / ".docker").mkdir(parents=True)
    auth = base64.b64encode(f"{REGISTRY.user}:{REGISTRY.secret}".encode()).decode()
    document = {"auths": {registry.host: {"auth": auth}}}
    (place / ".docker/config.json").write_text(json.dumps(document), "utf-8")
    netrc = place / ".netrc"
    netrc.write_text(f"default login {NETRC.user} password {NETRC.secret}\n", "utf-8")
    netrc.chmod(0o600)
    return place


@pytest.fixture
def secrets(proxy: Proxy) -> Mapping[str, str]:
    from urllib.parse import quote

    place = f"http://{PROXY.user}:{quote(PROXY.secret, safe='')}@127.0.0.1:{proxy.port}"
    return {
        "HF_TOKEN": TOKEN.secret,
        "HUGGING_FACE_HUB_TOKEN": TOKEN.secret,
        "https_proxy": place,
        "HTTPS_PROXY": place,
        "PIP_INDEX_URL": f"https://{INDEX.user}:{INDEX.secret}@127.0.0.1:9/simple",
        "DIS_TEST_MARK": MARK,
    }


def push(registry: RealRegistry, name: str, model: Path) -> None:
    place = parse_reference(registry.reference(name))
    with contextlib.closing(RegistryClient(login=Login(REGISTRY.user, REGISTRY.secret))) as client:
        layers = []
        for file in sorted(model.iterdir()):
            data = file.read_bytes()
            notes = {"org.cncf.model.filepath": file.name}
            layers.append(Descriptor(WEIGHTS, client.push_bytes(place, data), len(data), notes))
        config = Descriptor(EMPTY_CONFIG, client.push_bytes(place, EMPTY), len(EMPTY))
        client.push_manifest(place, ImageManifest(config, tuple(layers)).encode(), MANIFEST)


def manifest(place: Path, source: Mapping[str, str], **model: Any) -> Path:
    path = write_manifest(place)
    document = json.loads(path.read_text("utf-8"))
    document["model"]["weights"]["source"] = dict(source)
    document["model"].update(model)
    document["runtime"]["network_policy"] = "offline_required"
    path.write_text(json.dumps(document), "utf-8")
    return path


def called(user: Command, *arguments: str | Path) -> tuple[int, str]:
    """Return the exit code of a command and all that it says, tracebacks included."""
    process = user.start(*arguments)
    said = "".join(process.communicate(timeout=120))
    return int(process.returncode), said


def check_nowhere(said: list[str], home: Path, *tops: Path) -> None:
    """Fail where a canary is in what was said, in a file, or on the way to who need not have it."""
    given = [home / ".docker/config.json", home / ".netrc"]
    for canary in CANARIES:
        assert not canary.is_in("".join(said).encode())
        for top in tops:
            assert [path for path in canary.places(top) if path not in given] == []


def check_processes(sighting: Sighting) -> None:
    """Fail where a canary was on a command line, or in the environment of a process that fetches nothing."""
    assert sighting.command_lines
    for line in sighting.command_lines:
        assert not any(canary.is_in(line) for canary in CANARIES)
    confined = [line for line in sighting.environments if b"confinement.child" in line]
    assert confined
    for line in confined:
        # At the moment after the fork a process still has its parent's; what it was started with comes last.
        for environment in sighting.environments[line]:
            assert not any(canary.is_in(environment) for canary in CANARIES)


@pytest.mark.slow
def test_no_secret_is_anywhere_after_a_run_from_a_registry(
    dis: Command, tmp_path: Path, registry: RealRegistry, home: Path, secrets: Mapping[str, str]
) -> None:
    source = {"type": "oci", "repo": f"{registry.host}/canary/model", "revision": "v1"}
    config = manifest(tmp_path / "place", source)
    push(registry, "canary/model:v1", tmp_path / "place/model")
    user = dis.having(home=home, extra=secrets, cwd=tmp_path)
    with watched(MARK) as sighting:
        calls = (
            ("lock", config, "--progress", "json"),
            ("--debug", "realize", config, "--json", "--name", "run"),
            ("run", config, "--run-dir", tmp_path / "run"),
            ("lock", config, "--check"),
            ("bundle", "run", "--output", tmp_path / "run.tar.gz"),
            ("store", "export", "run", "--output", tmp_path / "run.tar"),
            ("doctor",),
            ("log", "run"),
            ("config", "show"),
        )
        said = [called(user, *arguments)[1] for arguments in calls]
    assert any("200" in line and "/manifests/v1" in line for line in registry.requests())
    check_nowhere(said, home, dis.store, tmp_path / "place", tmp_path / "run", home)
    check_nowhere(said, home, tmp_path)
    check_processes(sighting)


@pytest.mark.slow
def test_no_secret_is_in_what_is_said_of_failures(
    dis: Command,
    tmp_path: Path,
    registry: RealRegistry,
    home: Path,
    secrets: Mapping[str, str],
    proxy: Proxy,
) -> None:
    (home / ".docker/config.json").write_text(
        json.dumps(
            {
                "auths": {
                    registry.host: {
                        "auth": base64.b64encode(f"other:{REGISTRY.secret}".encode()).decode()
                    }
                }
            }
        ),
        "utf-8",
    )
    files = {"files": [{"path": "model.safetensors"}]}
    sources: dict[str, dict[str, str]] = {
        "oci": {"type": "oci", "repo": f"{registry.host}/canary/model", "revision": "v1"},
        "url": {"type": "url", "url": "https://models.example.org/fox/"},
        "hub": {"type": "huggingface", "repo": "org/fox", "revision": "main"},
        "index": {"type": "pypi", "id": "some-model", "revision": "1.0"},
    }
    user = dis.having(home=home, extra={**secrets, "HF_ENDPOINT": "https://hub.example.org"})
    said: list[str] = []
    with watched(MARK) as sighting:
        for name, source in sources.items():
            model = {"weights": {"source": source, **files}}
            local = {"type": "local", "local_path": "model"}
            others = {group: {"source": local, "files": []} for group in ("tokenizer", "config")}
            config = manifest(tmp_path / name, source, **model, **others)
            code, text = called(user, "--debug", "lock", config)
            assert code in {3, 5}, text
            said.append(text)
    assert any(PROXY.is_in(data) for data in proxy.asked)
    check_nowhere(said, home, dis.store, *(tmp_path / name for name in sources))
    for line in sighting.command_lines:
        assert not any(canary.is_in(line) for canary in CANARIES)


@pytest.mark.parametrize(
    "source",
    [
        {"type": "url", "url": f"https://user:{NETRC.secret}@127.0.0.1/m/"},
        {"type": "oci", "repo": f"user:{NETRC.secret}@127.0.0.1:9/m", "revision": "v1"},
    ],
    ids=lambda source: source["type"],
)
def test_userinfo_in_a_manifest_is_refused_and_not_quoted(
    dis: Command, tmp_path: Path, home: Path, source: Mapping[str, str]
) -> None:
    files = {"weights": {"source": dict(source), "files": [{"path": "model.safetensors"}]}}
    others = {group: {"files": [{"path": "x.json"}]} for group in ("tokenizer", "config")}
    config = manifest(tmp_path / "place", source, **files, **others)
    code, said = called(dis.having(home=home), "--debug", "lock", config)
    assert code == 2, said
    assert not NETRC.is_in(said.encode())
    assert not dis.store.exists() or NETRC.places(dis.store) == []
