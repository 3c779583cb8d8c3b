"""Uploads that go on at a time have an allowance together, so that a kill costs no more than that."""

import random
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dis_derivations.registry.flight import Flight
from dis_store.errors import InterruptedBuildError

LIMIT = 100


def never() -> None:
    """Let it go on."""


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(1, LIMIT), min_size=2, max_size=12), st.integers(0, 99))
def test_no_more_than_the_allowance_is_on_its_way(amounts: list[int], seed: int) -> None:
    flight = Flight(LIMIT)
    lock = threading.Lock()
    aloft, most = 0, 0
    chance = random.Random(seed)  # noqa: S311 - how long something takes

    def travel(amount: int, seconds: float) -> None:
        nonlocal aloft, most
        land = flight.board(amount, never)
        with lock:
            aloft += amount
            most = max(most, aloft)
        time.sleep(seconds)
        with lock:
            aloft -= amount
        land()

    threads = [
        threading.Thread(target=travel, args=(amount, chance.uniform(0, 0.003)))
        for amount in amounts
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join(30)
        assert not each.is_alive()
    assert max(amounts) <= most <= LIMIT


def test_what_is_larger_than_all_of_it_waits_for_nobody() -> None:
    flight = Flight(LIMIT)
    flight.board(LIMIT, never)
    flight.board(LIMIT + 1, never)()


def test_what_has_landed_twice_is_given_back_once() -> None:
    flight = Flight(LIMIT)
    land = flight.board(60, never)
    flight.board(40, never)
    land()
    land()

    def stop() -> None:
        raise InterruptedBuildError("interrupted")

    flight.board(60, never)
    with pytest.raises(InterruptedBuildError):
        flight.board(1, stop)


def test_who_waits_can_be_interrupted_and_takes_nothing() -> None:
    flight = Flight(LIMIT)
    land = flight.board(LIMIT, never)

    def stop() -> None:
        raise InterruptedBuildError("interrupted")

    with pytest.raises(InterruptedBuildError):
        flight.board(1, stop)
    land()
    flight.board(LIMIT, stop)
