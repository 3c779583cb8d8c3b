"""Tokens chosen by chance: the true distribution, and nothing but the request decides."""

import re
from dataclasses import replace
from itertools import permutations
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from checkpoints import CheckpointShape, write_checkpoint
from dis_derivations.engines.protocol import Batching, Request, Sampling
from dis_derivations.engines.reference.drawing import token_weights
from dis_derivations.engines.reference.engine import ReferenceEngine, open_reference_engine
from dis_derivations.engines.reference.sampling import chance, choose_token
from engine_runs import RecordingSink, greedy_request, sampled_request

Floats = NDArray[np.float64]

_DOCUMENT = Path(__file__).resolve().parents[3] / "docs/internals/reference-engine.md"


def sampling(
    temperature: float = 1.0, top_p: float = 1.0, top_k: int = -1, seed: int = 1
) -> Sampling:
    return Sampling(temperature, top_p, top_k, 8, seed)


def draws(logits: Floats, how: Sampling, count: int) -> list[int]:
    return [choose_token(logits, how, "r", number) for number in range(count)]


# The rule, as it is documented

SPREAD = np.array([0.25, -1.5, 2.0, 2.0, -30.0, 1.125, -0.5, 0.0, 0.75, -700.0])

KNOWN = {
    # seed, id, temperature, top_p, top_k: the first twelve tokens
    (1, "r", 1.0, 1.0, -1): [3, 0, 3, 2, 3, 0, 2, 8, 3, 0, 2, 8],
    (2, "r", 1.0, 1.0, -1): [8, 3, 2, 8, 5, 5, 0, 5, 3, 6, 2, 2],
    (1, "s", 1.0, 1.0, -1): [8, 5, 3, 3, 3, 8, 8, 2, 3, 3, 3, 2],
    (-7, "Ünïcode 日本", 0.5, 1.0, -1): [2, 2, 2, 2, 5, 2, 2, 2, 2, 3, 3, 3],
    (1, "r", 1.0, 1.0, 3): [3, 2, 3, 2, 3, 2, 2, 5, 3, 2, 2, 5],
    (1, "r", 1.0, 0.7, 0): [3, 2, 3, 2, 3, 2, 2, 5, 3, 2, 2, 5],
    (1, "r", 5.0, 0.9, 6): [3, 0, 3, 2, 3, 0, 0, 8, 3, 0, 2, 8],
    (2**63, "", 0.1, 1.0, -1): [2, 3, 2, 2, 3, 3, 3, 3, 3, 3, 2, 2],
}


@pytest.mark.parametrize("key", KNOWN, ids=str)
def test_the_tokens_of_a_request_are_known(key: tuple[int, str, float, float, int]) -> None:
    seed, name, temperature, top_p, top_k = key
    how = sampling(temperature, top_p, top_k, seed)
    assert [choose_token(SPREAD, how, name, number) for number in range(12)] == KNOWN[key]


def test_chance_is_a_hash_of_seed_number_and_id() -> None:
    # printf 'dis sampling 1\n42\n3\nrequest-00000' | b3sum --length 16
    assert f"{chance(42, 'request-00000', 3):032x}" == "b91c456b2cfcd8a69f8c7cfbd480123d"


@pytest.fixture(scope="module")
def documented() -> Any:
    """Return the function that the documentation gives to third parties."""
    [program] = re.findall(r"```python\n(.*?)```", _DOCUMENT.read_text("utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(program, str(_DOCUMENT), "exec"), names)  # noqa: S102 - our own documentation
    return names["choose"]


@settings(deadline=None, max_examples=60)
@given(
    logits=arrays.arrays(
        np.float64,
        st.integers(1, 60),
        elements=st.one_of(
            st.floats(-40, 40, allow_subnormal=False).map(lambda x: x + 0.0),
            st.sampled_from([-3.0, 0.0, 5.0, 1e300]),
        ),
    ),
    temperature=st.one_of(st.floats(1e-3, 50), st.sampled_from([1e-308, 2.0**52])),
    top_p=st.one_of(st.floats(1e-9, 1), st.just(1.0)),
    top_k=st.integers(-1, 70),
    seed=st.integers(-(2**70), 2**70),
    name=st.text(max_size=5),
    number=st.integers(0, 10**6),
)
def test_the_documented_program_chooses_the_same_tokens(
    documented: Any,
    logits: Floats,
    temperature: float,
    top_p: float,
    top_k: int,
    seed: int,
    name: str,
    number: int,
) -> None:
    how = sampling(temperature, top_p, top_k, seed)
    with np.errstate(over="ignore"):
        found = choose_token(logits, how, name, number)
    told = documented(logits.tolist(), temperature, top_k, top_p, seed, name, number)
    assert found == told


# The distribution


def expected_shares(logits: Floats, how: Sampling) -> dict[int, float]:
    """Return the true probability of each token that can be chosen, in plain floating point."""
    ranked = sorted(range(len(logits)), key=lambda token: (-logits[token], token))
    ranked = ranked[: how.top_k] if how.top_k > 0 else ranked
    weights = {token: exp((logits[token] - max(logits)) / how.temperature) for token in ranked}
    total, kept = sum(weights.values()), dict[int, float]()
    for token in ranked:
        if sum(kept.values()) >= how.top_p * total:
            break
        kept[token] = weights[token]
    return {token: weight / sum(kept.values()) for token, weight in kept.items()}


def chi_square(found: list[int], shares: dict[int, float]) -> float:
    return sum(
        (found.count(token) - len(found) * share) ** 2 / (len(found) * share)
        for token, share in shares.items()
    )


LEVELS = np.array([1.0, 0.5, 0.0, 2.0, 1.5, -0.5, 1.0, 0.25])
COUNT = 4000
# Of a chi-square distribution with so many degrees of freedom, one in a thousand is larger.
LARGEST = {2: 13.82, 3: 16.27, 4: 18.47, 5: 20.52, 6: 22.46, 7: 24.32}


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    ("temperature", "top_p", "top_k", "degrees"),
    [(1.0, 1.0, -1, 7), (0.7, 1.0, -1, 7), (3.0, 1.0, 5, 4), (1.0, 0.8, -1, 4), (2.0, 0.7, 6, 3)],
)
def test_tokens_are_chosen_with_their_probabilities(
    temperature: float, top_p: float, top_k: int, degrees: int, seed: int
) -> None:
    how = sampling(temperature, top_p, top_k, seed)
    shares = expected_shares(LEVELS, how)
    found = draws(LEVELS, how, COUNT)
    assert set(found) == set(shares)
    assert len(shares) == degrees + 1
    assert chi_square(found, shares) < LARGEST[degrees]


def test_the_test_of_the_distribution_sees_a_temperature_that_is_a_tenth_off() -> None:
    shares = expected_shares(LEVELS, sampling(1.0))
    assert chi_square(draws(LEVELS, sampling(1.1), COUNT), shares) > LARGEST[7]


def test_the_tokens_of_one_request_do_not_follow_from_each_other() -> None:
    """Pairs of neighbours among two equal tokens are spread evenly."""
    found = draws(np.zeros(2), sampling(), COUNT)
    pairs = [2 * first + second for first, second in zip(found[::2], found[1::2], strict=True)]
    assert chi_square(pairs, dict.fromkeys(range(4), 0.25)) < LARGEST[3]


def test_requests_with_the_same_seed_are_independent() -> None:
    how = sampling()
    columns = [
        [choose_token(np.zeros(2), how, name, n) for n in range(COUNT)] for name in ("a", "b")
    ]
    pairs = [2 * first + second for first, second in zip(*columns, strict=True)]
    assert chi_square(pairs, dict.fromkeys(range(4), 0.25)) < LARGEST[3]


def test_weights_are_exponentials_in_units_of_two_to_the_minus_40() -> None:
    weights = token_weights(LEVELS, 0.5)
    for weight, logit in zip(weights.tolist(), LEVELS.tolist(), strict=True):
        assert abs(weight - exp((logit - 2.0) / 0.5) * 2**40) <= 1
    assert token_weights(np.array([0.0, -1e9]), 1.0).tolist() == [2**40, 0]


# Limits

any_logits = arrays.arrays(np.float64, st.integers(1, 40), elements=st.sampled_from(range(-9, 10)))


@settings(deadline=None)
@given(any_logits, st.floats(0.01, 100), st.integers(0, 99))
def test_the_most_likely_token_alone_is_the_greedy_one(
    logits: Floats, temperature: float, seed: int
) -> None:
    greedy = choose_token(logits, replace(sampling(), temperature=0.0, seed=None), "r", 0)
    assert greedy == int(logits.argmax())
    assert choose_token(logits, sampling(temperature, top_k=1, seed=seed), "r", 0) == greedy
    assert choose_token(logits, sampling(temperature, top_p=1e-9, seed=seed), "r", 0) == greedy


@settings(deadline=None)
@given(any_logits, st.integers(1, 50), st.floats(0.01, 1), st.integers(0, 99))
def test_a_token_is_among_the_likeliest(
    logits: Floats, top_k: int, top_p: float, seed: int
) -> None:
    token = choose_token(logits, sampling(2.0, top_p, top_k, seed), "r", 0)
    ranked = sorted(range(len(logits)), key=lambda other: (-logits[other], other))
    assert token in ranked[:top_k]


def test_of_equal_tokens_the_lowest_are_kept() -> None:
    logits = np.array([0.0, 1.0, 0.0, 1.0, 1.0, 0.0])
    assert set(draws(logits, sampling(top_k=2), 200)) == {1, 3}
    assert set(draws(logits, sampling(top_k=4), 400)) == {0, 1, 3, 4}
    assert set(draws(np.zeros(10), sampling(top_p=0.25), 200)) == {0, 1, 2}


def test_a_limit_beyond_the_vocabulary_is_none() -> None:
    assert draws(LEVELS, sampling(top_k=8), 50) == draws(LEVELS, sampling(), 50)
    assert draws(LEVELS, sampling(top_k=0), 50) == draws(LEVELS, sampling(top_k=99), 50)


def test_a_tiny_temperature_is_greedy() -> None:
    with np.errstate(over="ignore"):
        assert set(draws(LEVELS, sampling(1e-308), 20)) == {3}


# In the engine

PROMPTS = ([7], [1, 2], list(range(40, 79)), [255, 0, 3])
REQUESTS = [
    sampled_request(f"r{number}", prompt, max_tokens=6 + number, temperature=1.5, seed=number % 2)
    for number, prompt in enumerate(PROMPTS)
]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> ReferenceEngine:
    shape = CheckpointShape(hidden=48, intermediate=80, queries=6, keys=2)
    return open_reference_engine(write_checkpoint(tmp_path_factory.mktemp("model"), shape))


def outputs(
    engine: ReferenceEngine, requests: list[Request], seqs: int = 4, tokens: int | None = None
) -> dict[str, tuple[int, ...]]:
    sequences = engine.generate(
        requests, Batching(seqs, tokens), RecordingSink(()), lambda _progress: None
    )
    return {sequence.id: sequence.output_token_ids for sequence in sequences}


def test_order_batch_and_chunks_do_not_change_sampled_tokens(engine: ReferenceEngine) -> None:
    alone = {name: ids for each in REQUESTS for name, ids in outputs(engine, [each]).items()}
    for order in list(permutations(REQUESTS))[::5]:
        for seqs, tokens in ((1, None), (3, 5), (4, None)):
            assert outputs(engine, list(order), seqs, tokens) == alone


def test_seed_and_id_change_the_tokens(engine: ReferenceEngine) -> None:
    def of(name: str, seed: int) -> tuple[int, ...]:
        request = sampled_request(name, PROMPTS[2], temperature=1.5, seed=seed, max_tokens=16)
        return outputs(engine, [request])[name]

    assert of("a", 1) == of("a", 1)
    assert len({of("a", 1), of("a", 2), of("b", 1)}) == 3


def test_a_greedy_request_beside_sampled_ones_stays_greedy(engine: ReferenceEngine) -> None:
    greedy = greedy_request("greedy", PROMPTS[2], max_tokens=12)
    beside = outputs(engine, [REQUESTS[0], greedy, REQUESTS[1]])
    assert beside["greedy"] == outputs(engine, [greedy])["greedy"]
    one = sampled_request("one", PROMPTS[2], top_k=1, max_tokens=12)
    assert outputs(engine, [one])["one"] == beside["greedy"]


def test_each_captured_row_comes_with_the_token_chosen_from_it(engine: ReferenceEngine) -> None:
    sink = RecordingSink()
    sequences = engine.generate(REQUESTS, Batching(2), sink, lambda _progress: None)
    for index, (request, sequence) in enumerate(zip(REQUESTS, sequences, strict=True)):
        assert sink.chosen[index] == list(sequence.output_token_ids)
        rows = sink.rows(index, "decode")
        assert [
            choose_token(row, request.sampling, request.id, number)
            for number, row in enumerate(rows)
        ] == sink.chosen[index]
