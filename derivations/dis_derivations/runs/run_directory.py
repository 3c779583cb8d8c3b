"""A run laid out as one directory of real files, which needs no store to be read.

The directory holds the files of the bundle and the run log beside them. It appears whole or not at all.
"""

import os
import secrets
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from dis_derivations.manifest.text_forms import PLACEHOLDER
from dis_derivations.runs.left_out import (
    LEFT_OUT_DOCUMENT,
    LeftOut,
    document,
    has_run_log,
    missing_files,
)
from dis_derivations.runs.output_file import appearing
from dis_store.digest import Digest, Sha256
from dis_store.environment import reading
from dis_store.errors import DisError, InvalidInputError, UnfitEnvironmentError

if TYPE_CHECKING:
    from dis_store import Store

RUN_LOG = "run_log.json"
DEFAULT_TEMPLATE = "runs/${run_id}"
# The log output of a run refers to that of its generation, and has one of its own where there is more to say.
_RUN_LOGS = (RUN_LOG, f"generation/{RUN_LOG}")


def directory_for(template: str | None, *, run_id: Sha256, manifest_name: str) -> Path:
    """Return where a run is laid out, relative to the working directory unless the template is absolute.

    `${run_id}` becomes the 64 digits of the run's id: its `sha256:` tag has a colon, which many tools take for a
    separator.

    Args:
        template: `outputs.directory` of the manifest; None for `runs/${run_id}`.
        run_id: Of the run.
        manifest_name: `metadata.name` of the manifest.

    Raises:
        InvalidInputError: The template has another placeholder, or a name in it leads out of its directory.
    """
    values = {"run_id": run_id.hex, "manifest_name": manifest_name}
    text = template or DEFAULT_TEMPLATE
    for name in PLACEHOLDER.findall(text):
        if name not in values:
            raise InvalidInputError(
                f"outputs.directory has the unknown placeholder ${{{name}}}",
                cause="the placeholders are ${run_id} and ${manifest_name}",
            )
    if "/" in manifest_name or manifest_name in {".", ".."}:
        raise InvalidInputError(
            f"the manifest's name {manifest_name!r} cannot be part of a path",
            hint="name a directory: --run-dir DIR",
        )
    return Path(PLACEHOLDER.sub(lambda match: values[match[1]], text))


def run_id_of(store: "Store", bundle: Digest) -> Sha256:
    """Return the id of a run in the store."""
    from dis_store import strict_json

    document = strict_json.decode(store.read_bytes(bundle, "bundle.json"), name="bundle.json")
    return Sha256(document["run_id"])


def lay_out(
    store: "Store",
    bundle: Digest,
    log: Digest | None,
    directory: Path,
    include: Collection[str] = (),
) -> Path:
    """Write the run as real files into `directory`, and return it.

    Laying out the same run again changes nothing; the run log is then left as it was.

    Args:
        store: Holds the run.
        bundle: The run's bundle.
        log: The log output of the run; without one there is no `run_log.json`.
        directory: Where to; must not exist, be empty, or hold the same run.
        include: Words for what of the run goes there, all of it where there are none; `left_out.json` says what does
            not.

    Raises:
        InvalidInputError: There is something else already. It is left untouched.
        UnfitEnvironmentError: The directory cannot be written.
        IntegrityError: The bundle is not valid in the store.
    """
    missing = missing_files(include)
    if _is_occupied(directory):
        _check_same_run(store, bundle, directory, missing)
        return directory
    files = store.files(bundle)
    sources = {file.path: file.real for file in files if file.path not in missing}
    gaps = [
        LeftOut(file.path, file.size, file.blake3, file.owner, file.own_path)
        for file in sorted(files, key=lambda file: file.path)
        if file.path in missing
    ]
    if has_run_log(include) and (source := run_log_in(store, log)) is not None:
        sources[RUN_LOG] = source
    with _failures_told(directory):
        directory.parent.mkdir(parents=True, exist_ok=True)
        temporary = directory.parent / f".{directory.name}.{secrets.token_hex(8)}"
        try:
            for path, source in sources.items():
                _copy(source, temporary / path)
            if gaps:
                _write(document(bundle, gaps), temporary / LEFT_OUT_DOCUMENT)
            _synchronise(temporary)
            # Replaces an empty directory, and nothing else.
            temporary.rename(directory)
            _synchronise(directory.parent)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return directory


def run_log_in(store: "Store", log: Digest | None) -> Path | None:
    """Return the run log of the log output of a run; None where there is none."""
    if log is None:
        return None
    logs = {file.path: file.real for file in store.files(log)}
    path = run_log_among(logs)
    return None if path is None else logs[path]


def run_log_among(paths: Collection[str]) -> str | None:
    """Return which of the files of a log output is the run log of the run; None where there is none."""
    return next((path for path in _RUN_LOGS if path in paths), None)


def copy_file(source: Path, target: Path, *, replace: bool = False) -> None:
    """Copy one file so that `target` appears whole or not at all; the rest as in `appearing`.

    Raises:
        OutputExistsError: There is a file with other content, which `replace` does not allow to replace.
        UnfitEnvironmentError: It cannot be written.
    """
    with appearing(target, replace=replace) as writer:
        _copy_bytes(source, writer)


def _copy(source: Path, target: Path) -> None:
    """Copy the bytes; the copy belongs to the user, so it is writable and has no time of the store."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("xb") as writer:
        _copy_bytes(source, writer)
        writer.flush()
        os.fsync(writer.fileno())


def _write(data: bytes, target: Path) -> None:
    with target.open("xb") as writer:
        writer.write(data)
        writer.flush()
        os.fsync(writer.fileno())


def _copy_bytes(source: Path, writer: BinaryIO) -> None:
    with source.open("rb") as reader:
        while True:
            # By itself: what cannot be written is another error, and about another place.
            with reading(source):
                piece = reader.read(2**20)
            if not piece:
                return
            writer.write(piece)


def _is_occupied(directory: Path) -> bool:
    if not os.path.lexists(directory):
        return False
    if directory.is_dir():
        return any(directory.iterdir())
    raise InvalidInputError(
        f"{directory} is in the way",
        cause="it is not a directory",
        hint="name another: --run-dir DIR",
    )


def _check_same_run(
    store: "Store", bundle: Digest, directory: Path, missing: Collection[str]
) -> None:
    """Refuse a directory in which a file of the bundle has other bytes, or is missing and not to be left out."""
    from dis_store.hashing import digest_of

    for file in store.files(bundle):
        found = directory / file.path
        hint = "move it away, or name another directory: --run-dir DIR"
        if file.path in missing and not os.path.lexists(found):
            continue
        if not found.is_file():
            raise InvalidInputError(
                f"{directory} is in the way",
                cause=f"it is not empty, and has no {file.path} of this run",
                hint=hint,
            )
        if digest_of(found) != file.blake3:
            raise InvalidInputError(
                f"{directory} is in the way",
                cause=f"its {file.path} is not that of this run",
                hint=hint,
            )


def _synchronise(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _failures_told(path: Path) -> Iterator[None]:
    try:
        yield
    except DisError:
        raise
    except OSError as error:
        raise UnfitEnvironmentError(
            f"{path} cannot be written",
            cause=error.strerror,
            hint="name another place: --run-dir DIR",
        ) from error
