"""Steps are a function of the requests and the batching alone."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dis_derivations.engines.protocol import Batching
from dis_derivations.engines.reference.scheduling import Part, Running, Schedule, pieces
from dis_store.errors import InvalidInputError
from engine_runs import greedy_request

Plan = list[list[tuple[str, int]]]


def steps(lengths: list[tuple[int, int]], seqs: int, tokens: int | None) -> Plan:
    """Play a schedule of (prompt, output) lengths; return what each step computed."""
    requests = [
        greedy_request(f"r{n}", range(prompt), max_tokens=output)
        for n, (prompt, output) in enumerate(lengths)
    ]
    schedule = Schedule(requests, Batching(seqs, tokens))
    plan: Plan = []
    while schedule.unfinished:
        parts = schedule.next_step()
        assert parts
        slots = {part.running.slot for part in parts}
        assert len(slots) == len(parts)
        assert slots <= set(range(schedule.slots))
        for part in parts:
            part.running.computed = part.end
            if part.end == len(part.running.tokens):
                part.running.tokens.append(0)
                if part.running.output_length == part.running.request.sampling.max_tokens:
                    schedule.finish(part.running)
        plan.append([(part.running.request.id, part.count) for part in parts])
    return plan


def test_all_prompts_are_computed_at_once_without_a_bound() -> None:
    assert steps([(3, 2), (4, 1)], 2, None) == [[("r0", 3), ("r1", 4)], [("r0", 1)]]


def test_a_waiting_request_takes_the_place_of_a_finished_one() -> None:
    assert steps([(3, 1), (4, 2), (2, 1)], 2, None) == [
        [("r0", 3), ("r1", 4)],
        [("r1", 1), ("r2", 2)],
    ]


def test_a_long_prompt_is_cut_to_the_bound() -> None:
    assert steps([(7, 1), (2, 1)], 2, 3) == [
        [("r0", 3)],
        [("r0", 3)],
        [("r0", 1), ("r1", 2)],
    ]


def test_running_sequences_come_before_waiting_ones() -> None:
    assert steps([(1, 3), (4, 1)], 2, 2) == [
        [("r0", 1), ("r1", 1)],
        [("r0", 1), ("r1", 1)],
        [("r0", 1), ("r1", 1)],
        [("r1", 1)],
    ]


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 5)), min_size=1, max_size=8),
    st.integers(1, 9),
    st.one_of(st.none(), st.integers(1, 12)),
)
def test_every_position_is_computed_once_within_the_bounds(
    lengths: list[tuple[int, int]], seqs: int, tokens: int | None
) -> None:
    plan = steps(lengths, seqs, tokens)
    for step in plan:
        assert len(step) <= seqs
        assert tokens is None or sum(count for _, count in step) <= tokens
    for number, (prompt, output) in enumerate(lengths):
        computed = sum(count for step in plan for name, count in step if name == f"r{number}")
        assert computed == prompt + output - 1


@pytest.mark.parametrize("batching", [Batching(0), Batching(-1), Batching(2, 0)])
def test_a_batching_that_admits_nothing_is_refused(batching: Batching) -> None:
    with pytest.raises(InvalidInputError, match="must be at least 1"):
        Schedule([greedy_request("r", [1])], batching)


@settings(deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.integers(1, 7))
def test_pieces_keep_the_order_and_every_position(counts: list[int], most: int) -> None:
    parts = [
        Part(Running(n, greedy_request("r", [1]), n), 10 * n, count)
        for n, count in enumerate(counts)
    ]
    cut = pieces(parts, most)
    assert all(sum(part.count for part in piece) <= most for piece in cut)
    flat = [
        (part.running.index, position)
        for piece in cut
        for part in piece
        for position in range(part.start, part.end)
    ]
    whole = [
        (part.running.index, position) for part in parts for position in range(part.start, part.end)
    ]
    assert flat == whole
