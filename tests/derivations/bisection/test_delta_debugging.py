"""Delta debugging finds a smallest set, and asks no more than it must."""

from hypothesis import given
from hypothesis import strategies as st

from dis_derivations.bisection.delta_debugging import Outcome, minimise, most_tests, usual_tests


@given(st.integers(1, 24), st.data())
def test_the_guilty_are_found_where_all_of_them_are_needed(count: int, data: st.DataObject) -> None:
    items = tuple(range(count))
    guilty = data.draw(st.sets(st.sampled_from(items), min_size=1))

    def test(taken: tuple[int, ...]) -> Outcome:
        return "parts" if guilty <= set(taken) else "agrees"

    assert set(minimise(items, test)) == guilty


@given(st.integers(1, 10), st.data())
def test_nothing_can_be_left_out_of_what_is_found(count: int, data: st.DataObject) -> None:
    items = tuple(range(count))
    outcomes: dict[tuple[int, ...], Outcome] = {items: "parts"}

    def test(taken: tuple[int, ...]) -> Outcome:
        if taken not in outcomes:
            outcomes[taken] = data.draw(st.sampled_from(("parts", "agrees", "unresolved")))
        return outcomes[taken]

    found = minimise(items, test)

    assert test(found) == "parts"
    if len(found) > 1:
        for item in found:
            assert test(tuple(each for each in found if each != item)) != "parts"


@given(st.integers(2, 40), st.data())
def test_one_guilty_item_takes_about_two_tests_a_halving(count: int, data: st.DataObject) -> None:
    guilty = data.draw(st.integers(0, count - 1))
    asked: list[tuple[int, ...]] = []

    def test(taken: tuple[int, ...]) -> Outcome:
        asked.append(taken)
        return "parts" if guilty in taken else "agrees"

    assert minimise(tuple(range(count)), test) == (guilty,)
    assert len(asked) <= usual_tests(count)


@given(st.integers(1, 12), st.data())
def test_no_search_takes_more_tests_than_is_said(count: int, data: st.DataObject) -> None:
    asked = 0
    answers: dict[tuple[int, ...], Outcome] = {tuple(range(count)): "parts"}

    def test(taken: tuple[int, ...]) -> Outcome:
        nonlocal asked
        asked += 1
        return answers.setdefault(
            taken, data.draw(st.sampled_from(("parts", "agrees", "unresolved")))
        )

    minimise(tuple(range(count)), test)

    assert asked <= most_tests(count)


def test_a_set_of_one_is_not_tested() -> None:
    def test(taken: tuple[int, ...]) -> Outcome:
        raise AssertionError(taken)

    assert minimise((7,), test) == (7,)
