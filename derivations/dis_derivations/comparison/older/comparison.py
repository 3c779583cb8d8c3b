"""Comparing two runs of which at least one was made by the older tool.

What both hold is compared. What one lacks is unknown, and what both only declare is no more than declared.
"""

from collections.abc import Callable, Sequence
from typing import Any

from dis_derivations.comparison.causes.manifest_changes import (
    CAUSE_KINDS,
    ManifestChange,
    manifest_changes,
)
from dis_derivations.comparison.describing import CONTEXT_TOKENS, text_parts
from dis_derivations.comparison.diff import MOCK_NOTE
from dis_derivations.comparison.divergence import Divergence, Token
from dis_derivations.comparison.older.report import Finding, Observed, OlderReport
from dis_derivations.comparison.older.side import Side, prompt_is_known, text_is_known
from dis_derivations.comparison.older.subjects import subjects_of
from dis_derivations.comparison.report import MAX_DESCRIBED
from dis_derivations.comparison.sequences import Alignment, SequencePair, align
from dis_derivations.comparison.text_layout import count
from dis_derivations.runs.bundle_documents import CAPTURE_FILES, TokenSequence


def diff_sides(a: Side, b: Side) -> OlderReport:
    """Compare two runs."""
    matched, how = _matched(a, b)
    alignment = align(a, matched)
    return OlderReport(
        a=a,
        b=b,
        observed={
            "tokens": _tokens(alignment),
            "prompts": _prompts(alignment),
            "texts": _texts(alignment),
            **{name: _capture(a, b, name) for name in CAPTURE_FILES},
        },
        alignment=alignment,
        divergences=tuple(_divergence(pair, a, b) for pair in alignment.described(MAX_DESCRIBED)),
        subjects=subjects_of(a, matched),
        manifest=_manifest(a, b),
        notes=tuple(_notes(a, b, how)),
    )


def _matched(a: Side, b: Side) -> tuple[Side, str | None]:
    """Return B with ids that are A's: those that it has, or those of the same place where no id is in both."""
    if set(a.by_id) & set(b.by_id) and a.has_request_ids and b.has_request_ids:
        return b, None
    if len(a.sequences) == len(b.sequences):
        return b.named_as(a), (
            "the requests have no ids in common; they are matched by their places, the first with the first"
        )
    return b, "the requests have no ids in common, and the runs have different numbers of them"


def _tokens(alignment: Alignment) -> Observed:
    equal = len(alignment.pairs) - len(alignment.parted)
    said = f"{equal} of {count(len(alignment.pairs), 'sequence')} equal"
    for label, ids in (("A", alignment.only_a), ("B", alignment.only_b)):
        said += f", {len(ids)} only in {label}" if ids else ""
    return Observed("identical" if alignment.same_tokens else "differ", said)


def _prompts(alignment: Alignment) -> Observed:
    return _compared(
        alignment,
        prompt_is_known,
        lambda sequence: sequence.prompt_token_ids,
        "UTF-8 bytes were recorded in the place of token ids",
    )


def _texts(alignment: Alignment) -> Observed:
    return _compared(
        alignment, text_is_known, lambda sequence: sequence.text, "the text was not decoded"
    )


def _compared(
    alignment: Alignment,
    is_known: Callable[[TokenSequence], bool],
    value: Callable[[TokenSequence], Any],
    why_not: str,
) -> Observed:
    known = [pair for pair in alignment.pairs if is_known(pair.a) and is_known(pair.b)]
    differ = sum(value(pair.a) != value(pair.b) for pair in known)
    if differ:
        return Observed("differ", f"{len(known) - differ} of {len(known)} equal")
    if len(known) < len(alignment.pairs) or not known:
        lacking = [
            label
            for label, which in (("A", 0), ("B", 1))
            if not all(is_known((pair.a, pair.b)[which]) for pair in alignment.pairs)
        ]
        return Observed("unknown", f"{why_not} in {' and '.join(lacking)}" if lacking else why_not)
    return Observed("identical", f"{len(known)} of {len(known)} equal")


def _capture(a: Side, b: Side, name: str) -> Observed:
    held = name in a.captures, name in b.captures
    finding: Finding = "unknown"
    if held == (True, False):
        finding = "only in A"
    elif held == (False, True):
        finding = "only in B"
    return Observed(finding, "the older tool captured none")


def _divergence(pair: SequencePair, a: Side, b: Side) -> Divergence:
    known = text_is_known(pair.a) and text_is_known(pair.b)
    before, rest_a, rest_b = text_parts(pair.a.text, pair.b.text) if known else ("", "", "")
    context = pair.a.output_token_ids[: pair.output_common]
    if prompt_is_known(pair.a):
        context = (*pair.a.prompt_token_ids, *context)
    return Divergence(
        request=pair.a.id,
        position=pair.output_common,
        token_a=_token(pair.token_a, a),
        token_b=_token(pair.token_b, b),
        context=tuple(Token(each, a.token_text(each)) for each in context[-CONTEXT_TOKENS:]),
        text_before=before,
        text_a=rest_a,
        text_b=rest_b,
        logits_a=None,
        logits_b=None,
        shared=(),
        same_row=None,
        choice=None,
    )


def _token(token: int | None, side: Side) -> Token | None:
    return None if token is None else Token(token, side.token_text(token))


def _manifest(a: Side, b: Side) -> tuple[ManifestChange, ...]:
    """Return the fields that differ and can change a result; what only says where, or describes, is left out."""
    if a.manifest is None or b.manifest is None:
        return ()
    kinds: Sequence[str] = CAUSE_KINDS
    return tuple(
        each
        for each in manifest_changes(a.manifest, b.manifest)
        if each.kind in kinds and not each.change.name.startswith(("/artifacts", "/outputs"))
    )


def _notes(a: Side, b: Side, how: str | None) -> list[str]:
    said = [MOCK_NOTE] if a.is_mock or b.is_mock else []
    said += [] if how is None else [how]
    for label, side in (("A", a), ("B", b)):
        if side.is_older:
            said.append(
                f"{label} was made by {side.tool}: what it tells of software, hardware and seeds is of the client that "
                "asked, not of the server that computed"
            )
            if side.manifest is None:
                said.append(f"{label} has no manifest.used.json: its settings are unknown")
            if side.artifacts is None:
                said.append(f"{label} has no lock.used.json: its files are unknown")
    return said
