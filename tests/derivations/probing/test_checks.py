"""Which experiments answer a check, for which manifest, on which machine."""

from typing import Any

import pytest

from dis_derivations.engines.protocol import Request, Sampling, Stop
from dis_derivations.probing.checks import QUESTIONS, chosen, plan
from dis_derivations.probing.experiment import Check, Repetition, Variation, WarmCache
from dis_derivations.probing.machine import Machine, measure
from dis_derivations.probing.manifests import reordered
from dis_store.errors import InvalidInputError

CAPS = (
    {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"},
    {"ATEN_CPU_CAPABILITY": "avx2"},
)
MACHINE = Machine(processors=4, threads=4, caps=CAPS)
SIZE = "/inference/batching/max_num_seqs"


def document(
    backend: str = "vllm", prompts: int = 8, at_once: int = 8, **capture: Any
) -> dict[str, Any]:
    return {
        "runtime": {"env": {}, "execution": {"backend": backend}},
        "inference": {"n_prompts": prompts, "batching": {"max_num_seqs": at_once}},
        "vllm": {},
        "capture": {"tokens": True, **capture},
    }


def check(name: str, machine: Machine = MACHINE, **settings: Any) -> Check:
    (found,) = plan(document(**settings), machine, chosen([name]))
    return found


def fields(found: Check) -> dict[str, Any]:
    (experiment,) = found.experiments
    assert isinstance(experiment, Variation)
    return dict(experiment.fields)


@pytest.mark.parametrize(
    ("prompts", "at_once", "alone", "other"),
    [(8, 8, 1, 4), (8, 1, 8, 2), (3, 2, 1, 3), (3, 8, 1, 2), (2, 2, 1, None), (2, 1, 2, None)],
)
def test_batches_are_varied_within_what_the_requests_allow(
    prompts: int, at_once: int, alone: int, other: int | None
) -> None:
    assert fields(check("alone", prompts=prompts, at_once=at_once)) == {SIZE: alone}
    found = check("batch-size", prompts=prompts, at_once=at_once)
    assert ([fields(found)] if other else list(found.experiments)) == (
        [{SIZE: other}] if other else []
    )
    assert bool(found.reason) == (other is None)


def test_one_request_has_no_company_and_no_order() -> None:
    for name in ("alone", "batch-size", "order"):
        found = check(name, prompts=1)
        assert (found.experiments, bool(found.reason)) == ((), True)


def test_what_an_engine_does_not_have_is_not_run() -> None:
    for backend in ("reference", "transformers", "mock"):
        found = check("prefix-cache", backend=backend)
        assert (found.experiments, found.reason) == (
            (),
            f"not applicable: the {backend} engine has none",
        )
    assert "is the reference engine" in check("reference", backend="reference").reason
    assert "come from no model" in check("reference", backend="mock").reason
    for name in ("alone", "batch-size"):
        assert "one request after the other" in check(name, backend="openai_compatible").reason
    for name in ("new-process", "threads", "instruction-set"):
        assert "neither starts nor sets up" in check(name, backend="openai_compatible").reason
    assert check("threads", Machine(1, 1, ())).reason == "this machine has one processor"
    assert "no way is known" in check("instruction-set", Machine(4, 4, ())).reason


def test_a_warm_cache_is_tried_with_the_blocks_that_the_engine_has_and_then_with_small_ones() -> (
    None
):
    block = "/vllm/engine_args/block_size"
    assert check("prefix-cache").experiments == (WarmCache({}), WarmCache({block: 32}))
    small = plan(
        {**document(), "vllm": {"engine_args": {"block_size": 32}}}, MACHINE, ["prefix-cache"]
    )
    assert small[0].experiments == (WarmCache({}),)


def test_a_warm_cache_captures_nothing_of_positions_that_are_not_computed() -> None:
    prompts = {"enabled": True, "capture_prefill": True, "capture_decode": True}
    found = check(
        "prefix-cache", logits=prompts, activations={"enabled": True, "hooks": ["layers.0"]}
    )
    for experiment in found.experiments:
        assert isinstance(experiment, WarmCache)
        assert experiment.fields["/capture/logits/capture_prefill"] is False
        assert experiment.fields["/capture/activations/enabled"] is False


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (None, "does not tell whether it has a prefix cache"),
        ({"dtype": "bfloat16"}, "does not tell whether it has a prefix cache"),
        ({"enable_prefix_caching": True}, "the prefix cache of the server is on"),
        ({"enable_prefix_caching": False}, "the server says that its prefix cache is off"),
    ],
)
def test_of_a_server_what_it_tells_of_its_cache_is_said(
    told: dict[str, Any] | None, said: str
) -> None:
    given = document(backend="openai_compatible")
    (found,) = plan(given, measure(given, told), ["prefix-cache"])
    assert found.experiments == ()
    assert said in found.reason


def test_a_worker_gets_other_threads_by_its_manifest_and_the_reference_engine_by_its_process() -> (
    None
):
    assert fields(check("threads"))["/vllm/env/OMP_NUM_THREADS"] == "1"
    assert fields(check("threads", Machine(4, 1, ())))["/vllm/env/OMP_NUM_THREADS"] == "2"
    (experiment,) = check("threads", backend="reference").experiments
    assert isinstance(experiment, Repetition)
    assert experiment.variables["OPENBLAS_NUM_THREADS"] == "1"


def test_the_tightest_cap_on_instructions_is_tried_first() -> None:
    first, second = check("instruction-set").experiments
    assert isinstance(first, Variation)
    assert isinstance(second, Variation)
    assert first.fields == {f"/vllm/env/{name}": value for name, value in CAPS[0].items()}
    assert second.fields == {"/vllm/env/ATEN_CPU_CAPABILITY": "avx2"}


def test_the_reference_engine_is_not_asked_for_activations() -> None:
    found = check("reference", activations={"enabled": True, "hooks": ["layers.0"]})
    assert fields(found)["/capture/activations/enabled"] is False
    assert found.tokens_only


def test_checks_are_chosen_by_name_and_made_in_one_order() -> None:
    assert chosen(["order", "alone"]) == ("alone", "order")
    assert chosen([]) == tuple(QUESTIONS)
    with pytest.raises(InvalidInputError, match="no check 'batch'") as refusal:
        chosen(["batch"])
    assert "same-process" in str(refusal.value.cause)


def asked(count: int) -> list[Request]:
    greedy = Sampling(0.0, 1.0, -1, 4, None)
    return [Request(str(number), (1, 2), greedy, Stop()) for number in range(count)]


@pytest.mark.parametrize(
    ("count", "size", "order"),
    [(4, 2, "3210"), (5, 2, "10324"), (3, 1, "210"), (3, 8, "210")],
)
def test_another_order_keeps_the_company_of_each_request(count: int, size: int, order: str) -> None:
    found = reordered(asked(count), min(size, count))
    assert "".join(each.id for each in found) == order
    companies = [{*range(start, min(start + size, count))} for start in range(0, count, size)]
    places = [found[start : start + size] for start in range(0, count, size)]
    assert all({int(each.id) for each in group} in companies for group in places)
