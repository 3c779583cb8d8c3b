"""What vLLM's server is told: the arguments of the vLLM engine as options, and those of servers."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dis_derivations.engines.protocol import Batching
from dis_derivations.engines.vllm.settings import engine_arguments
from dis_derivations.serving.served import Served

MODULE = "vllm.entrypoints.openai.api_server"
# Makes a server tell its settings, by which a run on it is known; and turns on endpoints that call what they are told,
# for whoever reaches the port, pages of the web in a browser of this machine among them.
TELLING: Mapping[str, str] = {"VLLM_SERVER_DEV_MODE": "1"}
# Texts come to a server as well as token ids.
_NOT_OF_SERVERS = frozenset({"skip_tokenizer_init"})
# Options that have no form with `--no-`, so that False is said by leaving them out.
_SWITCHES = frozenset({"disable_log_stats", "enable_auto_tool_choice"})


def server_arguments(
    settings: Mapping[str, Any],
    batching: Batching,
    config: Mapping[str, Any],
    context: int,
    served: Served,
) -> list[str]:
    """Return the options of vLLM's server, but for where its model is and where it listens.

    Args:
        settings: The `settings` of the closure's engine.
        batching: How many sequences share a step.
        config: The model's `config.json`.
        context: How long a sequence may become.
        served: What only servers are told.
    """
    told = {
        name: value
        for name, value in engine_arguments(settings, batching, config, context).items()
        if name not in _NOT_OF_SERVERS
    }
    if served.tells_logits:
        told |= {"logprobs_mode": "raw_logits", "max_logprobs": -1}
    told |= served.conversations
    return [
        f"--served-model-name={served.model}",
        *_options(told),
        # No page of the web that a browser on this machine shows may read an answer.
        "--allowed-origins=[]",
        "--disable-uvicorn-access-log",
        "--uvicorn-log-level=warning",
    ]


def placed(options: Sequence[str], model: str, host: str, port: int) -> list[str]:
    """Return what follows the interpreter: the server's module, with its model and where it listens."""
    return ["-m", MODULE, f"--model={model}", f"--host={host}", f"--port={port}", *options]


def _options(told: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted(told):
        option, value = name.replace("_", "-"), told[name]
        if value is True:
            yield f"--{option}"
        elif value is not False:
            yield f"--{option}={value}"
        elif name not in _SWITCHES:
            yield f"--no-{option}"
