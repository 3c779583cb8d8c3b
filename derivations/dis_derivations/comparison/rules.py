"""The rules of `determinism.compare`: what counts as equal when a run is verified."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from dis_store.errors import InvalidInputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dis_derivations.comparison.tensors.ulp import Bits, FloatFormat

RuleName = Literal["exact", "ulp", "absrel", "hash"]
OBSERVABLES = ("tokens", "logits", "activations", "engine_trace")


@dataclass(frozen=True)
class Rule:
    """What counts as equal for one observable.

    Attributes:
        rule: `exact`: every bit; `hash`: every byte of the file; `ulp`: at most `ulp` steps between neighbouring
            numbers; `absrel`: a difference of at most `atol` plus `rtol` times the larger magnitude.
    """

    rule: RuleName = "exact"
    ulp: int = 0
    atol: float = 0.0
    rtol: float = 0.0

    @property
    def is_numeric(self) -> bool:
        """Whether numbers may differ in bits and count as equal."""
        return self.rule in ("ulp", "absrel")

    def to_json(self) -> dict[str, Any]:
        """Return the rule as a manifest writes it."""
        used = {"ulp": ("ulp",), "absrel": ("atol", "rtol")}.get(self.rule, ())
        return {"rule": self.rule, **{name: getattr(self, name) for name in used}}

    def describe(self) -> str:
        """Return the rule in a few words."""
        if self.rule == "ulp":
            return f"ulp {self.ulp}"
        if self.rule == "absrel":
            return f"absrel atol {self.atol:g} rtol {self.rtol:g}"
        return self.rule

    def outside(self, form: "FloatFormat", left: "Bits", right: "Bits") -> "NDArray[np.bool_]":
        """Return which pairs are not equal by this rule.

        NaN and infinity have no distance that a tolerance could bound, so they must agree bit for bit.
        """
        import numpy as np

        different: NDArray[np.bool_] = np.not_equal(left, right)
        if not self.is_numeric:
            return different
        return np.logical_and(different, np.logical_not(self._within(form, left, right)))

    def _within(self, form: "FloatFormat", left: "Bits", right: "Bits") -> "NDArray[np.bool_]":
        import numpy as np

        finite = form.is_finite(left) & form.is_finite(right)
        if self.rule == "ulp":
            return np.logical_and(finite, form.distance(left, right) <= np.uint64(self.ulp))
        a, b = form.values(left), form.values(right)
        with np.errstate(invalid="ignore", over="ignore"):
            bound = self.atol + self.rtol * np.maximum(np.abs(a), np.abs(b))
            return np.logical_and(finite, np.abs(a - b) <= bound)


def rules_of_manifest(manifest: Mapping[str, Any]) -> dict[str, Rule]:
    """Return the rule of each observable; `exact` where a manifest gives none.

    Raises:
        InvalidInputError: A rule is none that dis knows.
    """
    determinism = manifest.get("determinism")
    compare = determinism.get("compare", {}) if isinstance(determinism, dict) else {}
    return {name: _rule(name, compare.get(name, {})) for name in OBSERVABLES}


def combined(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """Return the rules that two runs must both pass, each once.

    Rules of different kinds cannot be put in an order of strictness, so no rule is chosen: whatever passes all of them
    passes the strictest.
    """
    return tuple(dict.fromkeys(rules))


def _rule(observable: str, value: Any) -> Rule:
    name = value.get("rule", "exact") if isinstance(value, dict) else None
    if name not in get_args(RuleName):
        raise InvalidInputError(
            f"determinism.compare.{observable} has no rule that dis knows",
            cause=f"it is {value!r:.80}; rules are {', '.join(get_args(RuleName))}",
        )
    return Rule(
        rule=cast("RuleName", name),
        ulp=_number(observable, value, "ulp", int),
        atol=float(_number(observable, value, "atol", float)),
        rtol=float(_number(observable, value, "rtol", float)),
    )


def _number(
    observable: str, value: Mapping[str, Any], key: str, kind: type[int] | type[float]
) -> Any:
    number = value.get(key)
    if number is None:
        return kind(0)
    allowed = (int,) if kind is int else (int, float)
    if type(number) not in allowed or number < 0:
        what = f"determinism.compare.{observable}.{key} is no tolerance"
        raise InvalidInputError(what, cause=f"it is {number!r:.80} and must be a number from 0")
    return number
