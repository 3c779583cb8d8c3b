"""Whether a model can run the requests, before an engine is asked."""

from collections.abc import Sequence

from dis_derivations.engines.protocol import Request
from dis_store.errors import InvalidInputError


def check_requests(requests: Sequence[Request], vocabulary: int | None, context: int) -> None:
    """Check that a model can run the requests.

    Args:
        requests: All of them.
        vocabulary: How many tokens the model knows; None where its configuration does not say.
        context: How long a sequence may become.

    Raises:
        InvalidInputError: A request samples without a seed, or its prompt is empty, too long or holds a token that the
            model lacks.
    """
    for request in requests:
        tokens = request.prompt_token_ids
        if request.sampling.temperature > 0 and request.sampling.seed is None:
            raise InvalidInputError(f"request {request.id} samples and has no seed")
        check_length(request)
        if len(tokens) >= context:
            raise InvalidInputError(
                f"the prompt of request {request.id} is too long",
                cause=f"it has {len(tokens)} tokens, and a sequence may have {context}, with its answer",
                hint="shorten it, or raise vllm.engine_args.max_model_len if the model can do more",
            )
        beyond = [token for token in tokens if vocabulary is not None and token >= vocabulary]
        if beyond:
            raise InvalidInputError(
                f"the prompt of request {request.id} holds the token {beyond[0]}",
                cause=f"the model knows the tokens 0 to {(vocabulary or 0) - 1}",
            )


def check_length(request: Request) -> None:
    """Check that a request has a prompt and asks for an answer, which every engine needs.

    Raises:
        InvalidInputError: It lacks one of them.
    """
    if request.sampling.max_tokens < 1:
        raise InvalidInputError(f"request {request.id} must ask for at least one token")
    if not request.prompt_token_ids:
        raise InvalidInputError(f"the prompt of request {request.id} has no tokens")
