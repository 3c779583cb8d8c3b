"""A process without network, entered by root and by an ordinary user: what it can still do, and what is seen."""

import ctypes
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from confined_calls import NOBODY
from dis_derivations.confinement import capture, child, means, namespaces
from dis_derivations.confinement.capture import Capture
from dis_derivations.confinement.counters import Counters
from processes import forked, waited_for

_SET_DUMPABLE = 4
USERS = [pytest.param(None, id="whoever runs the tests"), pytest.param(NOBODY, id="nobody")]


def confined(action: Callable[[Capture | Counters], Any], user: int | None, *places: Path) -> Any:
    """Return what an action does in a child without network; it must be plain JSON."""
    answer, told = os.pipe()

    def body() -> None:
        if user is not None:
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            # As after the start of a program; its files in /proc are the user's own again.
            ctypes.CDLL(None).prctl(_SET_DUMPABLE, 1, 0, 0, 0)
        kind, descriptors = child.shut(list(places), how=child.ENTER)
        witness = means.witness_of(kind, descriptors)
        found = action(witness)
        with os.fdopen(told, "w") as stream:
            json.dump(found, stream)

    number = forked(body)
    os.close(told)
    with os.fdopen(answer) as stream:
        text = stream.read()
    assert waited_for(number) == 0
    return json.loads(text)


def tried(*places: tuple[str, int]) -> None:
    for host, port in places:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family) as one:
            assert one.connect_ex((host, port)) != 0


@pytest.mark.parametrize("user", USERS)
def test_attempts_fail_at_once_and_are_seen_in_order(user: int | None) -> None:
    def action(witness: Capture | Counters) -> list[str]:
        tried(("192.0.2.1", 80), ("2001:db8::1", 443), ("127.0.0.1", 9), ("192.0.2.1", 80))
        return [str(each) for each in witness.take()]

    assert confined(action, user) == ["192.0.2.1 port 80 (tcp)", "2001:db8::1 port 443 (tcp)"]


@pytest.mark.parametrize("user", USERS)
def test_what_was_taken_is_not_seen_twice(user: int | None) -> None:
    def action(witness: Capture | Counters) -> list[int]:
        tried(("192.0.2.1", 80))
        return [len(witness.take()), len(witness.take())]

    assert confined(action, user) == [1, 0]


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize(
    "argv",
    [
        ["unshare", "--net", "true"],
        ["ip", "link", "set", "lo", "down"],
        ["ip", "route", "del", "local", "default", "dev", "lo", "table", "local"],
        ["nsenter", "--target", str(os.getpid()), "--net", "true"],
        ["mount", "-t", "tmpfs", "none", "/mnt"],
    ],
    ids=lambda argv: argv[0],
)
def test_nothing_in_it_can_change_the_network_back(user: int | None, argv: list[str]) -> None:
    def action(_witness: Capture | Counters) -> int:
        return subprocess.run(argv, capture_output=True, check=False).returncode

    assert confined(action, user) != 0


@pytest.mark.parametrize("user", USERS)
def test_a_namespace_made_inside_has_no_network_either(user: int | None) -> None:
    def action(witness: Capture | Counters) -> Any:
        code = (
            "import socket\nfor a in ('192.0.2.1', '127.0.0.1'):"
            "\n s = socket.socket(); print(s.connect_ex((a, 80)) != 0)"
        )
        argv = ["unshare", "-Urn", "/usr/bin/python3", "-I", "-c", code]
        if not Path("/usr/bin/python3").exists():
            argv[2] = sys.executable
        done = subprocess.run(argv, capture_output=True, check=False, text=True)
        return [done.returncode != 0 or done.stdout == "True\nTrue\n", witness.take()]

    assert confined(action, user) == [True, []]


@pytest.mark.parametrize("user", USERS)
def test_who_is_who_stays_the_same(user: int | None, tmp_path: Path) -> None:
    def action(_witness: Capture | Counters) -> list[int]:
        return [os.getuid(), os.getgid(), Path("/proc/self").stat().st_uid]

    expected = os.getuid() if user is None else user
    assert confined(action, user) == [expected] * 3


def test_root_keeps_its_rights_over_files(tmp_path: Path) -> None:
    secret = tmp_path / "of-somebody-else"
    secret.write_text("x", "utf-8")
    os.chown(secret, NOBODY, NOBODY)
    secret.chmod(0o600)

    def action(_witness: Capture | Counters) -> list[Any]:
        status = secret.stat()
        return [secret.read_text("utf-8"), status.st_uid]

    assert confined(action, None) == ["x", NOBODY]


@pytest.mark.parametrize("user", USERS)
def test_hidden_sockets_are_hidden_from_it_alone(user: int | None, tmp_path: Path) -> None:
    place = tmp_path / "service.sock"
    for directory in (tmp_path, *tmp_path.parents[:3]):
        directory.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as service:
        service.bind(str(place))
        place.chmod(0o777)
        service.listen()

        def action(_witness: Capture | Counters) -> int:
            with socket.socket(socket.AF_UNIX) as one:
                return one.connect_ex(str(place))

        assert confined(action, user, place, tmp_path / "nowhere") != 0
        assert confined(action, user) == 0
        with socket.socket(socket.AF_UNIX) as one:
            assert one.connect_ex(str(place)) == 0


def test_an_error_of_the_system_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespaces, "_NEW_NETWORK", 1)  # no flag of any namespace

    def body() -> None:
        with pytest.raises(OSError, match="Invalid argument"):
            namespaces.enter()

    assert waited_for(forked(body)) == 0


def test_attempts_are_counted_where_packets_cannot_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> socket.socket:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(capture, "open_capture", refuse)

    def action(witness: Capture | Counters) -> list[str]:
        tried(("192.0.2.1", 80), ("2001:db8::1", 443), ("127.0.0.1", 9))
        return [witness.kind, *map(str, witness.take()), *map(str, witness.take())]

    told = confined(action, None)
    assert told[0] == "the kernel's counters, which tell of no destinations"
    assert len(told) == 2
    assert re.fullmatch(r"an address that is not told \([1-9] packets\)", told[1])


def test_looking_up_the_own_name_is_no_attempt_to_leave() -> None:
    def action(witness: Capture | Counters) -> list[str]:
        for name in ("this-machine", "this-machine.example.org", "other"):
            question = bytes(12) + b"".join(
                bytes([len(each)]) + each.encode() for each in name.split(".")
            )
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
                one.sendto(question + b"\0\0\1\0\1", ("127.0.0.53", 53))
        assert isinstance(witness, Capture)
        witness.own_name = "This-Machine"
        return [str(each) for each in witness.take()]

    assert confined(action, None) == ["127.0.0.53 port 53 (udp, looking up other)"]


def test_a_process_whose_starter_has_gone_ends_without_a_word() -> None:
    ours, theirs = socket.socketpair()
    ours.close()
    with theirs:
        done = subprocess.run(
            [sys.executable, "-m", child.__name__, f"{theirs.fileno()}", child.ENTER],
            env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
            pass_fds=[theirs.fileno()],
            capture_output=True,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
