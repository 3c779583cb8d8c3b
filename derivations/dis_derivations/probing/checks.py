"""Which checks there are, and which experiments answer them for one manifest on one machine."""

from collections.abc import Mapping, Sequence
from typing import Any

from dis_derivations.engines.registry import MOCK, REFERENCE, VLLM, EngineKind, engine_kind
from dis_derivations.graph.compilation import batching, capture_plan
from dis_derivations.probing.experiment import Check, CheckName, Repetition, Variation, WarmCache
from dis_derivations.probing.machine import SERVER, Machine
from dis_store.errors import InvalidInputError

QUESTIONS: Mapping[CheckName, str] = {
    "same-process": "asked again in the same process",
    "new-process": "asked again in a new process",
    "alone": "one request at a time, and several at once",
    "batch-size": "another number of requests at once",
    "order": "the requests in another order",
    "prefix-cache": "prompts that begin like earlier ones, from a warm cache",
    "threads": "another number of threads",
    "instruction-set": "fewer instructions of the CPU",
    "reference": "the tokens of the reference engine",
}
_MANY = 8
# The smallest block of keys and values that vLLM's attention on the CPU knows.
_SMALL_BLOCK = 32
_ONE_BY_ONE = "a server is asked one request after the other, and what is in a batch with it the server decides"
_ELSEWHERE = "the engine is a server, which dis neither starts nor sets up"


def chosen(names: Sequence[str]) -> tuple[CheckName, ...]:
    """Return the checks of these names in the order in which they are made; all where none is named.

    Raises:
        InvalidInputError: There is no such check.
    """
    unknown = [name for name in names if name not in QUESTIONS]
    if unknown:
        raise InvalidInputError(
            f"there is no check {unknown[0]!r}", cause=f"checks are {', '.join(QUESTIONS)}"
        )
    return tuple(name for name in QUESTIONS if not names or name in names)


def plan(
    document: Mapping[str, Any], machine: Machine, names: Sequence[CheckName]
) -> tuple[Check, ...]:
    """Return the checks of a manifest; those that cannot be made say why."""
    engine = engine_kind(document["runtime"]["execution"]["backend"])
    made = {
        "same-process": lambda: Check("same-process", (Repetition("same process"),)),
        "new-process": lambda: _new_process(engine),
        "alone": lambda: _alone(engine, document),
        "batch-size": lambda: _batch_size(engine, document),
        "order": lambda: _order(document),
        "prefix-cache": lambda: _prefix_cache(engine, document, machine),
        "threads": lambda: _threads(engine, machine),
        "instruction-set": lambda: _instruction_set(engine, document, machine),
        "reference": lambda: _reference(engine, document),
    }
    return tuple(made[name]() for name in names)


def _new_process(engine: EngineKind) -> Check:
    if engine.platform == SERVER:
        return Check("new-process", (), _ELSEWHERE)
    return Check("new-process", (Repetition("new process"),))


def request_count(document: Mapping[str, Any]) -> int:
    """Return how many requests a manifest has."""
    inference = document["inference"]
    return int(inference.get("n_prompts") or len(inference["requests"]))


def _at_once(document: Mapping[str, Any]) -> tuple[int, int]:
    """Return how many requests are in a batch, and how many there are."""
    count = request_count(document)
    return min(int(batching(document)["max_num_seqs"]), count), count


def _sized(name: CheckName, size: int) -> Check:
    return Check(name, (Variation({"/inference/batching/max_num_seqs": size}),))


def _alone(engine: EngineKind, document: Mapping[str, Any]) -> Check:
    if engine.platform == SERVER:
        return Check("alone", (), _ONE_BY_ONE)
    at_once, count = _at_once(document)
    if count == 1:
        return Check("alone", (), "the manifest has one request")
    return _sized("alone", 1 if at_once > 1 else min(count, _MANY))


def _batch_size(engine: EngineKind, document: Mapping[str, Any]) -> Check:
    if engine.platform == SERVER:
        return Check("batch-size", (), _ONE_BY_ONE)
    at_once, count = _at_once(document)
    taken = {1, at_once, min(count, _MANY) if at_once == 1 else 1}
    sizes = [
        size for size in (at_once // 2, *range(2, count + 1)) if size not in taken and size > 1
    ]
    if not sizes:
        plural = "" if count == 1 else "s"
        reason = f"{count} request{plural} can be in no batch that the check `alone` does not have"
        return Check("batch-size", (), reason)
    return _sized("batch-size", sizes[0])


def _order(document: Mapping[str, Any]) -> Check:
    if request_count(document) == 1:
        return Check("order", (), "the manifest has one request")
    return Check("order", (Variation({}, reordered=True),))


def _prefix_cache(engine: EngineKind, document: Mapping[str, Any], machine: Machine) -> Check:
    if engine.platform == SERVER:
        return Check("prefix-cache", (), _cache_of_a_server(machine.server_caches))
    if engine != VLLM:
        return Check("prefix-cache", (), f"not applicable: the {engine.name} engine has none")
    capture, fields = capture_plan(document["capture"]), dict[str, Any]()
    # Positions that are not computed have no logits and no hidden states.
    if capture["logits"] is not None and capture["logits"]["prefill"]:
        fields["/capture/logits/capture_prefill"] = False
    if "activations" in capture:
        fields["/capture/activations/enabled"] = False
    size = (document["vllm"].get("engine_args") or {}).get("block_size")
    smaller = {**fields, "/vllm/engine_args/block_size": _SMALL_BLOCK}
    ways = (WarmCache(fields), *([WarmCache(smaller)] if size != _SMALL_BLOCK else []))
    return Check("prefix-cache", ways)


def _cache_of_a_server(caches: bool | None) -> str:
    if caches is None:
        return (
            "the server does not tell whether it has a prefix cache (a vLLM server does with "
            "VLLM_SERVER_DEV_MODE=1)"
        )
    if caches:
        return (
            "the prefix cache of the server is on, and is warmed by whoever asks: there is no cold "
            "answer to compare with"
        )
    return "the server says that its prefix cache is off"


def _threads(engine: EngineKind, machine: Machine) -> Check:
    if engine.platform == SERVER:
        return Check("threads", (), _ELSEWHERE)
    if machine.processors == 1:
        return Check("threads", (), "this machine has one processor")
    if not engine.has_process:
        variables = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        return Check("threads", (Repetition("new process", variables),))
    other = "1" if machine.threads != 1 else "2"
    fields = {f"/vllm/env/{name}": other for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    return Check("threads", (Variation(fields),))


def _instruction_set(engine: EngineKind, document: Mapping[str, Any], machine: Machine) -> Check:
    if engine.platform == SERVER:
        return Check("instruction-set", (), _ELSEWHERE)
    if engine.platform_of(document) == "cuda":
        return Check("instruction-set", (), "the model runs on an accelerator")
    if not machine.caps:
        reason = "no way is known to make this engine use fewer instructions of this CPU"
        return Check("instruction-set", (), reason)
    if not engine.has_process:
        ways = tuple(Repetition("new process", caps) for caps in machine.caps)
        return Check("instruction-set", ways)
    return Check(
        "instruction-set",
        tuple(
            Variation({f"/vllm/env/{name}": value for name, value in caps.items()})
            for caps in machine.caps
        ),
    )


def _reference(engine: EngineKind, document: Mapping[str, Any]) -> Check:
    if engine == REFERENCE:
        return Check("reference", (), "the engine is the reference engine")
    if engine == MOCK:
        return Check("reference", (), "the tokens of the mock engine come from no model")
    fields: dict[str, Any] = {"/runtime/execution/backend": REFERENCE.name}
    if document["capture"].get("activations", {}).get("enabled"):
        # Which the reference engine does not capture.
        fields["/capture/activations/enabled"] = False
    return Check("reference", (Variation(fields),), tokens_only=True)
