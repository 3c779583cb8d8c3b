"""`dis show`: the prompts and answers of a run, or the verdict of a probe."""

from typing import TYPE_CHECKING, Any

from dis_command.command import command, json_option, pass_session, ref_argument
from dis_command.session import Session

if TYPE_CHECKING:
    from dis_derivations.runs.bundle_documents import Bundle
    from dis_derivations.runs.transcript import Exchange
    from dis_store import Digest, Kept, Store


@command(
    "show",
    examples=(
        "dis show quickstart.1a2b3c4d",
        "dis show runs/quickstart",
        "dis show 1a2b3c4d --json",
    ),
)
@ref_argument()
@json_option
@pass_session
def show(session: Session, ref: str) -> None:
    """Print the prompts and answers of a run.

    REF is the name of a root, a digest or its first 8 digits, a run directory,
    a bundle.json or an archive. Of a probe, its verdict is printed.
    """
    from dis_command.references import looking_up
    from dis_derivations.comparison.diff import left_out_notes
    from dis_derivations.runs.bundle_documents import load_bundle
    from dis_derivations.runs.roots import longest_kept
    from dis_derivations.runs.transcript import transcript

    with looking_up(session, [ref]) as (store, resolve):
        resolved = resolve(ref)
        is_stored = resolved.remote is None
        if (
            resolved.kind == "object"
            and is_stored
            and _show_verdict(session, store, resolved.object())
        ):
            return
        bundle = load_bundle(resolved.bundle(store))
        exchanges = transcript(bundle, resolved.objects(store))
        kept = None if resolved.digest is None else longest_kept(store, resolved.digest)
        weights = _weights(store, bundle) if session.as_json else None
    session.print_result(
        lambda: _document(bundle, exchanges, weights, kept),
        lambda: _text(bundle, exchanges),
        paged=True,
    )
    for line in left_out_notes(bundle.reader):
        session.say(f"note: {line}")
    if kept is not None:
        session.say(f"note: {kept.text}")


def _show_verdict(session: Session, store: "Store", digest: "Digest") -> bool:
    """Print the verdict of a probe; return False for an object that is none."""
    from dis_derivations.probing.keeping import read_verdict
    from dis_derivations.probing.rendering import render_verdict

    verdict = read_verdict(store, digest)
    if verdict is None:
        return False
    session.print_result(lambda: verdict, lambda: render_verdict(verdict), paged=True)
    return True


def _weights(store: "Store", bundle: "Bundle") -> "Digest | None":
    """Return the digest of the tensors that a run used, whatever files they lay in; None where it is not known."""
    weights = bundle.document.inputs.get("weights")
    return None if weights is None or not store.is_valid(weights) else store.tensor_set(weights)


def _document(
    bundle: "Bundle",
    exchanges: list["Exchange"],
    weights: "Digest | None",
    kept: "Kept | None",
) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "name": bundle.document.name,
        "run_id": str(bundle.document.run_id),
        "grade": bundle.document.grade,
        "engine": bundle.engine_name,
        "artifact_digests_verified": bundle.document.unverified is None,
        "weights": weights,
        "left_out": [entry.to_json() for entry in bundle.reader.left_out().values()],
        "kept_until": None if kept is None else kept.until.isoformat(timespec="seconds"),
        "exchanges": [
            {
                "id": exchange.id,
                "conversation": [
                    {"role": turn.role, "content": turn.content} for turn in exchange.conversation
                ],
                "prompt": exchange.prompt,
                "answer": exchange.answer,
                "prompt_tokens": exchange.prompt_tokens,
                "output_tokens": exchange.output_tokens,
            }
            for exchange in exchanges
        ],
    }


def _text(bundle: "Bundle", exchanges: list["Exchange"]) -> str:
    return "\n\n".join([*_warning(bundle), *map(_exchange_text, exchanges)])


def _warning(bundle: "Bundle") -> list[str]:
    from dis_derivations.comparison.diff import (
        MOCK_NOTE,
        experiment_notes,
        is_mock,
        server_departures,
    )
    from dis_derivations.comparison.text_layout import printable

    said = [f"WARNING: {MOCK_NOTE}"] if is_mock(bundle) else []
    said += [f"WARNING: {printable(line)}" for line in experiment_notes(bundle)]
    if departures := server_departures(bundle):
        listed = "".join(f"\n    {line}" for line in departures)
        said.append(f"WARNING: the server of this run is not what its manifest wants{listed}")
    if bundle.document.unverified is not None:
        from dis_command.unverified import unverified_text

        said.append(f"WARNING: {unverified_text(bundle.document.unverified)}")
    return said


def _exchange_text(exchange: "Exchange") -> str:
    lines = [f"[{exchange.id}]"]
    lines += [_turn(turn.role, turn.content) for turn in exchange.conversation]
    if exchange.conversation:
        pass  # the prompt is the same text, written out by the chat template
    elif exchange.prompt is not None:
        lines.append(_turn("prompt", exchange.prompt))
    else:
        lines.append(f"({exchange.prompt_tokens} prompt tokens; their text is not at hand)")
    lines.append(_turn("answer", exchange.answer))
    return "\n".join(lines)


def _turn(role: str, text: str) -> str:
    return f"{role}: " + text.replace("\n", "\n    ")
