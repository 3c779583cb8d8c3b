"""What a closure knows of its builds, as it travels: derivations, and records of builds with who vouches for them.

Who built, on which machine, stays at home: a record travels without the names of host and user.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from dis_derivations.distribution import layout
from dis_derivations.graph.derivation import Derivation
from dis_derivations.graph.keys import build_key, fixed_output_key
from dis_derivations.trust.claim import Claim, ClaimedOutput
from dis_derivations.trust.signed_document import SignedDocument, hint_text
from dis_store import Realisation, Store, canonical_json, strict_json
from dis_store.digest import Digest, Sha256
from dis_store.errors import DisError, IntegrityError, InvalidInputError
from dis_store.tree import Tree

_FORMAT = 1
_TYPE = "build records"
MOST_ENVELOPES = 64
_LONGEST = 16 << 20


@dataclass(frozen=True)
class TravellingBuild:
    """A build as one store tells another one of it.

    Attributes:
        realisation: Its record, without host and user.
        sha256: Of the tree manifest of each output, by name: what signatures are over.
        envelopes: Signed documents that vouch for it, as JSON.
    """

    realisation: Realisation
    sha256: Mapping[str, Sha256]
    envelopes: tuple[bytes, ...] = ()

    def claim(self, derivation: Derivation | None) -> Claim:
        """Return what a signature must vouch for.

        Raises:
            InvalidInputError: It has an output whose SHA-256 is not told.
        """
        record = self.realisation
        if self.sha256.keys() != record.outputs.keys():
            raise InvalidInputError(
                "a build is refused", cause="its outputs are not those it tells"
            )
        return Claim(
            key=record.key,
            platform_free_key=None if derivation is None else platform_free_key(derivation, record),
            builder=record.builder,
            platform=record.platform,
            outputs={
                name: ClaimedOutput(digest, self.sha256[name])
                for name, digest in record.outputs.items()
            },
            compared=record.compared,
        )

    def signers(self) -> list[Sha256]:
        """Return the fingerprints of the keys that its signatures name; nothing of that is verified."""
        found: dict[Sha256, None] = {}
        for data in self.envelopes:
            with suppress(DisError):
                document = SignedDocument.decode(data)
                if Claim.decode(document.envelope.statement_payload()).key == self.realisation.key:
                    found |= dict.fromkeys(map(Sha256, map(hint_text, sorted(document.hints))))
        return list(found)

    def to_json(self) -> dict[str, Any]:
        """Return it as documents hold it."""
        return {
            "record": strict_json.decode(self.realisation.encode(), name="a record"),
            "sha256": dict(self.sha256),
            "signatures": [strict_json.decode(each, name="a signature") for each in self.envelopes],
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "TravellingBuild":
        """Parse it.

        Raises:
            DisError, KeyError, TypeError, AttributeError: It is malformed.
        """
        record = Realisation.decode(canonical_json.encode(document["record"]))
        envelopes = document["signatures"]
        if not isinstance(envelopes, list) or len(envelopes) > MOST_ENVELOPES:
            raise InvalidInputError("a build is refused", cause="it has too many signatures")
        return cls(
            travelling(record),
            {name: Sha256(each) for name, each in document["sha256"].items()},
            tuple(canonical_json.encode(each) for each in envelopes),
        )


def travelling(record: Realisation) -> Realisation:
    """Return a record without what is nobody else's business, as one that came from elsewhere."""
    return replace(record, host="", user="", origin="substituted", sequence=0)


def facts_of(record: Realisation) -> Mapping[str, Any]:
    """Return the facts of the platform that are in the key of a build."""
    facts = record.platform.get("facts", {})
    return facts if isinstance(facts, dict) else {}


def platform_free_key(derivation: Derivation, record: Realisation) -> Digest:
    """Return the key of a build without the facts of its platform: the same for builders on all machines."""
    return build_key(derivation, {name: each.object for name, each in record.inputs.items()}, {})


def travelling_build(store: Store, record: Realisation) -> TravellingBuild:
    """Return a build of the store, all of whose outputs are there, as it travels, with the signatures that it has."""
    sha256 = {
        name: Sha256.of(store.tree(digest).encode()) for name, digest in record.outputs.items()
    }
    signed = sorted(store.signatures(record.key).items())
    return TravellingBuild(
        travelling(record), sha256, tuple(data for _, data in signed[:MOST_ENVELOPES])
    )


@dataclass(frozen=True)
class BuildRecords:
    """Builds, and the derivations that they and their inputs are builds of, inputs first.

    Attributes:
        root: The object that was sent.
        derivation: What it was built by; None where it was not built.
        key: What that build is remembered by.
    """

    root: Digest
    derivation: Digest | None
    key: Digest | None
    derivations: tuple[bytes, ...]
    builds: tuple[TravellingBuild, ...]

    def encode(self) -> bytes:
        """Return the document: canonical JSON."""
        return canonical_json.encode(
            {
                "type": _TYPE,
                "format": _FORMAT,
                "root": self.root,
                "derivation": self.derivation,
                "key": self.key,
                "derivations": [
                    strict_json.decode(each, name="a derivation") for each in self.derivations
                ],
                "builds": [each.to_json() for each in self.builds],
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> "BuildRecords":
        """Parse a document; whether the builds fit their derivations is for `fitting`.

        Raises:
            IntegrityError: It is malformed.
        """
        document = decode_document(data, _TYPE)
        try:
            return cls(
                Digest(document["root"]),
                _optional(document["derivation"]),
                _optional(document["key"]),
                tuple(canonical_json.encode(each) for each in document["derivations"]),
                tuple(map(TravellingBuild.from_json, document["builds"])),
            )
        except (DisError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise _malformed(error) from error


def decode_document(data: bytes, kind: str) -> dict[str, Any]:
    """Return a document of builds as JSON.

    Raises:
        IntegrityError: It is none of that kind and of a known format.
    """
    if len(data) > _LONGEST:
        raise IntegrityError("what a registry tells of builds is refused", cause="it is too long")
    try:
        document = strict_json.decode(data, name="what a registry tells of builds")
    except InvalidInputError as error:
        raise _malformed(error) from error
    if not isinstance(document, dict) or document.get("type") != kind:
        raise IntegrityError(
            "what a registry tells of builds is refused", cause="it is something else"
        )
    if document.get("format") != _FORMAT:
        raise IntegrityError(
            "what a registry tells of builds is refused",
            cause=f"its format is not {_FORMAT}, the one that this version of dis knows",
        )
    return document


def _malformed(error: Exception) -> IntegrityError:
    cause = (error.cause or error.what) if isinstance(error, DisError) else type(error).__name__
    return IntegrityError("what a registry tells of builds is malformed", cause=cause)


def _optional(value: Any) -> Digest | None:
    return None if value is None else Digest(value)


def fitting(records: BuildRecords) -> list[tuple[Derivation, TravellingBuild]]:
    """Return those builds whose record is what their derivation says, inputs first; the others are of no use.

    A record says which derivation it is a build of. Believing that unseen would let a build of one thing stand for
    another: so its key is computed again from the derivation, from the objects that the builds of its inputs gave, and
    from the facts that it tells.
    """
    derivations = {}
    for data in records.derivations:
        try:
            derivation = Derivation.decode(data)
        except DisError:
            continue
        derivations[derivation.digest] = derivation
    found: dict[Digest, TravellingBuild] = {}
    result = []
    for digest, derivation in derivations.items():
        for build in records.builds:
            if may_be_of(derivation, build.realisation) and _fits(derivation, build, found):
                found.setdefault(digest, build)
                result.append((derivation, build))
    return result


def may_be_of(derivation: Derivation, record: Realisation) -> bool:
    """Tell whether a record says that it is of a derivation.

    Files that were taken in for a lock are of no derivation yet, and every one that names the same files will do.
    """
    if record.derivation is not None:
        return record.derivation == derivation.digest
    files = derivation.fixed_files
    return files is not None and fixed_output_key(files) == record.key


def _fits(
    derivation: Derivation, build: TravellingBuild, known: Mapping[Digest, TravellingBuild]
) -> bool:
    record = build.realisation
    for name, source in derivation.inputs.items():
        origin, given = known.get(source.derivation), record.inputs.get(name)
        if origin is None or given is None:
            return False
        if origin.realisation.outputs.get(source.output) != given.object:
            return False
    return is_build_of(derivation, record)


def is_build_of(derivation: Derivation, record: Realisation) -> bool:
    """Tell whether a record says what a build of a derivation with these inputs must say."""
    same = (
        record.builder == derivation.builder
        and tuple(record.compared) == derivation.compared
        and set(record.outputs) == set(derivation.outputs)
        and set(record.inputs) == set(derivation.inputs)
        and record.platform.get("class") == derivation.platform
    )
    if not same:
        return False
    inputs = {name: each.object for name, each in record.inputs.items()}
    return build_key(derivation, inputs, facts_of(record)) == record.key


def proves_itself(store: Store, derivation: Derivation, record: Realisation) -> bool:
    """Tell whether the files of a build that is in the store are those that its key names, so that nobody need vouch.

    That is so for fixed outputs: their key is made of the digests of their files.
    """
    if derivation.fixed_files is None or not store.protect_all(record.outputs.values()):
        return False
    compared = [record.outputs[name] for name in record.compared]
    return len(compared) == 1 and _key_of_files(store, store.tree(compared[0])) == record.key


def _key_of_files(store: Store, tree: Tree) -> Digest | None:
    if tree.references:
        return None
    files = []
    for entry in tree.files:
        sha256 = store.sha256_of(entry.blake3)
        if sha256 is None:
            return None
        files.append(
            {
                "path": entry.path,
                "size": entry.size,
                "sha256": str(sha256),
                "executable": entry.executable,
            }
        )
    return fixed_output_key(files)


def claims_document(builds: Iterable[TravellingBuild]) -> bytes:
    """Return the document that one signer's claims of one platform-free key are kept in: one for each key, sorted."""
    ordered = sorted(builds, key=lambda each: each.realisation.key)
    return canonical_json.encode(
        {"type": layout.CLAIMS, "format": _FORMAT, "builds": [each.to_json() for each in ordered]}
    )


def read_claims(data: bytes) -> Sequence[TravellingBuild]:
    """Return the builds of a document of claims.

    Raises:
        IntegrityError: It is malformed.
    """
    document = decode_document(data, layout.CLAIMS)
    try:
        return [TravellingBuild.from_json(each) for each in document["builds"]]
    except (DisError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise _malformed(error) from error
