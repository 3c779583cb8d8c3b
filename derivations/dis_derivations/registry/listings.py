"""What registries list: the tags of a repository, and what says something about a manifest."""

import re
from typing import TYPE_CHECKING, Any

from dis_derivations.registry import documents
from dis_derivations.registry.documents import Descriptor, ImageIndex
from dis_derivations.registry.errors import RegistryMismatchError, RegistryRefusedError, nonsense
from dis_derivations.registry.exchange import Call, Exchange, read_all
from dis_derivations.registry.reference import RegistryReference
from dis_derivations.transport.address import Address, UnsafeAddressError
from dis_derivations.transport.client import OK, Answer
from dis_derivations.transport.redirects import followed
from dis_store.digest import Sha256

if TYPE_CHECKING:
    from dis_derivations.registry.client import RegistryClient

_LONGEST_PAGE = 4 << 20
_MOST_TAGS = 200_000
_MOST_PAGES = 2_000
_ON_A_PAGE = 1000
_NEXT = re.compile(r'<([^<>]{1,4096})>\s*;[^,]*\brel="?next"?')


def tags(exchange: Exchange, reference: RegistryReference) -> list[str]:
    """Return the tags of a repository, page by page.

    Raises:
        RegistryError: There is no end of them.
    """
    found: set[str] = set()
    seen: set[str] = set()
    following: Address | None = reference.address(
        f"{reference.repository}/tags/list", f"n={_ON_A_PAGE}"
    )
    while following is not None:
        current = following
        if current.target in seen or len(seen) >= _MOST_PAGES or len(found) > _MOST_TAGS:
            raise nonsense(current, "lists tags without end")
        seen.add(current.target)

        def read(answer: Answer) -> tuple[bytes, str | None]:
            return read_all(answer, _LONGEST_PAGE), answer.headers.get("Link")

        data, link = exchange.perform(Call("GET", current), (OK,), read)
        listed = documents.read_document(data, limit=_LONGEST_PAGE).get("tags") or []
        if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
            raise nonsense(current, "lists no tags")
        found.update(listed)
        following = _next_page(exchange, current, link)
    return sorted(found)


def _next_page(exchange: Exchange, current: Address, link: str | None) -> Address | None:
    match = _NEXT.search(link) if link and len(link) <= 2 * 4096 else None
    if match is None:
        return None
    following = followed(current, current, match[1])
    if following.origin != exchange.home:
        raise UnsafeAddressError(
            f"the list of tags is not followed to {following.place}",
            cause=f"{current.place} leads to another server",
        )
    return following


def referrers(
    client: "RegistryClient", reference: RegistryReference, artifact_type: str
) -> list[Descriptor]:
    """Return what says something about a manifest, see `RegistryClient.referrers`."""
    digest = Sha256(reference.target)
    query = f"artifactType={artifact_type}" if artifact_type else ""
    address = reference.address(f"{reference.repository}/referrers/{digest}", query)

    def read(answer: Answer) -> tuple[bytes, str]:
        return read_all(answer, _LONGEST_PAGE), answer.headers.get("Content-Type", "")

    try:
        data, kind = client.exchange(reference).perform(
            Call("GET", address, {"Accept": documents.INDEX}), (OK,), read
        )
        listed = documents.read_index(data) if kind.startswith(documents.INDEX) else None
    except RegistryRefusedError as error:
        if not error.is_missing:
            raise
        listed = None
    if listed is None:
        listed = _fallback(client, reference, digest)
    wanted = ("", artifact_type) if artifact_type else None
    return [each for each in listed.manifests if wanted is None or each.artifact_type in wanted]


def fallback_tag(digest: Sha256) -> str:
    """Return the tag that stands for the list of what refers to a manifest."""
    return f"sha256-{digest.hex}"


def _fallback(client: "RegistryClient", reference: RegistryReference, digest: Sha256) -> ImageIndex:
    try:
        found = client.manifest(reference.with_tag(fallback_tag(digest)))
    except RegistryRefusedError as error:
        if error.is_missing:
            return ImageIndex(())
        raise
    return found.index()


def enter_referrer(
    client: "RegistryClient", reference: RegistryReference, data: bytes, media_type: str
) -> None:
    """Enter a manifest with a subject into the list under the tag of that subject.

    Two who do this at the same moment may lose one of the two entries: registries offer no way to notice.

    Raises:
        RegistryMismatchError: The manifest has no subject.
    """
    document = documents.read_document(data)
    subject = _digest_of(document.get("subject"))
    entry = Descriptor(
        media_type,
        Sha256.of(data),
        len(data),
        document.get("annotations") or {},
        document.get("artifactType") or (document.get("config") or {}).get("mediaType", ""),
    )
    known = _fallback(client, reference, subject)
    others = [each for each in known.manifests if each.digest != entry.digest]
    listed = ImageIndex((*others, entry), known.artifact_type, known.annotations)
    client.push_manifest(
        reference.with_tag(fallback_tag(subject)), listed.encode(), documents.INDEX
    )


def _digest_of(subject: Any) -> Sha256:
    if not isinstance(subject, dict) or not isinstance(subject.get("digest"), str):
        raise RegistryMismatchError("a manifest has no subject")
    return Sha256(subject["digest"])
