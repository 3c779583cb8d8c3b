"""The cache of huggingface_hub as one more place where a file may be."""

from pathlib import Path

import pytest

from dis_derivations.sources.hub_settings import hub_settings
from dis_derivations.sources.source import WantedFile
from dis_store import Store
from dis_store.digest import Sha256
from dis_store.errors import (
    BuildError,
    MismatchError,
    UnfitEnvironmentError,
)
from hub_files import WEIGHTS, fetched, source, weights
from hub_server import Hub, Served


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
