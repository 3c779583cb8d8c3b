"""Claims about single builds in a repository, under tags that are made of what was built and of who vouches for it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dis_derivations.distribution import layout
from dis_derivations.distribution.build_records import (
    BuildRecords,
    TravellingBuild,
    claims_document,
    fitting,
    platform_free_key,
    read_claims,
)
from dis_derivations.graph.derivation import Derivation
from dis_derivations.registry.client import BLOBS_AT_ONCE, RegistryClient
from dis_derivations.registry.documents import (
    EMPTY,
    EMPTY_CONFIG,
    MANIFEST,
    Descriptor,
    ImageManifest,
    malformed,
)
from dis_derivations.registry.errors import RegistryRefusedError
from dis_derivations.registry.reference import RegistryReference
from dis_store.digest import Digest, Sha256

if TYPE_CHECKING:
    from dis_derivations.distribution.workers import Stop

_LONGEST = 4 << 20


def push_claims(
    client: RegistryClient,
    reference: RegistryReference,
    records: BuildRecords,
    stop: "Stop",
) -> None:
    """Put a claim about each build into a repository, beside those of other platforms that are there.

    It goes under a tag for each key that signed it, or under one that says that nobody did. Two who do this for one
    build and one signer at the same moment may lose one of the two claims: registries offer no way to notice, and the
    next push puts it back.

    Raises:
        RegistryRefusedError, TransferError: The registry refuses, or cannot be reached.
    """
    from dis_derivations.distribution.workers import work_on

    def push(item: tuple[Derivation, TravellingBuild]) -> None:
        derivation, build = item
        stop.check()
        key = platform_free_key(derivation, build.realisation)
        signers: list[Sha256 | None] = [*build.signers()]
        for signer in signers or [None]:
            place = reference.with_tag(layout.claims_tag(key, signer))
            known = {each.realisation.key: each for each in _known(client, place)}
            data = claims_document({**known, build.realisation.key: build}.values())
            if claims_document(known.values()) != data:
                _put(client, place, data)

    # Several derivations of one key would write to one tag.
    unique = {build.realisation.key: (derivation, build) for derivation, build in fitting(records)}
    work_on(list(unique.values()), push, stop, jobs=BLOBS_AT_ONCE)


def _known(client: RegistryClient, place: RegistryReference) -> Sequence[TravellingBuild]:
    from dis_store.errors import IntegrityError

    try:
        return fetch_claims(client, place)
    except IntegrityError:
        return ()  # what is malformed is replaced


def fetch_claims(client: RegistryClient, place: RegistryReference) -> Sequence[TravellingBuild]:
    """Return the claims under a tag; none where there is no such tag.

    Raises:
        IntegrityError: They are malformed.
        RegistryRefusedError, TransferError: The registry refuses, or cannot be reached.
    """
    try:
        found = client.manifest(place)
    except RegistryRefusedError as error:
        if error.is_missing:
            return ()
        raise
    manifest = found.manifest()
    if manifest.kind != layout.CLAIMS or len(manifest.layers) != 1:
        raise malformed("it holds no claims about builds")
    (layer,) = manifest.layers
    if layer.size > _LONGEST:
        raise malformed("it holds too many claims about builds")
    return read_claims(client.read_blob(place, layer.digest, layer.size))


def claims_of(
    client: RegistryClient, base: RegistryReference, key: Digest, signers: Sequence[Sha256 | None]
) -> list[TravellingBuild]:
    """Return what signers claim about builds of a platform-free key; None stands for nobody.

    Raises:
        IntegrityError, RegistryRefusedError, TransferError: As `fetch_claims`.
    """
    found: list[TravellingBuild] = []
    for signer in signers:
        found += fetch_claims(client, base.with_tag(layout.claims_tag(key, signer)))
    return found


def _put(client: RegistryClient, place: RegistryReference, data: bytes) -> None:
    client.push_bytes(place, EMPTY)
    digest = client.push_bytes(place, data)
    manifest = ImageManifest(
        Descriptor(EMPTY_CONFIG, Sha256.of(EMPTY), len(EMPTY)),
        (Descriptor(layout.CLAIMS_LAYER, digest, len(data)),),
        layout.CLAIMS,
        {layout.FORMAT_NAME: layout.FORMAT},
    )
    client.push_manifest(place, manifest.encode(), MANIFEST)
