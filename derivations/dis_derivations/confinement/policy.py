"""Which builds a manifest wants to keep off the network, and where they are made then."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dis_store.errors import UnsupportedError

if TYPE_CHECKING:
    from dis_derivations.confinement.confined_process import ConfinedProcess
    from dis_derivations.realisation.building import Builder

_ASKING_THE_ENGINE = frozenset({"run", "generation"})
_STARTING_AN_ENGINE = frozenset({"generation", "probe"})


def forbids_network(document: Mapping[str, Any]) -> bool:
    """Tell whether a manifest wants its builds to have no network."""
    return bool(document["runtime"].get("network_policy") == "offline_required")


def confinement_for(document: Mapping[str, Any], target: str) -> "ConfinedProcess | None":
    """Start the process in which the builds of a target are made, if the manifest forbids them the network.

    Raises:
        NoConfinementError: This machine cannot enforce it.
        UnsupportedError: The engine is a server, which no process of this machine can be kept from.
    """
    from dis_derivations.graph.compilation import FIXED_OUTPUTS

    # What is a fixed output is fetched, and nothing else is done for it.
    if not forbids_network(document) or target in FIXED_OUTPUTS:
        return None
    if target in _ASKING_THE_ENGINE:
        _refuse_servers(document)
    from dis_derivations.confinement.confined_process import ConfinedProcess

    return ConfinedProcess.start()


def _refuse_servers(document: Mapping[str, Any]) -> None:
    from dis_derivations.engines.registry import engine_kind

    backend = document["runtime"]["execution"]["backend"]
    if engine_kind(backend).platform == "server":
        raise UnsupportedError(
            "runtime.network_policy is offline_required, and the engine is a server that is asked over the network",
            cause=f"nobody can keep the engine {backend!r} off the network from here, on this machine or another",
            hint="allow the network, --set runtime.network_policy=online_allowed, or run another engine",
        )


def builders_for(
    builders: "Mapping[str, Builder]", process: "ConfinedProcess | None", *, contained: bool = False
) -> "Mapping[str, Builder]":
    """Return builders whose builds are made in a process without network, if there is one for them.

    Args:
        builders: All of them.
        process: Where they are made; None where they may use the network.
        contained: Whether the engine runs in a container, which has no network either. Those that start one are then
            made outside of the process: from inside nobody may speak with Docker, who could give anybody a network.
    """
    if process is None:
        return builders
    from dis_derivations.confinement.confined_builder import confined

    left_out = _STARTING_AN_ENGINE if contained else frozenset()
    inside = {name: builder for name, builder in builders.items() if name not in left_out}
    return {**builders, **confined(inside, process)}
