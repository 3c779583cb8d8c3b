"""What a bundle says of the machine."""

from typing import Any

import pytest

from dis_derivations.runs.bundle import CONSTRAINTS_DO_NOT_APPLY, hardware_finding

ANY = {"class": "any", "facts": {}}
CUDA = {"class": "cuda", "facts": {"accelerator": "H100"}}
CONSTRAINED = {"constraints": {"allowed_gpu_models": ["H100"], "cpu_arch": "x86_64"}}


@pytest.mark.parametrize("platform", [ANY, CUDA])
@pytest.mark.parametrize(
    "declared", [{}, {"constraints": {}}, {"constraints": {"allowed_gpu_models": []}}]
)
def test_without_constraints_every_machine_conforms(
    platform: dict[str, Any], declared: dict[str, Any]
) -> None:
    assert hardware_finding(platform, declared) == {"conformant": True, "reasons": []}


def test_constraints_do_not_apply_where_no_machine_changes_a_bit() -> None:
    found = hardware_finding(ANY, CONSTRAINED)
    assert found == {"conformant": True, "reasons": [CONSTRAINTS_DO_NOT_APPLY]}


def test_a_constraint_that_was_not_compared_counts_as_unmet() -> None:
    found = hardware_finding(CUDA, CONSTRAINED)
    assert found["conformant"] is False
    assert found["reasons"] == [
        f"{name}: not compared with the facts of this platform"
        for name in ("allowed_gpu_models", "cpu_arch")
    ]
