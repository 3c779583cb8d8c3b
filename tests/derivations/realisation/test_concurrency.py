"""Several processes that realise at once, beside garbage collections: each key is built once, and no result breaks."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dis_derivations.graph.derivation import Derivation
from dis_derivations.graph.graph import Graph
from dis_derivations.realisation import schedule
from dis_store import Store
from dis_store.digest import Digest
from dis_store.errors import InterruptedBuildError
from tiny_runs import realise, write_manifest

PROCESSES = 3

# Realises each manifest given, twice, and prints the bundles.
REALISING = """
import sys
from pathlib import Path
from dis_store import Store
from tiny_runs import realise
store, *descriptions = sys.argv[1:]
for description in descriptions * 2:
    with Store.open(Path(store)) as opened:
        run = realise(opened, Path("tiny.json"), f"metadata.description={description}", jobs=2)
        for output in run.outputs.values():
            assert all(file.real.stat().st_size == file.size for file in opened.files(output))
        print(description, run.outputs["bundle"])
"""


def started(store: Path, directory: Path, *descriptions: str) -> subprocess.Popen[str]:
    environment = {"PYTHONPATH": os.pathsep.join(sys.path), "PATH": os.environ["PATH"]}
    return subprocess.Popen(
        [sys.executable, "-c", REALISING, store, *descriptions],
        cwd=directory,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )


def finished(children: list[subprocess.Popen[str]]) -> dict[str, set[str]]:
    """Wait for the children; return the bundles that they made of each description."""
    bundles: dict[str, set[str]] = {}
    for child in children:
        printed, _ = child.communicate()
        assert child.returncode == 0
        for line in printed.splitlines():
            description, bundle = line.split()
            bundles.setdefault(description, set()).add(bundle)
    return bundles


def builds_of(store: Path) -> dict[str, int]:
    """Return how many builds are recorded of each key."""
    return {path.name: len(list(path.iterdir())) for path in (store / "realisations").glob("*/*")}


@pytest.fixture
def overlapping(config: Path) -> list[tuple[str, ...]]:
    """Return what each process realises: runs of one generation, each of which two processes want."""
    names = ("one", "two", "three")
    return [(names[number], names[(number + 1) % PROCESSES]) for number in range(PROCESSES)]


def test_several_processes_build_each_key_once(
    tmp_path: Path, config: Path, overlapping: list[tuple[str, ...]]
) -> None:
    path = tmp_path / "shared"
    bundles = finished([started(path, config.parent, *wanted) for wanted in overlapping])
    assert {description: len(found) for description, found in bundles.items()} == {
        "one": 1,
        "two": 1,
        "three": 1,
    }
    assert set(builds_of(path).values()) == {1}


def test_collections_beside_them_never_break_a_result(
    tmp_path: Path, config: Path, overlapping: list[tuple[str, ...]]
) -> None:
    path = tmp_path / "shared"
    with Store.open(path):
        pass
    children = [started(path, config.parent, *wanted) for wanted in overlapping]
    collections = 0
    with Store.open(path) as store:
        while any(child.poll() is None for child in children):
            store.collect_garbage()
            collections += 1
        bundles = finished(children)
        store.collect_garbage()
        assert collections > 1
        # Every run is rooted, so what it was made of was there for the next one.
        assert set(builds_of(path).values()) == {1}
        for (bundle,) in bundles.values():
            assert store.is_valid(Digest(bundle))
        assert store.verify().problems == ()
    with Store.open(tmp_path / "alone") as alone:
        for description, (bundle,) in bundles.items():
            run = realise(alone, config, f"metadata.description={description}")
            assert run.outputs["bundle"] == bundle


@contextmanager
def locked_by_another(store: Store, key: Digest) -> Iterator[Callable[[], None]]:
    """Hold the build lock of a key, as another process would; the function that is given lets it go."""
    held, enough = threading.Event(), threading.Event()

    def hold() -> None:
        with Store.open(store.path) as other, other.build_lock(key):
            held.set()
            enough.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(60)
    try:
        yield enough.set
    finally:
        enough.set()
        thread.join()


def key_of(derivation: Derivation) -> Digest:
    from dis_derivations.graph.keys import build_key

    return build_key(derivation, {}, {})


def test_a_build_that_another_process_does_is_waited_for_and_said_once(
    bench: Any, toy: Callable[..., Derivation], graph: Callable[..., Graph]
) -> None:
    source = toy("source", "leaf")
    with locked_by_another(bench.store, key_of(source)) as release:
        report = bench.events.append

        def release_when_waiting(event: Any) -> None:
            report(event)
            if event.kind == "waiting":
                release()

        bench.events = Recorder(release_when_waiting)
        made = bench.realiser(graph(source)).realise(source.digest)
    assert bench.text(made.outputs["out"]) == "leaf"
    waited = [event for event in bench.events.kept if event.kind == "waiting"]
    assert len(waited) == 1
    assert f"process {os.getpid()} on " in waited[0].text


class Recorder:
    """Stands for a list of events, and does something with each."""

    def __init__(self, act: Callable[[Any], None]) -> None:
        self.kept: list[Any] = []
        self._act = act

    def append(self, event: Any) -> None:
        self.kept.append(event)
        self._act(event)


def test_an_interruption_ends_the_wait_for_another_process(
    bench: Any,
    toy: Callable[..., Derivation],
    graph: Callable[..., Graph],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = toy("source", "leaf")

    def interrupt_when_waiting(*arguments: Any, **options: Any) -> Any:
        if any(event.kind == "waiting" for event in bench.events):
            raise KeyboardInterrupt
        return futures.wait(*arguments, **options)

    monkeypatch.setattr(schedule, "wait", interrupt_when_waiting)
    with (
        locked_by_another(bench.store, key_of(source)),
        pytest.raises(InterruptedBuildError, match="interrupted"),
    ):
        bench.realiser(graph(source)).realise(source.digest)
    assert bench.builder.built == []


def test_a_lock_that_several_processes_make_at_once_is_whole(
    tmp_path: Path, overlapping: list[tuple[str, ...]]
) -> None:
    config = write_manifest(tmp_path / "unlocked")
    children = [started(tmp_path / "shared", config.parent, "same") for _ in overlapping]
    ((bundle,),) = finished(children).values()
    lock = json.loads(config.with_name("tiny.lock.json").read_bytes())
    with Store.open(tmp_path / "shared") as store:
        used = json.loads(store.read_bytes(Digest(bundle), "lock.used.json"))
        assert used["lock_id"] == lock["lock_id"]
    assert [path.name for path in config.parent.glob(".*")] == []
