"""What a registry holds that vouches for an image, fetched and handed to whoever judges it.

Attestations are found where others put them: as referrers of the manifest or of the index that it was chosen from, and
under the tag `sha256-<hex>.att` where cosign puts them.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from dis_derivations.images.image_reference import image_reference
from dis_derivations.manifest.artifact_groups import IMAGE
from dis_derivations.realisation.events import Event
from dis_store.digest import Sha256
from dis_store.errors import IntegrityError, InvalidInputError, UnfitEnvironmentError

if TYPE_CHECKING:
    from dis_derivations.manifest.loading import LoadedManifest
    from dis_derivations.realisation.events import Reporter
    from dis_derivations.realisation.target import ImageCheck
    from dis_derivations.registry.client import RegistryClient
    from dis_derivations.registry.reference import RegistryReference
    from dis_derivations.trust.attestation_policy import AttestationPolicy

_ENVELOPE = "application/vnd.dsse.envelope.v1+json"
_TRUST_HINT = (
    "trust whoever signed it (trusted-keys, trusted-identities), or set image-trust to warn"
)
_MAX_REFERRERS = 64
_MAX_DOCUMENTS = 64
_MAX_BYTES = 8 << 20


def check_pinned_image(
    check: "ImageCheck | None",
    loaded: "LoadedManifest",
    sources: Mapping[str, Mapping[str, str]],
    reporter: "Reporter",
) -> None:
    """Have the image of a manifest judged as it is pinned. Every lock that is made or used passes here.

    Args:
        check: Who judges; None where nobody need.
        loaded: The manifest; one without an image needs nobody to vouch for it.
        sources: What the lock pins of each artifact.
        reporter: Told what is not vouched for and is used all the same.

    Raises:
        UntrustedError, UnfitEnvironmentError: As `check_image`.
    """
    name = loaded.manifest.runtime.execution.vllm_image
    if check is not None and IMAGE in sources:
        check(name, sources[IMAGE], reporter)


def check_image(
    client: "RegistryClient",
    name: str | None,
    pinned: Mapping[str, str],
    policy: "AttestationPolicy",
    reporter: "Reporter",
) -> None:
    """Refuse an image if nobody vouches for it whom the policy believes.

    Args:
        client: Asks the registry that the image is named after.
        name: As a manifest names it; None where that is not known, so that nobody can be asked.
        pinned: What a lock has of it: `manifest`, and `digest`, which may be that of an index.
        policy: Whose attestations are believed, and what happens where there is none.
        reporter: Told what is not vouched for and is used all the same.

    Raises:
        UntrustedError: Nobody vouches for it, and the policy requires that somebody does.
        UnfitEnvironmentError: The registry does not answer, and the policy requires an attestation.
    """
    from dis_derivations.transport.errors import TransferError
    from dis_derivations.trust.attestations import judge_image

    if policy.mode == "off":
        return
    manifest, root = Sha256(pinned["manifest"]), Sha256(pinned["digest"])
    if name is None:
        why = "it is not known which registry it is from"
        _refuse(str(manifest), [why], policy, reporter, hint="say which one has it: --image NAME")
        return
    reference = image_reference(name)
    reasons: list[str] = []
    try:
        for subject in _subjects(client, reference, manifest, root):
            documents = fetch_attestations(client, reference.with_digest(subject))
            decision = judge_image(documents, subject, policy)
            if decision.vouched:
                signers = ", ".join(decision.signers)
                reporter(Event("note", "image", f"{subject} is vouched for by {signers}"))
                return
            reasons += decision.reasons
    except TransferError as error:
        if policy.mode == "require":
            raise UnfitEnvironmentError(
                f"nobody can be asked who vouches for the image {name}",
                cause=str(error),
                hint=error.hint,
            ) from error
        reasons.append(str(error))
    _refuse(name, reasons, policy, reporter)


def _refuse(
    name: str,
    reasons: list[str],
    policy: "AttestationPolicy",
    reporter: "Reporter",
    hint: str = _TRUST_HINT,
) -> None:
    from dis_derivations.trust.errors import UntrustedError

    cause = "; ".join(dict.fromkeys(reasons))
    if policy.mode == "require":
        raise UntrustedError(
            f"nobody that you trust vouches for the image {name}",
            cause=cause,
            hint=hint,
        )
    reporter(Event("note", "image", f"warning: nobody vouches for {name}: {cause}"))


def fetch_attestations(client: "RegistryClient", reference: "RegistryReference") -> list[bytes]:
    """Return the documents that a registry holds about a manifest, from anybody; nothing of them is verified.

    Args:
        client: Who asks.
        reference: With the digest of the manifest.

    Raises:
        TransferError: The registry cannot be reached, or makes no sense.
    """
    found: list[bytes] = []
    for manifest in _manifests(client, reference):
        for document in _documents(client, reference, manifest):
            found.append(document)
            if len(found) == _MAX_DOCUMENTS:
                return found
    return found


def _subjects(
    client: "RegistryClient", reference: "RegistryReference", manifest: Sha256, root: Sha256
) -> Iterator[Sha256]:
    """Yield what an attestation may be about: the manifest, and an index that has it."""
    from dis_derivations.registry.errors import RegistryMismatchError, RegistryRefusedError

    yield manifest
    if root == manifest:
        return
    try:
        index = client.manifest(reference.with_digest(root)).index()
    except (RegistryMismatchError, RegistryRefusedError):
        return
    # A lock may say anything: the index itself must name the manifest.
    if any(each.digest == manifest for each in index.manifests):
        yield root


def _manifests(client: "RegistryClient", reference: "RegistryReference") -> Iterator[Sha256]:
    from dis_derivations.registry.errors import RegistryMismatchError, RegistryRefusedError

    try:
        referrers = client.referrers(reference)
    except (RegistryMismatchError, RegistryRefusedError):
        referrers = []
    for each in referrers[:_MAX_REFERRERS]:
        yield each.digest
    tag = f"sha256-{Sha256(reference.target).hex}.att"
    found = None
    try:
        found = client.find(reference.with_tag(tag))
    except (RegistryMismatchError, RegistryRefusedError):
        return
    if found is not None:
        yield found


def _documents(
    client: "RegistryClient", reference: "RegistryReference", manifest: Sha256
) -> Iterator[bytes]:
    """Yield the signed documents of an artifact; one that is malformed has none."""
    from dis_derivations.trust.signed_document import MEDIA_TYPE, OTHER_MEDIA_TYPES

    kinds = {MEDIA_TYPE, _ENVELOPE, *OTHER_MEDIA_TYPES}
    try:
        layers = client.manifest(reference.with_digest(manifest)).manifest().layers
        for layer in layers[:_MAX_DOCUMENTS]:
            if layer.media_type in kinds and layer.size <= _MAX_BYTES:
                yield client.read_blob(reference, layer.digest, layer.size)
    except (IntegrityError, InvalidInputError):
        return
