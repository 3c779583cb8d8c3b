"""What a realisation builds, what it recalls, and what is left when it does not end well."""

import threading
from collections.abc import Callable
from concurrent import futures
from pathlib import Path
from typing import Any

import pytest

from dis_derivations.graph.derivation import Derivation
from dis_derivations.graph.graph import Graph
from dis_derivations.realisation.building import BuildContext
from dis_store.digest import Digest
from dis_store.errors import (
    BuildError,
    DisError,
    IntegrityError,
    InterruptedBuildError,
    InvalidInputError,
    UnfitEnvironmentError,
)

Toy = Callable[..., Derivation]
MakeGraph = Callable[..., Graph]


def test_a_target_is_built_after_its_inputs_and_then_recalled(
    bench: Any, toy: Toy, graph: MakeGraph
) -> None:
    source = toy("source", "leaf")
    final = toy("final", "-", source=source)
    made = bench.realiser(graph(source, final)).realise(final.digest)
    assert bench.text(made.outputs["out"]) == "-LEAF"
    assert bench.builder.built == ["source", "final"]
    assert not made.cached

    again = bench.realiser(graph(source, final)).realise(final.digest)
    assert again.cached
    assert again.outputs == made.outputs
    assert bench.builder.built == ["source", "final"]


def test_an_input_that_comes_out_the_same_cuts_the_build_off(
    bench: Any, toy: Toy, graph: MakeGraph
) -> None:
    bench.builder.text_of = lambda context, text: text.strip()
    one = toy("source", "leaf")
    other = toy("source", "leaf ")
    first = toy("final", source=one)
    second = toy("final", source=other)
    assert first.digest != second.digest
    made = bench.realiser(graph(one, first)).realise(first.digest)
    again = bench.realiser(graph(other, second)).realise(second.digest)
    assert bench.builder.built == ["source", "final", "source"]
    assert again.cached
    assert again.outputs == made.outputs


def test_only_what_the_target_needs_is_built(bench: Any, toy: Toy, graph: MakeGraph) -> None:
    needed, unrelated = toy("needed", "a"), toy("unrelated", "b")
    bench.realiser(graph(needed, unrelated)).realise(needed.digest)
    assert bench.builder.built == ["needed"]


def test_what_is_missing_is_known_before_anything_is_built(
    bench: Any, toy: Toy, graph: MakeGraph
) -> None:
    source = toy("source", "leaf")
    final = toy("final", source=source)
    assert bench.realiser(graph(source, final)).missing(final.digest) == [
        source.digest,
        final.digest,
    ]
    bench.realiser(graph(source, final)).realise(source.digest)
    assert bench.realiser(graph(source, final)).missing(final.digest) == [final.digest]
    assert bench.builder.built == ["source"]


def test_an_output_that_was_collected_is_built_again_with_the_same_digest(
    bench: Any, toy: Toy, graph: MakeGraph
) -> None:
    source = toy("source", "leaf")
    made = bench.realiser(graph(source)).realise(source.digest)
    path = bench.store.path
    bench.store.close()
    with type(bench.store).open(path) as store:
        store.collect_garbage()
        assert not store.is_valid(made.outputs["out"])
        bench.store = store
        again = bench.realiser(graph(source)).realise(source.digest)
        assert again.outputs["out"] == made.outputs["out"]
    assert bench.builder.built == ["source", "source"]


def test_independent_builds_run_side_by_side(bench: Any, toy: Toy, graph: MakeGraph) -> None:
    together = threading.Barrier(2, timeout=30)
    bench.builder.before = lambda context: together.wait() and None if not context.inputs else None
    left, right = toy("left", "a"), toy("right", "b")
    final = toy("final", left=left, right=right)
    made = bench.realiser(graph(left, right, final), jobs=2).realise(final.digest)
    assert bench.text(made.outputs["out"]) == "AB"


def test_a_failure_names_the_build_and_stops_what_depends_on_it(
    bench: Any, toy: Toy, graph: MakeGraph
) -> None:
    bad, good = toy("bad", "a"), toy("good", "b")
    final = toy("final", bad=bad, good=good)
    bench.builder.failing = {"bad"}
    with pytest.raises(BuildError, match="bad was told to fail"):
        bench.realiser(graph(bad, good, final)).realise(final.digest)
    assert "final" not in bench.builder.built
    assert [event.subject for event in bench.events if event.kind == "failed"] == ["bad"]


def test_a_build_that_another_failure_ends_is_no_failure_of_its_own(
    bench: Any, toy: Toy, graph: MakeGraph
) -> None:
    both = threading.Barrier(2, timeout=30)

    def fail_or_wait_for_the_end(context: BuildContext) -> None:
        both.wait()
        while context.derivation.name == "good":
            context.check_interrupted()

    bad, good = toy("bad", "a"), toy("good", "b")
    final = toy("final", bad=bad, good=good)
    bench.builder.failing = {"bad"}
    bench.builder.before = fail_or_wait_for_the_end
    with pytest.raises(BuildError, match=r"^bad was told to fail$"):
        bench.realiser(graph(bad, good, final), jobs=2).realise(final.digest)
    assert bench.builder.built == ["bad"]


def test_a_fault_of_a_builder_ends_the_others_and_is_not_hidden(
    bench: Any, toy: Toy, graph: MakeGraph
) -> None:
    both = threading.Barrier(2, timeout=30)

    def break_or_wait_for_the_end(context: BuildContext) -> None:
        both.wait()
        if context.derivation.name == "bad":
            raise ZeroDivisionError
        while True:
            context.check_interrupted()

    bad, good = toy("bad", "a"), toy("good", "b")
    final = toy("final", bad=bad, good=good)
    bench.builder.before = break_or_wait_for_the_end
    with pytest.raises(ZeroDivisionError):
        bench.realiser(graph(bad, good, final), jobs=2).realise(final.digest)
    assert bench.builder.built == []


def test_after_a_failure_the_same_realiser_can_go_on(
    bench: Any, toy: Toy, graph: MakeGraph
) -> None:
    source = toy("source", "leaf")
    realiser = bench.realiser(graph(source))
    bench.builder.failing = {"source"}
    with pytest.raises(BuildError):
        realiser.realise(source.digest)
    bench.builder.failing = set()
    assert bench.text(realiser.realise(source.digest).outputs["out"]) == "leaf"


def test_a_derivation_for_another_version_of_its_builder_is_refused(
    bench: Any, toy: Toy, graph: MakeGraph
) -> None:
    bench.builder.version = 2
    source = toy("source", "leaf")
    with pytest.raises(UnfitEnvironmentError, match="source cannot be built"):
        bench.realiser(graph(source)).realise(source.digest)
    assert bench.builder.built == []


def test_keep_going_builds_whatever_does_not_depend_on_a_failure(
    bench: Any, toy: Toy, graph: MakeGraph
) -> None:
    bad, good = toy("bad", "a"), toy("good", "b")
    after = toy("after", good=good)
    final = toy("final", bad=bad, after=after)
    bench.builder.failing = {"bad"}
    with pytest.raises(BuildError, match="bad was told to fail"):
        bench.realiser(graph(bad, good, after, final), keep_going=True).realise(final.digest)
    assert sorted(bench.builder.built) == ["after", "bad", "good"]
    assert [event.subject for event in bench.events if event.kind == "skipped"] == ["final"]


def test_keep_going_lists_every_failure(bench: Any, toy: Toy, graph: MakeGraph) -> None:
    one, two = toy("one", "a"), toy("two", "b")
    final = toy("final", one=one, two=two)
    bench.builder.failing = {"one", "two"}
    with pytest.raises(BuildError) as caught:
        bench.realiser(graph(one, two, final), keep_going=True).realise(final.digest)
    assert caught.value.what == "2 builds failed"
    assert "one was told to fail" in str(caught.value)
    assert "two was told to fail" in str(caught.value)


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ((IntegrityError, IntegrityError), IntegrityError),
        ((IntegrityError, BuildError), IntegrityError),
        ((UnfitEnvironmentError, UnfitEnvironmentError), UnfitEnvironmentError),
        ((InvalidInputError, InvalidInputError), InvalidInputError),
        ((UnfitEnvironmentError, InvalidInputError), BuildError),
        ((BuildError, UnfitEnvironmentError), BuildError),
    ],
)
def test_several_failures_have_the_code_of_the_worst_or_of_all(
    bench: Any,
    toy: Toy,
    graph: MakeGraph,
    kinds: tuple[type[DisError], type[DisError]],
    expected: type[DisError],
) -> None:
    one, two = toy("one", "a"), toy("two", "b")
    final = toy("final", one=one, two=two)

    def fail(context: BuildContext) -> None:
        kind = kinds[0 if context.derivation.name == "one" else 1]
        raise kind(f"{context.derivation.name} failed", hint="mend it")

    bench.builder.before = fail
    with pytest.raises(DisError) as caught:
        bench.realiser(graph(one, two, final), keep_going=True).realise(final.digest)
    assert type(caught.value) is expected
    assert caught.value.what == "2 builds failed"
    assert caught.value.hint == "mend it"
    assert str(caught.value.cause).count("(log: ") == 2


def test_a_failed_build_leaves_its_log_until_the_next_collection(
    bench: Any, toy: Toy, graph: MakeGraph
) -> None:
    def fail(context: BuildContext) -> None:
        context.log.write("so far so good")
        context.log_files["notes.txt"] = b"what it saw"
        raise BuildError("it broke", cause="nobody knows")

    bench.builder.before = fail
    source = toy("source", "leaf")
    with pytest.raises(BuildError) as caught:
        bench.realiser(graph(source)).realise(source.digest)
    log = Path(str(caught.value.log))
    assert log.is_relative_to(bench.store.path / "objects")
    text = log.read_text("utf-8")
    assert "so far so good" in text
    assert "failed: it broke: nobody knows" in text
    assert log.with_name("notes.txt").read_bytes() == b"what it saw"
    assert bench.store.verify(None).ok

    # Nothing that is remembered knows of it: the build comes out as if it had never failed.
    bench.builder.before = lambda context: None
    made = bench.realiser(graph(source)).realise(source.digest)
    assert made.outputs["out"] in bench.store.objects()
    assert bench.store.roots() == {}
    (record,) = bench.store.realisations(made.key)
    assert Digest(log.parent.name) not in record.outputs.values()
    bench.store.close()
    bench.store.collect_garbage()
    assert not log.exists()


def test_an_interrupted_build_leaves_no_log(bench: Any, toy: Toy, graph: MakeGraph) -> None:
    def stop(context: BuildContext) -> None:
        raise InterruptedBuildError(f"{context.derivation.name} was interrupted")

    bench.builder.before = stop
    source = toy("source", "leaf")
    with pytest.raises(InterruptedBuildError):
        bench.realiser(graph(source)).realise(source.digest)
    assert bench.store.objects() == []


def test_what_was_finished_before_a_failure_is_not_built_again(
    bench: Any, toy: Toy, graph: MakeGraph
) -> None:
    source = toy("source", "leaf")
    final = toy("final", source=source)
    bench.builder.failing = {"final"}
    with pytest.raises(BuildError):
        bench.realiser(graph(source, final)).realise(final.digest)
    bench.builder.failing = set()
    bench.realiser(graph(source, final)).realise(final.digest)
    assert bench.builder.built == ["source", "final", "final"]


def test_an_interruption_keeps_what_is_finished_and_stops_the_rest(
    bench: Any, toy: Toy, graph: MakeGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dis_derivations.realisation import schedule

    first, second = toy("first", "a"), toy("second", "b")
    final = toy("final", first=first, second=second)
    real_wait = futures.wait

    def wait_then_interrupt(*args: Any, **kwargs: Any) -> Any:
        real_wait(*args, **kwargs)
        monkeypatch.setattr(schedule, "wait", real_wait)
        raise KeyboardInterrupt

    monkeypatch.setattr(schedule, "wait", wait_then_interrupt)
    with pytest.raises(InterruptedBuildError):
        bench.realiser(graph(first, second, final), jobs=1).realise(final.digest)
    assert bench.builder.built[0] == "first"
    assert "final" not in bench.builder.built
    done = list(bench.builder.built)
    bench.realiser(graph(first, second, final)).realise(final.digest)
    assert bench.builder.built.count("first") == 1
    assert len(bench.builder.built) > len(done)


def test_a_rebuild_that_comes_out_the_same_is_a_reproduction(
    bench: Any, toy: Toy, graph: MakeGraph
) -> None:
    source = toy("source", "leaf")
    realiser = bench.realiser(graph(source))
    made = realiser.realise(source.digest)
    again = realiser.rebuild(source.digest)
    assert again.outputs["out"] == made.outputs["out"]
    assert bench.builder.built == ["source", "source"]
    builds = bench.store.realisations(made.key)
    assert [build.outputs["out"] for build in builds] == [made.outputs["out"]] * 2
    assert builds[0].build != builds[1].build


def test_a_rebuild_that_differs_is_kept_beside_the_chosen_result(
    bench: Any, toy: Toy, graph: MakeGraph
) -> None:
    source = toy("source", "leaf")
    realiser = bench.realiser(graph(source))
    made = realiser.realise(source.digest)
    bench.builder.text_of = lambda context, text: "another"
    again = realiser.rebuild(source.digest)
    assert bench.text(again.outputs["out"]) == "another"
    assert bench.store.chosen(made.key).outputs == made.outputs
    assert bench.realiser(graph(source)).realise(source.digest).outputs == made.outputs


def test_what_follows_from_a_diverging_result_can_be_built_too(
    bench: Any, toy: Toy, graph: MakeGraph
) -> None:
    source = toy("source", "leaf")
    final = toy("final", source=source)
    realiser = bench.realiser(graph(source, final))
    chosen = realiser.realise(final.digest)
    bench.builder.text_of = lambda context, text: text if context.inputs else "another"
    diverging = realiser.rebuild(source.digest)
    other = realiser.assuming(source.digest, diverging).realise(final.digest)
    assert bench.text(chosen.outputs["out"]) == "LEAF"
    assert bench.text(other.outputs["out"]) == "ANOTHER"


def test_every_build_leaves_a_log_and_a_record_of_who_built_it(
    bench: Any, toy: Toy, graph: MakeGraph
) -> None:
    source = toy("source", "leaf")
    made = bench.realiser(graph(source)).realise(source.digest)
    assert bench.store.read_bytes(made.outputs["log"], "build.log").decode().endswith("done\n")
    record = made.realisation
    assert record.origin == "built"
    assert record.derivation == source.digest
    assert record.host
    assert record.user
    assert record.started_at <= record.finished_at
    assert bench.store.derivation(source.digest) == source.encode()


def test_a_diverging_result_never_stands_in_for_an_input_that_is_asked_for_later(
    bench: Any, toy: Toy, graph: MakeGraph
) -> None:
    source = toy("source", "leaf")
    final = toy("final", source=source)
    above = toy("above", final=final)
    whole = graph(source, final, above)
    realiser = bench.realiser(whole)
    expected = realiser.realise(final.digest)
    bench.builder.text_of = lambda context, text: text if context.inputs else "another"
    diverging = realiser.rebuild(source.digest)
    realiser.assuming(source.digest, diverging).realise(above.digest)
    bench.builder.built.clear()
    made = bench.realiser(whole).realise(above.digest)
    assert made.realisation.inputs["final"].object == expected.outputs["out"]
    assert bench.realiser(whole).realise(final.digest).outputs == expected.outputs


def test_a_result_that_is_there_is_found_without_a_look_at_what_its_inputs_were_built_from(
    bench: Any, toy: Toy, graph: MakeGraph
) -> None:
    source = toy("source", "leaf")
    middle = toy("middle", source=source)
    final = toy("final", middle=middle)
    whole = graph(source, middle, final)
    made = bench.realiser(whole).realise(final.digest)
    asked: list[Digest] = []

    def realisations(key: Digest) -> list[Any]:
        asked.append(key)
        return []

    bench.store.realisations = realisations
    again = bench.realiser(whole).realise(final.digest)
    assert again.outputs == made.outputs
    assert again.cached
    assert not asked


def test_a_new_index_learns_what_inputs_evaluated_to(
    bench: Any, toy: Toy, graph: MakeGraph
) -> None:
    source = toy("source", "leaf")
    final = toy("final", source=source)
    whole = graph(source, final)
    made = bench.realiser(whole).realise(final.digest)
    before = bench.store.outputs_of([source.digest])
    bench.store.reindex()
    assert not bench.store.outputs_of([source.digest])
    assert bench.realiser(whole).realise(final.digest).outputs == made.outputs
    assert bench.store.outputs_of([source.digest]) == before
