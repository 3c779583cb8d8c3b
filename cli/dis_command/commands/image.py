"""`dis image`: the container images in the store."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dis_command import completion
from dis_command.command import command, json_option, pass_session, ref_argument
from dis_command.image_trust import image_check_of
from dis_command.lazy_group import LazyCommand, LazyGroup
from dis_command.session import Session

if TYPE_CHECKING:
    from dis_derivations.images.from_environment import MadeImage
    from dis_derivations.images.stored_image import StoredImage
    from dis_store import Store

_MODULE = "dis_command.commands.image"


@click.group(
    "image",
    cls=LazyGroup,
    examples=("dis image ls", "dis image inspect 1a2b3c4d", "dis image load 1a2b3c4d"),
    lazy={
        "ls": LazyCommand(_MODULE, "ls", "List the images in the store."),
        "inspect": LazyCommand(_MODULE, "inspect", "Describe an image in the store."),
        "load": LazyCommand(_MODULE, "load", "Load an image from the store into Docker."),
        "from-environment": LazyCommand(
            _MODULE, "from_environment", "Make an image of a Python environment."
        ),
    },
)
def image() -> None:
    """Keep, describe, load and make container images."""


@command("ls", examples=("dis image ls", "dis image ls --json"))
@json_option
@pass_session
def ls(session: Session) -> None:
    """List the images in the store."""
    from dis_derivations.images.stored_image import is_image, read_stored

    with session.open_store(reading=True) as store:
        found = [
            read_stored(store, digest) for digest in store.objects() if is_image(store, digest)
        ]
    session.print_result(
        lambda: {"schema_version": 1, "images": [_document(each) for each in found]},
        lambda: _table(found),
    )


@command("inspect", examples=("dis image inspect 1a2b3c4d", "dis image inspect engine --json"))
@ref_argument()
@json_option
@pass_session
def inspect(session: Session, ref: str) -> None:
    """Describe an image in the store.

    REF is an image, or a closure that has one. Documents are compared with
    their digests. No Docker engine is needed.
    """
    stored = _stored(session, ref)
    session.print_result(lambda: _full_document(stored), lambda: _text(stored))


@command(
    "load",
    examples=(
        "dis image load 1a2b3c4d",
        "dis image load 1a2b3c4d --image ghcr.io/acme/engine",
    ),
)
@ref_argument()
@click.option(
    "--image",
    "named",
    metavar="NAME",
    help="Which registry is asked who vouches for it.  [default: as the runs in the store name it]",
)
@json_option
@pass_session
def load(session: Session, ref: str, named: str | None) -> None:
    """Load an image from the store into Docker.

    Prints what Docker calls it, which is compared with the pinned digests. An
    image that Docker has is not sent again. Where the setting image-trust asks
    for an attestation, an image that has none is not loaded.
    """
    from dis_derivations.images.docker_engine import DockerEngine
    from dis_derivations.images.docker_loading import load_image
    from dis_derivations.images.stored_image import read_stored
    from dis_derivations.runs.reference import resolve

    with session.open_store() as store:
        stored = read_stored(store, resolve(store, ref).object())
        _check_vouched(session, store, stored, named)
        with DockerEngine.connect(session.environment) as engine:
            name = load_image(store, engine, stored)
    session.print_result(
        lambda: {"schema_version": 1, "object": str(stored.object), "docker_id": str(name)},
        lambda: str(name),
    )


@command(
    "from-environment",
    examples=("dis image from-environment 1a2b3c4d --name engine",),
)
@ref_argument("environment", "PYTHON-ENV")
@click.option(
    "--python",
    type=click.Path(path_type=Path),
    metavar="PATH",
    shell_complete=completion.files,
    help="The interpreter to put in.  [default: the one that runs dis]",
)
@click.option(
    "--program",
    "programs",
    multiple=True,
    metavar="NAME",
    help="Put in a program of this machine as well, into /bin; repeatable.",
)
@click.option("--name", metavar="ROOT", help="Keep the image under a name.")
@json_option
@pass_session
def from_environment(
    session: Session,
    environment: str,
    python: Path | None,
    programs: tuple[str, ...],
    name: str | None,
) -> None:
    """Make an image of a Python environment.

    PYTHON-ENV is an environment in the store. The image holds it, the
    interpreter with its standard library, the programs that are named, the
    shared libraries of all of them, and nothing else. The same of these make
    the same image, byte for byte. vLLM on a CPU starts sh and lscpu. Prints
    the digest that pins it, and where it is: a manifest may name both, as
    runtime.execution.vllm_image and vllm_image_path.
    """
    import sys

    from dis_derivations.images.from_environment import image_from_environment
    from dis_derivations.runs.reference import resolve
    from dis_store import Root
    from dis_store.roots import check_name

    if name is not None:
        check_name(name)
    with session.open_store() as store:
        digest = resolve(store, environment).object()
        made = image_from_environment(store, digest, python or Path(sys.executable), programs)
        path = store.object_path(made.object)
        if name is not None:
            store.set_root(name, Root(object=made.object))
    if made.missing:
        session.say(
            f"note: not on this machine, and so not in the image: {', '.join(made.missing)}"
        )
    session.print_result(lambda: _made_document(made, path), lambda: f"{made.manifest}\n{path}")


def _stored(session: Session, ref: str) -> "StoredImage":
    from dis_derivations.images.stored_image import read_stored
    from dis_derivations.runs.reference import resolve

    with session.open_store(reading=True) as store:
        return read_stored(store, resolve(store, ref).object())


def _check_vouched(
    session: Session, store: "Store", stored: "StoredImage", named: str | None
) -> None:
    """Refuse an image that nobody vouches for, where the settings ask for that."""
    from dis_derivations.images.known_names import known_as, named_image

    check = image_check_of(session)
    if check is None:
        return
    image = known_as(store, stored) if named is None else named_image(named, stored)
    with session.reporting() as reporter:
        check(image.name, image.pinned, reporter)


def _document(stored: "StoredImage") -> dict[str, Any]:
    resolved = stored.image
    return {
        "object": str(stored.object),
        "manifest": str(resolved.manifest.digest),
        "config": str(resolved.content.config.digest),
        "platform": str(resolved.config.platform),
        "layers": len(resolved.content.layers),
        "size": stored.size,
    }


def _full_document(stored: "StoredImage") -> dict[str, Any]:
    config = stored.image.config
    return {
        "schema_version": 1,
        **_document(stored),
        "layers": [
            {**layer.to_json(), "diff_id": str(diff_id)}
            for layer, diff_id in zip(stored.image.content.layers, config.diff_ids, strict=True)
        ],
        "entrypoint": list(config.entrypoint),
        "command": list(config.command),
        "environment": list(config.environment),
        "user": config.user,
        "working_directory": config.working_directory,
    }


def _made_document(made: "MadeImage", path: Path) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "object": str(made.object),
        "path": str(path),
        "manifest": str(made.manifest),
        "config": str(made.config),
        "layers": [{"content": text, "size": size} for text, size in made.layers],
        "missing": list(made.missing),
    }


def _table(found: "list[StoredImage]") -> str:
    from dis_command.table import aligned
    from dis_command.terminal import size_text

    if not found:
        return "there are no images in the store"
    head = ("OBJECT", "MANIFEST", "PLATFORM", "LAYERS", "SIZE")
    rows = [
        (
            each.object[:12],
            each.image.manifest.digest[:19],
            str(each.image.config.platform),
            str(len(each.image.content.layers)),
            size_text(each.size),
        )
        for each in found
    ]
    return aligned([head, *rows])


def _text(stored: "StoredImage") -> str:
    from dis_command.table import aligned
    from dis_command.terminal import size_text

    config, content = stored.image.config, stored.image.content
    rows = [
        ("object", str(stored.object)),
        ("manifest", str(stored.image.manifest.digest)),
        ("config", str(content.config.digest)),
        ("platform", str(config.platform)),
        ("size", size_text(stored.size)),
        ("starts", " ".join((*config.entrypoint, *config.command)) or "nothing"),
        ("as", config.user or "root"),
        *(
            (f"layer {number}", f"{layer.digest}  {size_text(layer.size)}")
            for number, layer in enumerate(content.layers, 1)
        ),
    ]
    return aligned(rows)
