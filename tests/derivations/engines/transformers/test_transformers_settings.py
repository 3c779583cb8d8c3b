"""What transformers is told, and what of a manifest it refuses."""

from typing import Any

import pytest

from dis_derivations.engines.transformers.settings import (
    FORCED_VARIABLES,
    engine_arguments,
    process_variables,
    refused_settings,
)


def refused(declared: dict[str, str] | None = None, **arguments: Any) -> list[str]:
    return list(refused_settings({"vllm": {"engine_args": arguments}}, declared or {}))


@pytest.mark.parametrize(
    "arguments", [{}, {"dtype": "bfloat16"}, {"dtype": "half"}, {"attention_backend": "EAGER"}]
)
def test_what_it_can_do_is_not_refused(arguments: dict[str, Any]) -> None:
    assert refused(**arguments) == []


@pytest.mark.parametrize(
    ("arguments", "field"),
    [({"dtype": "fp8"}, "dtype"), ({"attention_backend": "FLASH_ATTN"}, "attention_backend")],
)
def test_what_it_cannot_do_is_refused_by_name(arguments: dict[str, Any], field: str) -> None:
    [line] = refused(**arguments)
    assert line.startswith(f"vllm.engine_args.{field}:")


def test_an_accelerator_is_refused() -> None:
    document = {
        "vllm": {},
        "hardware": {"constraints": {"accelerator_vendor": "nvidia"}},
    }
    [line] = refused_settings(document, {})
    assert line.startswith("hardware.constraints.accelerator_vendor:")


def test_a_variable_that_is_set_otherwise_is_refused() -> None:
    assert all(
        process_variables({})[name] == value for name, (value, _) in FORCED_VARIABLES.items()
    )
    [line] = refused({"HF_HUB_OFFLINE": "0"})
    assert "HF_HUB_OFFLINE: is '0'" in line


def test_the_short_names_of_formats_are_written_out() -> None:
    assert engine_arguments({"dtype": "half"})["dtype"] == "float16"
    assert engine_arguments({})["dtype"] == "auto"
