"""Where two runs first part: the tokens, what came before them, and the logits from which they were chosen."""

import numpy as np

from dis_derivations.comparison.choice import choice_of
from dis_derivations.comparison.decode_logits import DecodeLogits, LogitsRow
from dis_derivations.comparison.divergence import (
    Candidate,
    Divergence,
    SharedLogit,
    SideLogits,
    Token,
)
from dis_derivations.comparison.sequences import SequencePair, common_prefix
from dis_derivations.comparison.token_text import TokenText

CONTEXT_TOKENS = 8
TOP_TOKENS = 5
_SHOWN_TEXT = 60


def describe_divergence(
    pair: SequencePair,
    logits: tuple[DecodeLogits, DecodeLogits],
    texts: tuple[TokenText, TokenText],
) -> Divergence:
    """Return everything that is known of the place where a pair of sequences parts.

    Args:
        pair: Two sequences whose outputs differ.
        logits: A's and B's.
        texts: What shows A's and B's tokens.

    Raises:
        DisError: The captured logits are malformed.
    """
    text_a, text_b = texts
    row_a = logits[0].row(pair.a.index, pair.output_common)
    row_b = logits[1].row(pair.b.index, pair.output_common)
    same_row = _same_row(row_a, row_b) if pair.same_prompt else None
    before, rest_a, rest_b = text_parts(pair.a.text, pair.b.text)
    return Divergence(
        request=pair.a.id,
        position=pair.output_common,
        token_a=_token(pair.token_a, text_a),
        token_b=_token(pair.token_b, text_b),
        context=_context(pair, text_a),
        text_before=before,
        text_a=rest_a,
        text_b=rest_b,
        logits_a=_side(row_a, pair.token_a, text_a),
        logits_b=_side(row_b, pair.token_b, text_b),
        # The logits of two prompts answer two questions; how far they are apart says nothing.
        shared=_shared(row_a, row_b, pair, text_a) if pair.same_prompt else (),
        same_row=same_row,
        choice=choice_of(row_a, row_b, (pair.token_a, pair.token_b), same_row=same_row)
        if pair.same_prompt
        else None,
    )


def _side(row: LogitsRow | None, token: int | None, text: TokenText) -> SideLogits | None:
    if row is None or token is None or token >= len(row.values) or len(row.values) < 2:  # noqa: PLR2004 - a runner-up
        return None
    ranked = row.best(TOP_TOKENS)
    runner_up = ranked[1] if ranked[0] == token else ranked[0]
    with np.errstate(invalid="ignore", over="ignore"):
        margin = float(row.values[token] - row.values[runner_up])
    return SideLogits(
        dtype=row.form.name,
        top=tuple(_candidate(row, each, text) for each in ranked),
        chosen=_candidate(row, token, text),
        runner_up=_candidate(row, runner_up, text),
        margin=margin,
        margin_ulp=row.distance(token, row, runner_up),
    )


def _candidate(row: LogitsRow, token: int, text: TokenText) -> Candidate:
    return Candidate(Token(token, text(token)), float(row.values[token]))


def _shared(
    row_a: LogitsRow | None, row_b: LogitsRow | None, pair: SequencePair, text: TokenText
) -> tuple[SharedLogit, ...]:
    if row_a is None or row_b is None:
        return ()
    return tuple(
        SharedLogit(
            token=Token(token, text(token)),
            a=float(row_a.values[token]),
            b=float(row_b.values[token]),
            ulp=row_a.distance(token, row_b, token) if row_a.form == row_b.form else None,
        )
        for token in (pair.token_a, pair.token_b)
        if token is not None and token < min(len(row_a.values), len(row_b.values))
    )


def _same_row(row_a: LogitsRow | None, row_b: LogitsRow | None) -> bool | None:
    if row_a is None or row_b is None:
        return None
    return row_a.form == row_b.form and bool(np.array_equal(row_a.bits, row_b.bits))


def _token(token: int | None, text: TokenText) -> Token | None:
    return None if token is None else Token(token, text(token))


def _context(pair: SequencePair, text: TokenText) -> tuple[Token, ...]:
    before = (*pair.a.prompt_token_ids, *pair.a.output_token_ids[: pair.output_common])
    return tuple(Token(token, text(token)) for token in before[-CONTEXT_TOKENS:])


def text_parts(a: str, b: str) -> tuple[str, str, str]:
    """Return the end of what both texts begin with, and the beginnings of what follows in each."""
    common = common_prefix(a, b)
    return (
        a[max(0, common - _SHOWN_TEXT) : common],
        a[common : common + _SHOWN_TEXT],
        b[common : common + _SHOWN_TEXT],
    )
