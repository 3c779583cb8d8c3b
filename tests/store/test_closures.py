"""What objects refer to is found once, references first, in whatever graph they form."""

from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from dis_store import Digest
from dis_store.closures import closure

NAMES = [Digest.of(b"%d" % number) for number in range(8)]
GRAPHS = st.fixed_dictionaries(
    {name: st.lists(st.sampled_from(NAMES[:at]), max_size=4) for at, name in enumerate(NAMES) if at}
)


@given(GRAPHS, st.lists(st.sampled_from(NAMES), max_size=4), st.randoms())
def test_each_object_comes_once_and_after_all_that_it_refers_to(
    graph: dict[Digest, list[Digest]], wanted: list[Digest], random: Random
) -> None:
    found = closure(wanted, lambda digest: graph.get(digest, []))
    assert len(set(found)) == len(found)
    assert set(wanted) <= set(found)
    place = {digest: number for number, digest in enumerate(found)}
    for digest in found:
        assert all(place[each] < place[digest] for each in graph.get(digest, []))
        # Nothing is in it that nobody refers to.
        assert digest in wanted or any(digest in graph.get(other, []) for other in found)
    # The order in which references are given is no part of it.
    for references in graph.values():
        random.shuffle(references)
    assert closure(wanted, lambda digest: graph.get(digest, [])) == found


def test_a_chain_may_be_longer_than_the_stack_of_the_interpreter() -> None:
    chain = [Digest.of(b"%d" % number) for number in range(5000)]
    after = dict(pairwise(chain))
    found = closure(chain[:1], lambda digest: [after[digest]] if digest in after else [])
    assert found == chain[::-1]


def test_a_damaged_index_that_leads_in_circles_leads_to_an_end() -> None:
    one, two, three = NAMES[:3]
    circle = {one: [two], two: [three], three: [one, three]}
    asked: list[Digest] = []

    def references(digest: Digest) -> list[Digest]:
        asked.append(digest)
        assert asked.count(digest) == 1
        return circle[digest]

    assert closure([one], references) == [three, two, one]
