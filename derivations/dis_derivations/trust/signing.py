"""Signing what this store built: which builds a root stands for, what is claimed of each, and where it goes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dis_derivations.graph.derivation import Derivation
from dis_derivations.graph.keys import build_key
from dis_derivations.realisation.build_logs import BUILDER_DOCUMENT
from dis_derivations.trust.claim import Claim, ClaimedOutput
from dis_derivations.trust.provenance import encode_provenance
from dis_derivations.trust.statement import PAYLOAD_TYPE
from dis_store import strict_json
from dis_store.digest import Digest, Sha256
from dis_store.errors import DisError, InvalidInputError

if TYPE_CHECKING:
    from dis_derivations.trust.private_key import PrivateKey
    from dis_store import Realisation
    from dis_store.reading import StoreReader
    from dis_store.store import Store

Obstacle = Literal["", "fixed output", "not built here", "not whole"]


@dataclass(frozen=True)
class Build:
    """A build that a root stands for.

    Attributes:
        record: The record of the build: the first that was made here and whose outputs are whole; where there is none,
            the first.
        derivation: What was built, where the store still knows it.
        obstacle: Why nobody signs it. `fixed output`: its files are known by digest, so that nobody need vouch for
            them. `not built here`: it came from elsewhere; who built it may sign it. `not whole`: an output is gone.
    """

    record: "Realisation"
    derivation: Derivation | None
    obstacle: Obstacle

    @property
    def name(self) -> str:
        """What people know the build by."""
        return self.record.builder if self.derivation is None else self.derivation.name


def builds_under(store: "StoreReader", key: Digest) -> Iterator[Build]:
    """Yield the builds that a key stands for, its own first, then those of its inputs.

    Args:
        store: The store.
        key: What a root was realised by.
    """
    seen = {key}
    pending = [key]
    while pending:
        records = store.realisations(pending.pop(0))
        if not records:
            continue
        build = _chosen(store, records)
        yield build
        for each in build.record.inputs.values():
            if each.key is not None and each.key not in seen:
                seen.add(each.key)
                pending.append(each.key)


def all_builds(store: "StoreReader", ref: str) -> list[Build]:
    """Return the builds that a REF stands for, each once.

    Raises:
        InvalidInputError: As `keys_of`.
    """
    found = [build for key in keys_of(store, ref) for build in builds_under(store, key)]
    return list({build.record.key: build for build in found}.values())


def keys_of(store: "StoreReader", ref: str) -> tuple[Digest, ...]:
    """Return the keys that a REF stands for: that of its root, or those that its object came out of.

    Raises:
        InvalidInputError: It names nothing that a build made.
    """
    from dis_derivations.runs.reference import resolve

    resolved = resolve(store, ref)  # type: ignore[arg-type]  # it only asks
    if resolved.entry is not None and resolved.entry.key is not None:
        return (resolved.entry.key,)
    found = tuple(dict.fromkeys(each.key for each in store.builds_of(resolved.object())))
    if not found:
        raise InvalidInputError(
            f"{ref} was made by no build that the store knows",
            cause="only what a build made can be claimed and signed",
        )
    return found


def claim_of(store: "StoreReader", build: Build) -> Claim:
    """Return what a build gave, as it can be signed.

    Raises:
        IntegrityError: An output is not in the store.
    """
    record = build.record
    return Claim(
        key=record.key,
        platform_free_key=_platform_free_key(build),
        builder=record.builder,
        platform=record.platform,
        outputs={
            name: ClaimedOutput(digest, _sha256_of_tree(store, digest))
            for name, digest in record.outputs.items()
        },
        compared=record.compared,
    )


def payloads_of(store: "StoreReader", build: Build) -> tuple[bytes, bytes]:
    """Return the payloads that are signed for a build: the claim, and the provenance.

    Raises:
        IntegrityError: An output is not in the store.
    """
    claim = claim_of(store, build)
    sources = build.record.inputs
    known = {
        name: _sha256_of_tree(store, each.object)
        for name, each in sources.items()
        if store.is_valid(each.object)
    }
    version = _version_of_dis(store, build)
    provenance = encode_provenance(claim, build.record, build.derivation, known, version)
    return claim.encode(), provenance


def sign_builds(store: "Store", builds: Sequence[Build], key: "PrivateKey") -> list[bytes]:
    """Sign the claim and the provenance of builds; keep both beside their records, and return the Sigstore bundles.

    Builds with an obstacle are left out. Signing twice gives the same bytes.

    Raises:
        IntegrityError: An output is not in the store.
    """
    signed: list[bytes] = []
    for build in builds:
        if build.obstacle:
            continue
        for payload in payloads_of(store, build):
            bundle = key.sign(payload, PAYLOAD_TYPE)
            store.add_signature(build.record.key, bundle)
            signed.append(bundle)
    return signed


def is_fixed_output(builder: str, derivation: Derivation | None) -> bool:
    """Tell whether a build's files are known by digest beforehand, so that nobody need vouch for what came out."""
    return builder == "files" if derivation is None else derivation.fixed_files is not None


def _chosen(store: "StoreReader", records: "Sequence[Realisation]") -> Build:
    derivation = next(filter(None, (_derivation(store, each) for each in records)), None)
    for record in records:
        if is_fixed_output(record.builder, derivation):
            return Build(record, derivation, "fixed output")
        if record.origin == "built" and all(map(store.is_valid, record.outputs.values())):
            return Build(record, _derivation(store, record), "")
    built = any(record.origin == "built" for record in records)
    return Build(records[0], derivation, "not whole" if built else "not built here")


def _derivation(store: "StoreReader", record: "Realisation") -> Derivation | None:
    if record.derivation is None:
        return None
    try:
        return Derivation.decode(store.derivation(record.derivation))
    except DisError:
        return None


def _platform_free_key(build: Build) -> Digest | None:
    """Return the key without facts, if the one with them is what the derivation gives: else nothing is known of it."""
    derivation, record = build.derivation, build.record
    if derivation is None:
        return None
    inputs = {name: each.object for name, each in record.inputs.items()}
    facts = record.platform.get("facts", {})
    if build_key(derivation, inputs, facts) != record.key:
        return None
    return build_key(derivation, inputs, {})


def _version_of_dis(store: "StoreReader", build: Build) -> str | None:
    """Return the version of dis that built, from the log of the build; None where that does not say."""
    log = build.record.outputs.get("log")
    if log is None:
        return None
    try:
        document = strict_json.decode(store.read_bytes(log, BUILDER_DOCUMENT), name="the log")
    except DisError:
        return None
    version = document.get("dis") if isinstance(document, dict) else None
    return version if isinstance(version, str) else None


def _sha256_of_tree(store: "StoreReader", digest: Digest) -> Sha256:
    """Return the SHA-256 of the same bytes whose BLAKE3 names the object: its tree manifest."""
    return Sha256.of(store.tree(digest).encode())
