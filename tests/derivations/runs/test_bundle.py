"""What a bundle says of the machine."""

from typing import Any

import pytest

from dis_derivations.runs.bundle import (
    CONSTRAINTS_DO_NOT_APPLY,
    grade,
    hardware_finding,
    is_evidence,
    is_pinned,
)

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


def test_constraints_are_held_against_the_facts() -> None:
    accelerator = {"vendor": "nvidia", "model": "NVIDIA H100 PCIe", "compute_capability": "9.0"}
    facts = {"cpu": {"architecture": "aarch64"}, "accelerators": [accelerator]}
    assert hardware_finding({"class": "cuda", "facts": facts}, CONSTRAINED) == {
        "conformant": False,
        "reasons": ["cpu_arch: the CPU is aarch64, and must be x86_64"],
    }


def test_what_the_facts_do_not_tell_counts_as_unmet() -> None:
    found = hardware_finding(CUDA, CONSTRAINED)
    assert found["conformant"] is False
    assert found["reasons"] == [
        "allowed_gpu_models: the run used the CPU, and must use H100",
        "cpu_arch: the CPU is unknown, and must be x86_64",
    ]


def test_an_engine_that_nothing_pins_does_not_conform() -> None:
    assert is_pinned({"engine": "reference"})
    assert is_pinned({"environment": {"kind": "installed", "digest": "ab"}})
    assert not is_pinned({"environment": {"kind": "unpinned"}})
    assert not is_pinned({"environment": {"kind": "server", "departures": []}})
    assert not is_evidence({"engine": "mock"})
    assert is_evidence({"engine": "reference"})
    assert grade(hardware_conforms=True, verified=False) == "non_conformant_software"
