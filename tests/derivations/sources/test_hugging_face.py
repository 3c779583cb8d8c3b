"""A hub as a source: what it lists, what arrives, and what is refused, against a hub that can fail in every way."""

import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import hub_server
from dis_derivations.sources import hub_client, hub_download, hub_xet
from dis_derivations.sources.expected_file import ExpectedFile
from dis_derivations.sources.hub_client import HubAccessError, HubError
from dis_derivations.sources.hub_repository import HubRepository
from dis_derivations.sources.hub_settings import hub_settings
from dis_derivations.sources.hugging_face import HuggingFaceSource
from dis_derivations.sources.source import WantedFile
from dis_derivations.transport.conduct import Conduct
from dis_derivations.transport.errors import TransferError
from dis_store import Store, WrittenFile
from dis_store.digest import Sha256
from dis_store.errors import (
    BuildError,
    DisError,
    InterruptedBuildError,
    InvalidInputError,
    MismatchError,
    UnfitEnvironmentError,
)
from dis_store.writing.downloads import downloading
from hub_server import Handler, Hub, Served, blob_id, running_hub, served_directory
from model_directories import safetensors_bytes, write_model

TOKEN = "hf_canaryThatNobodyMaySee"  # noqa: S105 - nobody's
WEIGHTS = safetensors_bytes(*range(50_000))


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setattr(hub_client, "RETRY_SECONDS", (0.01, 0.01, 0.01))
    patience = Conduct(first_delay=0.01, longest_delay=0.02, attempts=3, piece_bytes=60_000)
    monkeypatch.setattr(hub_download, "CONDUCT", patience)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    with running_hub() as running:
        monkeypatch.setenv("HF_ENDPOINT", running.endpoint)
        yield running


@pytest.fixture
def files(tmp_path: Path, hub: Hub) -> dict[str, Served]:
    """Return the files of the repository `org/name`, which has them on its branch `main`."""
    write_model(tmp_path / "model")
    (tmp_path / "model/model.safetensors").write_bytes(WEIGHTS)
    found = served_directory(tmp_path / "model")
    hub.add("org/name", found)
    return found


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store") as opened:
        yield opened


def source(
    name: str = "org/name", revision: str = "main", *, weights: bool = False
) -> HuggingFaceSource:
    return HuggingFaceSource(HubRepository(hub_settings(), name, revision), is_weights=weights)


def fetched(store: Store, from_: HuggingFaceSource, *wanted: WantedFile) -> list[WrittenFile]:
    """Fetch files into a tree that is registered only if all is well."""
    with store.new_tree() as tree:
        written = from_.fetch(wanted, tree, lambda: None)
        tree.register()
    return written


def weights(*, sha256: Sha256 | None = None, size: int | None = None) -> WantedFile:
    return WantedFile("model.safetensors", size, sha256)


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


def test_what_a_hub_lists_is_known_before_anything_is_fetched(
    hub: Hub, files: dict[str, Served]
) -> None:
    found = source()
    assert found.available() is None
    assert found.listing() == sorted(files)
    assert found.commit() == hub.repositories["org/name"].refs["main"]
    assert found.size("model.safetensors") == len(WEIGHTS)
    assert found.size("gone.json") is None
    assert hub.requests("/resolve/") == []
    problem = found.problem("gone.json")
    assert problem is not None
    assert problem.reason == "not_found"
    assert found.commit() in problem.message


def test_every_file_arrives_as_it_is_and_is_compared(
    hub: Hub, files: dict[str, Served], store: Store
) -> None:
    written = fetched(store, source(), *(WantedFile(path) for path in files))
    assert {file.path: file.sha256 for file in written} == {
        path: Sha256.of(served.data) for path, served in files.items()
    }
    assert not any(file.executable for file in written)


def test_a_commit_is_asked_for_and_not_the_branch(
    hub: Hub, files: dict[str, Served], store: Store
) -> None:
    fetched(store, source(), WantedFile("config.json"))
    (request,) = hub.requests("org/name/resolve/")
    assert f"/resolve/{hub.repositories['org/name'].refs['main']}/" in request.path


def test_with_a_digest_from_a_lock_no_list_is_needed(
    hub: Hub, files: dict[str, Served], store: Store
) -> None:
    commit = hub.repositories["org/name"].refs["main"]
    hub.fail("/api/models", lambda handler: handler.refuse(500))
    wanted = weights(sha256=Sha256.of(WEIGHTS), size=len(WEIGHTS))
    assert fetched(store, source(revision=commit), wanted)[0].size == len(WEIGHTS)


def test_the_token_goes_to_the_hub_and_to_nobody_else(
    hub: Hub, files: dict[str, Served], store: Store
) -> None:
    hub.add("org/name", files, token=TOKEN)
    fetched(store, source(), *(WantedFile(path) for path in files))
    assert {seen.headers.get("authorization") for seen in hub.requests("", "hub")} == {
        f"Bearer {TOKEN}"
    }
    others = hub.requests("", "cdn")
    assert others
    assert not [seen for seen in others if TOKEN in str(seen)]


def test_a_next_page_elsewhere_does_not_get_the_token(hub: Hub, files: dict[str, Served]) -> None:
    def lead_away(handler: Handler) -> None:
        handler.send_json([], headers={"Link": f'<{hub.cdn}/page>; rel="next"'})

    hub.fail("/tree/", lead_away)
    hub.fail("/page", lambda handler: handler.send_json([]), host="cdn")
    assert source().available() is None
    (request,) = hub.requests("/page", "cdn")
    assert TOKEN not in str(request)


def test_the_token_is_no_part_of_how_settings_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    settings = hub_client.with_token(hub_settings())
    assert settings.token == TOKEN
    assert TOKEN not in repr(settings)


def test_an_encrypted_hub_does_not_lead_to_an_address_that_is_not(hub: Hub) -> None:
    settings = replace(hub_settings(), endpoint="https://hub.example")
    with hub_client.HubClient(settings) as client, pytest.raises(HubError, match="not encrypted"):
        client.get(hub.endpoint)
    assert hub.seen == []


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


def test_of_several_weights_those_are_taken_that_an_index_names(
    hub: Hub, files: dict[str, Served]
) -> None:
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    sharded = {
        **files,
        "model-1.safetensors": Served(safetensors_bytes(1.0, name="a"), lfs=True),
        "model-2.safetensors": Served(safetensors_bytes(2.0, name="b"), lfs=True),
        "consolidated.safetensors": Served(b"", lfs=True),
        "model.safetensors.index.json": Served(json.dumps(index).encode(), lfs=False),
    }
    hub.add("org/name", sharded)
    names = source(weights=True).listing()
    assert [name for name in names if ".safetensors" in name] == [
        "model-1.safetensors",
        "model-2.safetensors",
        "model.safetensors.index.json",
    ]
    assert source().listing() == sorted(sharded)


def test_shards_that_the_store_had_are_part_of_the_checkpoint(
    hub: Hub, files: dict[str, Served], store: Store
) -> None:
    """Whoever fetches takes what is stored first, and asks a source for the rest alone."""
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    served = {
        "model-1.safetensors": Served(safetensors_bytes(1.0, name="a"), lfs=True),
        "model-2.safetensors": Served(safetensors_bytes(2.0, name="b"), lfs=True),
        "model.safetensors.index.json": Served(json.dumps(index).encode(), lfs=False),
    }
    hub.add("org/name", served)
    rest = [WantedFile(path) for path in list(served)[1:]]
    with store.new_tree() as tree:
        tree.write_bytes("model-1.safetensors", served["model-1.safetensors"].data)
        assert len(source(weights=True).fetch(rest, tree, lambda: None)) == 2
    with store.new_tree() as tree, pytest.raises(InvalidInputError, match=r"model-1\.safetensors"):
        source(weights=True).fetch(rest, tree, lambda: None)


def test_a_shard_that_is_missing_is_named_before_anything_is_fetched(
    hub: Hub, files: dict[str, Served]
) -> None:
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    hub.add(
        "org/name",
        {"model.safetensors.index.json": Served(json.dumps(index).encode(), lfs=False)},
    )
    problem = source(weights=True).problem("model-2.safetensors")
    assert problem is not None
    assert problem.reason == "not_found"
    together = source(weights=True).disagreement(
        ["model.safetensors.index.json", "model-1.safetensors"]
    )
    assert together is not None
    assert "model-2.safetensors" in together.message


def test_pickles_are_refused_by_name_before_and_by_content_after(
    hub: Hub, files: dict[str, Served], store: Store
) -> None:
    pickle = b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00\x8c\x02os\x94."
    hub.add(
        "org/name", {"a.bin": Served(pickle, lfs=True), "a.safetensors": Served(pickle, lfs=True)}
    )
    problem = source().problem("a.bin")
    assert problem is not None
    assert problem.reason == "unsafe_file"
    with pytest.raises(InvalidInputError):
        fetched(store, source(weights=True), WantedFile("a.safetensors"))


class TestXet:
    """The storage behind large files."""

    @pytest.fixture(autouse=True)
    def offered(self, hub: Hub, files: dict[str, Served], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(hub_xet, "LEAST_BYTES", 1)
        hub.xet = True

    def test_a_file_comes_from_the_storage_and_the_hubs_token_stays_with_the_hub(
        self, hub: Hub, store: Store, tmp_path: Path
    ) -> None:
        counted: list[int] = []
        with store.new_tree() as tree:
            (written,) = source().fetch([weights()], tree, lambda: None, counted.append)
            tree.register()
        assert written.sha256 == Sha256.of(WEIGHTS)
        assert sum(counted) == len(WEIGHTS)
        assert hub.requests("/xorb/", "cdn")
        assert hub.requests("/signed/", "cdn") == []
        assert [seen for seen in hub.requests("", "cdn") if TOKEN in str(seen)] == []
        assert [path for path in (tmp_path / "hf").rglob("*") if path.is_file()] == []

    def test_it_goes_on_where_it_was_interrupted(self, hub: Hub, store: Store) -> None:
        half = len(WEIGHTS) // 2
        expected = ExpectedFile("model.safetensors", len(WEIGHTS), Sha256.of(WEIGHTS))
        with store.new_tree() as tree:
            key = hub_xet._key(expected)
            with downloading(tree.foundation, key, lambda: None) as download:
                descriptor, _ = download.open()
                os.write(descriptor, WEIGHTS[:half])
                os.close(descriptor)
            (written,) = source().fetch([weights()], tree, lambda: None)
        assert written.sha256 == Sha256.of(WEIGHTS)
        (asked,) = hub.requests("/cas/v1/", "cdn")
        assert asked.headers["range"].startswith(f"bytes={half}-")

    @pytest.mark.parametrize("part", ["/cas/", "/xorb/", "xet-read-token"])
    def test_what_it_does_not_give_comes_over_plain_http(
        self, hub: Hub, store: Store, part: str
    ) -> None:
        host = "hub" if part.startswith("xet") else "cdn"
        hub.fail(part, lambda handler: handler.refuse(403), host=host)
        counted: list[int] = []
        with store.new_tree() as tree:
            (written,) = source().fetch([weights()], tree, lambda: None, counted.append)
        assert written.sha256 == Sha256.of(WEIGHTS)
        assert sum(counted) == len(WEIGHTS)
        assert hub.requests("/signed/", "cdn")

    def test_other_bytes_of_the_storage_are_not_taken(self, hub: Hub, store: Store) -> None:
        wrong = bytes(len(WEIGHTS))
        hub.fail(
            "/xorb/",
            lambda handler: handler.send_file(hub_server._block(wrong), "block"),
            host="cdn",
        )
        assert fetched(store, source(), weights())[0].sha256 == Sha256.of(WEIGHTS)
        assert hub.requests("/signed/", "cdn")

    def test_a_token_of_the_storage_is_asked_for_at_the_hub_alone(
        self, hub: Hub, store: Store
    ) -> None:
        def lead_away(handler: Handler) -> None:
            link = f'<{hub.cdn}/token>; rel="xet-auth"'
            facts = {"X-Xet-Hash": "ab" * 32, "Link": link, "Location": f"{hub.cdn}/x"}
            handler.send_body(302, b"", headers=facts)

        hub.fail("/resolve/", lead_away, times=1)
        assert fetched(store, source(), weights())
        assert hub.requests("/token", "cdn") == []

    def test_it_can_be_forbidden(
        self, hub: Hub, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")
        assert fetched(store, source(), weights())
        assert hub.requests("/xorb/", "cdn") == []


class TestCache:
    """The cache of huggingface_hub."""

    @pytest.fixture
    def cache(self, tmp_path: Path, hub: Hub, files: dict[str, Served]) -> Path:
        """Fill the cache as huggingface_hub does, and return the directory of the repository."""
        home = tmp_path / "hf/hub/models--org--name"
        commit = hub.repositories["org/name"].refs["main"]
        (home / "blobs").mkdir(parents=True)
        snapshot = home / "snapshots" / commit
        snapshot.mkdir(parents=True)
        for path, served in files.items():
            (home / "blobs" / served.etag).write_bytes(served.data)
            (snapshot / path).symlink_to(f"../../blobs/{served.etag}")
        return home

    def test_what_is_there_is_not_downloaded_again(
        self, hub: Hub, files: dict[str, Served], cache: Path, store: Store
    ) -> None:
        written = fetched(store, source(), *(WantedFile(path) for path in files))
        assert [file.sha256 for file in written] == [Sha256.of(s.data) for s in files.values()]
        assert hub.requests("/resolve/") == []

    @pytest.mark.parametrize("path", ["model.safetensors", "config.json"])
    def test_what_is_damaged_there_is_downloaded(
        self, hub: Hub, files: dict[str, Served], cache: Path, store: Store, path: str
    ) -> None:
        blob = cache / "blobs" / files[path].etag
        blob.write_bytes(bytes(len(files[path].data)))
        counted: list[int] = []
        with store.new_tree() as tree:
            (written,) = source().fetch([WantedFile(path)], tree, lambda: None, counted.append)
            tree.register()
        assert written.sha256 == Sha256.of(files[path].data)
        assert sum(counted) == len(files[path].data)
        assert hub.requests("org/name/resolve/")

    def test_with_the_lock_alone_no_hub_is_needed(
        self,
        hub: Hub,
        files: dict[str, Served],
        cache: Path,
        store: Store,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        commit = hub.repositories["org/name"].refs["main"]
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        wanted = [
            WantedFile(path, len(served.data), Sha256.of(served.data))
            for path, served in files.items()
        ]
        assert len(fetched(store, source(revision=commit), *wanted)) == len(files)
        assert hub.seen == []

    def test_a_blob_is_found_by_its_digest_whatever_commit_it_came_with(
        self,
        hub: Hub,
        files: dict[str, Served],
        cache: Path,
        store: Store,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        wanted = weights(sha256=Sha256.of(WEIGHTS), size=len(WEIGHTS))
        assert fetched(store, source(revision="0" * 40), wanted)

    def test_offline_a_damaged_file_is_refused_with_both_digests(
        self,
        hub: Hub,
        files: dict[str, Served],
        cache: Path,
        store: Store,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        commit = hub.repositories["org/name"].refs["main"]
        other = bytes(len(WEIGHTS))
        (cache / "blobs" / files["model.safetensors"].etag).write_bytes(other)
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        with pytest.raises(MismatchError) as caught:
            fetched(
                store,
                source(revision=commit),
                weights(sha256=Sha256.of(WEIGHTS), size=len(WEIGHTS)),
            )
        assert str(Sha256.of(other)) in str(caught.value)
        assert str(Sha256.of(WEIGHTS)) in str(caught.value)

    def test_offline_a_file_that_is_not_there_is_named(
        self,
        hub: Hub,
        files: dict[str, Served],
        cache: Path,
        store: Store,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        with pytest.raises(BuildError, match="not in the cache"):
            fetched(store, source(revision="0" * 40), WantedFile("gone", 1, Sha256.of(b"")))
        assert hub.seen == []

    def test_offline_nobody_says_what_the_files_must_be(
        self, hub: Hub, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        with pytest.raises(UnfitEnvironmentError, match="HF_HUB_OFFLINE"):
            source().commit()
        assert source().available() is not None
        assert hub.seen == []

    def test_a_link_out_of_the_repository_is_not_followed(
        self, hub: Hub, files: dict[str, Served], cache: Path, tmp_path: Path, store: Store
    ) -> None:
        commit = hub.repositories["org/name"].refs["main"]
        link = cache / "snapshots" / commit / "config.json"
        (tmp_path / "secret").write_bytes(files["config.json"].data)
        link.unlink()
        link.symlink_to(tmp_path / "secret")
        fetched(store, source(), WantedFile("config.json"))
        assert len(hub.requests("org/name/resolve/")) == 1


def test_the_cache_is_where_huggingface_hub_has_it() -> None:
    home = Path.home()
    assert hub_settings({}).cache == home / ".cache/huggingface/hub"
    assert hub_settings({"XDG_CACHE_HOME": "/x"}).cache == Path("/x/huggingface/hub")
    assert hub_settings({"HF_HOME": "~/h"}).cache == home / "h/hub"
    assert hub_settings({"HF_HOME": "/h", "HF_HUB_CACHE": "/c"}).cache == Path("/c")


@pytest.mark.parametrize(
    "endpoint",
    [
        "",
        "hub.example",
        "ftp://hub.example",
        "https://",
        "https://u:p@hub.example",
        "http://localhost/?q=1",
        "http://[1",
        "http://hub.example",
    ],
)
def test_an_endpoint_that_is_none_is_refused_without_being_repeated(endpoint: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        hub_settings({"HF_ENDPOINT": endpoint})
    assert "u:p" not in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize("name", ["", "a/b/c", "../b", "a/..", "a b", "a?b", "a/b#c", "/a", "a/"])
def test_a_name_that_is_none_is_refused_and_nothing_is_asked(hub: Hub, name: str) -> None:
    with pytest.raises(InvalidInputError, match="is not the name of a repository"):
        source(name)
    assert hub.seen == []


@pytest.mark.parametrize("token", ["hf_\u2026", "hf_a b", "hf_\x7f"])
def test_a_token_that_is_none_is_refused_without_being_shown(
    hub: Hub, files: dict[str, Served], monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(HubAccessError) as caught:
        source().commit()
    assert "hf_" not in str(caught.value)
    assert hub.seen == []


@pytest.mark.parametrize("seconds", ["x", "0", "-1", "inf", "nan"])
def test_a_time_that_is_none_is_refused(seconds: str) -> None:
    with pytest.raises(DisError, match="HF_HUB_DOWNLOAD_TIMEOUT"):
        hub_settings({"HF_HUB_DOWNLOAD_TIMEOUT": seconds})
