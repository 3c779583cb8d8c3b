"""What a manifest says of a server: its model's name, what only servers are told, and the manifest of its closure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dis_derivations.confinement.policy import forbids_network
from dis_derivations.engines.registry import SERVER, VLLM
from dis_derivations.serving.names import name_for
from dis_derivations.transport.address import UnsafeAddressError, parse_address
from dis_store.errors import UnsupportedError

# What vLLM's server is told of conversations. The engine vllm, which has none, refuses them.
_OF_CONVERSATIONS = ("enable_auto_tool_choice", "tool_call_parser", "reasoning_parser")


@dataclass(frozen=True)
class Served:
    """What is served.

    Attributes:
        name: What the server is called where nobody says it.
        model: The name under which the model is asked for: the manifest's, so that a run on the server finds it.
        conversations: Arguments about conversations.
        tells_logits: Whether it is to tell logits in place of probabilities, as a run that captures them needs it.
        forbids_network: Whether runs of the manifest may use no network, as those on a server do.
        port: That of the address that the manifest has for its server; None where it has none on this machine.
        overrides: Make of the manifest that of the engine vllm, whose closure is served.
    """

    name: str
    model: str
    conversations: Mapping[str, Any]
    tells_logits: bool
    forbids_network: bool
    port: int | None
    overrides: tuple[str, ...]


def what_is_served(document: Mapping[str, Any]) -> Served:
    """Return what a manifest says of its server.

    Args:
        document: The effective manifest, validated.

    Raises:
        UnsupportedError: It is for an engine of which there is no server.
    """
    execution, vllm = document["runtime"]["execution"], document["vllm"]
    backend = execution["backend"]
    if backend not in {VLLM.name, SERVER.name}:
        raise UnsupportedError(
            f"there is no server of the engine {backend}",
            cause=f"a manifest that is served is one for {VLLM.name} or {SERVER.name}",
            hint=f"serve its model on vLLM: --set runtime.execution.backend={VLLM.name}",
        )
    arguments = vllm.get("engine_args") or {}
    said = {name: arguments[name] for name in _OF_CONVERSATIONS if arguments.get(name)}
    name = str(document["metadata"]["name"])
    logits = document["capture"].get("logits") or {}
    base_url = execution.get("base_url")
    return Served(
        name=name_for(name),
        model=str(arguments.get("model") or name),
        conversations=said,
        tells_logits=bool(logits.get("enabled")),
        forbids_network=forbids_network(document),
        port=None if base_url is None else _port_here(base_url),
        overrides=(
            f"runtime.execution.backend={VLLM.name}",
            "vllm.mode=offline",
            *(f"vllm.engine_args.{name}=null" for name in said),
        ),
    )


def _port_here(base_url: str) -> int | None:
    """Return the port of an address on this machine; http is spoken to no other."""
    try:
        address = parse_address(base_url)
    except UnsafeAddressError:
        return None
    return address.port if address.scheme == "http" else None
