"""Connections with a hub that break, hang or fail for a while."""

import time

import pytest

from dis_derivations.sources import hub_client, hub_download
from dis_derivations.transport.conduct import Conduct
from dis_derivations.transport.errors import TransferError
from dis_store import Store
from dis_store.digest import Sha256
from dis_store.errors import (
    BuildError,
    InterruptedBuildError,
    MismatchError,
)
from hub_files import WEIGHTS, fetched, source, weights
from hub_server import Handler, Hub, Served


def break_after(hub: Hub, amount: int, *, times: int = 1000) -> None:
    """Let connections with the other host end after some bytes of what was asked for."""

    def act(handler: Handler) -> None:
        data, etag = _stored(handler)
        asked = handler.headers.get("Range", f"bytes=0-{len(data) - 1}")[6:]
        start, end = (int(text or len(data) - 1) for text in asked.split("-"))
        facts = {"ETag": f'"{etag}"', "Content-Range": f"bytes {start}-{end}/{len(data)}"}
        piece = data[start : end + 1]
        handler.send_body(206, piece[:amount], headers=facts, length=len(piece))

    hub.fail("/signed/", act, host="cdn", times=times)


def _stored(handler: Handler) -> tuple[bytes, str]:
    etag = handler.path.rpartition("/")[2].partition("?")[0]
    return handler.hub.storage[etag], etag


def test_a_broken_connection_is_gone_on_with_where_it_broke(
    hub: Hub, files: dict[str, Served], store: Store
) -> None:
    break_after(hub, 20_000, times=3)
    counted: list[int] = []
    with store.new_tree() as tree:
        (written,) = source().fetch([weights()], tree, lambda: None, counted.append)
    assert written.sha256 == Sha256.of(WEIGHTS)
    assert sum(counted) == len(WEIGHTS)


def test_what_a_killed_process_had_fetched_is_not_fetched_again(
    hub: Hub, files: dict[str, Served], store: Store
) -> None:
    """Two pieces come, then the server is gone for good; the next call asks for what is missing."""
    hub.fail("/signed/", lambda handler: True, host="cdn", times=2)
    hub.fail("/signed/", lambda handler: handler.refuse(503), host="cdn", times=9)
    with pytest.raises(BuildError):
        fetched(store, source(), weights())
    hub.faults.clear()
    counted: list[int] = []
    hub.seen.clear()
    with store.new_tree() as tree:
        (written,) = source().fetch([weights()], tree, lambda: None, counted.append)
    assert written.sha256 == Sha256.of(WEIGHTS)
    asked = [seen.headers.get("range", "") for seen in hub.requests("", "cdn")]
    assert asked
    assert "bytes=0-59999" not in asked


def test_a_connection_that_always_breaks_is_given_up(
    hub: Hub, files: dict[str, Served], store: Store
) -> None:
    break_after(hub, 0)
    with pytest.raises(TransferError, match="cannot be fetched"):
        fetched(store, source(), weights())


@pytest.mark.parametrize("heeds_conditions", [True, False])
def test_bytes_that_changed_between_ranges_are_never_mixed(
    hub: Hub, files: dict[str, Served], store: Store, *, heeds_conditions: bool
) -> None:
    """The new bytes have another ETag; a server may look at If-Range or not."""
    changed = bytes(len(WEIGHTS))

    def act(handler: Handler) -> None:
        if not heeds_conditions:
            del handler.headers["If-Range"]
        handler.send_file(changed, "another")

    hub.fail("/signed/", lambda handler: True, host="cdn", times=1)
    hub.fail("/signed/", act, host="cdn")
    with pytest.raises(MismatchError) as caught:
        fetched(store, source(), weights())
    assert str(Sha256.of(changed)) in str(caught.value)
    assert str(Sha256.of(WEIGHTS)) in str(caught.value)


def test_a_server_without_ranges_sends_all_of_it(
    hub: Hub, files: dict[str, Served], store: Store
) -> None:
    def act(handler: Handler) -> None:
        data, etag = _stored(handler)
        handler.send_body(200, data, headers={"ETag": f'"{etag}"'})

    hub.fail("/signed/", act, host="cdn")
    assert fetched(store, source(), weights())[0].sha256 == Sha256.of(WEIGHTS)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_what_fails_for_a_moment_is_tried_again(
    hub: Hub, files: dict[str, Served], store: Store, status: int
) -> None:
    hub.fail("/api/models", lambda handler: handler.refuse(status), times=2)
    hub.fail("/signed/", lambda handler: handler.refuse(status), times=2, host="cdn")
    assert fetched(store, source(), weights())[0].sha256 == Sha256.of(WEIGHTS)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_what_goes_on_failing_is_given_up_and_told(
    hub: Hub, files: dict[str, Served], status: int
) -> None:
    hub.fail("/api/models", lambda handler: handler.refuse(status))
    unavailable = source().available()
    assert unavailable is not None
    assert f"HTTP {status}" in unavailable.reason
    assert hub.endpoint in unavailable.reason
    assert len(hub.seen) == len(hub_client.RETRY_SECONDS) + 1


def test_a_hub_that_wants_an_hour_is_not_waited_for(hub: Hub, files: dict[str, Served]) -> None:
    hub.fail("/api/models", lambda handler: handler.refuse(429, **{"Retry-After": "3600"}))
    start = time.monotonic()
    assert source().available() is not None
    assert time.monotonic() - start < 60
    assert len(hub.seen) == 1


def test_a_hub_that_says_nothing_is_given_up(
    hub: Hub, files: dict[str, Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_DOWNLOAD_TIMEOUT", "0.2")
    hub.fail("/api/models", lambda handler: hub.released.wait(60) and None)
    unavailable = source().available()
    assert unavailable is not None
    assert "silent for 0.2 seconds" in unavailable.reason
    assert "HF_HUB_DOWNLOAD_TIMEOUT" in unavailable.hint


def test_a_download_that_hangs_in_its_middle_goes_on(
    hub: Hub, files: dict[str, Served], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_DOWNLOAD_TIMEOUT", "0.3")

    def act(handler: Handler) -> None:
        data, etag = _stored(handler)
        handler.send_body(200, data[:70_000], headers={"ETag": f'"{etag}"'}, length=len(data))
        handler.wfile.flush()
        hub.released.wait(60)

    hub.fail("/signed/", act, host="cdn", times=1)
    assert fetched(store, source(), weights())[0].sha256 == Sha256.of(WEIGHTS)


def test_a_hub_that_is_not_there_is_told_at_once(
    files: dict[str, Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    unavailable = source().available()
    assert unavailable is not None
    assert "http://127.0.0.1:9" in unavailable.reason


def test_a_wait_can_be_interrupted(
    hub: Hub, files: dict[str, Served], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_download, "CONDUCT", Conduct(first_delay=300, longest_delay=300))
    hub.fail("/signed/", lambda handler: handler.refuse(503), host="cdn")

    def check() -> None:
        if hub.requests("", "cdn"):
            raise InterruptedBuildError("interrupted")

    with store.new_tree() as tree, pytest.raises(InterruptedBuildError):
        source().fetch([weights()], tree, check)
