"""What a server tells of itself, and what of that a manifest did not want."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from dis_derivations.engines.openai_compatible.asking import Server
from dis_derivations.engines.openai_compatible.identity import (
    UNPROVEN_WEIGHTS,
    departures,
    read_server,
)
from dis_derivations.engines.openai_compatible.place import server_place
from dis_store import canonical_json
from dis_store.errors import BuildError, InvalidInputError
from scripted_server import ScriptedServer, scripted_server


@pytest.fixture
def scripted() -> Iterator[ScriptedServer]:
    with scripted_server() as server:
        yield server


def read(scripted: ScriptedServer, model: str | None = "tiny") -> dict[str, Any]:
    return read_server(Server(server_place(scripted.url, {}), 5, lambda: None), model)


def document(**arguments: Any) -> dict[str, Any]:
    return {
        "vllm": {"engine_args": {"model": "tiny", **arguments}},
        "inference": {"batching": {"max_num_seqs": 2}},
        "software_stack": {"python": {"packages": [{"name": "vllm", "version": "0.32.0"}]}},
    }


def test_what_can_change_a_bit_is_told_and_no_place_of_the_server(scripted: ScriptedServer) -> None:
    found = read(scripted)
    assert found["settings"]["dtype"] == "bfloat16"
    assert found["system"]["cpu_model"] == "A CPU"
    text = canonical_json.encode(found).decode()
    assert "/srv/a-place" not in text
    assert "/home/somebody" not in text
    assert scripted.place not in text
    assert read(scripted) == found


def test_a_server_that_is_as_wanted_still_does_not_prove_its_weights(
    scripted: ScriptedServer,
) -> None:
    wanted = document(dtype="bfloat16", enforce_eager=True, kv_cache_dtype="auto")
    assert departures(wanted, read(scripted)) == [UNPROVEN_WEIGHTS]


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        ({"dtype": "float32"}, "vllm.engine_args.dtype"),
        ({"model": "huge"}, "vllm.engine_args.model"),
        ({"seed": 4}, "vllm.engine_args.seed"),
        ({"enable_prefix_caching": True}, "vllm.engine_args.enable_prefix_caching"),
        ({"attention_backend": "X", "quantization": None, "block_size": 32}, "vllm.engine_args.block_size"),
    ],
)  # fmt: skip
def test_what_differs_is_named(
    scripted: ScriptedServer, arguments: dict[str, Any], place: str
) -> None:
    found = departures(document(**arguments), read(scripted))
    assert [line for line in found if line.startswith(f"{place}:")]


def test_another_version_and_another_batch_size_are_named(scripted: ScriptedServer) -> None:
    scripted.version = "0.33.0"
    assert scripted.info is not None
    scripted.info["vllm_config"]["scheduler_config"]["max_num_seqs"] = 256
    found = "\n".join(departures(document(), read(scripted)))
    assert "vllm: the server has version '0.33.0', and the manifest '0.32.0'" in found
    assert "inference.batching.max_num_seqs: the manifest wants 2, and the server has 256" in found


def test_a_prefix_cache_is_a_departure_though_the_manifest_says_nothing_of_it(
    scripted: ScriptedServer,
) -> None:
    assert scripted.info is not None
    scripted.info["vllm_config"]["cache_config"]["enable_prefix_caching"] = True
    assert any("enable_prefix_caching" in line for line in departures(document(), read(scripted)))


def test_what_a_server_does_not_tell_is_named_and_its_place_tells_it_from_others(
    scripted: ScriptedServer,
) -> None:
    scripted.info = None
    found = read(scripted)
    assert found["settings"] is None
    lines = departures(document(dtype="bfloat16"), found)
    assert any("dtype" in line and "does not tell" in line for line in lines)
    with scripted_server() as other:
        other.info = None
        assert read(other)["address"] != found["address"]
    assert scripted.place not in json.dumps(found)


@pytest.mark.parametrize("info", [{}, {"vllm_config": 1}, {"vllm_config": {"model_config": []}}])
def test_what_it_tells_in_another_form_counts_as_not_told(
    scripted: ScriptedServer, info: dict[str, Any]
) -> None:
    scripted.info = info
    assert any("dtype" in line for line in departures(document(dtype="float16"), read(scripted)))


def test_of_several_models_the_one_of_the_manifest_is_asked(scripted: ScriptedServer) -> None:
    scripted.models = ["other", "tiny"]
    assert read(scripted)["model"]["id"] == "tiny"
    with pytest.raises(InvalidInputError, match="has no model 'third'"):
        read(scripted, "third")


def test_a_server_without_models_is_none(scripted: ScriptedServer) -> None:
    scripted.models = []
    with pytest.raises(BuildError, match="which models"):
        read(scripted)
