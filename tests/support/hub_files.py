"""A hub that runs, with the files of a repository, and a store to fetch them into."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dis_derivations.sources import hub_client, hub_download
from dis_derivations.sources.hub_repository import HubRepository
from dis_derivations.sources.hub_settings import hub_settings
from dis_derivations.sources.hugging_face import HuggingFaceSource
from dis_derivations.sources.source import WantedFile
from dis_derivations.transport.conduct import Conduct
from dis_store import Store, WrittenFile
from dis_store.digest import Sha256
from hub_server import Hub, Served, running_hub, served_directory
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
