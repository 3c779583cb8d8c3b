"""`dis challenge`: what several builders got of one manifest."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dis_command import completion
from dis_command.command import (
    chosen_config,
    command,
    config_arguments,
    json_option,
    pass_session,
    set_option,
    split_target,
)
from dis_command.session import Session
from dis_command.terminal import count_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dis_derivations.distribution.hearing import Heard
    from dis_derivations.graph.derivation import Derivation
    from dis_derivations.registry.reference import RegistryReference
    from dis_derivations.trust.agreement import Comparison
    from dis_derivations.trust.voices import Audience, Challenge
    from dis_store.digest import Digest
    from dis_store.reading import StoreReader

_SHOWN_DIGITS = 12
_UNSIGNED = "of a build in a registry that nobody signed"


@command(
    "challenge",
    examples=(
        "dis challenge configs/quickstart.json oci://registry.example.com/runs",
        "dis challenge configs/quickstart.json --claims farm.claims --claims lab.claims",
    ),
)
@config_arguments("CONFIG[#TARGET]")
@click.argument("registries", nargs=-1, metavar="[oci://HOST/REPOSITORY]...")
@click.option(
    "--claims",
    "files",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    metavar="FILE",
    shell_complete=completion.files,
    help="Hear the signed documents in FILE; repeatable.",
)
@click.option(
    "--everybody", is_flag=True, help="Count all keys that are here, not only trusted ones."
)
@set_option
@json_option
@pass_session
def challenge(
    session: Session,
    /,
    config: str | None,
    config_option: str | None,
    registries: tuple[str, ...],
    files: tuple[Path, ...],
    everybody: bool,
    overrides: tuple[str, ...],
) -> int:
    """Compare what several builders got of one manifest.

    None of the bytes of what they got is needed. Builders are this store, and
    whoever signed documents: those in the store, those that were pushed to a
    repository, and those in FILE, which dis sign --output wrote. The exit code
    is 0 where all agree, 1 where any disagree, and 5 where a derivation has
    fewer than two builders.
    """
    from dis_derivations.realisation.target import DEFAULT_TARGET
    from dis_derivations.trust.agreement import exit_code, to_json
    from dis_derivations.trust.claims_file import read_claims
    from dis_derivations.trust.voices import challenge as hear

    if config is not None and config_option is not None:
        registries = (config, *registries)
        config = None
    path, target = split_target(chosen_config(config, config_option), DEFAULT_TARGET)
    places = _repositories(registries)
    derivations = _derivations(path, target, overrides)
    documents = [document for file in files for document in read_claims(file)]
    audience = _audience(session, everybody=everybody)
    with session.open_store(reading=True) as store:
        told = _told(session, places, derivations, store, audience) if places else None
        documents += () if told is None else told.documents
        found = hear(store, derivations, documents, audience)
    if told is not None and told.unsigned:
        found.unheard[_UNSIGNED] = told.unsigned
    session.print_result(
        lambda: {
            "schema_version": 1,
            "derivations": [to_json(each) for each in found.comparisons],
            "unheard": found.unheard,
        },
        lambda: _text(found),
    )
    return exit_code(found.comparisons)


def _repositories(texts: tuple[str, ...]) -> "tuple[RegistryReference, ...]":
    from dis_derivations.distribution.substitution import repositories
    from dis_derivations.registry.reference import parse_reference

    return repositories([parse_reference(each) for each in texts])


def _told(
    session: Session,
    places: "Sequence[RegistryReference]",
    derivations: "dict[Digest, Derivation]",
    store: "StoreReader",
    audience: "Audience",
) -> "Heard":
    from dis_command.transfers import interruptible
    from dis_derivations.distribution.hearing import hear
    from dis_derivations.registry.client import RegistryClient

    with interruptible() as stop, RegistryClient(session.environment) as client:
        known = store.outputs_of(list(derivations))
        keys = [each.key.fingerprint for each in (*audience.keys, *audience.known)]
        return hear(client, places, derivations, known, keys, stop.check)


def _derivations(path: Path, target: str, overrides: tuple[str, ...]) -> "dict[Digest, Derivation]":
    from dis_derivations.graph.derivation import Derivation
    from dis_derivations.graph.presentation import derivations_of_manifest
    from dis_store import canonical_json
    from dis_store.digest import Digest

    found = derivations_of_manifest(path, target, overrides, recursive=True)
    return {
        Digest(digest): Derivation.decode(canonical_json.encode(document))
        for digest, document in found.items()
    }


def _audience(session: Session, *, everybody: bool) -> "Audience":
    from dis_command.trust import key_ring, read_trust
    from dis_derivations.trust.policy import TrustedKey
    from dis_derivations.trust.voices import Audience

    trust, ring = read_trust(session), key_ring(session)
    here = [ring.get(name) for name in ring.names()]
    mine = [TrustedKey(each.name, each.public) for each in here if each.can_sign]
    return Audience(
        keys=[*trust.keys, *mine],
        known=[TrustedKey(each.name, each.public) for each in here if not each.can_sign],
        own=frozenset(each.key.fingerprint for each in mine),
        policy=trust.policy,
        now=datetime.now(UTC),
        everybody=everybody,
    )


def _text(found: "Challenge") -> str:
    lines = [line for each in found.comparisons for line in _lines(each)]
    lines += [
        f"not heard: {count_text(count, 'document')} {reason}"
        for reason, count in sorted(found.unheard.items())
    ]
    return "\n".join(lines)


def _lines(comparison: "Comparison") -> list[str]:
    head = f"{comparison.verdict}: {comparison.builder}"
    if comparison.differing:
        head += f" ({', '.join(comparison.differing)} differ"
        head += ", but only between platforms)" if comparison.across_platforms_only else ")"
    return [head, *(line for answer in comparison.answers for line in _answer(*answer))]


def _answer(result: Any, voices: Any) -> list[str]:
    outputs = ", ".join(f"{name} {digest[:_SHOWN_DIGITS]}" for name, digest in result.items())
    return [f"  {outputs}"] + [
        f"    {voice.who}{'' if voice.trusted else ', not trusted'}, on {_platform(voice.claim.platform)}"
        for voice in voices
    ]


def _platform(platform: Any) -> str:
    facts = platform.get("facts", {})
    named = ", ".join(f"{name} {value}" for name, value in facts.items())
    return f"{platform.get('class', '?')}{f' ({named})' if named else ''}"
