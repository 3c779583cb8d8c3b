"""What becomes of one field of a manifest."""

from dataclasses import dataclass
from enum import StrEnum


class Effect(StrEnum):
    """What becomes of a field's value."""

    ENFORCED = "enforced"
    RECORDED = "recorded"
    BY_ENGINE = "enforced by `vllm`, else recorded"
    WHERE = "where"
    REFUSED = "refused"


@dataclass(frozen=True)
class FieldEffect:
    """One row.

    Attributes:
        path: The field, dotted; `[]` marks the items of a list, `*` one of several blocks.
        meaning: What it says, for people.
        when: When the field is refused, as in "refused above 0"; empty where it never is, or always.
        refusal: What the refusal says, `…` for what it quotes; empty where the field is never refused.
    """

    path: str
    effect: Effect
    meaning: str
    when: str = ""
    refusal: str = ""
