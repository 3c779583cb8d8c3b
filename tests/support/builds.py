"""Realisation records for the store's tests."""

from collections.abc import Mapping

from dis_store import Digest, Input, Realisation


def key_of(name: str) -> Digest:
    """Return a key that is a function of a name."""
    return Digest.of(f"key of {name}".encode())


def build_of(
    name: str,
    outputs: Mapping[str, Digest],
    inputs: Mapping[str, Input] | None = None,
    derivation: Digest | None = None,
) -> Realisation:
    """Return the record of a build of `name`, not yet added."""
    return Realisation(
        key=key_of(name),
        builder=name,
        outputs=outputs,
        compared=tuple(outputs)[:1],
        inputs=inputs or {},
        derivation=derivation,
        platform={"instruction_set": "avx512"},
        origin="built",
        started_at="2026-11-29T12:00:00+00:00",
        finished_at="2026-11-29T12:00:01+00:00",
        host="a host",
        user="somebody",
    )
