"""Which Docker engine is meant: variables, contexts, the configuration; tried with a real engine."""

import hashlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dis_derivations.images.docker_engine import DockerEngine
from dis_derivations.images.docker_place import DEFAULT_ADDRESS, docker_place
from dis_store.errors import UnfitEnvironmentError
from docker_engine import docker_engine
from real_registry import free_port


class Configuration:
    """A directory of Docker's configuration."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir()

    def environment(self, **more: str) -> dict[str, str]:
        return {"DOCKER_CONFIG": str(self.directory), "HOME": "/nonexistent", **more}

    def use(self, name: str) -> None:
        (self.directory / "config.json").write_text(json.dumps({"currentContext": name}))

    def context(self, name: str, host: str, **endpoint: Any) -> Path:
        """Write a context as `docker context create` does, and return the directory of its certificates."""
        identity = hashlib.sha256(name.encode()).hexdigest()
        meta = self.directory / "contexts/meta" / identity
        meta.mkdir(parents=True)
        endpoints = {"docker": {"Host": host, "SkipTLSVerify": False, **endpoint}}
        document = {"Name": name, "Metadata": {}, "Endpoints": endpoints}
        (meta / "meta.json").write_text(json.dumps(document))
        return self.directory / "contexts/tls" / identity / "docker"


@pytest.fixture
def configuration(tmp_path: Path) -> Configuration:
    return Configuration(tmp_path / "docker")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with an authority, and a certificate of it for the engine and one for us."""
    place = tmp_path_factory.mktemp("certificates")

    def run(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=place, check=True, capture_output=True)

    new = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    run(
        "req",
        "-x509",
        *new,
        "-keyout",
        "ca-key.pem",
        "-out",
        "ca.pem",
        "-days",
        "30",
        "-subj",
        "/CN=ca",
    )
    (place / "extensions").write_text("subjectAltName=IP:127.0.0.1\n")
    for name, key, file in (
        ("engine", "server-key.pem", "server.pem"),
        ("us", "key.pem", "cert.pem"),
    ):
        run("req", *new, "-keyout", key, "-out", "request.pem", "-subj", f"/CN={name}")
        run(
            *("x509", "-req", "-in", "request.pem", "-CA", "ca.pem", "-CAkey", "ca-key.pem"),
            *("-CAcreateserial", "-out", file, "-days", "30", "-extfile", "extensions"),
        )
    return place


@pytest.fixture(scope="module")
def engine(
    tmp_path_factory: pytest.TempPathFactory, certificates: Path
) -> Iterator[tuple[str, str]]:
    """Return the addresses of an engine: a socket, and a port that speaks TLS with those it knows."""
    port = free_port()
    files = {"--tlscacert": "ca.pem", "--tlscert": "server.pem", "--tlskey": "server-key.pem"}
    options = [word for name, file in files.items() for word in (name, str(certificates / file))]
    encrypted = f"tcp://127.0.0.1:{port}"
    with docker_engine(
        tmp_path_factory.mktemp("d"), more=["-H", encrypted, "--tlsverify", *options]
    ) as address:
        yield address, encrypted


def connected(environment: dict[str, str]) -> str:
    with DockerEngine.connect(environment) as found:
        return found.id


def refused(environment: dict[str, str]) -> str:
    with pytest.raises(UnfitEnvironmentError) as caught:
        connected(environment)
    assert caught.value.exit_code == 5
    return f"{caught.value}\n{caught.value.hint}"


def test_an_engine_is_found_by_each_way_of_naming_it(
    configuration: Configuration, engine: tuple[str, str]
) -> None:
    socket, _ = engine
    configuration.context("mine", socket)
    expected = connected({"DOCKER_HOST": socket})
    assert connected(configuration.environment(DOCKER_CONTEXT="mine")) == expected
    configuration.use("mine")
    assert connected(configuration.environment()) == expected


def test_an_engine_of_a_context_is_spoken_to_with_the_certificates_of_the_context(
    configuration: Configuration, engine: tuple[str, str], certificates: Path
) -> None:
    socket, encrypted = engine
    place = configuration.context("far", encrypted)
    place.mkdir(parents=True)
    for name in ("ca.pem", "cert.pem", "key.pem"):
        (place / name).write_bytes((certificates / name).read_bytes())
    environment = configuration.environment(DOCKER_CONTEXT="far")
    assert connected(environment) == connected({"DOCKER_HOST": socket})
    # Without ours the engine refuses us; without the authority we refuse the engine.
    for name in ("key.pem", "cert.pem"):
        (place / name).unlink()
        said = refused(environment)
    assert f"no Docker engine answers at {encrypted}" in said
    assert "DOCKER_CONTEXT names the context 'far'" in said


# The library warns of what this context asks for, on standard error.
@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_an_engine_that_signed_itself_is_not_believed_unless_the_context_says_so(
    configuration: Configuration, engine: tuple[str, str], certificates: Path, tmp_path: Path
) -> None:
    socket, encrypted = engine
    for name, skips in (("strict", False), ("lax", True)):
        place = configuration.context(name, encrypted, SkipTLSVerify=skips)
        place.mkdir(parents=True)
        for file in ("cert.pem", "key.pem"):
            (place / file).write_bytes((certificates / file).read_bytes())
    assert "certificate" in refused(configuration.environment(DOCKER_CONTEXT="strict")).lower()
    environment = configuration.environment(DOCKER_CONTEXT="lax")
    assert connected(environment) == connected({"DOCKER_HOST": socket})


def test_the_variables_come_before_the_configuration(configuration: Configuration) -> None:
    configuration.context("one", "unix:///one")
    configuration.context("two", "unix:///two")
    configuration.use("one")
    assert docker_place(configuration.environment()).address == "unix:///one"
    both = configuration.environment(DOCKER_CONTEXT="two")
    assert docker_place(both).address == "unix:///two"
    assert docker_place({**both, "DOCKER_HOST": "unix:///three"}).address == "unix:///three"
    default = configuration.environment(DOCKER_CONTEXT="default")
    assert docker_place(default).address == DEFAULT_ADDRESS
    assert docker_place({"HOME": "/nonexistent"}).address == DEFAULT_ADDRESS


@pytest.mark.parametrize("way", ["DOCKER_HOST", "DOCKER_CONTEXT", "config.json"])
def test_an_error_says_what_named_the_engine_that_does_not_answer(
    configuration: Configuration, tmp_path: Path, way: str
) -> None:
    address = f"unix://{tmp_path}/none"
    configuration.context("gone", address)
    environment = configuration.environment()
    if way == "config.json":
        configuration.use("gone")
    else:
        environment[way] = address if way == "DOCKER_HOST" else "gone"
    said = refused(environment)
    assert f"no Docker engine answers at {address}" in said
    assert f"{way} names" in said


def test_a_context_that_there_is_not_is_never_another_engine(configuration: Configuration) -> None:
    said = refused(configuration.environment(DOCKER_CONTEXT="typo"))
    assert "there is no Docker context 'typo'" in said
    assert "docker context ls" in said
    # What is no UTF-8 comes from the environment like this.
    for name in ("\udcff", "../../meta", "a\0b"):
        assert "there is no Docker context" in refused(
            configuration.environment(DOCKER_CONTEXT=name)
        )


@pytest.mark.parametrize(
    "damage", [b"{", b"[]", b'{"Name": "other", "Endpoints": {"docker": {}}}', b"{}"]
)
def test_a_context_that_cannot_be_read_is_named(
    configuration: Configuration, damage: bytes
) -> None:
    configuration.context("mine", "unix:///x")
    (path,) = (configuration.directory / "contexts/meta").glob("*/meta.json")
    path.write_bytes(damage)
    said = refused(configuration.environment(DOCKER_CONTEXT="mine"))
    assert str(path) in said
    path.unlink()
    (configuration.directory / "config.json").write_bytes(b"not json")
    assert "config.json" in refused(configuration.environment())


def test_a_certificate_without_its_key_is_not_left_out_in_silence(
    configuration: Configuration,
) -> None:
    place = configuration.context("half", "tcp://127.0.0.1:9")
    place.mkdir(parents=True)
    (place / "cert.pem").write_text("")
    assert "and not both" in refused(configuration.environment(DOCKER_CONTEXT="half"))
