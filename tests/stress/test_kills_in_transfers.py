"""`dis push` and `dis pull` are killed at random moments: the next call completes, and sends no more than it must."""

import json
import os
import random
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from dis_store import Root, Store
from effort import effort
from forked_commands import Caller, Ended
from part_models import add_weights, model_bytes
from real_registry import RealRegistry, running_registry

pytestmark = [pytest.mark.stress, pytest.mark.slow]
SEED = 20261130
KILLS = effort(12, 200)
TENSOR = 5 << 20
AT_ONCE = 4
_BODY = re.compile(r'"GET /v2/\S+/blobs/\S+ HTTP/1\.1" 20[06] (\d+) ')


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRegistry]:
    with running_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@dataclass(frozen=True)
class Rig:
    """A store with a root that is pushed, and who calls."""

    caller: Caller
    registry: RealRegistry
    size: int

    def at(self, store: Path) -> Caller:
        return replace(self.caller, store=store)

    def sent_by_registry(self) -> int:
        """Return the bytes of blobs that the registry has given out so far."""
        log = (self.registry.directory / "log").read_text("utf-8", "replace")
        return sum(map(int, _BODY.findall(log)))

    def whole_blobs(self, repository: str) -> int:
        """Return the bytes of those blobs that a repository has whole."""
        layers = (
            self.registry.directory
            / f"blobs/docker/registry/v2/repositories/{repository}/_layers/sha256"
        )
        links = layers.glob("*/link") if layers.is_dir() else ()
        return sum(self.registry.blob_path(link.parent.name).stat().st_size for link in links)


@pytest.fixture
def rig(caller: Caller, registry: RealRegistry) -> Rig:
    data = model_bytes(TENSOR)
    assert len(data) > 64 << 20, "it would travel whole"
    with Store.open(caller.store) as store:
        digest = add_weights(store, {"model.safetensors": data, "config.json": b"{}"})
        store.set_root("model", Root(digest))
    return Rig(caller, registry, len(data))


def killed_after(caller: Caller, argv: list[str], seconds: float) -> Ended:
    """Call the command, and kill it if it lives so long."""
    child = caller.start(argv)
    # By its handle: the number of a process that has ended may be another's.
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(child)
        time.sleep(seconds)
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        os.close(handle)
    return caller.wait()


def timed(caller: Caller, argv: list[str]) -> float:
    begun = time.monotonic()
    ended = caller(*argv)
    assert ended.code == 0, ended.err
    return time.monotonic() - begun


def test_a_push_that_is_killed_is_completed_by_the_next(
    rig: Rig, tell: Callable[[str], None]
) -> None:
    chance = random.Random(SEED)  # noqa: S311 - which one is no secret
    longest = timed(rig.caller, push(rig, "timed"))
    landed = tried = most = 0
    while landed < KILLS and tried < 4 * KILLS:
        tried += 1
        repository = f"push/{tried}"
        killed = killed_after(rig.caller, push(rig, repository), chance.uniform(0, longest))
        whole = rig.whole_blobs(repository)

        again = rig.caller(*push(rig, repository))

        assert again.code == 0, again.err
        document = json.loads(again.out)
        # What is sent again is of blobs that were on their way, and each of them is a part.
        assert document["sent_bytes"] <= document["bytes"] - whole, f"try {tried}"
        assert rig.whole_blobs(repository) >= document["bytes"]
        landed += killed.code == -signal.SIGKILL
        most = max(most, whole if killed.code else 0)
    assert landed == KILLS
    assert rig.caller("store", "verify", "--all").code == 0
    tell(f"{landed} kills landed in {tried} tries, 0 bad; up to {most} bytes did not travel again")


def push(rig: Rig, repository: str) -> list[str]:
    return ["push", "model", rig.registry.reference(f"{repository}:one"), "--parts", "--json"]


def test_a_pull_that_is_killed_is_completed_by_the_next(
    rig: Rig, memory: Path, tell: Callable[[str], None]
) -> None:
    chance = random.Random(SEED)  # noqa: S311 - which one is no secret
    assert rig.caller(*push(rig, "pull")).code == 0
    argv = ["pull", rig.registry.reference("pull:one"), "--name", "model", "--json"]
    longest = timed(rig.at(memory / "timed"), argv)
    landed = tried = most = 0
    while landed < KILLS and tried < 4 * KILLS:
        tried += 1
        caller = rig.at(memory / f"store-{tried}")
        before = rig.sent_by_registry()
        killed = killed_after(caller, argv, chance.uniform(0, longest))

        again = caller(*argv)

        assert again.code == 0, again.err
        assert caller("store", "verify", "--all").code == 0
        came = rig.sent_by_registry() - before
        # Each thread loses at most the part that it was at.
        assert came < rig.size + AT_ONCE * (TENSOR + (1 << 20)), f"try {tried}"
        with Store.open(caller.store) as store:
            assert store.root("model") is not None
            assert store.unfinished_bytes() == 0
        remove(caller.store)
        landed += killed.code == -signal.SIGKILL
        most = max(most, came - rig.size)
    assert landed == KILLS
    tell(f"{landed} kills landed in {tried} tries, 0 bad; at most {most} bytes came twice")


def remove(store: Path) -> None:
    for directory, _, _ in os.walk(store):
        # What is in a store is read-only.
        Path(directory).chmod(0o700)
    shutil.rmtree(store)
