"""What a server is told: what the engine vllm is told, and what only a server understands."""

from typing import Any

import pytest

from dis_derivations.engines.protocol import Batching
from dis_derivations.engines.vllm.settings import engine_arguments
from dis_derivations.serving.arguments import placed, server_arguments
from dis_derivations.serving.served import Served, what_is_served
from dis_store.errors import UnsupportedError

CONFIG = {"num_hidden_layers": 2, "hidden_size": 8, "num_attention_heads": 2}


def document(**engine_args: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "my model"},
        "runtime": {"execution": {"backend": "vllm"}, "network_policy": "online_allowed"},
        "vllm": {"engine_args": engine_args},
        "capture": {"tokens": True},
    }


def options(served: Served, **settings: Any) -> list[str]:
    return server_arguments(settings, Batching(4), CONFIG, 128, served)


def test_the_model_is_called_what_a_run_asks_for() -> None:
    assert what_is_served(document(model="org/model")).model == "org/model"
    found = what_is_served(document())
    assert (found.model, found.name) == ("my model", "my-model")


def test_every_argument_of_the_engine_is_said_but_the_one_that_takes_its_texts() -> None:
    told = options(what_is_served(document()), dtype="bfloat16")
    for name, value in engine_arguments({"dtype": "bfloat16"}, Batching(4), CONFIG, 128).items():
        option = f"--{name.replace('_', '-')}"
        said = f"{option}={value}"
        if isinstance(value, bool):
            said = option if value else f"--no-{option[2:]}"
        assert (said in told) is (name != "skip_tokenizer_init"), name


def test_what_is_said_of_conversations_goes_to_the_server_and_not_into_the_closure() -> None:
    served = what_is_served(document(enable_auto_tool_choice=True, tool_call_parser="hermes"))
    told = options(served)
    assert {"--enable-auto-tool-choice", "--tool-call-parser=hermes"} <= set(told)
    assert "vllm.engine_args.tool_call_parser=null" in served.overrides


def test_a_server_tells_logits_where_the_manifest_captures_them() -> None:
    plain = document()
    assert not any(each.startswith("--logprobs-mode") for each in options(what_is_served(plain)))
    plain["capture"]["logits"] = {"enabled": True}
    told = options(what_is_served(plain))
    assert {"--logprobs-mode=raw_logits", "--max-logprobs=-1"} <= set(told)


def test_no_page_of_the_web_may_ask_it() -> None:
    assert "--allowed-origins=[]" in options(what_is_served(document()))


def test_it_listens_where_it_is_told() -> None:
    assert placed(["--x"], "/model", "127.0.0.1", 8000) == [
        "-m", "vllm.entrypoints.openai.api_server",
        "--model=/model", "--host=127.0.0.1", "--port=8000", "--x",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("base_url", "port"),
    [
        ("http://127.0.0.1:8123/v1", 8123),
        ("http://localhost:81", 81),
        ("https://example.org/v1", None),
        ("http://example.org:8000", None),
        ("nonsense", None),
    ],
)
def test_the_port_is_that_of_an_address_on_this_machine(base_url: str, port: int | None) -> None:
    served = document()
    served["runtime"]["execution"] = {"backend": "openai_compatible", "base_url": base_url}
    assert what_is_served(served).port == port


@pytest.mark.parametrize("backend", ["reference", "transformers", "mock"])
def test_a_manifest_for_another_engine_is_refused(backend: str) -> None:
    served = document()
    served["runtime"]["execution"]["backend"] = backend
    with pytest.raises(UnsupportedError, match=f"no server of the engine {backend}") as caught:
        what_is_served(served)
    assert "--set runtime.execution.backend=vllm" in (caught.value.hint or "")
