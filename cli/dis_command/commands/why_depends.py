"""`dis why-depends`: how one object refers to another."""

from typing import TYPE_CHECKING, Any

from dis_command.command import command, json_option, pass_session, ref_argument
from dis_command.session import Session

if TYPE_CHECKING:
    from dis_derivations.provenance.dependency import Reference
    from dis_store import Store
    from dis_store.digest import Digest

_NO = 1


@command("why-depends", examples=("dis why-depends first 1a2b3c4d",))
@ref_argument("ref_a", "A")
@ref_argument("ref_b", "B")
@json_option
@pass_session
def why_depends(session: Session, ref_a: str, ref_b: str) -> int:
    """Print how one object refers to another.

    The chain from A to B, with the names of the entries that refer. The exit
    code is 1 when B is not in the closure of A.
    """
    from dis_derivations.provenance.dependency import chain_of_references
    from dis_derivations.runs.reference import resolve

    with session.open_store(reading=True) as store:
        start, target = (resolve(store, ref).object() for ref in (ref_a, ref_b))
        chain = chain_of_references(store, start, target)
        session.print_result(lambda: _document(start, chain), lambda: _text(store, start, chain))
    if chain is None:
        session.say(
            f"{ref_a} does not refer to {ref_b}; to see what keeps it: dis why-alive {ref_b}"
        )
        return _NO
    return 0


def _document(start: "Digest", chain: "tuple[Reference, ...] | None") -> dict[str, Any]:
    return {
        "schema_version": 1,
        "object": str(start),
        "depends": chain is not None,
        "chain": [
            {"entries": list(step.entries), "object": str(step.object)} for step in chain or ()
        ],
    }


def _text(store: "Store", start: "Digest", chain: "tuple[Reference, ...] | None") -> str:
    from dis_command.terminal import one_line

    if chain is None:
        return ""
    lines = [str(store.object_path(start))]
    for depth, step in enumerate(chain, start=1):
        names = one_line(", ".join(step.entries))
        lines.append(f"{'  ' * depth}{names} -> {store.object_path(step.object)}")
    return "\n".join(lines)
