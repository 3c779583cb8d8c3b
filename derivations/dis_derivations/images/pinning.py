"""That a realisation takes no image that a tag names: tags move, and only `dis lock` follows them."""

import shlex
from collections.abc import Collection

from dis_derivations.manifest.artifact_groups import IMAGE, artifact_groups
from dis_derivations.manifest.loading import LoadedManifest
from dis_store.errors import InvalidInputError


def check_image_pinned(loaded: LoadedManifest, stale: Collection[str] | None) -> None:
    """Refuse a manifest whose image would have to be looked up by its tag.

    Args:
        loaded: The manifest.
        stale: The artifacts that its lock does not pin as they are now; None where there is no lock.

    Raises:
        InvalidInputError: Its image is named by a tag, and no lock pins it.
    """
    for group in artifact_groups(loaded):
        if group.name != IMAGE or group.is_pinned or (stale is not None and IMAGE not in stale):
            continue
        name, tag = group.source.repository, group.source.revision
        raise InvalidInputError(
            f"{loaded.path} names its image by a tag, {name}:{tag}",
            cause="a tag names another image whenever somebody moves it",
            hint=f"pin it: dis lock {shlex.quote(str(loaded.path))}",
        )
