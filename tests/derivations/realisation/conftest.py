"""A store, a graph of toy builds, and the manifest of a tiny model, so that realisation is tested fast."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import pytest

from dis_derivations.graph.derivation import Derivation, OutputReference
from dis_derivations.graph.graph import Graph, graph_of
from dis_derivations.realisation import plan_cache
from dis_derivations.realisation.building import BuildContext
from dis_derivations.realisation.events import Event
from dis_derivations.realisation.realiser import Realiser, Surroundings
from dis_derivations.realisation.target import RealisedTarget
from dis_store import Store
from dis_store.digest import Digest
from dis_store.errors import BuildError
from tiny_runs import write_manifest


@dataclass
class ToyBuilder:
    """Writes the value of its `text` argument, or what its inputs hold in capitals; counts what it did."""

    version: int = 1
    built: list[str] = field(default_factory=list)
    failing: set[str] = field(default_factory=set)
    before: Callable[[BuildContext], None] = lambda context: None
    text_of: Callable[[BuildContext, str], str] = lambda context, text: text
    _lock: Lock = field(default_factory=Lock)

    def build(self, context: BuildContext) -> Mapping[str, Digest]:
        """Make one file, `value`."""
        self.before(context)
        with self._lock:
            self.built.append(context.derivation.name)
        if context.derivation.name in self.failing:
            raise BuildError(f"{context.derivation.name} was told to fail")
        texts = [str(context.derivation.args.get("text", ""))]
        texts += [
            context.store.read_bytes(source.object, "value").decode().upper()
            for _, source in sorted(context.inputs.items())
        ]
        with context.store.new_tree() as tree:
            tree.write_bytes("value", self.text_of(context, "".join(texts)).encode())
            return {"out": tree.register()}


class NoSources:
    """Sources for graphs that fetch nothing."""

    def fetch(self, kind: str, *args: Any) -> None:
        """Refuse: a toy graph has no fixed outputs."""
        raise AssertionError(kind)


@dataclass
class Bench:
    """A store, the toy builder, and what was reported."""

    store: Store
    builder: ToyBuilder
    events: list[Event] = field(default_factory=list)

    def realiser(self, graph: Graph, **options: Any) -> Realiser:
        """Return a new realiser of `graph`, as another call of the command would."""
        surroundings = Surroundings(NoSources(), {}, {})
        return Realiser(
            self.store,
            graph,
            {"toy": self.builder},
            surroundings,
            reporter=self.events.append,
            **options,
        )

    def text(self, digest: Digest) -> str:
        """Return what a toy object holds."""
        return self.store.read_bytes(digest, "value").decode()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with Store.open(tmp_path / "store") as store:
        yield Bench(store, ToyBuilder())


def toy(name: str, text: str = "", **inputs: Derivation) -> Derivation:
    """Return a toy derivation with an output that is compared and a log."""
    return Derivation(
        name=name,
        builder="toy",
        builder_version=1,
        inputs={label: OutputReference(source.digest, "out") for label, source in inputs.items()},
        args={"text": text},
        platform="any",
        outputs=("out", "log"),
        compared=("out",),
    )


@pytest.fixture(name="toy")
def toy_fixture() -> Callable[..., Derivation]:
    return toy


@pytest.fixture
def graph() -> Callable[..., Graph]:
    def make(*derivations: Derivation) -> Graph:
        return graph_of(
            derivations, {derivation.name: derivation.digest for derivation in derivations}
        )

    return make


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store") as opened:
        yield opened


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return write_manifest(tmp_path / "tiny")


@pytest.fixture
def recalled(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return a list that gets an entry for each look into the plan cache: whether it knew the answer."""
    answers: list[bool] = []
    recall = plan_cache.recall

    def watched(store: Store, key: Digest) -> RealisedTarget | None:
        known = recall(store, key)
        answers.append(known is not None)
        return known

    monkeypatch.setattr(plan_cache, "recall", watched)
    return answers
