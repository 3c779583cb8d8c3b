"""A worker on something else than its result is keyed by: refused in words that name the engine."""

from typing import Any

import pytest

from dis_derivations.engines.child.agreement import check_agreement
from dis_store.errors import BuildError

CPU = {"threads": 2, "instruction_set": {"aten": "avx2"}}
PLATFORM = {"class": "cpu", "facts": {"cpu": CPU}}
DEVICE = {"type": "cpu", "threads": 2, "capability": "AVX2"}


def test_a_worker_on_what_it_was_told_is_believed() -> None:
    check_agreement("vLLM", PLATFORM, {"device": DEVICE})


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"threads": 3}, "another number of threads"),
        ({"capability": "AVX512"}, "another instruction set"),
        ({"type": "cuda"}, "on cuda, and the manifest is for cpu"),
    ],
)
def test_another_device_is_refused(changes: dict[str, Any], what: str) -> None:
    with pytest.raises(BuildError, match=f"^transformers runs .*{what}"):
        check_agreement("transformers", PLATFORM, {"device": DEVICE | changes})


def test_a_worker_without_the_accelerator_is_told_which_flag_names_another_one() -> None:
    with pytest.raises(BuildError) as caught:
        check_agreement("vLLM", {"class": "cuda"}, {"device": DEVICE})
    assert "--vllm-python PATH" in (caught.value.hint or "")
