"""The storage behind large files of a hub."""

import os
from pathlib import Path

import pytest

import hub_server
from dis_derivations.sources import hub_xet
from dis_derivations.sources.expected_file import ExpectedFile
from dis_store import Store
from dis_store.digest import Sha256
from dis_store.writing.downloads import downloading
from hub_files import TOKEN, WEIGHTS, fetched, source, weights
from hub_server import Handler, Hub, Served


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
