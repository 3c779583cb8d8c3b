"""The lock as a document, and its identity, in which time and place have no part.

`lock_id` is the SHA-256 of the canonical JSON of names, paths, sizes, digests, executable bits and
resolved commits. It does not cover `manifest_id`, `generated_at`, `digest_source` or `retrieval`,
so that a cold and a warm machine, a hub and a mirror make the same one
(docs/internals/formats/lock.md).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from dis_derivations.manifest.text_forms import check_file_path, check_timestamp
from dis_store import canonical_json, strict_json
from dis_store.digest import Sha256
from dis_store.errors import IntegrityError, InvalidInputError

KIND = "vllm.deterministic_inference_lock"
SCHEMA_VERSION = 1
ALGORITHM = "sha256"

DigestSource = Literal["computed", "published"]
_DIGEST_SOURCES = ("computed", "published")
_FIELDS = {
    "schema_version",
    "kind",
    "manifest_id",
    "generated_at",
    "lock_algorithm",
    "artifacts",
    "sources",
    "lock_id",
}
# Decoding comes before making, so a damaged lock must be out of the way first; and the file may be no lock at all.
_MAKE_AGAIN = "move it away, and make the lock again: dis lock CONFIG"
_ARTIFACT_FIELDS = {"name", "path", "size", "digest", "executable", "digest_source", "retrieval"}


@dataclass(frozen=True)
class LockedFile:
    """One file of an artifact.

    Attributes:
        name: The artifact, such as `model.weight`.
        path: In the artifact's object.
        size: In bytes.
        executable: Whether it is; model files never are.
        digest_source: `computed` from bytes that were read, or `published` by an authority and not
            yet seen.
        retrieval: Where the manifest said it comes from. No part of the identity.
    """

    name: str
    path: str
    size: int
    digest: Sha256
    executable: bool
    digest_source: DigestSource
    retrieval: Mapping[str, Any]

    @property
    def identity(self) -> dict[str, Any]:
        """What of the file enters `lock_id`."""
        return {
            "name": self.name,
            "path": self.path,
            "size": self.size,
            "digest": str(self.digest),
            "executable": self.executable,
        }


@dataclass(frozen=True)
class Lock:
    """A lock.

    Attributes:
        manifest_id: Of the manifest it was made from; the lock may fit others.
        generated_at: When, as in RFC 3339.
        artifacts: Sorted by name and path.
        sources: For each artifact from a repository, its resolved `commit`; nothing for local
            files.
    """

    manifest_id: Sha256
    generated_at: str
    artifacts: tuple[LockedFile, ...]
    sources: Mapping[str, Mapping[str, str]]

    def __post_init__(self) -> None:
        ordered = tuple(sorted(self.artifacts, key=lambda file: (file.name, file.path)))
        object.__setattr__(self, "artifacts", ordered)

    @cached_property
    def lock_id(self) -> Sha256:
        """The identity of what is locked."""
        return canonical_json.sha256(self._preimage())

    @property
    def used(self) -> dict[str, Any]:
        """The preimage of `lock_id`, and `lock_id`: what a bundle holds as `lock.used.json`."""
        return {**self._preimage(), "lock_id": str(self.lock_id)}

    def files_of(self, name: str) -> tuple[LockedFile, ...]:
        """Return the files of one artifact; none where the lock does not have it."""
        return tuple(file for file in self.artifacts if file.name == name)

    def encode(self) -> bytes:
        """Return the lockfile: JSON laid out for people, keys sorted, with a newline at its end."""
        document = {
            **self._preimage(),
            "lock_algorithm": ALGORITHM,
            "manifest_id": str(self.manifest_id),
            "generated_at": self.generated_at,
            "lock_id": str(self.lock_id),
            "artifacts": [
                {
                    **file.identity,
                    "digest_source": file.digest_source,
                    "retrieval": dict(file.retrieval),
                }
                for file in self.artifacts
            ],
        }
        text = json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False)
        return f"{text}\n".encode()

    @classmethod
    def decode(cls, data: bytes, *, name: str) -> "Lock":
        """Parse a lockfile that messages call `name`; `Lock.decode(lock.encode()) == lock`.

        Raises:
            InvalidInputError: It is not strict JSON, or no lock of this version.
            IntegrityError: Its `lock_id` is not that of its contents.
        """
        document = strict_json.decode(data, name=f"the lock {name}", error=_no_json)
        return decode_document(document, name=name)

    def _preimage(self) -> dict[str, Any]:
        return {
            "schema_version": SCHEMA_VERSION,
            "kind": KIND,
            "artifacts": [file.identity for file in self.artifacts],
            "sources": {name: dict(source) for name, source in self.sources.items()},
        }


def decode_document(document: Any, *, name: str) -> Lock:
    """Return the lock in a parsed JSON document, as one that is embedded in a manifest.

    Raises:
        InvalidInputError: It is no lock of this version.
        IntegrityError: Its `lock_id` is not that of its contents.
    """
    try:
        _check_header(document)
        lock = Lock(
            manifest_id=Sha256(document["manifest_id"]),
            generated_at=check_timestamp(document["generated_at"]),
            artifacts=tuple(
                _artifact(entry) for entry in _list(document["artifacts"], "artifacts")
            ),
            sources=_sources(document["sources"]),
        )
        _check_unique(lock)
    except (KeyError, TypeError, ValueError, InvalidInputError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise InvalidInputError(
            f"{name} is not a lock that this version of dis can read",
            cause=reason,
            hint=_MAKE_AGAIN,
        ) from error
    if document["lock_id"] != lock.lock_id:
        raise IntegrityError(
            f"{name} was changed after it was made",
            cause=f"it says {str(document['lock_id'])[:80]}, its contents have {lock.lock_id}",
            hint=f"bring back the original; or {_MAKE_AGAIN}",
        )
    return lock


def _no_json(what: str, *, cause: str, hint: str | None) -> InvalidInputError:
    del hint  # a lock is no file that people write
    return InvalidInputError(what, cause=cause, hint=f"bring back the original; or {_MAKE_AGAIN}")


def _check_header(document: Any) -> None:
    if not isinstance(document, dict):
        raise TypeError("a lock is a JSON object")
    if document.get("kind") != KIND:
        raise ValueError(f"its kind is {document.get('kind')!r}, and that of a lock is {KIND!r}")
    if document.get("schema_version") != SCHEMA_VERSION:
        raise ValueError(f"its schema_version is {document.get('schema_version')!r}, not 1")
    _check_fields(document, _FIELDS, "the lock")
    if document["lock_algorithm"] != ALGORITHM:
        raise ValueError(f"its lock_algorithm is {document['lock_algorithm']!r}, not {ALGORITHM!r}")


def _check_fields(value: Mapping[str, Any], fields: set[str], what: str) -> None:
    if missing := sorted(fields - set(value)):
        raise ValueError(f"{what} has no {missing[0]!r}")
    if unknown := sorted(set(value) - fields):
        raise ValueError(f"{what} has the unknown field {unknown[0]!r}")


def _artifact(entry: Any) -> LockedFile:
    if not isinstance(entry, dict):
        raise TypeError("an artifact is an object")
    _check_fields(entry, _ARTIFACT_FIELDS, "an artifact")
    size, executable, retrieval = entry["size"], entry["executable"], entry["retrieval"]
    if (
        type(size) is not int
        or size < 0
        or not isinstance(executable, bool)
        or not isinstance(retrieval, dict)
    ):
        raise ValueError(
            f"the artifact {entry['path']!r} has a wrong size, executable or retrieval"
        )
    if entry["digest_source"] not in _DIGEST_SOURCES:
        raise ValueError(
            f"the artifact {entry['path']!r} has digest_source {entry['digest_source']!r}"
        )
    return LockedFile(
        name=_text(entry["name"], "an artifact's name"),
        path=check_file_path(_text(entry["path"], "an artifact's path")),
        size=size,
        digest=Sha256(_text(entry["digest"], "an artifact's digest")),
        executable=executable,
        digest_source=entry["digest_source"],
        retrieval=retrieval,
    )


def _sources(value: Any) -> dict[str, dict[str, str]]:
    if not isinstance(value, dict):
        raise TypeError("sources is an object")
    for name, source in value.items():
        if not isinstance(source, dict) or not all(
            isinstance(item, str) for item in source.values()
        ):
            raise TypeError(f"the source of {name!r} is an object of strings")
    return value


def _check_unique(lock: Lock) -> None:
    seen: set[tuple[str, str]] = set()
    for file in lock.artifacts:
        if (file.name, file.path) in seen:
            raise ValueError(f"it has {file.path!r} of {file.name} twice")
        seen.add((file.name, file.path))


def _list(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{what} is a list")
    return value


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError(f"{what} is a string")
    return value
