"""The block `inference`: which prompts are answered, and how tokens are sampled and batched."""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from dis_derivations.manifest.block import Block, Items
from dis_derivations.manifest.model_block import FileSource
from dis_derivations.manifest.scalars import DigestText, NonEmpty
from dis_derivations.manifest.text_forms import check_date, declared_sha256
from dis_store.digest import Sha256

Positive = Annotated[int, Field(gt=0)]
TokenId = Annotated[int, Field(ge=0)]


def _top_k(value: int) -> int:
    if value < -1:
        raise ValueError("must be at least 1, or -1, 0 or null for no limit")
    return value


class Sampling(Block):
    """How the next token is chosen; temperature 0 is greedy."""

    temperature: Annotated[float, Field(ge=0)]
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    top_k: Annotated[int, AfterValidator(_top_k)] | None = None
    max_tokens: Positive
    seed: int | None = None

    @model_validator(mode="after")
    def _chance_has_a_seed(self) -> Self:
        if self.temperature > 0 and self.seed is None:
            raise ValueError("must have 'seed' when the temperature is above 0")
        return self


class Stop(Block):
    """What ends a sequence, beside the model's own end-of-sequence tokens."""

    sequences: Items[NonEmpty] = ()
    token_ids: Items[TokenId] = ()


class Message(Block):
    """One turn of a conversation."""

    role: NonEmpty
    content: str


class Request(Block):
    """One prompt, given as text, as messages or as token ids."""

    id: NonEmpty
    kind: Literal["completion", "chat"]
    prompt: str | None = None
    messages: Annotated[Items[Message], Field(min_length=1)] | None = None
    prompt_token_ids: Annotated[Items[TokenId], Field(min_length=1)] | None = None
    sampling: Sampling
    stop: Stop = Stop()
    x_arrival_ms: Annotated[int, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _has_one_prompt(self) -> Self:
        given = [
            name
            for name in ("prompt", "messages", "prompt_token_ids")
            if getattr(self, name) is not None
        ]
        if len(given) != 1:
            found = " and ".join(map(repr, given)) or "none of them"
            raise ValueError(
                f"must have one of 'prompt', 'messages' and 'prompt_token_ids'; it has {found}"
            )
        if self.kind == "chat" and self.prompt is not None:
            raise ValueError(
                "is of kind 'chat', which has 'messages' or 'prompt_token_ids', not 'prompt'"
            )
        return self


class RequestTemplate(Block):
    """What every request made from the dataset has in common."""

    kind: Literal["completion", "chat"]
    sampling: Sampling
    stop: Stop = Stop()
    id_prefix: NonEmpty | None = None


def _path_or_source(schema: dict[str, Any]) -> None:
    """Say in the JSON Schema that a source may be a plain path."""
    described = dict(schema)
    schema.clear()
    schema["anyOf"] = [{"type": "string", "minLength": 1}, described]


class Dataset(Block):
    """The prompts, of which the first `n_prompts` are taken in file order.

    Attributes:
        source: Written as the path of a file, relative to the manifest that says so, or as a source
            like a model's.
    """

    source: Annotated[FileSource, Field(json_schema_extra=_path_or_source)]
    digest: DigestText | None = None
    format: Literal["conversations", "jsonl", "text"] = "conversations"

    @model_validator(mode="before")
    @classmethod
    def _path_is_a_local_source(cls, value: Any) -> Any:
        if isinstance(value, dict) and isinstance(value.get("source"), str):
            return {**value, "source": {"type": "local", "local_path": value["source"]}}
        return value

    @property
    def sha256(self) -> Sha256 | None:
        """The declared digest; None where it is absent or unset."""
        return declared_sha256(self.digest)


class Batching(Block):
    """How many sequences share a step of the engine."""

    policy: Literal["fixed"] = "fixed"
    schedule: Literal["offline_deterministic", "batch_invariant", "replay"] = (
        "offline_deterministic"
    )
    max_num_seqs: Positive = 1
    max_num_batched_tokens: Positive | None = None
    fixed_request_order: bool = True
    concurrency: Positive = 1


class Inference(Block):
    """The whole block; docs/reference/manifest.md describes its fields."""

    requests: Annotated[Items[Request], Field(min_length=1)] | None = None
    n_prompts: Positive | None = None
    request_template: RequestTemplate | None = None
    dataset: Dataset | None = None
    pinned_date: Annotated[str, AfterValidator(check_date)] | None = None
    batching: Batching = Batching()
