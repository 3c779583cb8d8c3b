"""`dis push` and `dis pull` are killed at random moments: the next call completes, and sends less than a part again."""

import json
import os
import random
import re
import shutil
import signal
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from dis_store import Root, Store
from effort import effort
from forked_commands import Caller, Ended
from part_models import add_weights, model_bytes
from real_registry import RealRegistry, running_registry
from transfer_kills import PART, Repository, kept_bytes

pytestmark = [pytest.mark.stress, pytest.mark.slow]
SEED = 20261130
KILLS = effort(4, 100)
TENSOR = 5 << 18
BUFFERS = 64 << 20
_BODY = re.compile(r'"GET /v2/\S+/blobs/\S+ HTTP/1\.1" 20[06] (\d+) ')


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRegistry]:
    with running_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@dataclass(frozen=True)
class Rig:
    """A store with a root that is pushed, and who calls.

    Attributes:
        contents: Of the files that are worth keeping.
        options: Of a push.
    """

    caller: Caller
    registry: RealRegistry
    contents: Sequence[bytes]
    options: tuple[str, ...]

    @property
    def size(self) -> int:
        return sum(map(len, self.contents))

    def at(self, store: Path) -> Caller:
        return replace(self.caller, store=store)

    def sent_by_registry(self) -> int:
        """Return the bytes of blobs that the registry has given out so far."""
        return sum(map(int, _BODY.findall(self.registry.log())))

    def push(self, repository: str) -> list[str]:
        reference = self.registry.reference(f"{repository}:one")
        return ["push", "model", reference, *self.options, "--json"]


def one_file_in_parts() -> tuple[dict[str, bytes], tuple[str, ...]]:
    data = model_bytes(TENSOR)
    assert TENSOR < PART < len(data), "it would travel whole"
    return {"model.safetensors": data}, ("--parts",)


def files_of_many_sizes() -> tuple[dict[str, bytes], tuple[str, ...]]:
    chance = random.Random(SEED)  # noqa: S311 - bytes of a test
    sizes = [*[1_900_000] * 3, *[(1 << 20) + 7] * 2, *[100_001] * 6, *[40_000] * 6]
    return {f"file-{number}": chance.randbytes(size) for number, size in enumerate(sizes)}, ()


CLOSURES = {"parts": one_file_in_parts, "files": files_of_many_sizes}


@pytest.fixture(params=sorted(CLOSURES))
def rig(request: pytest.FixtureRequest, caller: Caller, registry: RealRegistry) -> Rig:
    files, options = CLOSURES[request.param]()
    with Store.open(caller.store) as store:
        digest = add_weights(store, {**files, "config.json": b"{}"})
        store.set_root("model", Root(digest))
    bounded = replace(caller, spoil="transfer_kills:make_parts_small")
    return Rig(bounded, registry, tuple(files.values()), options)


@dataclass
class Tally:
    """What was counted: kills that landed, and the bytes that travelled again because of each."""

    landed: int = 0
    tried: int = 0
    again: list[int] = field(default_factory=list)

    def add(self, killed: Ended, again: int) -> None:
        self.landed += killed.code == -signal.SIGKILL
        if killed.code:
            self.again.append(again)

    def moments(self, longest: float) -> Iterator[float]:
        """Yield when to kill, until enough kills have landed."""
        chance = random.Random(SEED)  # noqa: S311 - which one is no secret
        while self.landed < KILLS and self.tried < 4 * KILLS:
            self.tried += 1
            yield chance.uniform(0, longest)
        assert self.landed == KILLS

    def text(self) -> str:
        most, usual = max(self.again), statistics.median(self.again)
        return (
            f"{self.landed} kills landed in {self.tried} tries, 0 bad; "
            f"at most {most} bytes travelled again, {usual:.0f} in the median"
        )


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
    rig: Rig, memory: Path, tell: Callable[[str], None], request: pytest.FixtureRequest
) -> None:
    name = f"push/{request.node.callspec.id}"
    longest = timed(rig.caller, rig.push(f"{name}/timed"))
    tally = Tally()
    for moment in tally.moments(longest):
        repository = Repository(rig.registry, f"{name}/{tally.tried}")
        killed = killed_after(rig.caller, rig.push(repository.name), moment)
        rig.registry.log()  # until it has seen that nobody sends any more
        whole, lost = repository.whole_blobs(), repository.broken_off()
        if repository.is_tagged("one"):
            assert whole >= rig.size, f"try {tally.tried}: tagged before it was whole"

        again = rig.caller(*rig.push(repository.name))

        assert again.code == 0, again.err
        document = json.loads(again.out)
        # What was whole is not sent again, and what was on its way is less than one part.
        assert document["sent_bytes"] <= document["bytes"] - whole, f"try {tally.tried}"
        assert lost <= PART, f"try {tally.tried}"
        assert repository.whole_blobs() >= document["bytes"]
        tally.add(killed, lost)
    assert_sound(rig.caller.store)
    fresh = rig.at(memory / "fresh")
    assert fresh("pull", rig.registry.reference(f"{repository.name}:one")).code == 0
    assert_sound(fresh.store)
    tell(tally.text())


def test_a_pull_that_is_killed_is_completed_by_the_next(
    rig: Rig, memory: Path, tell: Callable[[str], None], request: pytest.FixtureRequest
) -> None:
    name = f"pull/{request.node.callspec.id}"
    assert rig.caller(*rig.push(name)).code == 0
    argv = ["pull", rig.registry.reference(f"{name}:one"), "--name", "model", "--json"]
    longest = timed(rig.at(memory / "timed"), argv)
    tally = Tally()
    on_the_way = 0
    for moment in tally.moments(longest):
        caller = rig.at(memory / f"store-{tally.tried}")
        before = rig.sent_by_registry()
        killed = killed_after(caller, argv, moment)
        between = rig.sent_by_registry()
        kept = kept_bytes(caller.store, rig.contents)
        assert_sound(caller.store)

        again = caller(*argv)

        assert again.code == 0, again.err
        assert_sound(caller.store)
        after = rig.sent_by_registry()
        # Beside the contents there are only manifests and a file of two bytes.
        twice = max(0, after - between - (rig.size - kept))
        assert twice < PART, f"try {tally.tried}: {kept} bytes were there"
        # The buffers of the system, which a kill empties, are counted here, too.
        on_the_way = max(on_the_way, after - before - rig.size)
        assert on_the_way < BUFFERS, f"try {tally.tried}"
        with Store.open(caller.store) as store:
            assert store.root("model") is not None
            assert store.unfinished_bytes() == 0
        remove(caller.store)
        tally.add(killed, twice)
    tell(f"{tally.text()}; with what was on its way at most {on_the_way}")


def assert_sound(path: Path) -> None:
    """Read all objects again: none is registered that is not whole."""
    if (path / "format.json").is_file():
        with Store.open(path) as store:
            assert store.verify().ok


def remove(store: Path) -> None:
    for directory, _, _ in os.walk(store):
        # What is in a store is read-only.
        Path(directory).chmod(0o700)
    shutil.rmtree(store)
