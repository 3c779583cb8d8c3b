"""The provenance of a build as SLSA v1: what was built, from what, by what; an in-toto statement.

docs/internals/formats/provenance.md says how it is encoded.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dis_derivations.trust import statement
from dis_derivations.trust.claim import Claim
from dis_derivations.trust.statement import Subject
from dis_store.digest import Digest, Sha256
from dis_store.errors import InvalidInputError

if TYPE_CHECKING:
    from dis_derivations.graph.derivation import Derivation
    from dis_store import Realisation

PREDICATE_TYPE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "https://dis.dev/build/v1"
BUILDER_ID = "https://dis.dev/builder"


def encode_provenance(
    claim: Claim,
    record: "Realisation",
    derivation: "Derivation | None",
    inputs: Mapping[str, Sha256],
    version: str | None,
) -> bytes:
    """Return the payload of a provenance statement: canonical JSON, the same bytes for the same record.

    Args:
        claim: What the build gave.
        record: The record of the build.
        derivation: What was built, where it is known.
        inputs: The SHA-256 of the tree manifest of each input, as far as they are there.
        version: The version of dis that built it, where that is known.
    """
    subjects = [
        Subject(name, {"blake3": str(output.object), "sha256": output.sha256.hex})
        for name, output in sorted(claim.outputs.items())
    ]
    return statement.encode(
        subjects,
        PREDICATE_TYPE,
        {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": _external(claim, record, derivation),
                "internalParameters": {"platform": dict(claim.platform)},
                "resolvedDependencies": _dependencies(record, inputs),
            },
            "runDetails": {
                "builder": {
                    "id": f"{BUILDER_ID}/{claim.builder}",
                    "version": _version(derivation, version),
                },
                "metadata": {
                    "invocationId": record.build,
                    "startedOn": record.started_at,
                    "finishedOn": record.finished_at,
                },
            },
        },
    )


def _external(
    claim: Claim, record: "Realisation", derivation: "Derivation | None"
) -> dict[str, Any]:
    """Return what whoever asked for the build decided."""
    external: dict[str, Any] = {"key": str(claim.key), "compared": list(claim.compared)}
    if record.derivation is not None:
        external["derivation"] = str(record.derivation)
    if derivation is not None:
        external |= {"name": derivation.name, "args": dict(derivation.args)}
    return external


def _version(derivation: "Derivation | None", version: str | None) -> dict[str, str]:
    found = {} if version is None else {"dis": version}
    if derivation is not None:
        found["builder"] = str(derivation.builder_version)
    return found


def _dependencies(record: "Realisation", inputs: Mapping[str, Sha256]) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "digest": _digests(source.object, inputs.get(name)),
            **({} if source.key is None else {"annotations": {"key": str(source.key)}}),
        }
        for name, source in sorted(record.inputs.items())
    ]


def _digests(digest: Digest, sha256: Sha256 | None) -> dict[str, str]:
    return {"blake3": str(digest)} | ({} if sha256 is None else {"sha256": sha256.hex})


def subject_of(stated: statement.Statement) -> tuple[Digest | None, Digest | None]:
    """Return the derivation and the key that a provenance statement ties together; None twice for any other."""
    if stated.predicate_type != PREDICATE_TYPE:
        return None, None
    definition = stated.predicate.get("buildDefinition")
    external = definition.get("externalParameters") if isinstance(definition, dict) else None
    if not isinstance(external, dict):
        return None, None
    derivation, key = external.get("derivation"), external.get("key")
    try:
        return Digest(str(derivation)), Digest(str(key))
    except InvalidInputError:
        return None, None
