"""The documents of a bundle as typed values.

A bundle is loaded once, checked in itself (its documents agree with each other and with its files), and then passed
around as a `Bundle`; nothing downstream looks at raw JSON of unknown shape, except where the manifest is compared field
by field.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dis_derivations.lock.unverified_digests import MEMBER, UnverifiedDigests, UsedFile
from dis_derivations.runs.bundle import (
    ACTIVATIONS_FILE,
    BUNDLE_DOCUMENT,
    BUNDLE_KIND,
    ENGINE_DOCUMENT,
    LOCK_DOCUMENT,
    LOGITS_FILE,
    MANIFEST_DOCUMENT,
    OLDER_TOOL,
    TOKENS_DOCUMENT,
    TRACE_FILE,
    is_older,
    run_id,
)
from dis_derivations.runs.bundle_reader import BundleReader, StoredBundle
from dis_derivations.runs.json_fields import Fields
from dis_store import canonical_json, strict_json
from dis_store.digest import Digest, Sha256
from dis_store.errors import DisError, InvalidInputError

CAPTURED = "captured"
CONFORMANT = "conformant"
# The observables beside the tokens, and the file that holds each when it was captured.
CAPTURE_FILES: Mapping[str, str] = {
    "logits": LOGITS_FILE,
    "activations": ACTIVATIONS_FILE,
    "engine_trace": TRACE_FILE,
}


@dataclass(frozen=True)
class BundleDocument:
    """`bundle.json`.

    Attributes:
        inputs: The objects that the run was made of, by name (`closure`, `requests`, `weights` …).
        results: The results object.
        platform_class: `any`, `cpu`, `cuda` or `server`.
        platform_facts: What was measured of the machine and can change bits.
        conformant: Whether the machine met the manifest's hardware constraints.
        reasons: Why it did not.
        capture: By observable `captured`, or why there is none.
        unverified: What was used in place of what the lock declares; None for a run that was held to its lock.
    """

    run_id: Sha256
    manifest_id: Sha256
    lock_id: Sha256
    name: str
    engine: Mapping[str, Any]
    requests_digest: Digest
    inputs: Mapping[str, Digest]
    results: Digest
    platform_class: str
    platform_facts: Mapping[str, Any]
    conformant: bool
    reasons: tuple[str, ...]
    capture: Mapping[str, str]
    grade: str
    unverified: UnverifiedDigests | None = None


@dataclass(frozen=True)
class TokenSequence:
    """What one request became; `index` is its place in the order of requests, counted from 0."""

    index: int
    id: str
    prompt_token_ids: tuple[int, ...]
    output_token_ids: tuple[int, ...]
    text: str


@dataclass(frozen=True)
class Bundle:
    """A bundle that was read and agrees with itself."""

    reader: BundleReader
    document: BundleDocument
    sequences: tuple[TokenSequence, ...]
    engine: Mapping[str, Any]
    manifest: Mapping[str, Any]
    lock: Mapping[str, Any]

    @property
    def engine_name(self) -> str:
        """The name that the engine gave itself."""
        return str(self.engine["engine"])

    @cached_property
    def by_id(self) -> Mapping[str, TokenSequence]:
        """The sequences by the ids of their requests."""
        return {sequence.id: sequence for sequence in self.sequences}

    def captured(self, observable: str) -> bool:
        """Return whether an observable was captured; tokens always are."""
        return observable == "tokens" or self.document.capture.get(observable) == CAPTURED

    def lacks(self, observable: str) -> bool:
        """Return whether an observable was captured, and left out of the archive or directory that was read."""
        file = CAPTURE_FILES.get(observable)
        return file is not None and self.captured(observable) and self.reader.lacks(file)

    def has(self, observable: str) -> bool:
        """Return whether an observable was captured and can be read."""
        return self.captured(observable) and not self.lacks(observable)

    def asked_for(self, observable: str) -> bool:
        """Return whether the manifest enables the capture of an observable."""
        capture = self.manifest.get("capture")
        setting = capture.get(observable) if isinstance(capture, dict) else None
        return setting is True or (isinstance(setting, dict) and setting.get("enabled") is True)


def load_bundle(reader: BundleReader, *, beside: Bundle | None = None) -> Bundle:
    """Read and check the documents of a bundle.

    Args:
        reader: Its files.
        beside: A bundle that was loaded. Where the store vouches that its tokens are the same file, which is by far the
            largest document, that is not read again.

    Raises:
        InvalidInputError: It is no bundle, or a directory whose files do not agree.
        IntegrityError: It is an object of the store whose documents are malformed or contradict each other.
    """
    top = _bundle_fields(reader)
    document = _bundle_document(top)
    engine = _fields(reader, ENGINE_DOCUMENT)
    engine.text("engine")
    manifest, lock = _fields(reader, MANIFEST_DOCUMENT), _fields(reader, LOCK_DOCUMENT)
    _check_identity(reader, document, manifest, lock)
    _check_agreement(reader, document, engine)
    _check_unverified(reader, document, lock)
    return Bundle(
        reader=reader,
        document=document,
        sequences=beside.sequences
        if beside is not None and _same_tokens(reader, beside.reader)
        else _sequences(_fields(reader, TOKENS_DOCUMENT)),
        engine={key: value for key, value in engine.values.items() if key != "format"},
        manifest=manifest.values,
        lock=lock.values,
    )


def _bundle_fields(reader: BundleReader) -> Fields:
    """Return `bundle.json`, refusing other kinds of documents as no bundle at all."""
    values = _decoded(reader, BUNDLE_DOCUMENT)
    kind = values.get("kind") if isinstance(values, dict) else None
    if kind != BUNDLE_KIND:
        raise InvalidInputError(
            f"{reader.describe()} is not the bundle of a run",
            cause=f"the kind of its {BUNDLE_DOCUMENT} is {kind!r:.80} and must be {BUNDLE_KIND!r}",
        )
    if is_older(values):
        raise InvalidInputError(
            f"{reader.describe()} is a run of {OLDER_TOOL}",
            cause="it has no results, engine and inputs that could be checked",
            hint="it can be compared with another run: dis diff A B",
        )
    return Fields(BUNDLE_DOCUMENT, "", values, reader.refusal)


def _bundle_document(top: Fields) -> BundleDocument:
    top.equal("schema_version", 1)
    inputs, platform, hardware = (
        top.member("inputs"),
        top.member("platform"),
        top.member("hardware"),
    )
    capture = top.member("capture")
    return BundleDocument(
        run_id=top.sha256("run_id"),
        manifest_id=top.sha256("manifest_id"),
        lock_id=top.sha256("lock_id"),
        name=top.text("name"),
        engine=top.member("engine").values,
        requests_digest=top.digest("requests_digest"),
        inputs={name: inputs.digest(name) for name in sorted(inputs.values)},
        results=top.digest("results"),
        platform_class=platform.text("class"),
        platform_facts=platform.member("facts").values,
        conformant=hardware.boolean("conformant"),
        reasons=hardware.texts("reasons"),
        capture={name: capture.text(name) for name in sorted(capture.values)},
        grade=top.text("grade"),
        unverified=_unverified(top.member(MEMBER)) if MEMBER in top.values else None,
    )


def _unverified(member: Fields) -> UnverifiedDigests:
    member.equal("verified", expected=False)
    return UnverifiedDigests(
        tuple(
            UsedFile(
                name=file.text("name"),
                path=file.text("path"),
                declared=file.sha256("declared"),
                used=file.sha256("used"),
            )
            for file in member.objects("files")
        )
    )


def _same_tokens(reader: BundleReader, other: BundleReader) -> bool:
    if not isinstance(reader, StoredBundle) or not isinstance(other, StoredBundle):
        return False
    digest = reader.file_digest(TOKENS_DOCUMENT)
    return digest is not None and digest == other.file_digest(TOKENS_DOCUMENT)


def _sequences(top: Fields) -> tuple[TokenSequence, ...]:
    entries, texts = top.objects("sequences"), top.texts("decoded_output_text")
    if len(entries) != len(texts):
        top.fail("/decoded_output_text", f"has {len(texts)} texts for {len(entries)} sequences")
    seen: set[str] = set()
    for entry in entries:
        if (name := entry.text("id")) in seen:
            top.fail(entry.pointer, f"has the id {name!r}, as a sequence before it")
        seen.add(name)
    return tuple(
        TokenSequence(
            index=index,
            id=entry.text("id"),
            prompt_token_ids=entry.token_ids("prompt_token_ids"),
            output_token_ids=entry.token_ids("output_token_ids"),
            text=text,
        )
        for index, (entry, text) in enumerate(zip(entries, texts, strict=True))
    )


def _check_identity(
    reader: BundleReader, document: BundleDocument, manifest: Fields, lock: Fields
) -> None:
    """Refuse ids that are not those of the documents they name."""
    platform = {"class": document.platform_class, "facts": dict(document.platform_facts)}
    preimage = {key: value for key, value in lock.values.items() if key != "lock_id"}
    unverified = None if document.unverified is None else document.unverified.to_json()
    of_run = run_id(
        document.manifest_id, document.lock_id, document.requests_digest, platform, unverified
    )
    for key, said, found in (
        ("manifest_id", document.manifest_id, canonical_json.sha256(dict(manifest.values))),
        ("lock_id", document.lock_id, lock.sha256("lock_id")),
        ("lock_id", document.lock_id, canonical_json.sha256(preimage)),
        ("run_id", document.run_id, of_run),
    ):
        if said != found:
            cause = f"{BUNDLE_DOCUMENT} says {said}, and the documents make it {found}"
            raise reader.refusal(f"the {key} is wrong", cause)


def _check_agreement(reader: BundleReader, document: BundleDocument, engine: Fields) -> None:
    """Refuse a bundle whose parts come from different runs."""
    reported = {key: value for key, value in engine.values.items() if key != "format"}
    if reported != dict(document.engine):
        cause = f"{ENGINE_DOCUMENT} is not what {BUNDLE_DOCUMENT} says of the engine"
        raise reader.refusal("there are two engines", cause)
    requests = document.inputs.get("requests")
    if requests is not None and requests != document.requests_digest:
        cause = f"/inputs/requests is {requests}, /requests_digest is {document.requests_digest}"
        raise reader.refusal("there are two requests objects", cause)
    names, gaps = set(reader.names()), reader.left_out()
    for observable, file in CAPTURE_FILES.items():
        said = document.capture.get(observable, "absent")
        # Once, of what was captured: either there, or left out.
        if (file in names) + (file in gaps) != (said == CAPTURED):
            found = "there" if file in names else "not there"
            cause = f"{BUNDLE_DOCUMENT} says {said!r} of {observable}, and {file} is {found}"
            raise reader.refusal("the captures are not what they should be", cause)


def _check_unverified(reader: BundleReader, document: BundleDocument, lock: Fields) -> None:
    """Refuse a bundle whose inputs were not held to its lock, and that says otherwise."""
    if document.unverified is None:
        return
    what = f"{MEMBER} is not what it should be"
    declared = sorted((file.name, file.path, file.declared) for file in document.unverified.files)
    locked = sorted(
        (file.text("name"), file.text("path"), file.sha256("digest"))
        for file in lock.objects("artifacts")
    )
    if declared != locked:
        cause = f"{BUNDLE_DOCUMENT} declares other files than {LOCK_DOCUMENT}"
        raise reader.refusal(what, cause)
    if document.grade == CONFORMANT:
        cause = f"{BUNDLE_DOCUMENT} says {CONFORMANT}, and that its digests were not verified"
        raise reader.refusal(what, cause)


def _decoded(reader: BundleReader, path: str) -> Any:
    def refuse(what: str, cause: str | None = None, **_: object) -> DisError:
        return reader.refusal(what, cause)

    return strict_json.decode(reader.read_bytes(path), name=path, error=refuse)


def _fields(reader: BundleReader, path: str) -> Fields:
    values = _decoded(reader, path)
    if not isinstance(values, dict):
        raise reader.refusal(f"{path} is malformed", "it must be an object")
    return Fields(path, "", values, reader.refusal)
