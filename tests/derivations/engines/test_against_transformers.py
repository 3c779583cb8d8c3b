"""The engine computes the model: compared with transformers in float64, an independent referee."""

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from checkpoints import files_of, write_tokenizer
from dis_derivations.engines.protocol import Batching
from dis_derivations.engines.reference.engine import open_reference_engine
from dis_derivations.engines.reference.families import parse_configuration
from engine_runs import RecordingSink, greedy_request

pytestmark = pytest.mark.oracle

_HERE = Path(__file__).resolve().parent
_ORACLE = _HERE.parents[2] / ".venv-oracle"
# The oracle computes every position again for each token, so long prompts get fewer.
_COUNT, _FEW, _LONG = 24, 6, 100


@dataclass(frozen=True)
class Case:
    name: str
    dtype: str
    config: dict[str, Any] = field(default_factory=dict)
    max_shard_size: str = "1GB"
    outlier: float = 1.0
    prompt_length: int = 17

    def document(self, seed: int) -> dict[str, Any]:
        config = {
            "model_type": "llama",
            "vocab_size": 400,
            "hidden_size": 64,
            "intermediate_size": 160,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 2048,
            "rms_norm_eps": 1e-5,
            "eos_token_id": None,
            "bos_token_id": None,
            "pad_token_id": None,
            **self.config,
        }
        return {
            "config": config,
            "dtype": self.dtype,
            "seed": seed,
            "outlier": self.outlier,
            "max_shard_size": self.max_shard_size,
            "prompt": [(7 * i * i + 3 * i + seed) % 256 for i in range(self.prompt_length)],
            "count": _COUNT if self.prompt_length < _LONG else _FEW,
        }


def _family(
    model_type: str, told: str, *, prompt: int = 40, dtype: str = "bfloat16", **config: Any
) -> Case:
    name = f"{model_type}, {told}"
    return Case(name, dtype, {"model_type": model_type, **config}, prompt_length=prompt)


_LAYER_TYPES = ["full_attention", "sliding_attention", "full_attention"]
_SLIDING: dict[str, Any] = {"use_sliding_window": True, "sliding_window": 16}
_FAMILIES = (
    _family("mistral", "no window", sliding_window=None),
    _family("mistral", "a window", sliding_window=16, head_dim=24),
    _family("mistral", "a window and several key blocks", prompt=1100, sliding_window=50),
    _family("qwen2", "plain"),
    _family("qwen2", "a tied head", dtype="float16", tie_word_embeddings=True),
    _family("qwen2", "windows from a layer on", **_SLIDING, max_window_layers=1),
    _family("qwen2", "a window in one layer", **_SLIDING, layer_types=_LAYER_TYPES),
    _family("qwen3", "wide heads", head_dim=32),
    _family("qwen3", "biases", head_dim=24, attention_bias=True, tie_word_embeddings=True),
    _family("qwen3", "windows", **_SLIDING, max_window_layers=2, head_dim=16),
    _family("smollm3", "plain", num_hidden_layers=5),
    _family("smollm3", "unturned layers", no_rope_layers=[0, 1, 0], tie_word_embeddings=False),
    _family("smollm3", "biases", no_rope_layer_interval=2, attention_bias=True, mlp_bias=True),
    _family("smollm3", "windows", no_rope_layer_interval=2, **_SLIDING),
)

# As config.json has it, in the older spelling and in that of transformers 5.
_LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 256}


def _scaling(name: str, **config: Any) -> Case:
    return Case(name, "bfloat16", {"head_dim": 32, **config}, prompt_length=300)


_SCALINGS = (
    _scaling("linear", rope_scaling={"type": "linear", "factor": 2.5}),
    _scaling(
        "linear, new", rope_parameters={"rope_type": "linear", "factor": 2.5, "rope_theta": 5e4}
    ),
    _scaling("dynamic", rope_scaling={"type": "dynamic", "factor": 2.0}),
    _scaling("llama3", rope_scaling={**_LLAMA3, "original_max_position_embeddings": 64}),
    _scaling(
        "llama3, new",
        rope_parameters={
            **_LLAMA3,
            "rope_theta": 500000.0,
            "original_max_position_embeddings": 512,
        },
    ),
    _scaling("yarn", rope_scaling=_YARN, rope_theta=1e6),
    _scaling("yarn, new", rope_parameters={**_YARN, "rope_theta": 1e6}),
    _scaling("yarn, an attention factor", rope_scaling={**_YARN, "attention_factor": 0.7}),
    _scaling(
        "yarn, all its parameters",
        rope_scaling={**_YARN, "beta_fast": 16.0, "beta_slow": 2.0, "mscale": 0.8}
        | {"mscale_all_dim": 0.5, "truncate": False},
    ),
    _scaling("yarn in qwen3", model_type="qwen3", rope_scaling=_YARN),
)

CASES = (
    Case("bfloat16 with grouped queries", "bfloat16"),
    Case("bfloat16 with a tied head", "bfloat16", {"tie_word_embeddings": True}),
    Case("float16 without grouping", "float16", {"num_key_value_heads": 4}),
    Case("float32 with one key head", "float32", {"num_key_value_heads": 1}),
    Case("float32 in shards", "float32", max_shard_size="100KB"),
    Case("biases", "bfloat16", {"attention_bias": True, "mlp_bias": True}),
    Case("heads wider than the hidden size", "bfloat16", {"head_dim": 48}),
    Case("sizes that are no powers of two", "float16", {"hidden_size": 72, "head_dim": 18}),
    Case("outlier channels", "bfloat16", outlier=60.0),
    Case("a large rope_theta", "float32", {"rope_theta": 500000.0}),
    Case("a prompt of several key blocks", "bfloat16", prompt_length=1100),
    *_FAMILIES,
    *_SCALINGS,
)


def _oracle_python() -> Path:
    if not (_ORACLE / "ready").exists():
        if os.environ.get("CI"):
            pytest.fail("the oracle's environment is missing: run `make oracle`")
        pytest.skip("run `make oracle`")
    return _ORACLE / "bin" / "python"


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory of checkpoints with the oracle's answers, one folder a case."""
    python = _oracle_python()
    directory = tmp_path_factory.mktemp("oracle")
    cases = [case.document(seed) for seed, case in enumerate(CASES)]
    (directory / "cases.json").write_text(json.dumps(cases), "utf-8")
    command = [python, _HERE / "oracle_script.py", directory / "cases.json", directory]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "2"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return directory


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.name for case in CASES])
def test_logits_and_greedy_tokens_agree_with_float64(answers: Path, number: int) -> None:
    case = CASES[number].document(number)
    directory = answers / f"case-{number}"
    saved = json.loads((directory / "config.json").read_text("utf-8"))
    assert parse_configuration(case["config"]) == parse_configuration(saved)
    write_tokenizer(directory / "tokenizer.json", case["config"]["vocab_size"])
    engine = open_reference_engine(files_of(directory))
    sink = RecordingSink()
    request = greedy_request("r", case["prompt"], max_tokens=case["count"])

    [sequence] = engine.generate([request], Batching(1, 256), sink, lambda _progress: None)

    expected = np.load(directory / "oracle.npz")
    rows = np.concatenate((sink.rows(0, "prefill")[:-1], sink.rows(0, "decode")))
    largest = np.abs(expected["logits"]).max()
    error = np.abs(rows - expected["logits"]).max() / largest
    float32 = np.abs(expected["float32"] - expected["logits"]).max() / largest
    print(f"relative error {error:.2e}; float32 {float32:.2e}; largest {largest:.1f}")  # noqa: T201
    assert list(sequence.output_token_ids) == expected["tokens"].tolist()
    assert error < 1e-5
