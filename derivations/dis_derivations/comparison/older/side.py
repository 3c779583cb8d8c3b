"""One of two runs that are compared, of whatever tool: what it holds, and what it does not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dis_derivations.comparison.token_text import TokenText, token_text
from dis_derivations.runs.bundle import OLDER_TOOL, TOKENS_DOCUMENT
from dis_derivations.runs.bundle_documents import CAPTURE_FILES, Bundle, TokenSequence
from dis_derivations.runs.older_run import OlderRun, OlderSequence
from dis_store import strict_json

if TYPE_CHECKING:
    from dis_derivations.runs.bundle_reader import ObjectFiles

DIS = "dis"


@dataclass(frozen=True)
class Side:
    """A run.

    Attributes:
        tool: What made it: `dis`, or the name of the older tool.
        bundle: The digest of its bundle; None where there is none.
        engine: What computed it, by its own word; None where nobody asked it.
        sequences: In the order of its requests.
        captures: The observables beside tokens that it holds.
        sampling: By request id; None where it was not kept.
        artifacts: The digests of its lock by name and path; None without a lock.
        verified: Whether the files were held to these digests.
        recorded: What it says of its surroundings, by subject; a subject that it says nothing about is missing.
        token_text: Shows its tokens.
    """

    tool: str
    name: str
    model: str
    run_id: str
    manifest_id: str
    lock_id: str
    grade: str
    bundle: str | None
    engine: str | None
    is_mock: bool
    sequences: Sequence[TokenSequence]
    has_request_ids: bool
    captures: frozenset[str]
    sampling: Mapping[str, Mapping[str, Any]] | None
    artifacts: Mapping[tuple[str, str], str] | None
    verified: bool
    recorded: Mapping[str, Any]
    manifest: Mapping[str, Any] | None
    token_text: TokenText

    @property
    def is_older(self) -> bool:
        """Whether the older tool made it."""
        return self.tool == OLDER_TOOL

    @cached_property
    def by_id(self) -> Mapping[str, TokenSequence]:
        """The sequences by the ids of their requests."""
        return {sequence.id: sequence for sequence in self.sequences}

    def named_as(self, other: "Side") -> "Side":
        """Return the same run with the ids of another, request by request in order."""
        pairs = list(zip(self.sequences, other.sequences, strict=True))
        names = {old.id: new.id for old, new in pairs}
        sampling = self.sampling
        return replace(
            self,
            sequences=tuple(replace(old, id=new.id) for old, new in pairs),
            sampling=sampling and {names[name]: value for name, value in sampling.items()},
        )

    def artifacts_of(self, name: str) -> Mapping[str, str]:
        """Return the digests of the files of an artifact, or of all whose names begin so where it ends with a dot."""
        found = {}
        for (artifact, path), digest in (self.artifacts or {}).items():
            if artifact == name:
                found[path] = digest
            elif name.endswith(".") and artifact.startswith(name):
                found[artifact] = digest
        return found

    def to_json(self) -> dict[str, Any]:
        """Return how a report names the run: never by a path or a time."""
        return {
            "tool": self.tool,
            "bundle": self.bundle,
            "run_id": self.run_id,
            "manifest_id": self.manifest_id,
            "lock_id": self.lock_id,
            "name": self.name,
            "model": self.model,
            "engine": self.engine,
            "grade": self.grade,
            "artifact_digests_verified": self.verified,
        }


def side_of_older(run: OlderRun) -> Side:
    """Return a run of the older tool as one side."""
    recorded = {
        "environment variables": run.environment,
        "software": run.software and _without_places(run.software),
        "hardware": run.hardware,
        "seeding": run.controls,
        "batching": run.batching,
    }
    return Side(
        tool=OLDER_TOOL,
        name=run.name,
        model=run.model,
        run_id=run.run_id,
        manifest_id=run.manifest_id,
        lock_id=run.lock_id,
        grade=run.grade,
        bundle=None,
        engine=None,
        is_mock=run.is_mock,
        sequences=run.sequences,
        has_request_ids=run.has_request_ids,
        captures=frozenset(),
        sampling=None
        if run.parameters is None
        else dict.fromkeys((each.id for each in run.sequences), _sampling(run.parameters)),
        artifacts=run.artifacts,
        verified=False,
        recorded={name: value for name, value in recorded.items() if value is not None},
        manifest=run.manifest,
        token_text=lambda _: None,
    )


def side_of_bundle(bundle: Bundle, store: "ObjectFiles | None") -> Side:
    """Return a run of dis as one side.

    Raises:
        DisError: Its `tokens.json` is malformed.
    """
    document, digest = bundle.document, bundle.reader.digest()
    tokens = strict_json.decode(bundle.reader.read_bytes(TOKENS_DOCUMENT), name=TOKENS_DOCUMENT)
    entries = bundle.lock.get("artifacts")
    return Side(
        tool=DIS,
        name=document.name,
        model=str(tokens.get("model") or ""),
        run_id=document.run_id.hex,
        manifest_id=document.manifest_id.hex,
        lock_id=document.lock_id.hex,
        grade=document.grade,
        bundle=None if digest is None else str(digest),
        engine=bundle.engine_name,
        is_mock=bundle.engine_name == "mock",
        sequences=bundle.sequences,
        has_request_ids=True,
        captures=frozenset(name for name in CAPTURE_FILES if bundle.captured(name)),
        sampling=_sampling_by_id(tokens.get("parameters")),
        artifacts={
            (str(each.get("name")), str(each.get("path"))): str(each.get("digest"))
            for each in (entries if isinstance(entries, list) else ())
            if isinstance(each, dict)
        },
        verified=document.unverified is None,
        recorded={},
        manifest=bundle.manifest,
        token_text=token_text(bundle, store),
    )


def prompt_is_known(sequence: TokenSequence) -> bool:
    """Return whether the prompt is kept as token ids."""
    return not (isinstance(sequence, OlderSequence) and sequence.prompt_is_bytes)


def text_is_known(sequence: TokenSequence) -> bool:
    """Return whether the answer is kept as text."""
    return not isinstance(sequence, OlderSequence) or sequence.text_is_known


def _sampling(parameters: Mapping[str, Any]) -> dict[str, Any]:
    names = ("max_tokens", "seed", "temperature", "top_k", "top_p")
    return {name: parameters[name] for name in names if name in parameters}


def _sampling_by_id(parameters: Any) -> dict[str, Mapping[str, Any]] | None:
    if not isinstance(parameters, list):
        return None
    return {
        str(each["id"]): _sampling(each["sampling"])
        for each in parameters
        if isinstance(each, dict) and isinstance(each.get("sampling"), dict) and "id" in each
    }


def _without_places(software: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: {key: item for key, item in value.items() if key != "executable"}
        if isinstance(value, dict)
        else value
        for name, value in software.items()
    }
