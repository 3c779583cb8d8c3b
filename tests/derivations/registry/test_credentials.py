"""Passwords for registries: found where Docker keeps them, for their host alone."""

import base64
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dis_derivations.registry.challenges import Challenge, challenges
from dis_derivations.registry.credentials import CredentialStore, Login
from dis_derivations.transport.address import parse_address
from dis_store.errors import InvalidInputError, UnfitEnvironmentError

HELPER = """#!/bin/sh
read -r line
echo "$1 $line" >> "$HELPER_LOG"
case "$1" in
get) [ "$line" = known.example ] || exit 1; echo '{"Username":"me","Secret":"from the helper"}' ;;
store|erase) [ -z "$HELPER_FAILS" ] ;;
esac
"""


def auth(user: str, password: str) -> dict[str, str]:
    return {"auth": base64.b64encode(f"{user}:{password}".encode()).decode()}


def store_with(home: Path, document: object, **variables: str) -> CredentialStore:
    (home / ".docker").mkdir(parents=True)
    (home / ".docker" / "config.json").write_text(json.dumps(document), "utf-8")
    return CredentialStore({"HOME": str(home), "PATH": os.environ["PATH"], **variables})


def with_helper(home: Path, document: object, **variables: str) -> CredentialStore:
    programs = home / "bin"
    programs.mkdir(parents=True)
    program = programs / "docker-credential-test"
    program.write_text(HELPER, "utf-8")
    program.chmod(0o755)
    path = f"{programs}:{os.environ['PATH']}"
    return store_with(home, document, HELPER_LOG=str(home / "log"), **{**variables, "PATH": path})


@pytest.fixture(autouse=True)
def _found_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let helpers be found: programs are looked for on the path of this process."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")


def test_an_identity_token_comes_before_the_password_beside_it(tmp_path: Path) -> None:
    entry = {**auth("00000000", ""), "identitytoken": "an identity"}
    store = store_with(tmp_path, {"auths": {"a.example": entry}})

    assert store.login("a.example") == Login("", "an identity", is_identity=True)
    assert "an identity" not in repr(store.login("a.example"))


def test_a_password_is_for_its_host_and_port_alone(tmp_path: Path) -> None:
    store = store_with(tmp_path, {"auths": {"a.example:5000": auth("me", "pass:word")}})

    assert store.login("a.example:5000") == Login("me", "pass:word")
    for other in ("a.example", "a.example:5001", "b.a.example:5000"):
        assert store.login(other) is None


def test_docker_hub_is_found_under_the_name_that_docker_gives_it(tmp_path: Path) -> None:
    store = store_with(tmp_path, {"auths": {"https://index.docker.io/v1/": auth("me", "x")}})

    assert store.login("docker.io") == Login("me", "x")


def test_a_helper_is_told_the_host_on_stdin_and_nothing_in_its_arguments(tmp_path: Path) -> None:
    store = with_helper(tmp_path, {"credHelpers": {"known.example": "test"}})

    assert store.login("known.example") == Login("me", "from the helper")
    assert store.login("other.example") is None
    assert (tmp_path / "log").read_text("utf-8") == "get known.example\n"


def test_the_helper_of_all_hosts_is_asked_for_those_without_one_of_their_own(
    tmp_path: Path,
) -> None:
    store = with_helper(tmp_path, {"credsStore": "test", "auths": {"known.example": {}}})

    assert store.login("known.example") == Login("me", "from the helper")
    assert store.login("other.example") is None


def test_a_password_that_is_stored_is_found_again_and_leaves_the_rest_alone(
    tmp_path: Path,
) -> None:
    document = {"auths": {"other": auth("a", "b")}, "HttpHeaders": {"X": "y"}}
    store = store_with(tmp_path, document)

    assert store.store("host:5000", Login("me", "word")) == str(store.path)

    assert store.login("host:5000") == Login("me", "word")
    assert json.loads(store.path.read_text("utf-8"))["HttpHeaders"] == {"X": "y"}
    assert store.path.stat().st_mode & 0o777 == 0o600
    assert store.forget("host:5000")
    assert store.login("host:5000") is None
    assert not store.forget("host:5000")
    assert store.login("other") == Login("a", "b")


def test_a_password_goes_to_the_helper_where_there_is_one_and_into_no_file(
    tmp_path: Path,
) -> None:
    store = with_helper(tmp_path, {"credsStore": "test"})

    assert store.store("known.example", Login("me", "canary")) == "docker-credential-test"

    assert "canary" not in store.path.read_text("utf-8")
    assert "canary" in (tmp_path / "log").read_text("utf-8")
    assert store.forget("known.example")
    assert "erase known.example" in (tmp_path / "log").read_text("utf-8")


def test_a_helper_that_fails_or_is_missing_is_told(tmp_path: Path) -> None:
    store = with_helper(tmp_path, {"credsStore": "test"}, HELPER_FAILS="1")
    with pytest.raises(UnfitEnvironmentError) as caught:
        store.store("h", Login("me", "canary"))
    assert "canary" not in f"{caught.value.what}{caught.value.cause}"

    for name in ("absent", "../../bin/sh", "a b", ""):
        other = store_with(tmp_path / f"x{len(name)}", {"credsStore": name})
        if not name:
            assert other.login("h") is None
            continue
        with pytest.raises(UnfitEnvironmentError):
            other.login("h")


@pytest.mark.parametrize("text", ["", "[]", "{", "null", '{"auths":{"h":{"auth":"%%%"}}}'])
def test_a_file_that_is_malformed_is_told_without_its_content(tmp_path: Path, text: str) -> None:
    store = store_with(tmp_path, {})
    store.path.write_text(text, "utf-8")

    with pytest.raises(InvalidInputError) as caught:
        store.login("h")
    assert str(store.path) in caught.value.what


def test_another_directory_is_named_by_a_variable(tmp_path: Path) -> None:
    store = CredentialStore({"HOME": str(tmp_path), "DOCKER_CONFIG": str(tmp_path / "there")})

    store.store("h", Login("a", "b"))

    assert (tmp_path / "there" / "config.json").exists()
    assert not (tmp_path / ".docker").exists()


def test_only_agreed_servers_are_told_a_password(tmp_path: Path) -> None:
    store = CredentialStore({"HOME": str(tmp_path)})
    assert store.realms("h.example") == frozenset()
    assert ("https", "auth.docker.io", 443) in store.realms("docker.io")

    realm = parse_address("https://auth.example/token")
    store.store("h.example", Login("a", "b"), realm)

    assert store.realms("h.example") == {realm.origin}
    assert store.realms("other.example") == frozenset()
    store.realms_path.write_text('{"h.example":"x"}', "utf-8")
    with pytest.raises(InvalidInputError):
        store.realms("h.example")


def test_a_login_shows_no_password() -> None:
    assert "canary" not in repr(Login("me", "canary"))


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("Basic realm=x", [Challenge("basic", "x")]),
        (
            'Bearer realm="https://a/t",service="s",scope="repository:a:pull,push"',
            [Challenge("bearer", "https://a/t", "s")],
        ),
        ('bearer realm="a\\"b"', [Challenge("bearer", 'a"b')]),
        ('Basic realm="x", Bearer realm="y"', [Challenge("basic", "x"), Challenge("bearer", "y")]),
        ("Negotiate", []),
        ("", []),
        ('NotBearer realm="x"', []),
        ("Bearer", [Challenge("bearer")]),
    ],
)
def test_challenges_are_read(header: str, expected: list[Challenge]) -> None:
    assert challenges([header]) == expected


@given(st.lists(st.text(alphabet='BearerBasic realm="x\\,;= ', max_size=200), max_size=3))
def test_any_challenge_is_read_or_passed_over(headers: list[str]) -> None:
    assert all(each.scheme in ("basic", "bearer") for each in challenges(headers))


def test_a_challenge_that_is_too_long_is_passed_over() -> None:
    assert challenges(['Bearer realm="' + "x" * 10_000 + '"']) == []
