"""The files that a manifest is made of and names, which no output may replace."""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from dis_derivations.lock.location import LockLocation
from dis_derivations.manifest.artifact_groups import (
    DATASET,
    IMAGE,
    ArtifactGroup,
    artifact_groups,
)
from dis_derivations.manifest.loading import LoadedManifest, load_manifest
from dis_store.errors import InvalidInputError


def refuse_inputs(config: Path, overrides: Sequence[str], outputs: Iterable[Path | None]) -> None:
    """Refuse to write over what the manifest at `config` is made from.

    Args:
        config: The manifest.
        overrides: `a.b=value` each.
        outputs: The files that are going to be written; None for one that is not.

    Raises:
        InvalidInputError: An output is the manifest, a base of it, its lock, or a file that it names, also by
            another path; or the manifest is invalid.
    """
    written = [output for output in outputs if output is not None]
    if not written:
        return
    loaded = load_manifest(config, overrides)
    inputs = list(_named_files(loaded))
    for output in written:
        for what, path in inputs:
            if _is_same(output, path):
                raise InvalidInputError(
                    f"{output} will not be overwritten",
                    cause=f"it is {what} of {loaded.path}",
                    hint="name another file",
                )


def _named_files(loaded: LoadedManifest) -> Iterator[tuple[str, Path]]:
    """Yield each input with what it is."""
    first, *bases = loaded.files
    yield "the first file", first.path
    for base in bases:
        yield "a base", base.path
    location = LockLocation.of(loaded.raw)
    if location.path is not None:
        yield "the lock", location.path
    for group in artifact_groups(loaded):
        for path in _files_of(group):
            yield f"{group.name}, an input", path


def _files_of(group: ArtifactGroup) -> Iterator[Path]:
    location = group.source.location
    if location is None:
        return
    if group.name == DATASET:
        yield location
        return
    if group.name == IMAGE and location.is_file():
        yield location
    yield from (location / file.path for file in group.files)
    if not group.files:
        # A directory that cannot be listed has nothing to lose.
        with contextlib.suppress(OSError):
            for pattern in group.found:
                yield from location.glob(pattern)


def _is_same(output: Path, path: Path) -> bool:
    try:
        return output.samefile(path)
    except (OSError, ValueError):  # one of them is not there
        return False
