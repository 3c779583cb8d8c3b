"""The variables of a worker."""

from pathlib import Path
from typing import Any

import pytest

from dis_derivations.engines.child.environment import (
    declared_variables,
    refused_variables,
    worker_environment,
)


def document(**blocks: Any) -> dict[str, Any]:
    return {"runtime": {"env": {"PYTHONHASHSEED": "0"}}, "vllm": {}, **blocks}


def test_without_a_word_a_worker_has_a_plain_locale() -> None:
    assert declared_variables(document()) == {
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONHASHSEED": "0",
    }


def test_what_is_said_more_closely_counts() -> None:
    found = declared_variables(
        {
            "runtime": {
                "env": {
                    "PYTHONHASHSEED": "0",
                    "OMP_NUM_THREADS": "3",
                    "A": "runtime",
                    "B": "runtime",
                },
                "locale": {"lang": "de_DE.UTF-8", "tz": "Europe/Berlin"},
                "threads": {"omp_num_threads": 2, "mkl_num_threads": 4},
            },
            "cuda_stack": {"env": {"A": "cuda", "B": "cuda"}},
            "vllm": {"env": {"A": "vllm"}},
        }
    )
    assert found == {
        "LANG": "de_DE.UTF-8",
        "LC_ALL": "de_DE.UTF-8",
        "TZ": "Europe/Berlin",
        "OMP_NUM_THREADS": "3",
        "MKL_NUM_THREADS": "4",
        "PYTHONHASHSEED": "0",
        "A": "vllm",
        "B": "cuda",
    }


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("HF_TOKEN", "secrets"),
        ("AWS_SECRET_ACCESS_KEY", "secrets"),
        ("OPENAI_API_KEY", "secrets"),
        ("https_proxy", "secrets and proxies"),
        ("PYTHONPATH", "nothing pins"),
        ("PYTHONSTARTUP", "nothing pins"),
        ("LD_PRELOAD", "nothing pins"),
        ("LD_LIBRARY_PATH", "nothing pins"),
        ("NO=NAME", "no variable"),
    ],
)
@pytest.mark.parametrize("block", ["runtime", "vllm", "cuda_stack"])
def test_secrets_and_foreign_code_do_not_come_in_by_a_manifest(
    block: str, name: str, reason: str
) -> None:
    given = document()
    given[block] = {"env": {**given.get(block, {}).get("env", {}), name: "x"}}
    (refusal,) = refused_variables(given)
    assert refusal.startswith(f"{block}.env.{name}: ")
    assert reason in refusal


def test_what_numerical_libraries_read_is_allowed() -> None:
    names = "TOKENIZERS_PARALLELISM CUBLAS_WORKSPACE_CONFIG ONEDNN_MAX_CPU_ISA VLLM_USE_DEEP_GEMM"
    allowed = dict.fromkeys(names.split(), "1")
    assert not list(refused_variables(document(vllm={"env": allowed})))
    assert list(refused_variables(document(vllm={"env": {"A": "\0"}})))


def test_a_worker_writes_where_it_is_told() -> None:
    found = worker_environment({"HOME": "/declared", "A": "1"}, Path("/place"))
    assert found == {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": "/declared",
        "TMPDIR": "/place",
        "XDG_CACHE_HOME": "/place/cache",
        "XDG_CONFIG_HOME": "/place/config",
        "A": "1",
    }
