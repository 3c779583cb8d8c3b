"""Where two runs first part: the tokens, what came before them, and the logits from which they were chosen."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dis_derivations.comparison.sequences import SequencePair, common_prefix
from dis_derivations.comparison.tensor_file import TensorFile
from dis_derivations.comparison.token_text import TokenText
from dis_derivations.comparison.ulp import FLOAT_FORMATS, Bits, FloatFormat
from dis_derivations.runs.bundle import LOGITS_FILE
from dis_derivations.runs.bundle_documents import Bundle
from dis_derivations.runs.recording import tensor_name

CONTEXT_TOKENS = 8
_SHOWN_TEXT = 60
_RANK_OF_FULL_LOGITS = 2


@dataclass(frozen=True)
class Token:
    """A token as id and, where the tokenizer is at hand, as text."""

    id: int
    text: str | None


@dataclass(frozen=True)
class Candidate:
    """A token with its logit, exact in the captured dtype."""

    token: Token
    logit: float


@dataclass(frozen=True)
class SideLogits:
    """One run's logits where the runs part.

    Attributes:
        dtype: Of the capture.
        top: The two largest, lowest id first among equals.
        chosen: The token that the run chose.
        runner_up: The best of all others.
        margin: Chosen minus runner-up: 0 is a tie, less than 0 means that sampling chose.
        margin_ulp: The steps between the two logits; None when one is NaN.
    """

    dtype: str
    top: tuple[Candidate, ...]
    chosen: Candidate
    runner_up: Candidate
    margin: float
    margin_ulp: int | None


@dataclass(frozen=True)
class SharedLogit:
    """The logit of one token in both runs, and the steps between (None for NaN or different dtypes)."""

    token: Token
    a: float
    b: float
    ulp: int | None


@dataclass(frozen=True)
class Divergence:
    """Where the outputs of one request part.

    Attributes:
        request: The request's id.
        position: The place in the output, from 0.
        token_a: A's token; None where A has ended.
        token_b: B's token; None where B has ended.
        context: The last tokens before, prompt and output.
        text_before: The end of the text that both outputs begin with.
        text_a: How A's text goes on.
        text_b: How B's text goes on.
        logits_a: None where the full logits were not captured.
        logits_b: None where the full logits were not captured.
        shared: Both chosen tokens' logits in both runs.
        same_row: Whether the two rows of logits are equal in every bit; None where they cannot be compared.
    """

    request: str
    position: int
    token_a: Token | None
    token_b: Token | None
    context: tuple[Token, ...]
    text_before: str
    text_a: str
    text_b: str
    logits_a: SideLogits | None = None
    logits_b: SideLogits | None = None
    shared: tuple[SharedLogit, ...] = ()
    same_row: bool | None = None


@dataclass(frozen=True)
class _Row:
    form: FloatFormat
    bits: Bits
    values: NDArray[np.float64]


def describe_divergence(
    a: Bundle, b: Bundle, pair: SequencePair, text_a: TokenText, text_b: TokenText
) -> Divergence:
    """Return everything that is known of the place where a pair of sequences parts.

    Raises:
        DisError: The captured logits are malformed.
    """
    row_a = _row(a, pair.a.index, pair.output_common)
    row_b = _row(b, pair.b.index, pair.output_common)
    before, rest_a, rest_b = _texts(pair.a.text, pair.b.text)
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
        shared=_shared(row_a, row_b, pair, text_a),
        same_row=_same_row(row_a, row_b) if pair.same_prompt else None,
    )


def _row(bundle: Bundle, index: int, position: int) -> _Row | None:
    """Return one row of a request's decode logits; None where the capture does not have it in full."""
    if not bundle.has("logits"):
        return None
    with TensorFile.of_bundle(bundle.reader, LOGITS_FILE) as file:
        info = file.tensors.get(tensor_name(index, "decode"))
        if info is None or len(info.shape) != _RANK_OF_FULL_LOGITS or position >= info.shape[0]:
            return None
        form = FLOAT_FORMATS.get(info.dtype)
        if form is None or info.shape[1] == 0:
            return None
        width = info.shape[1] * form.itemsize
        bits = form.raw(file.read(info, position * width, width))
    return _Row(form, bits, form.values(bits))


def _side(row: _Row | None, token: int | None, text: TokenText) -> SideLogits | None:
    if row is None or token is None or token >= len(row.values) or len(row.values) < 2:  # noqa: PLR2004 - a runner-up
        return None
    ranked = _ranked(row)
    runner_up = ranked[1] if ranked[0] == token else ranked[0]
    with np.errstate(invalid="ignore", over="ignore"):
        margin = float(row.values[token] - row.values[runner_up])
    return SideLogits(
        dtype=row.form.name,
        top=tuple(_candidate(row, each, text) for each in ranked),
        chosen=_candidate(row, token, text),
        runner_up=_candidate(row, runner_up, text),
        margin=margin,
        margin_ulp=_distance(row, token, row, runner_up),
    )


def _ranked(row: _Row) -> tuple[int, int]:
    """Return the two best tokens; NaN ranks below everything, and the lowest id is first among equals."""
    scores = np.where(np.isnan(row.values), -np.inf, row.values)
    best = int(np.argmax(scores))
    others = np.delete(scores, best)
    second = int(np.argmax(others))
    return best, second + (second >= best)


def _candidate(row: _Row, token: int, text: TokenText) -> Candidate:
    return Candidate(Token(token, text(token)), float(row.values[token]))


def _shared(
    row_a: _Row | None, row_b: _Row | None, pair: SequencePair, text: TokenText
) -> tuple[SharedLogit, ...]:
    if row_a is None or row_b is None:
        return ()
    return tuple(
        SharedLogit(
            token=Token(token, text(token)),
            a=float(row_a.values[token]),
            b=float(row_b.values[token]),
            ulp=_distance(row_a, token, row_b, token) if row_a.form == row_b.form else None,
        )
        for token in (pair.token_a, pair.token_b)
        if token is not None and token < min(len(row_a.values), len(row_b.values))
    )


def _distance(left: _Row, at: int, right: _Row, other: int) -> int | None:
    a, b = left.bits[at : at + 1], right.bits[other : other + 1]
    if left.form.is_nan(a)[0] or right.form.is_nan(b)[0]:
        return None
    return int(left.form.distance(a, b)[0])


def _same_row(row_a: _Row | None, row_b: _Row | None) -> bool | None:
    if row_a is None or row_b is None:
        return None
    return row_a.form == row_b.form and bool(np.array_equal(row_a.bits, row_b.bits))


def _token(token: int | None, text: TokenText) -> Token | None:
    return None if token is None else Token(token, text(token))


def _context(pair: SequencePair, text: TokenText) -> tuple[Token, ...]:
    before = (*pair.a.prompt_token_ids, *pair.a.output_token_ids[: pair.output_common])
    return tuple(Token(token, text(token)) for token in before[-CONTEXT_TOKENS:])


def _texts(a: str, b: str) -> tuple[str, str, str]:
    """Return the end of what both texts begin with, and the beginnings of what follows in each."""
    common = common_prefix(a, b)
    return (
        a[max(0, common - _SHOWN_TEXT) : common],
        a[common : common + _SHOWN_TEXT],
        b[common : common + _SHOWN_TEXT],
    )
