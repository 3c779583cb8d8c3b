"""`dis verify-signatures`: who vouches for the builds of a root."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from dis_command.command import command, json_option, pass_session, ref_argument
from dis_command.session import Session

if TYPE_CHECKING:
    from dis_derivations.trust.vouching import Vouched

UNTRUSTED = 4


@command(
    "verify-signatures",
    examples=("dis verify-signatures first", "dis verify-signatures first --needed 2"),
)
@ref_argument()
@click.option(
    "--needed",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many trusted keys must have signed.  [default: trust-threshold]",
)
@json_option
@pass_session
def verify_signatures(session: Session, ref: str, needed: int | None) -> int:
    """Check who vouches for the builds of a root.

    Every build that REF stands for must be signed by keys that the settings
    trust, also those that were made here. Inputs that are known by their
    digests need no signature. What was imported without its builds is judged by
    the claims that came with it. The exit code is 4 where a signature lacks.
    """
    from dis_command.trust import read_trust
    from dis_derivations.trust.vouching import vouch_for

    trust = read_trust(session)
    policy = replace(
        trust.policy, mode="require", threshold=trust.policy.threshold if needed is None else needed
    )
    with session.open_store(reading=True) as store:
        found = vouch_for(store, ref, policy, trust.keys, datetime.now(UTC))
    session.print_result(
        lambda: {"schema_version": 1, "builds": [_document(each) for each in found]},
        lambda: _text(found),
    )
    return 0 if all(each.good for each in found) else UNTRUSTED


def _document(found: "Vouched") -> dict[str, Any]:
    decision = found.decision
    return {
        "name": found.name,
        "builder": found.builder,
        "key": str(found.key),
        "origin": found.origin,
        "needs_signature": decision is not None,
        "vouched": found.good,
        "signers": [] if decision is None else list(decision.signers),
        "reasons": [] if decision is None else list(decision.reasons),
    }


def _text(found: "list[Vouched]") -> str:
    from dis_command.table import aligned

    reasons: dict[str, list[str]] = {}
    for each in found:
        if each.decision is not None and not each.good:
            for reason in each.decision.reasons:
                reasons.setdefault(reason, []).append(each.name)
    rows = [(each.name, each.key[:12], _standing(each)) for each in found]
    return "\n".join(
        [aligned(rows), *(f"{', '.join(names)}: {reason}" for reason, names in reasons.items())]
    )


def _standing(found: "Vouched") -> str:
    decision = found.decision
    if decision is None:
        return "needs none: known by its digests"
    signers = ", ".join(decision.signers)
    return f"signed by {signers}" if decision.vouched else "NOT VOUCHED FOR"
