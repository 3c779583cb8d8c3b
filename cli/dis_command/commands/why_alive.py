"""`dis why-alive`: which roots keep an object."""

from typing import TYPE_CHECKING, Any

from dis_command.command import command, json_option, pass_session, ref_argument
from dis_command.session import Session

if TYPE_CHECKING:
    from dis_derivations.provenance.liveness import Keeper, Step
    from dis_store.digest import Digest

_NO = 1


@command("why-alive", examples=("dis why-alive first", "dis why-alive 1a2b3c4d --json"))
@ref_argument()
@json_option
@pass_session
def why_alive(session: Session, ref: str) -> int:
    """Print which roots keep an object.

    And through what: what a root names, what its build was made from, what
    those refer to. The exit code is 1 when nothing keeps it.
    """
    from dis_derivations.provenance.liveness import keepers
    from dis_derivations.runs.reference import resolve

    with session.open_store(reading=True) as store:
        digest = resolve(store, ref).object()
        found = keepers(store, digest)
    session.print_result(lambda: _document(digest, found), lambda: "\n".join(map(_text, found)))
    if not found:
        session.say(f"no root keeps {digest[:12]}, so dis gc may free it")
        return _NO
    return 0


def _document(digest: "Digest", found: "list[Keeper]") -> dict[str, Any]:
    return {
        "schema_version": 1,
        "object": str(digest),
        "alive": bool(found),
        "roots": [
            {
                "name": keeper.root,
                "kind": keeper.kind,
                "steps": [
                    {
                        "how": step.how,
                        "name": step.name,
                        "builder": step.builder,
                        "object": str(step.object),
                    }
                    for step in keeper.steps
                ],
            }
            for keeper in found
        ],
    }


def _text(keeper: "Keeper") -> str:
    from dis_command.terminal import one_line

    first, *steps = keeper.steps
    head = f"{keeper.kind} root" if keeper.kind != "link" else "result link"
    lines = [f"{head} {one_line(keeper.root)}: {first.object[:12]}"]
    lines += [f"  {_step(step)}: {step.object[:12]}" for step in steps]
    return "\n".join(lines)


def _step(step: "Step") -> str:
    from dis_command.terminal import one_line

    name = one_line(step.name)
    match step.how:
        case "output":
            return f"output {name} of its build ({step.builder})"
        case "input":
            return f"made from {name} ({step.builder})"
        case _:
            return f"refers to it as {name}"
