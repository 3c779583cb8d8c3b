"""Whether a model can run the requests, before its weights are read."""

from collections.abc import Sequence

from dis_derivations.engines.protocol import Request
from dis_derivations.engines.reference.config_values import unsupported
from dis_derivations.engines.reference.drawing import MOST_TOKENS
from dis_derivations.engines.request_checks import check_length
from dis_store.errors import InvalidInputError


def check_requests(requests: Sequence[Request], vocabulary: int, context: int) -> None:
    """Check that the engine can run the requests.

    Raises:
        UnfitEnvironmentError: A request samples from more tokens than sums are exact for.
        InvalidInputError: A request samples without a seed, or its prompt is empty, too long or
            holds a token that the model lacks.
    """
    for request in requests:
        if request.sampling.temperature > 0:
            _check_chance(request, vocabulary)
        check_length(request)
        tokens = request.prompt_token_ids
        if len(tokens) >= context:
            raise InvalidInputError(
                f"the prompt of request {request.id} is too long",
                cause=f"it has {len(tokens)} tokens, and the context of {context} must hold one more",
            )
        if not 0 <= min(tokens) <= max(tokens) < vocabulary:
            raise InvalidInputError(
                f"the prompt of request {request.id} holds a token that the model does not have",
                cause=f"token ids run from 0 to {vocabulary - 1}",
                hint="check that tokenizer.json belongs to these weights",
            )


def _check_chance(request: Request, vocabulary: int) -> None:
    if request.sampling.seed is None:
        raise InvalidInputError(
            f"request {request.id} samples without a seed",
            cause=f"its temperature is {request.sampling.temperature}",
            hint="give its sampling a seed, or the temperature 0",
        )
    if vocabulary > MOST_TOKENS:
        raise unsupported(
            "sampling with this model",
            f"it has {vocabulary} tokens; sums of weights are exact up to {MOST_TOKENS}",
        )
