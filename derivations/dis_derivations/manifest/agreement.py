"""Rules between fields of different blocks, which no single block can check.

They read the document and not the validated model, so that they speak even where a field elsewhere
is wrong; a value of the wrong kind is the schema's to refuse, and counts here as absent.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dis_derivations.manifest import json_pointer
from dis_derivations.manifest.artifact_groups import is_gguf
from dis_derivations.manifest.faults import Fault

MAX_PROMPTS_WITHOUT_DATASET = 100
_GROUPS = ("weights", "tokenizer", "config")
_SEARCHED = frozenset({"local", "huggingface", "oci", "store"})

Rule = Callable[[Mapping[str, Any]], Iterator[Fault]]


def disagreements(document: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield every fault of a merged manifest that lies between its fields."""
    for rule in _RULES:
        yield from rule(document)


def _remote_code_is_pinned(document: Mapping[str, Any]) -> Iterator[Fault]:
    source = _object(document, "/model/weights/source")
    if json_pointer.get(document, "/vllm/engine_args/trust_remote_code") is not True:
        return
    for field in ("remote_code_commit", "remote_code_digest"):
        if not source.get(field) or source[field] in {"unset", "sha256:unset"}:
            yield Fault(
                "/model/weights/source",
                f"must have {field!r}, because vllm.engine_args.trust_remote_code is true",
            )


def _token_budgets_agree(document: Mapping[str, Any]) -> Iterator[Fault]:
    engine = json_pointer.get(document, "/vllm/engine_args/max_num_batched_tokens")
    batching = json_pointer.get(document, "/inference/batching/max_num_batched_tokens")
    if isinstance(engine, int) and isinstance(batching, int) and engine != batching:
        yield Fault(
            "/vllm/engine_args/max_num_batched_tokens",
            f"is {engine}, but inference.batching.max_num_batched_tokens is {batching}: "
            "they must agree",
        )


def _prompts_come_from_one_place(document: Mapping[str, Any]) -> Iterator[Fault]:
    inference = _object(document, "/inference")
    listed, counted = _has(inference, "requests"), _has(inference, "n_prompts")
    if not listed and not counted:
        # Where there is no such block at all, the schema says so.
        if isinstance(document.get("inference"), dict):
            message = "must have 'requests', or 'n_prompts' with 'request_template'"
            yield Fault("/inference", message)
        return
    if listed:
        for field in ("n_prompts", "request_template", "dataset"):
            if _has(inference, field):
                yield Fault(
                    f"/inference/{field}",
                    "cannot stand beside 'requests': the prompts come from one of them",
                )
        return
    if not _has(inference, "request_template"):
        yield Fault("/inference", "has 'n_prompts' and must have 'request_template' with it")
    count = inference["n_prompts"]
    if (
        isinstance(count, int)
        and count > MAX_PROMPTS_WITHOUT_DATASET
        and not _has(inference, "dataset")
    ):
        yield Fault(
            "/inference/n_prompts",
            f"must be at most {MAX_PROMPTS_WITHOUT_DATASET}, not {count}, without a 'dataset'",
        )


def _request_ids_are_unique(document: Mapping[str, Any]) -> Iterator[Fault]:
    first: dict[str, int] = {}
    for index, request in enumerate(_list(document, "/inference/requests")):
        name = request.get("id") if isinstance(request, dict) else None
        if not isinstance(name, str):
            continue
        if name in first:
            pointer = f"/inference/requests/{index}/id"
            yield Fault(
                pointer,
                f"is {name!r}, as in request {first[name]}; each request has an id of its own",
            )
        first.setdefault(name, index)


def _replay_has_arrivals(document: Mapping[str, Any]) -> Iterator[Fault]:
    if json_pointer.get(document, "/inference/batching/schedule") != "replay":
        return
    if not _has(_object(document, "/inference"), "requests"):
        yield Fault(
            "/inference/batching/schedule",
            "is 'replay', which needs 'requests' with 'x_arrival_ms'",
        )
    for index, request in enumerate(_list(document, "/inference/requests")):
        if isinstance(request, dict) and request.get("x_arrival_ms") is None:
            yield Fault(
                f"/inference/requests/{index}",
                "must have 'x_arrival_ms', because the schedule is 'replay'",
            )


def _hash_seed_is_fixed(document: Mapping[str, Any]) -> Iterator[Fault]:
    env = json_pointer.get(document, "/runtime/env")
    if not isinstance(env, dict):
        return
    if "PYTHONHASHSEED" not in env:
        yield Fault("/runtime/env", "has no 'PYTHONHASHSEED', which is required")
    elif isinstance(seed := env["PYTHONHASHSEED"], str) and not (
        seed.isascii() and seed.isdecimal()
    ):
        yield Fault("/runtime/env/PYTHONHASHSEED", f"must be a number as a string, not {seed!r}")


def _server_has_an_address(document: Mapping[str, Any]) -> Iterator[Fault]:
    execution = _object(document, "/runtime/execution")
    if execution.get("backend") == "openai_compatible" and not _has(execution, "base_url"):
        yield Fault(
            "/runtime/execution", "must have 'base_url' for the backend 'openai_compatible'"
        )
    elif execution.get("backend") == "openai_compatible" and isinstance(
        address := execution["base_url"], str
    ):
        from dis_derivations.transport.address import check_declared

        try:
            check_declared(address)
        except ValueError as error:
            yield Fault("/runtime/execution/base_url", str(error))


def _path_of_an_image_has_its_name(document: Mapping[str, Any]) -> Iterator[Fault]:
    execution = _object(document, "/runtime/execution")
    if _has(execution, "vllm_image_path") and not _has(execution, "vllm_image"):
        yield Fault(
            "/runtime/execution",
            "must have 'vllm_image', the name of the image that is at 'vllm_image_path'",
        )


def _files_are_listed(document: Mapping[str, Any]) -> Iterator[Fault]:
    """Only what tells which files it has can be looked into; any other source must list its files.

    What comes out of a GGUF file is no file of its own.
    """
    weights_type = json_pointer.get(document, "/model/weights/source/type")
    converted = _is_converted(document)
    for group in _GROUPS:
        own = json_pointer.get(document, f"/model/{group}/source/type")
        kind = own if isinstance(own, str) else weights_type
        if converted and group != "weights" and not isinstance(own, str):
            continue
        if (
            isinstance(kind, str)
            and kind not in _SEARCHED
            and not _list(document, f"/model/{group}/files")
        ):
            yield Fault(
                f"/model/{group}",
                f"must list its 'files', because its source is {kind!r}, which does not tell what it has",
            )


def _is_converted(document: Mapping[str, Any]) -> bool:
    places = range(len(_list(document, "/model/weights/files")))
    paths = [json_pointer.get(document, f"/model/weights/files/{index}/path") for index in places]
    return is_gguf([str(path) for path in paths])


def _each_file_is_named_once(document: Mapping[str, Any]) -> Iterator[Fault]:
    first: dict[str, str] = {}
    places = [
        f"/model/{group}/files/{index}"
        for group in _GROUPS
        for index in range(len(_list(document, f"/model/{group}/files")))
    ]
    for place in [*places, "/model/chat_template/file"]:
        path = json_pointer.get(document, f"{place}/path")
        if isinstance(path, str) and path in first:
            yield Fault(
                f"{place}/path", f"is {path!r}, as {first[path]} is; each file is named once"
            )
        if isinstance(path, str):
            first.setdefault(path, place)


def _logits_capture_something(document: Mapping[str, Any]) -> Iterator[Fault]:
    logits = _object(document, "/capture/logits")
    if logits.get("enabled") is not True:
        return
    prefill, decode = logits.get("capture_prefill") is True, logits.get("capture_decode") is True
    if not prefill and not decode:
        yield Fault(
            "/capture/logits",
            "is enabled, and must have 'capture_prefill' or 'capture_decode' true",
        )
    if prefill and logits.get("scope") == "chosen_only":
        yield Fault(
            "/capture/logits/capture_prefill",
            "must be false for the scope 'chosen_only': prefill chooses nothing",
        )


_RULES: tuple[Rule, ...] = (
    _hash_seed_is_fixed,
    _server_has_an_address,
    _path_of_an_image_has_its_name,
    _token_budgets_agree,
    _remote_code_is_pinned,
    _files_are_listed,
    _each_file_is_named_once,
    _prompts_come_from_one_place,
    _request_ids_are_unique,
    _replay_has_arrivals,
    _logits_capture_something,
)


def _has(block: Mapping[str, Any], field: str) -> bool:
    return block.get(field) is not None


def _object(document: Mapping[str, Any], pointer: str) -> Mapping[str, Any]:
    value = json_pointer.get(document, pointer)
    return value if isinstance(value, dict) else {}


def _list(document: Mapping[str, Any], pointer: str) -> list[Any]:
    value = json_pointer.get(document, pointer)
    return value if isinstance(value, list) else []
