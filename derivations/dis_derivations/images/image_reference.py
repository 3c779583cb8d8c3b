"""How a manifest names an image: as Docker does, by a digest or by a tag."""

from dataclasses import replace

from dis_derivations.registry.reference import RegistryReference, parse_image_reference

_DEFAULT_TAG = "latest"


def image_reference(text: str) -> RegistryReference:
    """Return what `NAME[:TAG][@sha256:…]` names; the tag is `latest` where nothing else is written.

    Raises:
        RegistryReferenceError: It is no name of an image.
    """
    reference = parse_image_reference(text)
    if reference.digest is None and reference.tag is None:
        return replace(reference, tag=_DEFAULT_TAG)
    # A tag beside a digest says nothing: the digest does.
    return reference if reference.digest is None else replace(reference, tag=None)


def image_name(reference: RegistryReference) -> str:
    """Return a name of an image as Docker writes it, with its registry always."""
    place = f"{reference.host}/{reference.repository}"
    return f"{place}:{reference.tag}" if reference.digest is None else f"{place}@{reference.digest}"
