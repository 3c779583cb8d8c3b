"""The mock engine in a worker: what it answers in dis, step for step and bit for bit."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from checkpoints import CheckpointShape, write_checkpoint
from dis_derivations.engines.child.adapter import Adaptation, adapted_engine
from dis_derivations.engines.child.launching import Surroundings
from dis_derivations.engines.mock.engine import open_mock_engine
from dis_derivations.engines.mock.opening import PROGRAM, open_mock_worker
from dis_derivations.engines.protocol import Batching, Engine, Request
from dis_derivations.engines.vllm.prefix_cache import WARM_CACHE, CachingChild
from dis_derivations.runs.bundle import EXPERIMENT
from dis_store.errors import BuildError, InvalidInputError
from engine_runs import RecordingSink, digest_by_request, greedy_request, sampled_request

SPEC = {"name": "mock", "numerics": 2, "settings": {"max_model_len": 60}}
REQUESTS = [
    greedy_request("a", [1, 2, 3], max_tokens=9),
    sampled_request("b", [4, 5], seed=7, max_tokens=4),
    greedy_request("c", list(range(40)), max_tokens=30),
    greedy_request("d", [7], max_tokens=12),
]
BATCHINGS = [Batching(1), Batching(2), Batching(4, 16), Batching(3, 5)]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    return write_checkpoint(tmp_path_factory.mktemp("model"), CheckpointShape())


def surroundings(facts: Mapping[str, str] | None = None) -> Surroundings:
    return Surroundings(
        interpreter=Path(sys.executable),
        environment=None,
        platform={"class": "any", "facts": {}},
        patience=60,
        check=lambda: None,
        note=lambda _: None,
        keep_output=lambda _: None,
        facts=facts,
    )


def outcome(
    engine: Engine, requests: Sequence[Request], batching: Batching
) -> tuple[object, object, object]:
    sink = RecordingSink()
    found = engine.generate(requests, batching, sink, lambda _: None)
    return found, digest_by_request(found, sink), sink.steps


@pytest.mark.parametrize("batching", BATCHINGS, ids=str)
def test_a_worker_answers_as_the_engine_in_dis(
    files: Mapping[str, Path], batching: Batching
) -> None:
    here = open_mock_engine(files, max_model_len=60)
    with open_mock_worker(SPEC, files, batching, surroundings()) as there:
        assert outcome(there, REQUESTS, batching) == outcome(here, REQUESTS, batching)
        assert there.identity() == here.identity()
        assert there.environment()["note"] == here.environment()["note"]


def test_texts_that_end_a_sequence_end_it_in_the_same_step(files: Mapping[str, Path]) -> None:
    here, batching = open_mock_engine(files), Batching(2, 16)
    sequence = here.generate(REQUESTS[3:], batching, RecordingSink(()), lambda _: None)[0]
    piece = sequence.text[3:5]
    third = sequence.output_token_ids[2]
    requests = [
        greedy_request("a", [1, 2, 3], max_tokens=9),
        greedy_request("d", [7], max_tokens=12, strings=[piece]),
        greedy_request("d", [7], max_tokens=12, token_ids=[third]),
        greedy_request("e", [8], max_tokens=3),
    ]
    with open_mock_worker(SPEC, files, batching, surroundings()) as there:
        found = outcome(there, requests, batching)
    assert found == outcome(here, requests, batching)
    reasons = [(each.finish_reason, each.stop_reason) for each in found[0]]  # type: ignore[attr-defined]
    assert reasons[1:3] == [("stop", piece), ("stop", third)]


def test_what_tells_an_engine_from_others_is_data(files: Mapping[str, Path]) -> None:
    told, checked = open_mock_engine(files), list[Mapping[str, object]]()
    settings = {"vocabulary": told.vocabulary, "max_num_batched_tokens": None}
    options: dict[str, Any] = {"check": checked.append, "alone": True, "child": CachingChild}
    mock = Adaptation("mock", PROGRAM, told.vocabulary, told.ends, settings, dict, **options)
    with adapted_engine(mock, SPEC, files, surroundings()) as there:
        assert checked == [{"numerics": 2}]
        experiment = {"kind": WARM_CACHE, "cached_tokens": 0}
        assert there.identity() == {"numerics": 2, EXPERIMENT: experiment}
        found = outcome(there, REQUESTS, Batching(4))
    assert found == outcome(told, REQUESTS, Batching(1))


def test_its_program_needs_no_package(tmp_path: Path) -> None:
    for path in PROGRAM.files:
        (tmp_path / path.name).write_bytes(path.read_bytes())
    code = "import worker, worker_side, frames, answers, scheduling, sys; print('numpy' in sys.modules)"
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = ['.']; {code}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_a_prompt_that_does_not_fit_is_refused(files: Mapping[str, Path]) -> None:
    with (
        open_mock_worker(SPEC, files, Batching(1), surroundings()) as there,
        pytest.raises(InvalidInputError, match="holds the token 300"),
    ):
        there.generate([greedy_request("a", [300])], Batching(1), RecordingSink(()), print)


def test_another_interpreter_than_that_of_the_key_is_refused(files: Mapping[str, Path]) -> None:
    facts = {"python": "cpython 2.7.18", "libc": "glibc 2.36", "machine": "x86_64"}
    with (
        pytest.raises(BuildError, match="another interpreter than it was told") as caught,
        open_mock_worker(SPEC, files, Batching(1), surroundings(facts)),
    ):
        pass
    assert "remembered with" in str(caught.value.cause)
