"""The block `determinism`: what counts as equal when two runs are verified."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from dis_derivations.manifest.block import Block

NotNegative = Annotated[float, Field(ge=0)]


class CompareRule(Block):
    """How one observable is compared.

    Attributes:
        rule: `exact` and `hash` take no tolerance; `ulp` takes `ulp`; `absrel` takes `atol` and
            `rtol`.
    """

    rule: Literal["exact", "ulp", "absrel", "hash"]
    ulp: Annotated[int, Field(ge=0)] | None = None
    atol: NotNegative | None = None
    rtol: NotNegative | None = None

    @model_validator(mode="after")
    def _tolerance_fits_rule(self) -> Self:
        wanted = {"ulp": {"ulp"}, "absrel": {"atol", "rtol"}}.get(self.rule, set())
        given = {name for name in ("ulp", "atol", "rtol") if getattr(self, name) is not None}
        if extra := sorted(given - wanted):
            raise ValueError(f"has {extra[0]!r}, which the rule {self.rule!r} does not use")
        if wanted and not given:
            raise ValueError(
                f"must have {' or '.join(sorted(map(repr, wanted)))} for the rule {self.rule!r}"
            )
        return self


_EXACT = CompareRule(rule="exact")


class Compare(Block):
    """One rule an observable; bits are compared where none is given."""

    tokens: CompareRule = _EXACT
    logits: CompareRule = _EXACT
    activations: CompareRule = _EXACT
    engine_trace: CompareRule = _EXACT


class Determinism(Block):
    """The whole block; docs/reference/manifest.md describes its fields."""

    strict_hardware: bool = False
    compare: Compare = Compare()
