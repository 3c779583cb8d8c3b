import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dis_derivations.comparison.rules import Rule, combined, rules_of_manifest
from dis_derivations.comparison.tensors.ulp import FLOAT_FORMATS
from dis_store.errors import InvalidInputError

F32 = FLOAT_FORMATS["F32"]
FINITE = st.floats(width=32, allow_nan=False, allow_infinity=False)


def outside(rule: Rule, left: float, right: float) -> bool:
    a, b = (F32.raw(np.float32(number).tobytes()) for number in (left, right))
    return bool(rule.outside(F32, a, b)[0])


def test_exact_tells_the_two_zeros_apart() -> None:
    assert outside(Rule("exact"), 0.0, -0.0)
    assert not outside(Rule("ulp", ulp=0), 0.0, -0.0)


def test_ulp_admits_its_number_of_steps_and_no_more() -> None:
    one = np.float32(1)
    second = np.nextafter(np.nextafter(one, np.float32(2)), np.float32(2))

    assert not outside(Rule("ulp", ulp=2), 1.0, float(second))
    assert outside(Rule("ulp", ulp=1), 1.0, float(second))


def test_absrel_adds_both_tolerances() -> None:
    rule = Rule("absrel", atol=0.5, rtol=0.25)

    assert not outside(rule, 2.0, 3.25)
    assert outside(rule, 2.0, 3.5)


@given(FINITE, FINITE, st.floats(0, 1), st.floats(0, 1))
def test_absrel_is_the_same_both_ways(left: float, right: float, atol: float, rtol: float) -> None:
    rule = Rule("absrel", atol=atol, rtol=rtol)

    assert outside(rule, left, right) == outside(rule, right, left)


@pytest.mark.parametrize("rule", [Rule("ulp", ulp=10), Rule("absrel", atol=1e300, rtol=1.0)])
@pytest.mark.parametrize("special", [math.nan, math.inf, -math.inf])
def test_no_tolerance_reaches_nan_or_infinity(rule: Rule, special: float) -> None:
    largest = float(np.finfo(np.float32).max)

    assert outside(rule, special, largest)
    assert outside(rule, largest, special)
    assert not outside(rule, special, special)


def test_rules_that_differ_are_both_kept() -> None:
    loose, tight = Rule("absrel", atol=1.0), Rule("ulp", ulp=1)

    assert combined((loose, tight)) == (loose, tight)
    assert combined((tight, tight)) == (tight,)


def test_a_manifest_without_rules_compares_exactly() -> None:
    assert set(rules_of_manifest({}).values()) == {Rule("exact")}


def test_rules_are_read_with_their_tolerances() -> None:
    compare = {
        "logits": {"rule": "ulp", "ulp": 4},
        "activations": {"rule": "absrel", "atol": 0.5, "rtol": 0},
    }

    rules = rules_of_manifest({"determinism": {"compare": compare}})

    assert rules["logits"] == Rule("ulp", ulp=4)
    assert rules["activations"] == Rule("absrel", atol=0.5)


@pytest.mark.parametrize(
    "rule",
    [
        {"rule": "close"},
        "exact",
        {"rule": "ulp", "ulp": -1},
        {"rule": "ulp", "ulp": True},
        {"rule": "ulp", "ulp": 1.5},
        {"rule": "absrel", "atol": "1"},
    ],
)
def test_a_rule_that_dis_does_not_know_is_refused(rule: object) -> None:
    with pytest.raises(InvalidInputError, match=r"determinism\.compare\.logits"):
        rules_of_manifest({"determinism": {"compare": {"logits": rule}}})
