"""`dis show-derivation`: the derivations of a locked manifest."""

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from dis_command.command import (
    command,
    engine_python,
    json_option,
    pass_session,
    ref_argument,
    set_option,
    split_target,
    transformers_interpreter,
)
from dis_command.session import Session

if TYPE_CHECKING:
    from dis_derivations.graph.engine_process import EngineEnvironment
    from dis_derivations.lock.document import Lock
    from dis_store import Store

_DIGEST = re.compile(r"[0-9a-f]{64}")


@command(
    "show-derivation",
    examples=(
        "dis show-derivation configs/quickstart.json",
        "dis show-derivation configs/quickstart.json#closure -r",
        "dis show-derivation first",
    ),
)
@ref_argument(metavar="CONFIG[#TARGET]|REF")
@click.option(
    "-r", "--recursive", is_flag=True, help="Print what it is built from as well, inputs first."
)
@set_option
@json_option
@pass_session
def show_derivation(
    session: Session, ref: str, recursive: bool, overrides: tuple[str, ...]
) -> None:
    """Print the derivations of a locked manifest.

    Nothing is built or fetched. The output is always JSON: an object with the
    derivations by their digests. REF is the digest of a derivation in the
    store, or the name of a root. What an engine is made of is shown where the
    manifest pins it, and is else read only when the manifest is realised.
    """
    if _is_manifest(ref):
        records = _of_manifest(session, ref, overrides, recursive=recursive)
    else:
        with session.open_store(reading=True) as store:
            records = _of_store(store, ref, recursive=recursive)
    session.print_document(records)


def _is_manifest(ref: str) -> bool:
    path = ref.partition("#")[0]
    return "/" in path or path.endswith(".json") or "#" in ref


def _of_manifest(
    session: Session, ref: str, overrides: tuple[str, ...], *, recursive: bool
) -> dict[str, Any]:
    from dis_derivations.graph.presentation import derivations_of_manifest
    from dis_derivations.realisation.target import DEFAULT_TARGET

    path, target = split_target(ref, DEFAULT_TARGET)
    return derivations_of_manifest(
        path, target, overrides, recursive=recursive, environment_of=_environment_of(session)
    )


def _environment_of(
    session: Session,
) -> "Callable[[Mapping[str, Any], Lock], EngineEnvironment | None]":
    """Return what tells of an engine what it is made of, or says on stderr that this is not known yet."""

    def told(document: Mapping[str, Any], lock: "Lock") -> "EngineEnvironment | None":
        from dis_derivations.realisation.foretold_environment import (
            foretold_environment,
            is_left_open,
        )

        backend = document["runtime"]["execution"]["backend"]
        own = transformers_interpreter() if backend == "transformers" else engine_python(None)
        environment = foretold_environment(document, lock, own)
        if is_left_open(document, environment):
            session.say(
                "note: what the engine is made of is read when the manifest is realised; here it is null, and the "
                "digests of closure, generation and run are others then"
            )
        return environment

    return told


def _of_store(store: "Store", ref: str, *, recursive: bool) -> dict[str, Any]:
    from dis_derivations.graph.presentation import derivations_of_store
    from dis_derivations.runs.reference import resolve
    from dis_store.digest import Digest
    from dis_store.errors import InvalidInputError

    if _DIGEST.fullmatch(ref):
        return derivations_of_store(store, Digest(ref), recursive=recursive)
    entry = resolve(store, ref).entry
    if entry is None or entry.derivation is None:
        raise InvalidInputError(
            f"the derivation of {ref} is not known",
            cause="only roots remember what they were built from",
            hint="name a root, a manifest or the whole digest of a derivation",
        )
    return derivations_of_store(store, entry.derivation, recursive=recursive)
