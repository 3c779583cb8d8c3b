"""Other bytes than a hub lists, and answers that make no sense."""

import pytest

from dis_derivations.sources import hub_client
from dis_derivations.sources.hub_client import HubAccessError, HubError
from dis_derivations.sources.source import WantedFile
from dis_store import Store
from dis_store.digest import Sha256
from dis_store.errors import (
    MismatchError,
)
from hub_files import TOKEN, WEIGHTS, fetched, source, weights
from hub_server import Hub, Served, blob_id


@pytest.mark.parametrize(
    ("served", "said"),
    [
        (WEIGHTS[:-1] + b"\x01", "sha256:"),
        (WEIGHTS[:-4], f"{len(WEIGHTS) - 4} bytes, and {len(WEIGHTS)} are wanted"),
        (b"", "0 bytes"),
    ],
    ids=["wrong", "short", "empty"],
)
def test_other_bytes_than_the_hub_lists_are_refused(
    hub: Hub, files: dict[str, Served], store: Store, served: bytes, said: str
) -> None:
    hub.storage[Sha256.of(WEIGHTS).hex] = served
    with pytest.raises(MismatchError) as caught:
        fetched(store, source(), weights())
    assert said in str(caught.value)
    if len(served) == len(WEIGHTS):
        assert str(Sha256.of(WEIGHTS)) in str(caught.value)
        assert str(Sha256.of(served)) in str(caught.value)
    hub.storage[Sha256.of(WEIGHTS).hex] = WEIGHTS
    assert fetched(store, source(), weights())[0].size == len(WEIGHTS)


def test_a_small_file_is_compared_by_its_blob_id(
    hub: Hub, files: dict[str, Served], store: Store
) -> None:
    hub.fail("resolve-cache", lambda handler: handler.send_file(b"[]\n", "x"))
    with pytest.raises(MismatchError) as caught:
        fetched(store, source(), WantedFile("config.json"))
    assert blob_id(files["config.json"].data) in str(caught.value)
    assert blob_id(b"[]\n") in str(caught.value)


def test_more_bytes_than_the_hub_lists_are_refused(
    hub: Hub, files: dict[str, Served], store: Store
) -> None:
    hub.storage[Sha256.of(WEIGHTS).hex] = WEIGHTS * 20
    with pytest.raises(MismatchError, match="bytes"):
        fetched(store, source(), weights())


@pytest.mark.parametrize(
    ("token", "status", "hint"),
    [(None, 401, "HF_TOKEN="), ("hf_another", 403, "ask for access at")],
)
def test_a_gated_repository_says_who_refuses_and_what_helps(
    hub: Hub,
    files: dict[str, Served],
    monkeypatch: pytest.MonkeyPatch,
    token: str | None,
    status: int,
    hint: str,
) -> None:
    hub.add("org/name", files, token=TOKEN)
    monkeypatch.delenv("HF_TOKEN")
    if token is not None:
        monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(HubAccessError) as caught:
        source().commit()
    assert f"HTTP {status}" in str(caught.value)
    assert "Access to model org/name is restricted" in str(caught.value)
    assert caught.value.hint is not None
    assert hint in caught.value.hint
    assert token is None or token not in str(caught.value) + caught.value.hint


@pytest.mark.parametrize(
    ("name", "revision", "said"),
    [("org/gone", "main", "Repository not found"), ("org/name", "v9", "Invalid rev id: v9")],
)
def test_what_is_not_there_is_named(
    hub: Hub, files: dict[str, Served], name: str, revision: str, said: str
) -> None:
    with pytest.raises(HubError) as caught:
        source(name, revision).commit()
    assert f"{name} at {revision!r} is not there" in str(caught.value)
    assert said in str(caught.value)


def test_what_a_hub_says_is_shown_without_the_token_and_without_control_characters(
    hub: Hub, files: dict[str, Served]
) -> None:
    echo = f"you sent {TOKEN} \x1b[31m" + "x" * 5000
    hub.fail("/api/models", lambda handler: handler.refuse(400, "Bad", echo))
    with pytest.raises(HubError) as caught:
        source().commit()
    assert TOKEN not in str(caught.value)
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    "answer",
    [[], {"sha": None}, {"sha": "main"}, {"id": "org/name"}, "text", {"id": 1, "sha": ["x"]}],
)
def test_an_answer_that_makes_no_sense_is_an_error_of_the_hub(
    hub: Hub, files: dict[str, Served], answer: object
) -> None:
    hub.fail("/revision/", lambda handler: handler.send_json(answer))
    with pytest.raises(HubError):
        source().commit()


@pytest.mark.parametrize(
    "entry",
    [
        {"type": "file", "path": "a", "size": -1, "oid": "0" * 40},
        {"type": "file", "path": 1, "size": 1, "oid": "0" * 40},
        {"type": "file", "path": "a", "size": 1, "oid": "x"},
        {"type": "file", "path": "a", "size": 1},
        {"type": "file", "path": "a", "size": 1, "oid": "0" * 40, "lfs": {"oid": "zz", "size": 1, "pointerSize": 1}},
        [],
    ],
)  # fmt: skip
def test_a_list_that_makes_no_sense_is_an_error_of_the_hub(
    hub: Hub, files: dict[str, Served], entry: object
) -> None:
    hub.fail("/tree/", lambda handler: handler.send_json([entry]))
    assert source().available() is not None


def test_an_endless_answer_is_cut_off(
    hub: Hub, files: dict[str, Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_client, "MAX_ANSWER_BYTES", 1000)
    hub.fail("/tree/", lambda handler: handler.send_body(200, b" " * 100_000, headers={}))
    unavailable = source().available()
    assert unavailable is not None
    assert "too long" in unavailable.reason


def test_redirects_in_a_circle_end(hub: Hub, files: dict[str, Served]) -> None:
    hub.fail("/api/", lambda handler: handler.send_body(302, b"", headers={"Location": "/api/x"}))
    with pytest.raises(HubError):
        source().commit()
    assert len(hub.seen) < 10
