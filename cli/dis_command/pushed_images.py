"""`dis push --as image`: the model of something as a container image in a registry."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dis_command.session import Session

if TYPE_CHECKING:
    from dis_derivations.distribution.image_pushing import PushedImage
    from dis_derivations.images.stored_image import StoredImage
    from dis_derivations.registry.reference import RegistryReference
    from dis_store import Store


def export_image(
    session: Session,
    ref: str,
    reference: "RegistryReference",
    *,
    base: str | None,
    mount_from: Sequence[str],
    dry_run: bool,
) -> None:
    """Send the model that a REF names as an image, and print where it is.

    Args:
        session: The command's.
        ref: What is exported: of a run, the model that it ran.
        reference: Where it goes, with a tag.
        base: The REF of the image below; None for none.
        mount_from: Other repositories of the same registry that may have some of it.
        dry_run: Whether it is only said what would be sent.

    Raises:
        DisError: It cannot be made, or the registry refuses it.
    """
    from dis_command.transfers import interruptible, root_of_ref, transferring
    from dis_derivations.distribution.image_pushing import look_at_image, push_image
    from dis_derivations.distribution.kept import kept_by, model_of
    from dis_derivations.distribution.model_image import model_image
    from dis_derivations.distribution.sending import Sending
    from dis_derivations.registry.client import RegistryClient

    with session.open_store() as store, interruptible() as stop:
        below = None if base is None else _base(store, base)
        exported = model_of(kept_by(store, root_of_ref(store, ref), outputs_only=False))
        with (
            RegistryClient(session.environment) as client,
            session.reporting() as reporter,
            transferring(
                reporter, reference, text="sending", finished="looked at" if dry_run else "sent"
            ) as progress,
        ):
            made = model_image(store, exported, below, stop.check)
            sending = Sending(client, reference, mount_from, progress, stop)
            pushed = look_at_image(sending, made) if dry_run else push_image(sending, made)
    session.print_result(lambda: _document(pushed, dry_run), lambda: _text(pushed, dry_run))


def _base(store: "Store", ref: str) -> "StoredImage":
    from dis_derivations.images.stored_image import read_stored
    from dis_derivations.runs.reference import resolve
    from dis_store.errors import MissingObjectError

    digest = resolve(store, ref).object()
    if not store.protect(digest):
        raise MissingObjectError(f"the object {digest} is not in the store any more")
    return read_stored(store, digest)


def _document(pushed: "PushedImage", dry_run: bool) -> dict[str, object]:
    return {
        "schema_version": 1,
        "reference": str(pushed.reference),
        "digest": str(pushed.reference.digest),
        "dry_run": dry_run,
        "image": str(pushed.image.config),
        "platform": str(pushed.image.platform),
        "files": pushed.image.files,
        "layers": pushed.image.layers,
        "bytes": pushed.image.size,
        "sent_bytes": pushed.sent,
        "mounted_bytes": pushed.mounted,
    }


def _text(pushed: "PushedImage", dry_run: bool) -> str:
    if not dry_run:
        return str(pushed.reference)
    from dis_command.terminal import count_text, size_text

    image = pushed.image
    return (
        f"{pushed.reference}\n{count_text(image.files, 'file')} in {count_text(image.layers, 'layer')}, "
        f"{size_text(image.size)}; {size_text(pushed.sent)} would be sent"
    )
