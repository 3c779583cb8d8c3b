"""What counts as an answer, and what a wait that fails takes away."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dis_derivations.serving import waiting
from dis_derivations.serving.processes import identify
from dis_derivations.serving.records import ServerRecord, ServerRecords
from dis_derivations.serving.states import answers
from dis_store import Digest, Store
from dis_store.errors import BuildError


@pytest.fixture
def records(tmp_path: Path) -> ServerRecords:
    return ServerRecords(tmp_path / "servers")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store") as opened:
        yield opened


@pytest.fixture
def record(records: ServerRecords, store: Store) -> Iterator[ServerRecord]:
    """Return the record of a process that runs and listens nowhere."""
    with records.held("tiny"):
        records.home("tiny").mkdir(mode=0o700)
    process = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"],
        start_new_session=True,
        cwd=records.home("tiny"),
    )
    found = ServerRecord(
        name="tiny",
        url="http://127.0.0.1:1/v1",
        model="tiny",
        closure=Digest.of(b""),
        store=store.path,
        roots=("serve-tiny.0",),
        since="2026-01-01T00:00:00+00:00",
        process=identify(process.pid),
    )
    records.write(found)
    yield found
    process.kill()
    process.wait()


def test_another_program_that_took_the_port_is_not_taken_for_the_server(
    records: ServerRecords, record: ServerRecord, store: Store
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = replace(record, url=f"http://127.0.0.1:{other.getsockname()[1]}/v1")
        assert not answers(records, taken, lambda _: True)
        with pytest.raises(BuildError, match="did not answer within"):
            waiting.wait(store, records, taken, 0.5, healthy=lambda _: True)
    assert records.read("tiny") is None


def test_a_wait_that_fails_leaves_a_server_that_somebody_is_starting_alone(
    records: ServerRecords, record: ServerRecord, store: Store
) -> None:
    with records.held("tiny"), pytest.raises(BuildError, match="did not answer within"):
        waiting.wait(store, records, record, 0.1, healthy=lambda _: False)
    assert records.read("tiny") == record
