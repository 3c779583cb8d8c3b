"""Machines that are not what the store expects: other PID namespaces, no locks, wrong clocks, strange settings."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from auditing import audit
from dis_store import DisError, Store
from disks import be_able_to_mount, have_own_mounts, unfit
from effort import effort
from errands import CHANGING, Inputs, fill, wrong
from forked_commands import Caller
from prepared_stores import PreparedStore
from processes import at_once
from spoilt_stores import locks_do_nothing
from trees import Blob, write_text, write_tree

pytestmark = pytest.mark.stress
ROUNDS = effort(4, 60)
_IN_A_CONTAINER = """
import sys
sys.path[:0] = {path!r}
from pathlib import Path
from trees import Blob, write_text, write_tree
from dis_store import Root, Store
import os
assert os.getpid() < 10, "this is no PID namespace of its own"
for turn in range({rounds}):
    with Store.open(Path({store!r})) as store:
        inner = write_text(store, f"inner {{turn}}")
        digest = write_tree(store, {{"f": Blob(b"%d" % turn)}}, {{"r": (inner, None)}})
        store.set_root(f"{name}-{{turn}}", Root(digest))
        assert store.read_bytes(digest, "r/text") == f"inner {{turn}}".encode()
        if turn % 2:
            store.collect_garbage()
        assert store.read_bytes(digest, "r/text") == f"inner {{turn}}".encode()
"""


def test_containers_may_share_a_store(tmp_path: Path) -> None:
    if not have_own_mounts() or shutil.which("unshare") is None:
        unfit("no PID namespace can be made")
    store = tmp_path / "store"
    Store.open(store).close()
    enter = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c"]
    containers = [
        subprocess.Popen(
            [
                *enter,
                _IN_A_CONTAINER.format(
                    path=sys.path, store=str(store), name=f"root-{number}", rounds=ROUNDS
                ),
            ],
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(3)
    ]
    answers = [each.communicate(timeout=500)[1] for each in containers]
    assert [each.returncode for each in containers] == [0, 0, 0], answers
    with Store.open(store) as opened:
        opened.collect_garbage()
        assert len(opened.objects()) == 2 * ROUNDS
    assert audit(store) == []


def test_locks_that_hold_nobody_off_cost_work_and_no_content(tmp_path: Path) -> None:
    path = tmp_path / "store"
    Store.open(path).close()

    def write_all() -> None:
        for turn in range(5 * ROUNDS):
            # Whoever starts takes the work of others for abandoned, and they are told so.
            with suppress(DisError), Store.open(path) as store:
                inner = write_text(store, f"inner {turn}")
                write_tree(store, {"f": Blob(b"%d" % turn)}, {"r": (inner, None)})

    def write_without_locks() -> None:
        locks_do_nothing()
        write_all()

    at_once([write_without_locks] * 4)
    with Store.open(path) as store:
        # A process takes the work of another for abandoned, and removes it under its hands: files may be missing, none
        # is wrong, and what is not whole is found and set aside.
        assert "changed" not in {problem.kind for problem in store.verify(None).problems}
        store.reindex()
    write_all()
    with Store.open(path) as store:
        assert len(store.objects()) == 10 * ROUNDS
    assert serious(audit(path, orphans_allowed=True)) == []
    with Store.open(path) as store:
        store.collect_garbage()
    assert serious(audit(path)) == []


def serious(problems: list[str]) -> list[str]:
    """Leave out that something was set aside: one process finds the half-done work of another."""
    return [problem for problem in problems if not problem.startswith("quarantine/")]


@pytest.fixture
def read_only(memory: Path) -> Iterator[Path]:
    """A store on a disk that is mounted read-only."""
    be_able_to_mount()
    disk = memory / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", disk], check=True)
    try:
        with Store.open(disk / "store") as store:
            fill(store)
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        yield disk / "store"
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


def test_a_store_on_a_read_only_disk_answers_and_refuses_in_one_block(
    read_only: Path, caller: Caller, inputs: Inputs, tmp_path: Path
) -> None:
    call = replace(caller, store=read_only)
    for argv in (["root", "list"], ["store", "verify", "--all"], ["ls", "kept"]):
        ended = call(*argv)
        assert ended.code == 0, ended
    for errand in CHANGING:
        ended = call(*errand.argv(inputs, tmp_path))
        assert ended.code == 5, ended
        assert ended.untold is None, ended


MACHINES: dict[str, tuple[str | None, dict[str, str]]] = {
    "a clock 400 days slow": ("odd_processes:slow_clock", {}),
    "a clock 400 days fast": ("odd_processes:fast_clock", {}),
    "umask 000": ("odd_processes:umask_000", {}),
    "umask 077": ("odd_processes:umask_077", {}),
    "another time zone": ("odd_processes:new_zone", {"TZ": "Pacific/Kiritimati"}),
    "another locale": ("odd_processes:new_locale", {"LC_ALL": "C", "LANG": "C"}),
}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("prepared", CHANGING, ids=lambda each: each.name, indirect=True)
def test_what_a_process_inherits_changes_nothing(
    prepared: PreparedStore, caller: Caller, machine: str
) -> None:
    spoil, environment = MACHINES[machine]
    prepared.renew()
    odd = replace(prepared, caller=replace(prepared.caller, spoil=spoil, environment=environment))
    ended = odd.caller(*odd.argv)
    assert ended.code in odd.errand.codes, ended
    store = odd.caller.store
    assert wrong(store, odd.expectation.afterwards, orphans_allowed=True) == []
    collected = replace(odd.caller, spoil=None, environment={})("gc")
    assert collected.code == 0, collected
    assert wrong(store, odd.expectation.afterwards, orphans_allowed=False) == []


@pytest.mark.parametrize("seed", ["0", "1", "4294967295"])
def test_the_seed_of_hashes_changes_no_digest(inputs: Inputs, tmp_path: Path, seed: str) -> None:
    printed = set()
    for each in ("17", seed):
        store = tmp_path / f"store-{each}"
        done = subprocess.run(
            [sys.executable, "-m", "dis_command", "realize", inputs.manifest, "--store", store],
            env={
                **os.environ,
                "PYTHONPATH": ":".join(sys.path),
                "PYTHONHASHSEED": each,
                "HOME": str(tmp_path),
                "DIS_PROGRESS": "none",
            },
            capture_output=True,
            text=True,
            check=True,
        )
        printed.add(Path(done.stdout.strip()).name)
    assert len(printed) == 1
