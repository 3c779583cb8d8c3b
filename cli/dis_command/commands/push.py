"""`dis push`: send something, with all that belongs to it, to a registry."""

from typing import TYPE_CHECKING

import click

from dis_command import completion
from dis_command.command import command, dry_run_option, json_option, pass_session, ref_argument
from dis_command.session import Session

if TYPE_CHECKING:
    from dis_derivations.distribution.pushing import Pushed
    from dis_derivations.registry.reference import RegistryReference


@command(
    "push",
    examples=(
        "dis push first oci://registry.example.com/runs:first",
        "dis push first oci://localhost:5000/runs:first --dry-run",
        "dis push first oci://registry.example.com/models:first --as image --base busybox",
    ),
)
@ref_argument()
@click.argument("place", metavar="oci://HOST/REPOSITORY:TAG")
@click.option(
    "--as",
    "form",
    type=click.Choice(["closure", "image"]),
    default="closure",
    help="The whole, or the model alone as an image with its files below /models.  [default: closure]",
)
@click.option(
    "--base",
    metavar="REF",
    shell_complete=completion.references,
    help="Put that image on this one of the store.",
)
@click.option("--outputs-only", is_flag=True, help="Send the object alone, with what it refers to.")
@click.option(
    "--mount-from",
    metavar="REPOSITORY",
    multiple=True,
    help="Take what is there from another repository of the same registry; repeatable.",
)
@click.option(
    "--parts",
    "in_parts",
    is_flag=True,
    help="Cut files of more than 64 MiB where tensors begin, so that a changed one sends little.",
)
@dry_run_option
@json_option
@pass_session
def push(  # noqa: PLR0913, PLR0917 - one parameter an option, passed by name
    session: Session,
    ref: str,
    place: str,
    form: str,
    base: str | None,
    outputs_only: bool,
    mount_from: tuple[str, ...],
    in_parts: bool,
    dry_run: bool,
) -> None:
    """Send something with all that belongs to it to a registry.

    What belongs to a run is what its root keeps: bundle, results, logs, inputs,
    and the records of the builds. Nothing is sent that the registry has. With
    --as image others get the model of it, or all files of another object, as
    an image that they can mount or run.
    """
    from dis_command.transfers import interruptible, root_of_ref, transferring
    from dis_derivations.distribution.kept import kept_by
    from dis_derivations.distribution.pushing import Push, plan_push
    from dis_derivations.registry.client import RegistryClient

    reference = _tagged(place)
    if form == "image":
        if outputs_only or in_parts:
            raise click.UsageError("--outputs-only and --parts are for closures, not for images")
        from dis_command.pushed_images import export_image

        export_image(session, ref, reference, base=base, mount_from=mount_from, dry_run=dry_run)
        return
    if base is not None:
        raise click.UsageError("--base is for --as image")
    with session.open_store() as store, interruptible() as stop:
        kept = kept_by(store, root_of_ref(store, ref), outputs_only=outputs_only)
        with (
            RegistryClient(session.environment) as client,
            session.reporting() as reporter,
            transferring(
                reporter, reference, text="sending", finished="looked at" if dry_run else "sent"
            ) as progress,
        ):
            work = Push(
                client,
                plan_push(store, kept, reference, stop, in_parts=in_parts),
                mount_from=mount_from,
                progress=progress,
                stop=stop,
            )
            pushed = work.look() if dry_run else work.run()
    session.print_result(lambda: _document(pushed, dry_run), lambda: _text(pushed, dry_run))


def _tagged(place: str) -> "RegistryReference":
    from dis_derivations.registry.reference import RegistryReferenceError, parse_reference

    reference = parse_reference(place)
    if reference.tag is None or reference.digest is not None:
        raise RegistryReferenceError(
            f"{place} is no place to push to",
            cause="it must have a tag, and no digest",
            hint=f"give it one: {reference.base}:TAG",
        )
    return reference


def _document(pushed: "Pushed", dry_run: bool) -> dict[str, object]:
    return {
        "schema_version": 1,
        "reference": str(pushed.reference),
        "digest": str(pushed.reference.digest),
        "dry_run": dry_run,
        "objects": pushed.objects,
        "bytes": pushed.size,
        "sent_bytes": pushed.sent,
        "mounted_bytes": pushed.mounted,
    }


def _text(pushed: "Pushed", dry_run: bool) -> str:
    if not dry_run:
        return str(pushed.reference)
    from dis_command.terminal import count_text, size_text

    return (
        f"{pushed.reference}\n{count_text(pushed.objects, 'object')}, {size_text(pushed.size)}; "
        f"{size_text(pushed.sent)} would be sent"
    )
