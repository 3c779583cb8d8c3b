"""What a realisation reports about how far it is: builds planned, bytes read, requests finished, tokens made."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dis_derivations.builders.files import FilesBuilder
from dis_derivations.graph.derivation import Derivation
from dis_derivations.graph.graph import Graph
from dis_derivations.realisation import gauge
from dis_derivations.realisation.building import BuildContext, BuildLog
from dis_derivations.realisation.events import Event, Measure
from dis_derivations.realisation.manifest_target import realise_target
from dis_derivations.realisation.target import TargetRequest
from dis_store import Store
from dis_store.errors import InterruptedBuildError
from dis_store.work_progress import uncounted

Toy = Callable[..., Derivation]
MakeGraph = Callable[..., Graph]


def planned(events: list[Event]) -> list[Measure]:
    return [measure for event in events if event.kind == "plan" for measure in event.measures]


def amounts(events: list[Event], text: str) -> list[tuple[Measure, ...]]:
    return [event.measures for event in events if event.text == text and event.measures]


def test_a_realisation_says_first_how_much_it_will_build(
    bench: Any, toy: Toy, graph: MakeGraph
) -> None:
    source = toy("source", "leaf")
    final = toy("final", source=source)
    whole = graph(source, final)
    bench.realiser(whole).realise(source.digest)
    bench.realiser(whole).realise(final.digest)
    assert planned(bench.events) == [Measure("builds", 0, 1)] * 2
    assert [event.kind for event in bench.events if event.kind in {"plan", "start"}] == [
        "plan",
        "start",
    ] * 2


def test_what_is_known_is_not_planned(bench: Any, toy: Toy, graph: MakeGraph) -> None:
    source = toy("source", "leaf")
    bench.realiser(graph(source)).realise(source.digest)
    bench.events.clear()
    bench.realiser(graph(source)).realise(source.digest)
    assert planned(bench.events) == []


def test_a_builder_reports_amounts_under_the_name_of_its_build(
    bench: Any, toy: Toy, graph: MakeGraph
) -> None:
    def work(context: Any) -> None:
        context.gauge("counting", Measure("bytes", 0, 3)).add(3)

    bench.builder.before = work
    source = toy("source", "leaf")
    bench.realiser(graph(source)).realise(source.digest)
    told = [(event.subject, event.text, event.measures) for event in bench.events if event.measures]
    assert told[1:] == [
        ("source", "counting", (Measure("bytes", 0, 3),)),
        ("source", "counting", (Measure("bytes", 3, 3),)),
    ]


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every amount be reported."""
    monkeypatch.setattr(gauge, "SECONDS_BETWEEN_REPORTS", 0.0)


@pytest.mark.usefixtures("often")
def test_reading_verifying_and_generating_are_measured_to_the_end(
    store: Store, config: Path
) -> None:
    events: list[Event] = []
    realise_target(store, TargetRequest(config=config), events.append)
    [locking] = [event.text for event in events if event.kind == "begin"]
    assert locking == "reading 5 files"
    for text in (locking, "verifying the model"):
        sizes = [measures[0] for measures in amounts(events, text)]
        assert sizes[0].done == 0
        assert sizes[-1].done == sizes[-1].total
        assert sizes == sorted(sizes, key=lambda measure: measure.done)
        assert len(sizes) > 2
    requests, tokens = zip(*amounts(events, "generating"), strict=True)
    assert requests[-1].done == requests[-1].total
    assert tokens[-1].done > requests[-1].done
    assert len({measure.done for measure in tokens}) > 2


@pytest.mark.usefixtures("often")
def test_files_that_are_locked_are_measured_when_a_build_reads_them(
    tmp_path: Path, store: Store, config: Path
) -> None:
    realise_target(store, TargetRequest(config=config))
    events: list[Event] = []
    with Store.open(tmp_path / "other") as other:
        realise_target(other, TargetRequest(config=config, target="weights"), events.append)
    read = [measures[0] for measures in amounts(events, "reading")]
    assert read[0].done == 0
    assert read[-1].done == read[-1].total != 0


class TwoPieces:
    """A source whose one file comes in two pieces; Ctrl-C is pressed after the first."""

    def __init__(self) -> None:
        self.interrupted = False
        self.pieces = 0

    def fetch(
        self,
        kind: str,
        files: Any,
        writer: Any,
        check_interrupted: Callable[[], None],
        on_bytes: Callable[[int], None] = uncounted,
    ) -> None:
        """Give the pieces."""
        for _ in range(2):
            self.pieces += 1
            on_bytes(1)
            self.interrupted = True


def test_an_interruption_ends_the_reading_in_the_middle_of_a_file(store: Store, toy: Toy) -> None:
    source = TwoPieces()
    derivation = replace(toy("weights"), args={"kind": "weights", "files": [{"size": 2}]})
    context = BuildContext(
        store=store,
        derivation=derivation,
        inputs={},
        platform_facts={},
        sources=source,
        hints={},
        observed={},
        log=BuildLog(),
        log_files={},
        cancelled=lambda: source.interrupted,
    )
    with pytest.raises(InterruptedBuildError):
        FilesBuilder().build(context)
    assert source.pieces == 2  # it noticed with the second, and not after the file
    assert not list(store.path.glob("tmp/*"))
