"""Where the tokens of two runs part, as text for a terminal."""

from collections.abc import Mapping

from dis_derivations.comparison.divergence import (
    Choice,
    Divergence,
    SideLogits,
    Token,
    earliest,
)
from dis_derivations.comparison.sequences import Alignment, SequencePair
from dis_derivations.comparison.text_layout import (
    heading,
    number,
    paragraph,
    printable,
    quoted,
    size,
    steps,
    table,
    unbroken,
    value_text,
)

_SHOWN_PAIRS = 8

CHOICES: Mapping[Choice, str] = {
    "same logits": "the logits are the same in every bit: sampling chose, not arithmetic",
    "sampled": "a token was sampled that was not the most likely one",
    "exact tie": "EXACT TIE: in one run both tokens are equally likely, and any difference decides",
    "near tie": "NEAR TIE: the two tokens are no further apart than one step of bfloat16; rounding decides",
    "real change": "REAL CHANGE: the runs rank the two tokens differently, by more than rounding explains",
}
OTHER_PROMPTS = "not the same in A and B, so the answers are to different questions"


def where_tokens_part(alignment: Alignment, divergences: tuple[Divergence, ...]) -> list[str]:
    """Return the sections about tokens that part, and requests that only one run has; nothing where there are none."""
    lines: list[str] = []
    first, found = alignment.first, earliest(divergences)
    if first is not None and found is not None:
        lines += [*heading("Where the tokens first part"), *_divergence(first, found)]
    if len(alignment.parted) > 1:
        lines += [*heading("All sequences that part"), *_pairs(alignment.parted, divergences)]
    for label, ids in (("A", alignment.only_a), ("B", alignment.only_b)):
        if ids:
            shown = ", ".join(map(quoted, ids[:_SHOWN_PAIRS]))
            more = f" and {len(ids) - _SHOWN_PAIRS} more" if len(ids) > _SHOWN_PAIRS else ""
            lines += ["", *paragraph(f"only in {label}: {shown}{more}", 2, 2)]
    return lines


def _divergence(pair: SequencePair, found: Divergence) -> list[str]:
    rows = [
        ["request", f"{quoted(found.request)}, output position {found.position}"],
        *([] if pair.same_prompt else [["prompts", OTHER_PROMPTS]]),
        ["before", context_text(found.context) or "(nothing)"],
        ["A", "(has ended)" if found.token_a is None else _token(found.token_a)],
        ["B", "(has ended)" if found.token_b is None else _token(found.token_b)],
    ]
    if found.text_a or found.text_b:
        rows += [["text", quoted(f"…{found.text_before}")]] if found.text_before else []
        rows += [["A goes on", quoted(found.text_a)], ["B goes on", quoted(found.text_b)]]
    return [*table(rows), *_logits(found)]


def context_text(context: tuple[Token, ...]) -> str:
    """Return tokens as the text that they make, or by their ids where it is not known of all."""
    texts = [token.text for token in context]
    if not context or any(text is None for text in texts):
        return " ".join(map(_token, context))
    return quoted(f"…{''.join(text or '' for text in texts)}")


def _logits(found: Divergence) -> list[str]:
    sides = [side for side in (found.logits_a, found.logits_b) if side is not None]
    dtype = sides[0].dtype if len({side.dtype for side in sides}) == 1 else "F64"
    rows = [
        *_side("A", found.logits_a),
        *_side("B", found.logits_b),
        *(
            [
                f"logit of {_token(shared.token)}",
                f"A {number(shared.a, dtype)}, B {number(shared.b, dtype)}: {steps(shared.ulp)} apart",
            ]
            for shared in found.shared
        ),
    ]
    lines = table(rows) if rows else []
    return lines + (paragraph(CHOICES[found.choice], 2, 2) if found.choice else [])


def _side(label: str, side: SideLogits | None) -> list[list[str]]:
    if side is None:
        return []
    top = ", ".join(
        unbroken(f"{_token(each.token)} {number(each.logit, side.dtype)}") for each in side.top
    )
    said = f"{size(side.margin)} over {_token(side.runner_up.token)}, {steps(side.margin_ulp)}"
    if side.margin == 0:
        said += ": a tie"
    elif side.margin < 0:
        said += ": not the largest, sampling chose"
    return [[f"{label} top {len(side.top)} ({side.dtype})", top], [f"{label} margin", said]]


def _pairs(parted: tuple[SequencePair, ...], described: tuple[Divergence, ...]) -> list[str]:
    rows = [
        [
            printable(pair.a.id),
            f"position {pair.output_common}",
            f"{_id(pair.token_a)} | {_id(pair.token_b)}{'' if pair.same_prompt else '  (other prompt)'}"
            + (f"  {found.choice}" if found.choice else ""),
        ]
        for pair, found in zip(parted[:_SHOWN_PAIRS], described, strict=False)
    ]
    more = len(parted) - _SHOWN_PAIRS
    return [*table(rows), *([f"  … and {more} more (--json has all)"] if more > 0 else [])]


def _token(token: Token) -> str:
    return str(token.id) if token.text is None else f"{token.id} {quoted(token.text)}"


def _id(token: int | None) -> str:
    return "ended" if token is None else value_text(token)
