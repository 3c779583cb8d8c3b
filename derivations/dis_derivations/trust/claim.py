"""The claim that a build of a key gave these outputs: what a builder signs, as an in-toto statement.

docs/internals/formats/claim.md says how it is encoded.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dis_derivations.trust import statement
from dis_derivations.trust.statement import Subject
from dis_store import canonical_json
from dis_store.digest import Digest, Sha256
from dis_store.errors import InvalidInputError

PREDICATE_TYPE = "https://dis.dev/claim/v1"
_PREDICATE_FIELDS = {"builder", "compared", "key", "platform", "platformFreeKey"}


@dataclass(frozen=True)
class ClaimedOutput:
    """An output: its object, and the SHA-256 of the same tree manifest, for verifiers that know no BLAKE3."""

    object: Digest
    sha256: Sha256


@dataclass(frozen=True)
class Claim:
    """That the build remembered by a key gave these outputs.

    Attributes:
        key: What the build is remembered by. The facts of the platform are in it.
        platform_free_key: What is left of the key without the facts, so that builders on other machines can be
            compared; None where the signer did not have the derivation.
        builder: The kind of build.
        platform: The facts of the machine that are in the key.
        outputs: What came out, by name.
        compared: The names of the outputs that every build of the key must reproduce.
    """

    key: Digest
    platform_free_key: Digest | None
    builder: str
    platform: Mapping[str, Any]
    outputs: Mapping[str, ClaimedOutput]
    compared: tuple[str, ...]

    @property
    def result(self) -> Mapping[str, Digest]:
        """The compared outputs: two claims agree when these are equal."""
        return {name: self.outputs[name].object for name in self.compared}

    def encode(self) -> bytes:
        """Return the payload that is signed: canonical JSON, the same bytes for the same claim."""
        subjects = [
            Subject(name, {"blake3": str(output.object), "sha256": output.sha256.hex})
            for name, output in sorted(self.outputs.items())
        ]
        predicate = {
            "builder": self.builder,
            "compared": list(self.compared),
            "key": str(self.key),
            "platform": dict(self.platform),
            "platformFreeKey": None
            if self.platform_free_key is None
            else str(self.platform_free_key),
        }
        return statement.encode(subjects, PREDICATE_TYPE, predicate)

    @classmethod
    def decode(cls, payload: bytes) -> "Claim":
        """Parse a payload; `Claim.decode(c.encode()) == c`.

        Raises:
            InvalidInputError: It is no claim, or not exactly the encoding of one.
        """
        found = statement.decode(payload, name="the claim")
        if found.predicate_type != PREDICATE_TYPE:
            raise InvalidInputError(
                "the statement is no claim about a build",
                cause=f"its predicateType is {found.predicate_type!r}, not {PREDICATE_TYPE!r}",
            )
        claim = _from_statement(found)
        if claim.encode() != payload:
            raise InvalidInputError("the claim is malformed", cause="it is not in canonical form")
        return claim


def _from_statement(found: statement.Statement) -> Claim:
    predicate = found.predicate
    if set(predicate) != _PREDICATE_FIELDS:
        raise InvalidInputError(
            "the claim is malformed",
            cause=f"its predicate must have exactly {', '.join(sorted(_PREDICATE_FIELDS))}",
        )
    compared, platform = predicate["compared"], predicate["platform"]
    outputs = {subject.name: _output(subject) for subject in found.subjects}
    if len(outputs) != len(found.subjects):
        raise InvalidInputError("the claim is malformed", cause="two subjects have one name")
    named = isinstance(compared, list) and all(isinstance(each, str) for each in compared)
    if not named or not compared or not set(compared) <= outputs.keys():
        raise InvalidInputError(
            "the claim is malformed", cause="`compared` must name one or more of the outputs"
        )
    if not isinstance(platform, dict) or not isinstance(predicate["builder"], str):
        raise InvalidInputError(
            "the claim is malformed", cause="`platform` must be an object and `builder` a string"
        )
    free = predicate["platformFreeKey"]
    return Claim(
        key=_digest(predicate["key"]),
        platform_free_key=None if free is None else _digest(free),
        builder=predicate["builder"],
        platform=platform,
        outputs=outputs,
        compared=tuple(compared),
    )


def _output(subject: Subject) -> ClaimedOutput:
    if set(subject.digest) != {"blake3", "sha256"}:
        raise InvalidInputError(
            "the claim is malformed", cause="a subject must have exactly a blake3 and a sha256"
        )
    return ClaimedOutput(
        Digest(subject.digest["blake3"]), Sha256(f"sha256:{subject.digest['sha256']}")
    )


def _digest(value: Any) -> Digest:
    if not isinstance(value, str):
        raise InvalidInputError("the claim is malformed", cause="a key must be a string")
    return Digest(value)


def same_result(one: Claim, other: Claim) -> bool:
    """Tell whether two claims of one key say the same of what is compared."""
    return canonical_json.encode(dict(one.result)) == canonical_json.encode(dict(other.result))
