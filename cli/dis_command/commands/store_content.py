"""`dis store add`, `export`, `import`, `optimise`, `stats`: what is in the store, in and out of it."""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from dis_command import completion
from dis_command.command import (
    command,
    dry_run_option,
    force_option,
    job_count,
    json_option,
    pass_session,
    ref_argument,
)
from dis_command.session import Session
from dis_command.taken_files import Taken
from dis_command.terminal import count_text, size_text

if TYPE_CHECKING:
    from dis_store import Census, Digest, Store

_DAMAGED = 4
_STREAM = "-"


@command(
    "add",
    examples=("dis store add model/ --name model", "dis store add --adopt ~/models/tiny.gguf"),
)
@click.argument(
    "paths",
    nargs=-1,
    required=True,
    metavar="PATH...",
    type=click.Path(path_type=Path),
    shell_complete=completion.files,
)
@click.option("--name", metavar="ROOT", help="Keep the object under this name.")
@click.option("--adopt", is_flag=True, help="Move the files into the store, not copy them.")
@dry_run_option
@json_option
@pass_session
def add(
    session: Session, paths: tuple[Path, ...], name: str | None, adopt: bool, dry_run: bool
) -> None:
    """Make objects of files or directories.

    Each PATH becomes an object, and its path in the store is printed. Symlinks,
    devices, empty directories and names that do not work everywhere are refused.
    With --adopt the files move into the store: they are gone from PATH once the
    store has them safely, and the object is kept under a name in any case.
    """
    from dis_command.planned_content import show_additions
    from dis_command.upkeep import adding
    from dis_store import Root, add_path

    if name is not None and len(paths) > 1:
        raise click.UsageError("--name names one object: give one PATH with it")
    added: list[tuple[Path, Digest, Taken]] = []
    with session.open_store() as store:
        if name is not None:
            store.root(name)  # refuses a bad name now, and not after the work
        if dry_run:
            show_additions(session, store, paths, adopt=adopt)
            return
        for path in paths:

            def keep(digest: "Digest", label: str = path.name) -> None:
                if (root := _root_name(digest, name, adopt=adopt)) is not None:
                    store.set_root(root, Root(digest, label=label))

            with session.reporting() as reporter, adding(reporter) as progress:
                # More than there are processors: some of them always wait for the disk.
                taken = Taken()
                digest = add_path(
                    store,
                    path,
                    adopt=adopt,
                    jobs=2 * job_count(None),
                    progress=progress,
                    on_file=taken.add,
                    keep=keep,
                )
            added.append((path, digest, taken))
            session.say(f"note: {taken}")
            root = _root_name(digest, name, adopt=adopt)
            if root != name:
                session.say(f"note: kept as {root}; let go of it: dis root remove {root}")
        if name is None and not adopt:
            _say_unrooted(session)
        session.print_result(
            lambda: [_added(store, *each) for each in added],
            lambda: "\n".join(str(store.object_path(digest)) for _, digest, _ in added),
        )


def _root_name(digest: "Digest", name: str | None, *, adopt: bool) -> str | None:
    # What was moved may be the only copy: no collection shall take it before somebody has thought of a name.
    return f"adopted.{digest[:8]}" if adopt and name is None else name


def _added(store: "Store", path: Path, digest: "Digest", taken: Taken) -> dict[str, object]:
    return {
        "source": str(path),
        "digest": str(digest),
        "path": str(store.object_path(digest)),
        "size": store.object_size(digest),
        "taken": taken.as_json(),
    }


def _say_unrooted(session: Session) -> None:
    session.say("note: no root keeps it, so dis gc frees it; give it one: dis root add NAME DIGEST")


@command(
    "export",
    examples=(
        "dis store export first --output first.tar.zst",
        "dis store export first | ssh far dis store import -",
    ),
)
@ref_argument("refs", "REF...", nargs=-1, required=True)
@click.option(
    "--output",
    metavar="FILE",
    default=_STREAM,
    shell_complete=completion.files,
    help="Where to.  [default: stdout]",
)
@click.option("--zstd", is_flag=True, help="Compress; a FILE that ends in .zst always is.")
@click.option("--after", metavar="HEX", help="Go on after this file, where an import broke off.")
@force_option
@json_option
@pass_session
def export(
    session: Session,
    refs: tuple[str, ...],
    output: str,
    zstd: bool,
    after: str | None,
    force: bool,
) -> None:
    """Write objects with all they refer to as one archive.

    The same objects make the same bytes every time, with the same signatures
    about them, which travel along. It is a tar archive in
    which every file bears its BLAKE3 as its name; dis store import reads it.
    Where an import breaks off, it says after which file to go on.
    """
    from dis_command.upkeep import exporting
    from dis_derivations.runs.reference import resolve
    from dis_store import Digest, export_closures

    last = None if after is None else Digest(after)
    if output == _STREAM and session.as_json:
        raise click.UsageError("the archive goes to stdout: give --output FILE with --json")
    if output == _STREAM and sys.stdout.isatty():
        raise click.UsageError("an archive is nothing for a terminal: give --output FILE")
    with session.open_store() as store:
        digests = [resolve(store, ref).object() for ref in refs]
        with (
            session.reporting() as reporter,
            exporting(reporter) as progress,
            _written(output, replace=force) as stream,
            _packed(stream, wanted=zstd or output.endswith(".zst")) as packed,
        ):
            done = export_closures(store, digests, packed, after=last, progress=progress)
    if output != _STREAM:
        session.print_result(
            lambda: {"schema_version": 1, "path": output, **asdict(done)}, lambda: output
        )


@contextmanager
def _written(output: str, *, replace: bool) -> Iterator[BinaryIO]:
    if output == _STREAM:
        yield sys.stdout.buffer
        return
    from dis_derivations.runs.output_file import appearing

    with appearing(Path(output), replace=replace) as stream:
        yield stream


def _packed(stream: BinaryIO, *, wanted: bool) -> AbstractContextManager[BinaryIO]:
    from dis_store.archives.compression import compressing

    return compressing(stream) if wanted else nullcontext(stream)


@command(
    "import",
    examples=("dis store import first.tar.zst", "ssh far dis store export x | dis store import -"),
)
@click.argument("file", metavar="FILE|-", shell_complete=completion.files)
@dry_run_option
@json_option
@pass_session
def import_(session: Session, file: str, dry_run: bool) -> None:
    """Bring the objects of an archive into the store.

    Nothing is registered before every byte was compared with its digest, and an
    object only with all it refers to. Signatures come along and are believed as
    the settings say. Prints the objects that were exported.
    """
    from dis_command.planned_content import show_import
    from dis_command.upkeep import importing
    from dis_derivations.trust.signed_document import check_statement
    from dis_store import import_closures, plan_import

    name = file if file != _STREAM else "the archive"
    with session.open_store() as store, _opened(file) as stream:
        with session.reporting() as reporter, importing(reporter) as progress:
            if dry_run:
                plan = plan_import(
                    store, stream, name=name, check_signed=check_statement, progress=progress
                )
            else:
                done = import_closures(
                    store, stream, name=name, check_signed=check_statement, progress=progress
                )
        if dry_run:
            show_import(session, plan)
            return
        _say_unrooted(session)
        for digest in done.crowded:
            session.say(
                f"no more signatures of {digest} are kept: the store has as many as it takes"
            )
        session.print_result(
            lambda: {
                "schema_version": 1,
                "roots": [str(digest) for digest in done.roots],
                "objects": done.objects,
                "new": done.new,
                "signatures": done.signatures,
                "crowded": [str(digest) for digest in done.crowded],
            },
            lambda: "\n".join(str(store.object_path(digest)) for digest in done.roots),
        )


@contextmanager
def _opened(file: str) -> Iterator[BinaryIO]:
    from dis_store import InvalidInputError

    if file == _STREAM:
        yield sys.stdin.buffer
        return
    try:
        stream = Path(file).open("rb", buffering=0)  # noqa: SIM115 - only opening it may fail here
    except OSError as error:
        raise InvalidInputError(f"{file} cannot be read", cause=error.strerror) from error
    with stream:
        yield stream


@command("optimise", examples=("dis store optimise",))
@dry_run_option
@json_option
@pass_session
def optimise(session: Session, dry_run: bool) -> int:
    """Let equal files of the store share their space.

    Files are shared as they come in; this finds what is not shared. The exit
    code is 4 when a file is not what it must be.
    """
    from dis_command.upkeep import optimising

    with (
        session.open_store() as store,
        session.reporting() as reporter,
        optimising(reporter) as progress,
    ):
        report = store.optimise(dry_run=dry_run, progress=progress)
    damaged = [str(path) for path in report.damaged]
    did = ("would be shared", "would be freed") if dry_run else ("shared now", "freed")
    text = f"{count_text(report.files, 'file')} {did[0]}, {size_text(report.freed_bytes)} {did[1]}"
    session.print_result(
        lambda: {"schema_version": 1, "dry_run": dry_run, **asdict(report), "damaged": damaged},
        lambda: "\n".join([*(f"damaged: {path}" for path in damaged), text]),
    )
    return _DAMAGED if damaged else 0


@command("stats", examples=("dis store stats", "dis store stats --json"))
@json_option
@pass_session
def stats(session: Session) -> None:
    """Count what the store holds."""
    with session.open_store() as store:
        census = store.census()
    session.print_result(
        lambda: {"schema_version": 1, "path": str(session.store_path), **asdict(census)},
        lambda: _stats_text(census),
    )


def _stats_text(census: "Census") -> str:
    from dis_command.table import aligned

    rows = [
        ("objects", str(census.objects)),
        ("different files", str(census.files)),
        ("size", size_text(census.bytes)),
        ("shared", size_text(census.shared_bytes)),
        ("tensors", str(census.tensors.tensors)),
        ("different tensors", str(census.tensors.distinct)),
        ("tensor bytes held again", size_text(census.tensors.repeated_bytes)),
        *_unscanned(census),
        ("derivations", str(census.derivations)),
        ("builds", str(census.realisations)),
        ("roots", str(census.roots)),
        ("result links", str(census.result_links)),
        ("in quarantine", str(census.quarantined)),
        ("index", size_text(census.index_bytes)),
        ("free space", size_text(census.free_bytes)),
    ]
    return aligned(rows)


def _unscanned(census: "Census") -> list[tuple[str, str]]:
    objects = census.tensors.unscanned_objects
    if objects == 0:
        return []
    return [("not searched for tensors", f"{count_text(objects, 'object')} (dis store reindex)")]
