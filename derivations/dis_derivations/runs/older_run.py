"""Runs of `deterministic_inference.cli`, the older tool whose manifests dis reads: what their directories hold.

Their `bundle.json` has the kind that bundles of dis have, and other members. Its digests are mostly of nothing that was
read: what the tool declared is kept as declared, and what it did not have is None here, never a default.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dis_derivations.runs.bundle import (
    BUNDLE_DOCUMENT,
    LOCK_DOCUMENT,
    MANIFEST_DOCUMENT,
    MOCK_ENGINE,
    OLDER_TOOL,
    TOKENS_DOCUMENT,
)
from dis_derivations.runs.bundle_documents import TokenSequence
from dis_derivations.runs.bundle_reader import DirectoryBundle
from dis_derivations.runs.json_fields import Fields
from dis_store import strict_json
from dis_store.errors import DisError, InvalidInputError

RUN_LOG = "run_log.json"
MEMBERS = (BUNDLE_DOCUMENT, TOKENS_DOCUMENT, RUN_LOG, MANIFEST_DOCUMENT, LOCK_DOCUMENT)
_ID_TEXT = "token_id:"


@dataclass(frozen=True)
class OlderSequence(TokenSequence):
    """What one request became.

    Attributes:
        prompt_is_bytes: Whether the tool recorded the UTF-8 bytes of the prompt in the place of its token ids.
        text_is_known: Whether `text` is text; the tool mostly wrote the token ids once more.
        conversation: The messages, as role and content.
    """

    prompt_is_bytes: bool
    text_is_known: bool
    conversation: tuple[tuple[str, str], ...] | None


@dataclass(frozen=True)
class OlderRun:
    """A run of the older tool.

    Attributes:
        place: What messages call it.
        run_id: Which holds a time, so that no two are equal; the others here as well.
        name: The manifest's.
        model: What was asked of a server.
        grade: What the tool thought of it.
        sequences: In the order of the run.
        has_request_ids: Whether the requests have ids, and are not only counted.
        parameters: The sampling that all requests had; None where it was not kept.
        environment: The variables that the client had set for itself.
        software: What the client found installed beside itself.
        hardware: What the client saw of its own machine, without the time.
        controls: What the client seeded.
        batching: The batches that the client planned.
        artifacts: The digests that the lock declared, by name and path; None without a lock.
        manifest: As it was used; None where it is not there.
    """

    place: str
    run_id: str
    manifest_id: str
    lock_id: str
    name: str
    model: str
    grade: str
    sequences: tuple[OlderSequence, ...]
    has_request_ids: bool
    parameters: Mapping[str, Any] | None
    environment: Mapping[str, Any] | None
    software: Mapping[str, Any] | None
    hardware: Mapping[str, Any] | None
    controls: Mapping[str, Any] | None
    batching: Mapping[str, Any] | None
    artifacts: Mapping[tuple[str, str], str] | None
    manifest: Mapping[str, Any] | None

    @property
    def is_mock(self) -> bool:
        """Whether the tokens come from no model."""
        runtime = (self.manifest or {}).get("runtime")
        execution = runtime.get("execution") if isinstance(runtime, dict) else None
        return isinstance(execution, dict) and execution.get("backend") == MOCK_ENGINE


class OlderDirectory(DirectoryBundle):
    """The directory that the older tool wrote; nothing in `bundle.json` is used as a path."""

    def describe(self) -> str:
        """Return what messages call this run."""
        return f"the older run {self._given}"

    def refusal(self, what: str, cause: str | None = None) -> DisError:
        """Return the error for files that are malformed or contradict each other."""
        hint = f"it must be as {OLDER_TOOL} wrote it; copy the whole directory again"
        return InvalidInputError(f"{what} in {self.describe()}", cause=cause, hint=hint)


def load_older_run(reader: OlderDirectory) -> OlderRun:
    """Read a run of the older tool.

    Raises:
        InvalidInputError: A file is missing or malformed, or two of them contradict each other.
    """
    bundle = _document(reader, BUNDLE_DOCUMENT)
    bundle.equal("schema_version", 1)
    names = set(reader.names())
    log = _document(reader, RUN_LOG) if RUN_LOG in names else None
    tokens = _document(reader, TOKENS_DOCUMENT) if TOKENS_DOCUMENT in names else None
    if tokens is None and log is None:
        raise reader.refusal(
            f"there is neither {TOKENS_DOCUMENT} nor {RUN_LOG}", "nothing else has the token ids"
        )
    lock = _document(reader, LOCK_DOCUMENT) if LOCK_DOCUMENT in names else None
    manifest = _document(reader, MANIFEST_DOCUMENT) if MANIFEST_DOCUMENT in names else None
    ids = _request_ids(bundle)
    if lock is not None and lock.text("lock_id") != bundle.text("lock_id"):
        lock.fail("/lock_id", f"is not that of {BUNDLE_DOCUMENT}: {bundle.text('lock_id')}")
    sequences = _sequences(tokens, log, ids)
    described = tokens or log
    hardware = _optional(bundle, "hardware_fingerprint")
    return OlderRun(
        place=reader.describe(),
        run_id=bundle.text("run_id"),
        manifest_id=bundle.text("manifest_id"),
        lock_id=bundle.text("lock_id"),
        name=_name(tokens, manifest),
        model=described.text("model") if described is not None else "",
        grade=bundle.text("determinism_grade"),
        sequences=sequences,
        has_request_ids=len(ids) == len(sequences),
        parameters=None if described is None else _optional(described, "parameters"),
        environment=_optional(bundle, "runtime_environment"),
        software=_optional(bundle, "software_metadata"),
        hardware=hardware and {key: hardware[key] for key in hardware if key != "captured_at"},
        controls=_optional(bundle, "determinism_controls"),
        batching=_optional(bundle, "batch_trace"),
        artifacts=None if lock is None else _artifacts(lock),
        manifest=None if manifest is None else manifest.values,
    )


def _document(reader: OlderDirectory, path: str) -> Fields:
    def refuse(what: str, cause: str | None = None, **_: object) -> DisError:
        return reader.refusal(what, cause)

    values = strict_json.decode(reader.read_bytes(path), name=path, error=refuse)
    if not isinstance(values, dict):
        raise reader.refusal(f"{path} is malformed", "it must be an object")
    return Fields(path, "", values, reader.refusal)


def _optional(fields: Fields, key: str) -> Mapping[str, Any] | None:
    return fields.member(key).values if key in fields.values else None


def _name(tokens: Fields | None, manifest: Fields | None) -> str:
    if tokens is not None:
        return tokens.text("provider")
    return "" if manifest is None else manifest.member("metadata").text("name")


def _request_ids(bundle: Fields) -> list[str]:
    """Return the ids of the requests in the order of the batches, which is that of the sequences."""
    if "batch_trace" not in bundle.values:
        return []
    steps = bundle.member("batch_trace").objects("steps")
    ids = [each for step in steps for each in step.texts("request_ids")]
    if len(set(ids)) != len(ids):
        bundle.fail("/batch_trace/steps", "has a request in two places")
    return ids


def _sequences(
    tokens: Fields | None, log: Fields | None, ids: Sequence[str]
) -> tuple[OlderSequence, ...]:
    records = [] if log is None else log.objects("records")
    for record in records:
        _check_hashes(record)
    entries = records if tokens is None else tokens.objects("sequences")
    texts = None if tokens is None else tokens.texts("decoded_output_text")
    conversations = None if tokens is None else _conversations(tokens)
    for what, listed in (("decoded_output_text", texts), ("conversations", conversations)):
        if tokens is not None and listed is not None and len(listed) != len(entries):
            tokens.fail(f"/{what}", f"has {len(listed)} entries for {len(entries)} sequences")
    if tokens is not None and log is not None:
        _check_records(log, entries, records)
    named = ids if len(ids) == len(entries) else [f"#{index}" for index in range(len(entries))]
    return tuple(
        _sequence(
            index,
            named[index],
            entry,
            None if texts is None else texts[index],
            None if conversations is None else conversations[index],
        )
        for index, entry in enumerate(entries)
    )


def _sequence(
    index: int,
    name: str,
    entry: Fields,
    text: str | None,
    conversation: tuple[tuple[str, str], ...] | None,
) -> OlderSequence:
    prompt, output = entry.token_ids("prompt_token_ids"), entry.token_ids("output_token_ids")
    ids_again = " ".join(f"{_ID_TEXT}{token}" for token in output)
    known = text is not None and text != ids_again
    return OlderSequence(
        index=index,
        id=name,
        prompt_token_ids=prompt,
        output_token_ids=output,
        text=text if known and text is not None else "",
        prompt_is_bytes=conversation is not None and prompt in _as_bytes(conversation),
        text_is_known=known,
        conversation=conversation,
    )


def _as_bytes(conversation: Sequence[tuple[str, str]]) -> tuple[tuple[int, ...], ...]:
    """Return what the tool recorded as ids of a prompt that nobody had tokenised: a text, or messages a line each."""
    plain = "\n".join(content for _, content in conversation)
    lines = "\n".join(f"{role}:{content}" for role, content in conversation)
    return tuple(plain.encode()), tuple(lines.encode())


def _conversations(tokens: Fields) -> list[tuple[tuple[str, str], ...]] | None:
    found = tokens.values.get("conversations")
    if found is None:
        return None
    if not isinstance(found, list):
        tokens.fail("/conversations", "must be a list")
    return [_messages(tokens, place, each) for place, each in enumerate(found)]


def _messages(tokens: Fields, place: int, messages: Any) -> tuple[tuple[str, str], ...]:
    listed = Fields(
        tokens.document, f"/conversations/{place}", {"messages": messages}, tokens.refuse
    )
    if not isinstance(messages, list):
        tokens.fail(f"/conversations/{place}", "must be a list of messages")
    return tuple((each.text("role"), each.text("content")) for each in listed.objects("messages"))


def _check_records(log: Fields, entries: Sequence[Fields], records: Sequence[Fields]) -> None:
    """Refuse a log and tokens that are of two runs."""
    if len(entries) != len(records):
        log.fail("/records", f"has {len(records)} records for {len(entries)} sequences")
    for entry, record in zip(entries, records, strict=True):
        for key in ("prompt_token_ids", "output_token_ids"):
            if entry.token_ids(key) != record.token_ids(key):
                log.fail(f"{record.pointer}/{key}", f"is not what {TOKENS_DOCUMENT} says")


def _check_hashes(record: Fields) -> None:
    """Refuse token ids that are not those of which the tool wrote down the hash."""
    for part in ("prompt", "output"):
        key = f"{part}_token_sha256"
        if key not in record.values:
            continue
        text = "[" + ",".join(map(str, record.token_ids(f"{part}_token_ids"))) + "]"
        found = hashlib.sha256(text.encode("ascii")).hexdigest()
        if record.text(key) != found:
            record.fail(f"{record.pointer}/{key}", f"is not that of the token ids: {found}")


def _artifacts(lock: Fields) -> dict[tuple[str, str], str]:
    """Return the declared digests, each as dis writes it."""
    return {
        (
            each.text("name"),
            each.text("path"),
        ): f"sha256:{each.text('digest').removeprefix('sha256:')}"
        for each in lock.objects("artifacts")
    }
