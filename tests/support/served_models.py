"""A hub with the quickstart model on it, and an environment in which the command asks that hub."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from command_line import ROOT
from dis_derivations.sources import hub_client, hub_download
from dis_derivations.transport.conduct import Conduct
from hub_server import Hub, running_hub, served_directory

MODEL = ROOT / "configs" / "quickstart" / "model"
NAME = "org/fox"
TOKEN = "hf_canaryThatNobodyMaySee"  # noqa: S105 - nobody's


@contextmanager
def serving(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """Serve the quickstart model as `org/fox`, for whoever has the token, and let nothing wait for long.

    Args:
        home: Where the cache of huggingface_hub would be.
        monkeypatch: Of the test.
    """
    monkeypatch.setattr(hub_client, "RETRY_SECONDS", (0.01,))
    patience = Conduct(first_delay=0.01, longest_delay=0.02, attempts=3, piece_bytes=1 << 20)
    monkeypatch.setattr(hub_download, "CONDUCT", patience)
    monkeypatch.setenv("HF_HOME", str(home))
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    with running_hub() as hub:
        hub.add(NAME, served_directory(MODEL), token=TOKEN)
        monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
        yield hub


def fill_cache(home: Path, hub: Hub) -> Path:
    """Put the files of the served model where huggingface_hub keeps them; return the snapshot."""
    repository = hub.repositories[NAME]
    commit = repository.refs["main"]
    top = home / "hub" / f"models--{NAME.replace('/', '--')}"
    snapshot = top / "snapshots" / commit
    for directory in (top / "blobs", top / "refs", snapshot):
        directory.mkdir(parents=True, exist_ok=True)
    (top / "refs/main").write_text(commit, "utf-8")
    for path, served in repository.commits[commit].items():
        (top / "blobs" / served.etag).write_bytes(served.data)
        (snapshot / path).symlink_to(f"../../blobs/{served.etag}")
    return snapshot
