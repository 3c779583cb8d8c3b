"""Processes are known by number, beginning and start of the machine, and nothing else is ever sent a signal."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dis_derivations.serving.processes import (
    ProcessIdentity,
    identify,
    is_running,
    listens,
    send,
    session_of,
)

Start = Callable[..., "subprocess.Popen[str]"]
SLEEP = "import time; time.sleep(600)"


@pytest.fixture
def start() -> Iterator[Start]:
    """Return a function that starts a Python program as the leader of a session."""
    started: list[subprocess.Popen[str]] = []

    def run(program: str = SLEEP, cwd: Path | None = None) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-c", program],
            start_new_session=True,
            stdout=subprocess.PIPE,
            text=True,
            cwd=cwd,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def identity(process: "subprocess.Popen[str]") -> ProcessIdentity:
    found = identify(process.pid)
    assert found is not None
    return found


def test_a_process_is_running_until_it_ends_although_nobody_waited_for_it(start: Start) -> None:
    process = start()
    known = identity(process)
    assert is_running(known)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert not is_running(known)
    assert identify(process.pid) is None


@pytest.mark.parametrize("change", [{"began": 1}, {"boot": "another"}])
def test_a_later_process_with_the_number_is_sent_nothing(
    start: Start, change: dict[str, object]
) -> None:
    process = start()
    recycled = replace(identity(process), **change)  # type: ignore[arg-type]
    assert not is_running(recycled)
    assert not send(recycled, signal.SIGKILL)
    assert process.poll() is None
    assert send(identity(process), signal.SIGKILL)
    assert process.wait(10) == -signal.SIGKILL


def test_a_number_that_no_process_has_is_sent_nothing(start: Start) -> None:
    process = start()
    known = identity(process)
    process.kill()
    process.wait(10)
    assert not send(known, signal.SIGTERM)


def test_a_session_has_what_its_leader_started(start: Start, tmp_path: Path) -> None:
    leader = start(
        "import subprocess, sys, time\n"
        f"print(subprocess.Popen([sys.executable, '-c', {SLEEP!r}]).pid, flush=True)\n"
        "time.sleep(600)",
        cwd=tmp_path,
    )
    assert leader.stdout is not None
    child = int(leader.stdout.readline())
    known = identity(leader)
    try:
        assert {each.pid for each in session_of(known, Path("/nowhere"))} == {leader.pid, child}
        leader.kill()
        leader.wait(10)
        # Another session might have the number by now; one that works elsewhere is not this one.
        assert session_of(known, Path("/nowhere")) == set()
        assert {each.pid for each in session_of(known, tmp_path)} == {child}
        assert session_of(replace(known, boot="another"), tmp_path) == set()
    finally:
        os.kill(child, signal.SIGKILL)


def test_the_session_of_a_process_with_the_number_of_a_server_is_not_the_servers(
    start: Start, tmp_path: Path
) -> None:
    process = start(cwd=tmp_path)
    recycled = replace(identity(process), began=1)
    assert session_of(recycled, Path("/nowhere")) == set()


LISTENER = """
import socket, time
held = socket.create_server(("127.0.0.1", 0))
print(held.getsockname()[1], flush=True)
time.sleep(600)
"""


def test_only_whoever_has_the_socket_listens_on_a_port(start: Start) -> None:
    server, bystander = start(LISTENER), start()
    assert server.stdout is not None
    port = int(server.stdout.readline())
    assert listens([identity(bystander), identity(server)], port)
    assert not listens([identity(bystander)], port)
    assert not listens([identity(server)], port + 1)
