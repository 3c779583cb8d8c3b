"""The mock engine: the same everywhere, at once, and never evidence."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from checkpoints import CheckpointShape, write_checkpoint
from dis_derivations.engines.mock.engine import NOTE, MockEngine, open_mock_engine
from dis_derivations.engines.protocol import Batching, GeneratedSequence, Progress
from dis_derivations.runs.bundle import is_evidence
from dis_store.errors import InvalidInputError
from engine_runs import RecordingSink, digest_by_request, greedy_request, sampled_request

REQUESTS = [
    greedy_request("a", [1, 2, 3], max_tokens=9),
    sampled_request("b", [4, 5], seed=7, max_tokens=4),
    greedy_request("c", list(range(40)), max_tokens=3),
]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    return write_checkpoint(tmp_path_factory.mktemp("model"), CheckpointShape())


@pytest.fixture(scope="module")
def engine(files: Mapping[str, Path]) -> MockEngine:
    return open_mock_engine(files)


def generate(
    engine: MockEngine, batching: Batching, sink: RecordingSink | None = None
) -> tuple[list[GeneratedSequence], RecordingSink]:
    sink = sink or RecordingSink()
    return engine.generate(REQUESTS, batching, sink, lambda _: None), sink


def test_batches_change_no_bit(engine: MockEngine) -> None:
    wide, narrow = generate(engine, Batching(3)), generate(engine, Batching(1, 8))
    assert digest_by_request(*wide) == digest_by_request(*narrow)
    assert wide[1].steps != narrow[1].steps


def test_a_token_is_the_largest_of_its_logits_captured_or_not(engine: MockEngine) -> None:
    found, sink = generate(engine, Batching(2))
    for index, sequence in enumerate(found):
        rows = sink.rows(index, "decode")
        assert tuple(rows.argmax(axis=1)) == sequence.output_token_ids
        assert np.array_equal(rows, rows.astype(np.float32))
        assert sink.rows(index, "prefill").shape == (len(REQUESTS[index].prompt_token_ids), 300)
    assert generate(engine, Batching(2), RecordingSink(()))[0] == found


def test_tokens_follow_from_id_prompt_and_seed(engine: MockEngine) -> None:
    def answer(*request: object, **settings: int) -> tuple[int, ...]:
        made = sampled_request(*request, max_tokens=16, **settings)  # type: ignore[arg-type]
        [found] = engine.generate([made], Batching(1), RecordingSink(()), lambda _: None)
        return found.output_token_ids

    first = answer("a", [1, 2], seed=1)
    assert answer("a", [1, 2], seed=1) == first
    for other in (
        answer("b", [1, 2], seed=1),
        answer("a", [1, 3], seed=1),
        answer("a", [1, 2], seed=2),
    ):
        assert other[:4] != first[:4]


def test_the_tokens_of_the_second_version_do_not_change(engine: MockEngine) -> None:
    found, _ = generate(engine, Batching(1))
    assert found[1].output_token_ids == (75, 105, 177, 272)


def test_it_ends_as_other_engines_do(engine: MockEngine) -> None:
    [whole] = engine.generate(REQUESTS[:1], Batching(1), RecordingSink(()), lambda _: None)
    third = whole.output_token_ids[2]
    request = greedy_request("a", [1, 2, 3], max_tokens=9, token_ids=[third])
    [cut] = engine.generate([request], Batching(1), RecordingSink(()), lambda _: None)
    assert (cut.output_token_ids, cut.finish_reason) == (whole.output_token_ids[:3], "stop")


def test_it_says_what_it_is(engine: MockEngine) -> None:
    assert engine.identity()["note"] == NOTE
    assert NOTE.startswith("MOCK")
    assert not is_evidence(engine.identity())


def test_no_weights_are_needed(files: Mapping[str, Path]) -> None:
    light = {name: path for name, path in files.items() if not name.endswith(".safetensors")}
    assert open_mock_engine(light).identity()["engine"] == "mock"


def test_every_request_is_counted(engine: MockEngine) -> None:
    seen: list[Progress] = []
    found = engine.generate(REQUESTS, Batching(2), RecordingSink(()), seen.append)
    assert seen[-1] == Progress(3, 3, sum(len(each.output_token_ids) for each in found))


def test_a_prompt_that_does_not_fit_is_refused(engine: MockEngine) -> None:
    with pytest.raises(InvalidInputError, match="holds the token 300"):
        engine.generate([greedy_request("a", [300])], Batching(1), RecordingSink(()), print)


def test_a_configuration_without_a_vocabulary_is_refused(
    files: Mapping[str, Path], tmp_path: Path
) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"max_position_embeddings": 64}', "utf-8")
    with pytest.raises(InvalidInputError, match="how many tokens"):
        open_mock_engine({**files, "config.json": config})
