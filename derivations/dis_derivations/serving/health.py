"""Whether a server answers, as vLLM's own health endpoint tells."""

from dis_derivations.transport.address import parse_address
from dis_derivations.transport.local_server import status_at

VERSIONED = "/v1"
_OK = 200


def is_healthy(url: str) -> bool:
    """Tell whether a server answers that it is well.

    Args:
        url: The address that users are told, with `/v1`.
    """
    return status_at(parse_address(f"{url.removesuffix(VERSIONED)}/health")) == _OK
