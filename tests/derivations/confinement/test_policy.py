"""When builds are kept off the network, and what is refused because they cannot be."""

from dataclasses import replace
from typing import Any

import pytest

from dis_derivations.builders import standard_builders
from dis_derivations.confinement import policy
from dis_derivations.confinement.confined_builder import ConfinedBuilder
from dis_derivations.engines import registry
from dis_store.errors import UnsupportedError


def document(
    network: str | None = "offline_required", backend: str = "reference"
) -> dict[str, Any]:
    runtime: dict[str, Any] = {"execution": {"backend": backend}}
    if network is not None:
        runtime["network_policy"] = network
    return {"runtime": runtime}


@pytest.mark.parametrize("network", [None, "online_allowed"])
def test_nothing_is_started_where_the_network_is_allowed(network: str | None) -> None:
    assert policy.confinement_for(document(network), "run") is None
    builders = standard_builders()
    assert policy.builders_for(builders, None) is builders


@pytest.mark.parametrize(
    "target", ["weights", "tokenizer", "config", "chat_template", "dataset", "image"]
)
def test_nothing_is_started_for_what_is_only_fetched(target: str) -> None:
    assert policy.confinement_for(document(), target) is None


def test_every_builder_is_kept_off_the_network_but_the_one_that_fetches() -> None:
    process = policy.confinement_for(document(), "requests")
    assert process is not None
    with process:
        confined = policy.builders_for(standard_builders(), process)
    free = {name for name, builder in confined.items() if not isinstance(builder, ConfinedBuilder)}
    assert free == {"files"}
    for name, builder in standard_builders().items():
        assert confined[name].version == builder.version


def test_what_starts_a_container_without_network_is_made_where_docker_can_be_spoken_with() -> None:
    process = policy.confinement_for(document(), "requests")
    assert process is not None
    with process:
        confined = policy.builders_for(standard_builders(), process, contained=True)
    free = {name for name, builder in confined.items() if not isinstance(builder, ConfinedBuilder)}
    assert free == {"files", "generation"} | ({"probe"} & confined.keys())
    assert confined.keys() == standard_builders().keys()


def test_an_engine_that_is_a_server_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = replace(registry.REFERENCE, name="mock", platform="server")
    monkeypatch.setitem(registry._KINDS, "mock", asked)
    for target in ("run", "generation"):
        with pytest.raises(UnsupportedError, match="a server that is asked over the network"):
            policy.confinement_for(document(backend="mock"), target)
    process = policy.confinement_for(document(backend="mock"), "requests")
    assert process is not None
    process.close()
