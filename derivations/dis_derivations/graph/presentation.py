"""Derivations as documents to look at, by digest: of a manifest before anything is built, or from a store."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dis_derivations.graph.derivation import Derivation
from dis_store.digest import Digest
from dis_store.errors import InvalidInputError

if TYPE_CHECKING:
    from dis_derivations.graph.engine_process import EngineEnvironment
    from dis_derivations.lock.document import Lock
    from dis_store import Store


def derivations_of_manifest(
    config: Path,
    target: str,
    overrides: Sequence[str] = (),
    *,
    recursive: bool = False,
    environment_of: "Callable[[Mapping[str, Any], Lock], EngineEnvironment | None]" = lambda *_: (
        None
    ),
) -> dict[str, Any]:
    """Return the derivation of a target, or with `recursive` all it is built from, inputs first.

    Args:
        config: The manifest.
        target: Of which target.
        overrides: Fields of the manifest with other values, as `a.b=value`.
        recursive: Whether its inputs are returned as well.
        environment_of: Tells from the manifest and its lock what an engine that is no part of dis is made of, where
            that is known.

    Raises:
        InvalidInputError: The manifest or its lock is invalid, or the lock is missing or stale.
        IntegrityError: The lock contradicts itself.
        UnfitEnvironmentError: The manifest asks for what this version cannot do.
    """
    from dis_derivations.graph.compilation import compile_graph
    from dis_derivations.images.locked_image import check_locked_image
    from dis_derivations.lock.document import Lock
    from dis_derivations.lock.location import LockLocation
    from dis_derivations.lock.staleness import stale_artifacts
    from dis_derivations.manifest.loading import load_manifest

    loaded = load_manifest(config, overrides)
    location = LockLocation.of(loaded.raw)
    data = location.read()
    if data is None:
        raise InvalidInputError(
            f"{config} has no lock, so its derivations are not known", hint=f"dis lock {config}"
        )
    lock = Lock.decode(data, name=str(location.path or "the embedded lock"))
    check_locked_image(lock)
    if stale := stale_artifacts(loaded, lock):
        raise InvalidInputError(
            f"the lock of {config} is stale for {', '.join(stale)}", hint=f"dis lock {config}"
        )
    environment = environment_of(loaded.document, lock)
    graph = compile_graph(loaded, lock, engine_environment=environment)
    digest = graph.target(target)
    return _documents(
        (each, graph.derivations[each].encode())
        for each in (graph.closure_of(digest) if recursive else [digest])
    )


def derivations_of_store(
    store: "Store", digest: Digest, *, recursive: bool = False
) -> dict[str, Any]:
    """Return a derivation that the store has, or with `recursive` all it is built from, inputs first.

    Raises:
        InvalidInputError: The store does not have it.
        IntegrityError: Its record is damaged.
    """
    found: dict[Digest, bytes] = {}
    _collect(store, digest, found, recursive=recursive)
    return _documents(found.items())


def _collect(
    store: "Store", digest: Digest, found: dict[Digest, bytes], *, recursive: bool
) -> None:
    if digest in found:
        return
    record = store.derivation(digest)
    if recursive:
        for source in Derivation.decode(record).inputs.values():
            _collect(store, source.derivation, found, recursive=True)
    found[digest] = record


def _documents(records: Iterable[tuple[Digest, bytes]]) -> dict[str, Mapping[str, Any]]:
    return {str(digest): json.loads(record) for digest, record in records}
