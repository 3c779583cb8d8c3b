"""Which sockets are hidden from a build: all that are known to lead to the network."""

import json
from pathlib import Path

from dis_derivations.confinement.outlets import sockets, without_outlets


def context(config: Path, name: str, address: str) -> None:
    place = config / "contexts" / "meta" / name
    place.mkdir(parents=True)
    document = {"Name": name, "Endpoints": {"docker": {"Host": address}}}
    (place / "meta.json").write_text(json.dumps(document), "utf-8")


def test_sockets_that_variables_name_are_hidden() -> None:
    environment = {
        "DOCKER_HOST": "unix:///elsewhere/docker.sock",
        "DBUS_SESSION_BUS_ADDRESS": "unix:path=/elsewhere/bus,guid=1",
        "SSH_AUTH_SOCK": "/elsewhere/agent",
    }
    found = set(map(str, sockets(environment)))
    assert {"/elsewhere/docker.sock", "/elsewhere/bus", "/elsewhere/agent"} <= found


def test_sockets_of_all_docker_contexts_are_hidden_whichever_is_chosen(tmp_path: Path) -> None:
    context(tmp_path / ".docker", "one", "unix:///elsewhere/one.sock")
    context(tmp_path / ".docker", "two", "unix:///elsewhere/two.sock")
    context(tmp_path / ".docker", "remote", "tcp://192.0.2.1:2376")
    found = set(map(str, sockets({"HOME": str(tmp_path)})))
    assert {"/elsewhere/one.sock", "/elsewhere/two.sock"} <= found
    assert not any("192.0.2.1" in each for each in found)


def test_a_socket_is_found_however_its_address_is_written(tmp_path: Path) -> None:
    context(tmp_path, "one", "unix:///elsewhere/one.sock")
    (place,) = tmp_path.glob("contexts/meta/*/meta.json")
    place.write_text(place.read_text("utf-8").replace("/", "\\/"), "utf-8")
    assert Path("/elsewhere/one.sock") in set(sockets({"DOCKER_CONFIG": str(tmp_path)}))


def test_the_configuration_that_a_variable_names_is_the_one_that_is_read(tmp_path: Path) -> None:
    context(tmp_path / "config", "one", "unix:///elsewhere/one.sock")
    environment = {"HOME": "/nowhere", "DOCKER_CONFIG": str(tmp_path / "config")}
    assert Path("/elsewhere/one.sock") in set(sockets(environment))


def test_a_context_that_is_no_document_hides_nothing_and_stops_nothing(tmp_path: Path) -> None:
    place = tmp_path / "contexts" / "meta" / "broken"
    place.mkdir(parents=True)
    (place / "meta.json").write_bytes(b"\xff\xfe{")
    assert list(sockets({"DOCKER_CONFIG": str(tmp_path)})) == list(sockets({"HOME": "/nowhere"}))


def test_variables_that_choose_an_engine_or_hold_secrets_are_withheld() -> None:
    given = {"DOCKER_CONTEXT": "one", "DOCKER_CONFIG": "/x", "HF_TOKEN": "x", "PATH": "/bin"}
    assert without_outlets(given) == {"PATH": "/bin"}
