"""What a REF on the command line names: an object of the store, a run, or a file outside it.

A REF that begins with `oci://` is in a registry. It is a path when it has a slash, ends like a file of ours, or names
a result link; else the name of a root; else a digest, or a prefix of one with at least 8 digits.
"""

import contextlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from dis_store.digest import Digest
from dis_store.errors import (
    IntegrityError,
    InvalidInputError,
    UnknownReferenceError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from dis_derivations.distribution.remote_objects import Registries, RemoteObjects
    from dis_derivations.runs.bundle_reader import BundleReader, ObjectFiles
    from dis_store import Root, Store
    from dis_store.tree import Tree

Kind = Literal["run", "object", "run directory", "archive", "manifest", "lock"]

BUNDLE_NAME = "bundle.json"
_ARCHIVE = re.compile(r"\.(tar(\.[a-z0-9]+)?|tgz)$")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_PREFIX = re.compile(r"[0-9a-f]{8,64}")
_SHORT_PREFIX = re.compile(r"[0-9a-f]{1,7}")
_MANIFEST_KIND = "vllm.deterministic_inference_manifest"
_LOCK_KIND = "vllm.deterministic_inference_lock"
_BUNDLE_KIND = "vllm.deterministic_run_bundle"
_ADDED = "other files can be named once the store has them: dis store add PATH"
_FILE_KINDS: dict[str, Kind] = {_MANIFEST_KIND: "manifest", _LOCK_KIND: "lock"}


@dataclass(frozen=True)
class Resolved:
    """What a REF turned out to name.

    Attributes:
        ref: As the user wrote it.
        kind: `run` and `object` are in the store: a run is an object that is the bundle of one. The others are files.
        digest: Of the object; None for files outside the store.
        path: Of the file or directory; None for objects.
        root: The name of the root, where the REF is one.
        entry: The root that the REF names, or one that keeps the same object; it knows what the object was built from.
        remote: Where the object is that is in a registry, and not in the store, or not all of it.
    """

    ref: str
    kind: Kind
    digest: Digest | None = None
    path: Path | None = None
    root: str | None = None
    entry: "Root | None" = None
    remote: "RemoteObjects | None" = None

    def object(self) -> Digest:
        """Return the digest of the object.

        Raises:
            InvalidInputError: The REF names a file outside the store.
        """
        if self.digest is None:
            raise InvalidInputError(
                f"{self.ref} is {_with_article(self.kind)} outside the store, not an object in it",
                hint=self._hint(),
            )
        return self.digest

    def bundle(self, store: "Store") -> "BundleReader":
        """Return a reader of the run's bundle.

        Raises:
            InvalidInputError: The REF names something else than a run.
            IntegrityError: It is an archive whose bytes are not what its tree manifests say.
        """
        from dis_derivations.runs.bundle_reader import DirectoryBundle, StoredBundle

        if self.kind == "run directory" and self.path is not None:
            directory = DirectoryBundle(self.path)
            directory.borrow(store)
            return directory
        if self.kind == "run" and self.digest is not None and self.remote is not None:
            from dis_derivations.runs.remote_bundle import RemoteBundle

            return RemoteBundle(self.remote, self.digest)
        if self.kind == "run" and self.digest is not None:
            return StoredBundle(store, self.digest)
        if self.kind == "archive" and self.path is not None:
            from dis_derivations.runs.archive_reader import ArchiveBundle

            archive = ArchiveBundle(self.path)
            archive.borrow(store)
            return archive
        what = (
            "an object that is not the bundle of a run"
            if self.kind == "object"
            else f"{_with_article(self.kind)}, not a run"
        )
        raise InvalidInputError(f"{self.ref} is {what}", hint=self._hint())

    def objects(self, store: "Store") -> "ObjectFiles":
        """Return where the objects are that a run names: in the store, and small ones where the run itself is."""
        return objects_of(store, (self,))

    def _hint(self) -> str:
        if self.kind == "manifest":
            return f"realise it, and use the path that is printed: dis realize {self.ref}"
        return "see the runs that there are: dis list"


def resolve(store: "Store", ref: str, registries: "Registries | None" = None) -> Resolved:
    """Return what `ref` names.

    Args:
        store: Where names and digests are looked up.
        ref: What the user wrote.
        registries: How to look into registries; without it, what is in one is refused.

    Raises:
        InvalidInputError: It names nothing, more than one thing, or a file that is none of ours.
        IntegrityError: It is the name of a root whose record is damaged, or a registry says what cannot be.
        TransferError: A registry cannot be asked.
        UnsupportedError: It is an address that this version cannot read.
    """
    if registries is not None and is_remote(ref):
        return _resolve_remote(store, ref, registries)
    _refuse_unavailable(ref)
    try:
        if _is_path(store, ref):
            return _resolve_path(store, ref)
    except OSError as error:  # too long, or through a directory that may not be entered
        raise InvalidInputError(f"{ref[:200]} cannot be read", cause=error.strerror) from error
    entry = _root(store, ref)
    if entry is not None:
        return Resolved(
            ref, _object_kind(store, entry.object), digest=entry.object, root=ref, entry=entry
        )
    if _PREFIX.fullmatch(ref):
        digest = store.find(ref)
        return _resolve_object(store, ref, digest)
    raise _unknown(store, ref)


def objects_of(store: "Store", things: "Iterable[Resolved]") -> "ObjectFiles":
    """Return where the objects are that runs name: in the store, and small ones where the runs themselves are."""
    remotes = [each.remote for each in things if each.remote is not None]
    if not remotes:
        return store
    from dis_derivations.distribution.remote_objects import ObjectsAtHand

    return ObjectsAtHand(store, remotes)


def place_in_object(store: "Store", ref: str) -> str:
    """Return the file or directory in an object that a path leads to; "" for all of it, and for what is no path."""
    if "/" not in ref:
        return ""
    real, objects = Path(ref).resolve(), (store.path / "objects").resolve()
    if not real.is_relative_to(objects):
        return ""
    return "/".join(real.relative_to(objects).parts[2:])


def is_run(store: "Store", digest: Digest) -> bool:
    """Return whether an object has a `bundle.json` of its own, which only the bundle of a run has."""
    return _is_of_run(store.tree(digest))


def is_remote(ref: str) -> bool:
    """Return whether a REF names something in a registry."""
    return ref.startswith("oci://")


def _is_of_run(tree: "Tree") -> bool:
    return any(entry.path == BUNDLE_NAME for entry in tree.files)


def _resolve_remote(store: "Store", ref: str, registries: "Registries") -> Resolved:
    from dis_derivations.distribution.remote_objects import RemoteObjects
    from dis_derivations.registry.reference import parse_reference

    remote = RemoteObjects(store, registries, parse_reference(ref))
    kind: Kind = "run" if _is_of_run(remote.tree(remote.root)) else "object"
    return Resolved(ref, kind, digest=remote.root, remote=remote)


def _with_article(kind: Kind) -> str:
    return f"{'an' if kind in {'object', 'archive'} else 'a'} {kind}"


def _refuse_unavailable(ref: str) -> None:
    if not ref.strip() or "\x00" in ref:
        raise InvalidInputError(
            f"{ref!r} names nothing", hint="see the runs that there are: dis list"
        )
    if "://" in ref:
        scheme = ref.partition("://")[0]
        if is_remote(ref):
            raise InvalidInputError(
                f"{ref} is in a registry, not in the store", hint=f"fetch it first: dis pull {ref}"
            )
        raise UnsupportedError(
            f"{ref} cannot be read",
            cause=f"references of the kind {scheme}:// are not available in this version of dis",
        )


def _resolve_object(store: "Store", ref: str, digest: Digest) -> Resolved:
    entry = next((root for root in _roots(store) if root.object == digest), None)
    return Resolved(ref, _object_kind(store, digest), digest=digest, entry=entry)


def _roots(store: "Store") -> "list[Root]":
    """Return what keeps objects and can be read: here it only helps to know what an object was built from."""
    roots = list(store.survey_roots().good.values())
    with contextlib.suppress(IntegrityError):
        roots += [link.root for link in store.result_links()]
    return roots


def _object_kind(store: "Store", digest: Digest) -> Kind:
    return "run" if is_run(store, digest) else "object"


# -- paths -----------------------------------------------------------------------------------------------------------


def _is_path(store: "Store", ref: str) -> bool:
    if "/" in ref or ref.endswith(".json") or ref in {".", ".."} or _ARCHIVE.search(ref):
        return True
    return Path(ref).is_symlink() and _stored_object(store, Path(ref)) is not None


def _resolve_path(store: "Store", ref: str) -> Resolved:
    path = Path(ref)
    digest = _stored_object(store, path)
    if digest is not None:
        return _resolve_object(store, ref, digest)
    if not path.exists():
        cause = "it is a link to something that is not there" if path.is_symlink() else None
        raise InvalidInputError(f"there is no file {ref}", cause=cause)
    if path.is_dir():
        return _resolve_directory(path, ref)
    return _resolve_file(path, ref)


def _resolve_directory(path: Path, ref: str) -> Resolved:
    if not (path / BUNDLE_NAME).exists():
        raise InvalidInputError(
            f"{ref} is no run directory",
            cause=f"it has no {BUNDLE_NAME}",
            hint=f"name a directory that `dis run` made; {_ADDED}",
        )
    return Resolved(ref, "run directory", path=path)


def _resolve_file(path: Path, ref: str) -> Resolved:
    """Tell a manifest, a lock and a `bundle.json` apart by what they say of themselves, an archive by its ending."""
    if _ARCHIVE.search(path.name):
        return Resolved(ref, "archive", path=path)
    from dis_derivations.manifest.reading import read_manifest_files

    try:
        document = read_manifest_files(path).document
    except InvalidInputError as error:
        if path.suffix == ".json":
            raise
        what = f"{ref} is no archive, and no manifest, lock or bundle"
        raise InvalidInputError(what, cause=error.what, hint=_ADDED) from error
    kind = document.get("kind")
    if kind == _BUNDLE_KIND:
        return Resolved(ref, "run directory", path=path.parent)
    if not isinstance(kind, str) or kind not in _FILE_KINDS:
        raise InvalidInputError(
            f"{ref} is neither a manifest, a lock nor the bundle of a run",
            cause=f"its kind is {kind!r:.80}" if kind is not None else "it has no kind",
            hint=_ADDED,
        )
    return Resolved(ref, _FILE_KINDS[kind], path=path)


def _stored_object(store: "Store", path: Path) -> Digest | None:
    """Return the object that a path leads into, or whose tree manifest it is; None for a path outside the store.

    Raises:
        InvalidInputError: The path leads into the store, to an object that is not there or not valid.
    """
    try:
        real = path.resolve()
        home = store.path.resolve()
    except (OSError, RuntimeError):  # a circle of links leads nowhere
        return None
    if not real.is_relative_to(home):
        return None
    match real.relative_to(home).parts:
        case ("objects", _, name, *_):
            text = name
        case ("manifests", _, name):
            text = name.removesuffix(".json")
        case _:
            return None
    if not _DIGEST.fullmatch(text):
        return None
    digest = Digest(text)
    if not store.is_valid(digest):
        raise InvalidInputError(
            f"{path} is no valid object of the store",
            hint="see what is damaged: dis store verify --all",
        )
    return digest


# -- names -----------------------------------------------------------------------------------------------------------


def _root(store: "Store", name: str) -> "Root | None":
    """Return the root of that name; what cannot be a root's name is none.

    Raises:
        IntegrityError: Its record is damaged.
    """
    try:
        return store.root(name)
    except InvalidInputError:
        return None


def _unknown(store: "Store", ref: str) -> UnknownReferenceError:
    from difflib import get_close_matches

    names = sorted(store.survey_roots().good)
    hint = "see the runs that there are: dis list"
    if close := get_close_matches(ref, names, n=3, cutoff=0.6):
        hint = f"did you mean {' or '.join(close)}?"
    elif os.path.lexists(ref):
        hint = f"to name the file, write ./{ref}"
    elif _SHORT_PREFIX.fullmatch(ref):
        hint = "a prefix of a digest needs at least 8 digits"
    return UnknownReferenceError(
        f"nothing is called {ref!r}", cause="it is no root's name, no digest and no path", hint=hint
    )
