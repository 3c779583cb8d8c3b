"""What a server is asked for one prompt, and its answer, of which nothing is taken that had to be guessed."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dis_derivations.engines.protocol import Request

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_TOKEN = "token_id:"  # noqa: S105 - how a server writes tokens, no secret
# What vLLM puts in the place of everything below.
_LOWEST = -9999.0
_ANSWER_BYTES = 1 << 20
_TOKEN_BYTES = 4096
_LOGIT_BYTES = 64


@dataclass(frozen=True)
class Completion:
    """What a server answered.

    Attributes:
        token_ids: Every token chosen.
        finish_reason: `stop` or `length`, as it says.
        log_probabilities: Of the chosen tokens, in the meaning that its `logprobs_mode` has.
        fingerprint: How it calls its configuration; None where it does not.
        logits: [tokens, vocabulary], where they were asked for.
    """

    token_ids: tuple[int, ...]
    finish_reason: str
    log_probabilities: tuple[float, ...]
    fingerprint: str | None
    logits: "NDArray[np.float64] | None"


def completion_request(
    request: Request, model: str, most: int, stop_token_ids: Sequence[int], logprobs: int
) -> dict[str, Any]:
    """Return the body of a request: all that a server would else take from a checkpoint or from its own defaults.

    Args:
        request: The prompt and how its answer is chosen.
        model: The server's name of the model.
        most: The most tokens of the answer.
        stop_token_ids: All that end it, the model's own ends among them.
        logprobs: How many tokens at each step are told with their values; 0 for the chosen one.
    """
    sampling = request.sampling
    return {
        "model": model,
        "prompt": list(request.prompt_token_ids),
        "max_tokens": most,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": max(sampling.top_k, 0),
        **({} if sampling.seed is None else {"seed": sampling.seed}),
        "stop": list(request.stop.sequences),
        "stop_token_ids": list(stop_token_ids),
        # All that ends a sequence is among the stop tokens.
        "ignore_eos": True,
        "min_p": 0,
        "min_tokens": 0,
        "n": 1,
        "presence_penalty": 0,
        "frequency_penalty": 0,
        "repetition_penalty": 1,
        "echo": False,
        "stream": False,
        "add_special_tokens": False,
        "skip_special_tokens": True,
        "logprobs": logprobs,
        "return_token_ids": True,
        "return_tokens_as_token_ids": True,
    }


def answer_limit(most: int, logprobs: int) -> int:
    """Return the most bytes that an answer of so many tokens can have."""
    return _ANSWER_BYTES + most * (_TOKEN_BYTES + logprobs * _LOGIT_BYTES)


def parse_completion(
    document: object, asked: Mapping[str, Any], vocabulary: int | None
) -> Completion:
    """Return what a server answered.

    Args:
        document: Its answer.
        asked: What it was asked.
        vocabulary: How many tokens the model knows; None where that is not known.

    Raises:
        ValueError: The answer is not one to what was asked, or leaves a token to be guessed.
    """
    answer = _object(document, "the answer")
    if answer.get("model") != asked["model"]:
        raise ValueError(f"it is of the model {answer.get('model')!r:.80}")
    choices = answer.get("choices")
    if not isinstance(choices, list) or len(choices) != 1:
        raise ValueError("it has not one choice")
    choice = _object(choices[0], "its choice")
    if "token_ids" not in choice or choice["token_ids"] is None:
        raise ValueError("it has text and no token ids, which dis does not guess")
    if _tokens(choice.get("prompt_token_ids"), "the prompt", vocabulary) != asked["prompt"]:
        raise ValueError("it is to another prompt than the one that was sent")
    tokens = _tokens(choice["token_ids"], "the answer", vocabulary)
    if not 0 < len(tokens) <= asked["max_tokens"]:
        raise ValueError(f"it has {len(tokens)} tokens, of 1 to {asked['max_tokens']}")
    reason = choice.get("finish_reason")
    if reason not in ("stop", "length"):
        raise ValueError(f"it ended with {reason!r:.80}")
    _check_usage(answer.get("usage"), len(asked["prompt"]), len(tokens))
    fingerprint = answer.get("system_fingerprint")
    if fingerprint is not None and not (isinstance(fingerprint, str) and len(fingerprint) < 1000):  # noqa: PLR2004
        raise ValueError("its fingerprint is no text")
    values = _object(choice.get("logprobs"), "its `logprobs`")
    return Completion(
        token_ids=tuple(tokens),
        finish_reason=reason,
        log_probabilities=_log_probabilities(values, tokens),
        fingerprint=fingerprint,
        logits=_logits(values, len(tokens), asked["logprobs"]) if asked["logprobs"] else None,
    )


def _check_usage(usage: object, prompt: int, output: int) -> None:
    if usage is None:
        return
    counted = _object(usage, "its `usage`")
    if (counted.get("prompt_tokens"), counted.get("completion_tokens")) != (prompt, output):
        raise ValueError("it counts other tokens than it has")
    details = counted.get("prompt_tokens_details")
    if isinstance(details, dict) and details.get("cached_tokens"):
        raise ValueError(
            f"{details['cached_tokens']!r:.20} positions were taken from earlier requests in place of being computed"
        )


def _log_probabilities(values: Mapping[str, Any], tokens: Sequence[int]) -> tuple[float, ...]:
    """Return the values of the chosen tokens, after a look at whether they are those of these tokens."""
    named, numbers = values.get("tokens"), values.get("token_logprobs")
    if named != [f"{_TOKEN}{token}" for token in tokens]:
        raise ValueError("its `logprobs` are of other tokens than its token ids")
    if not isinstance(numbers, list) or len(numbers) != len(tokens):
        raise ValueError("its `logprobs` have not one value for each token")
    return tuple(_number(each) for each in numbers)


def _logits(values: Mapping[str, Any], count: int, vocabulary: int) -> "NDArray[np.float64]":
    import numpy as np

    tables = values.get("top_logprobs")
    if not isinstance(tables, list) or len(tables) != count:
        raise ValueError("it has not one table of logits for each token")
    names = [f"{_TOKEN}{token}" for token in range(vocabulary)]
    rows = np.empty((count, vocabulary))
    for row, table in zip(rows, tables, strict=True):
        if (
            not isinstance(table, dict)
            or len(table) != vocabulary
            or not all(map(table.__contains__, names))
        ):
            raise ValueError(f"a table of logits is not of the {vocabulary} tokens")
        row[:] = [_number(table[name]) for name in names]
    if (rows <= _LOWEST).any():
        raise ValueError(
            f"a logit is {_LOWEST}, which the server puts in the place of what is lower"
        )
    return rows


def _tokens(value: object, of: str, vocabulary: int | None) -> list[int]:
    if not isinstance(value, list):
        message = f"it has no token ids of {of}, which dis does not guess"
        raise ValueError(message)  # noqa: TRY004 - every contradiction is a ValueError
    for each in value:
        if not isinstance(each, int) or isinstance(each, bool) or each < 0:
            raise ValueError(f"{each!r:.40} among the tokens of {of}")
        if vocabulary is not None and each >= vocabulary:
            raise ValueError(f"the token {each} of {of}, and the model knows 0 to {vocabulary - 1}")
    return value


def _number(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise ValueError(f"{value!r:.40} among its `logprobs`")
    return float(value)


def _object(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{what} is no object")  # noqa: TRY004 - every contradiction is a ValueError
    return value
