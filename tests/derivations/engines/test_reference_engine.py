"""The engine behind the shared interface: ends, captures, refusals, what it says about itself."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from checkpoints import (
    END_OF_TEXT,
    CheckpointShape,
    random_tensors,
    write_checkpoint,
    write_weights,
)
from dis_derivations.engines.protocol import Batching, Engine, Phase, Progress, Request
from dis_derivations.engines.reference import engine as engine_module
from dis_derivations.engines.reference import known_answers
from dis_derivations.engines.reference.blocked_product import PairProduct
from dis_derivations.engines.reference.drawing import MOST_TOKENS
from dis_derivations.engines.reference.engine import (
    NUMERICS_VERSION,
    ReferenceEngine,
    open_reference_engine,
)
from dis_derivations.engines.reference.exact_matmul import ExactWeights
from dis_derivations.engines.reference.request_checks import check_requests
from dis_derivations.engines.reference.weights import WeightPlan
from dis_store.errors import BuildError, InvalidInputError, UnfitEnvironmentError
from engine_runs import RecordingSink, greedy_request, sampled_request

SHAPE = CheckpointShape(hidden=32, layers=1, context=64)
PROMPT = (72, 101, 108)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    return write_checkpoint(tmp_path, SHAPE)


def ignore(_progress: Progress) -> None:
    pass


def generate(engine: Engine, *requests: Request, sink: RecordingSink | None = None) -> list[int]:
    sequences = engine.generate(requests, Batching(4), sink or RecordingSink(()), ignore)
    return [token for sequence in sequences for token in sequence.output_token_ids]


def write_eos(files: dict[str, Path], name: str, value: object) -> None:
    document = json.loads(files[name].read_text("utf-8"))
    files[name].write_text(json.dumps({**document, "eos_token_id": value}), "utf-8")


def test_identity_names_engine_numerics_and_settings(files: dict[str, Path]) -> None:
    assert open_reference_engine(files, max_model_len=32).identity() == {
        "engine": "reference",
        "numerics": NUMERICS_VERSION,
        "settings": {"max_model_len": 32},
    }
    assert open_reference_engine(files).identity()["settings"] == {"max_model_len": 64}


def test_the_environment_names_numpy_and_its_blas(files: dict[str, Path]) -> None:
    environment = open_reference_engine(files).environment()
    assert environment["numpy"] == np.__version__
    assert environment["blas"]
    json.dumps(environment)


def test_an_end_token_of_the_generation_configuration_ends_a_sequence(
    files: dict[str, Path],
) -> None:
    output = generate(open_reference_engine(files), greedy_request("r", PROMPT))
    write_eos(files, "generation_config.json", [END_OF_TEXT, output[2]])
    engine = open_reference_engine(files)
    [sequence] = engine.generate(
        [greedy_request("r", PROMPT)], Batching(1), RecordingSink(()), ignore
    )
    assert list(sequence.output_token_ids) == output[: output.index(output[2]) + 1]
    assert (sequence.finish_reason, sequence.stop_reason) == ("stop", None)


@pytest.mark.parametrize("present", [True, False])
def test_the_model_configuration_names_end_tokens_when_the_other_does_not(
    files: dict[str, Path], present: bool
) -> None:
    output = generate(open_reference_engine(files), greedy_request("r", PROMPT))
    write_eos(files, "config.json", output[0])
    if present:
        write_eos(files, "generation_config.json", None)
    else:
        del files["generation_config.json"]
    assert generate(open_reference_engine(files), greedy_request("r", PROMPT)) == output[:1]


def test_the_generation_configuration_wins(files: dict[str, Path]) -> None:
    output = generate(open_reference_engine(files), greedy_request("r", PROMPT))
    write_eos(files, "config.json", output[0])
    assert generate(open_reference_engine(files), greedy_request("r", PROMPT)) == output


def test_a_stop_token_and_a_stop_string_end_their_own_sequences(files: dict[str, Path]) -> None:
    engine = open_reference_engine(files)
    [plain] = engine.generate([greedy_request("r", PROMPT)], Batching(1), RecordingSink(()), ignore)
    token = plain.output_token_ids[3]
    text = plain.text.rstrip("\ufffd")[-1]
    by_token, by_string = engine.generate(
        [
            greedy_request("token", PROMPT, token_ids=[token]),
            greedy_request("string", PROMPT, strings=[text]),
        ],
        Batching(2),
        RecordingSink(()),
        ignore,
    )
    assert (by_token.finish_reason, by_token.stop_reason) == ("stop", token)
    assert (by_string.finish_reason, by_string.stop_reason) == ("stop", text)
    assert by_string.text == plain.text[: plain.text.index(text)]


def test_the_context_ends_a_sequence(files: dict[str, Path]) -> None:
    engine = open_reference_engine(files, max_model_len=10)
    assert len(generate(engine, greedy_request("r", PROMPT, max_tokens=50))) == 7


def test_ties_go_to_the_lowest_token(tmp_path: Path) -> None:
    files = write_checkpoint(tmp_path, SHAPE)
    tensors = random_tensors(SHAPE, 1)
    tensors["lm_head.weight"][:] = tensors["lm_head.weight"][0]
    write_weights(tmp_path, tensors, "BF16")
    engine = open_reference_engine(files)
    assert set(generate(engine, greedy_request("r", PROMPT))) == {0}


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_only_the_phases_asked_for_are_captured(files: dict[str, Path], phase: Phase) -> None:
    sink = RecordingSink([phase])
    output = generate(open_reference_engine(files), greedy_request("r", PROMPT), sink=sink)
    assert sink.phases() == {phase}
    rows = len(PROMPT) if phase == "prefill" else len(output)
    assert sink.rows(0, phase).shape == (rows, SHAPE.vocabulary)


def test_the_chosen_token_has_the_largest_captured_logit(files: dict[str, Path]) -> None:
    sink = RecordingSink()
    output = generate(open_reference_engine(files), greedy_request("r", PROMPT), sink=sink)
    assert sink.rows(0, "decode").argmax(axis=1).tolist() == output


def test_every_step_is_traced_and_reported(files: dict[str, Path]) -> None:
    sink, seen = RecordingSink(()), list[Progress]()
    requests = [greedy_request("a", PROMPT, max_tokens=2), greedy_request("b", [1], max_tokens=1)]
    open_reference_engine(files).generate(requests, Batching(2), sink, seen.append)
    assert sink.steps == [[("a", 3), ("b", 1)], [("a", 1)]]
    assert seen == [Progress(1, 2, 2), Progress(2, 2, 3)]


def test_an_interruption_ends_the_generation(files: dict[str, Path]) -> None:
    def interrupt(_progress: Progress) -> None:
        raise KeyboardInterrupt

    sink = RecordingSink(())
    with pytest.raises(KeyboardInterrupt):
        open_reference_engine(files).generate(
            [greedy_request("r", PROMPT)], Batching(1), sink, interrupt
        )
    assert len(sink.steps) == 1


def test_no_requests_make_no_sequences(files: dict[str, Path]) -> None:
    assert generate(open_reference_engine(files)) == []


@pytest.mark.parametrize(
    ("request_", "error", "named"),
    [
        (sampled_request("r", PROMPT, seed=None), InvalidInputError, "without a seed"),
        (greedy_request("r", ()), InvalidInputError, "no tokens"),
        (greedy_request("r", [1] * 64), InvalidInputError, "too long"),
        (greedy_request("r", [1, SHAPE.vocabulary]), InvalidInputError, "does not have"),
        (greedy_request("r", [-1]), InvalidInputError, "does not have"),
        (greedy_request("r", PROMPT, max_tokens=0), InvalidInputError, "at least one token"),
    ],
)
def test_a_request_that_cannot_run_is_refused_before_weights_are_read(
    files: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    request_: Request,
    error: type[Exception],
    named: str,
) -> None:
    def fail(_plan: WeightPlan) -> None:
        raise AssertionError("the weights were read")

    monkeypatch.setattr(WeightPlan, "load", fail)
    with pytest.raises(error, match=named):
        generate(open_reference_engine(files), greedy_request("good", PROMPT), request_)


def test_sampling_from_more_tokens_than_sums_are_exact_for_is_refused() -> None:
    request = sampled_request("r", PROMPT)
    check_requests([request], MOST_TOKENS, 64)
    with pytest.raises(UnfitEnvironmentError, match="sampling"):
        check_requests([request], MOST_TOKENS + 1, 64)
    check_requests([greedy_request("r", PROMPT)], MOST_TOKENS + 1, 64)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_a_missing_file_is_named(files: dict[str, Path], name: str) -> None:
    del files[name]
    with pytest.raises(InvalidInputError, match=name):
        open_reference_engine(files)


def test_a_model_without_memory_for_its_cache_is_refused(
    files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object) -> None:
        raise MemoryError

    monkeypatch.setattr(engine_module, "Decoder", fail)
    with pytest.raises(UnfitEnvironmentError, match="memory"):
        generate(open_reference_engine(files), greedy_request("r", PROMPT))


@pytest.mark.parametrize("prompt", [PROMPT, [1]], ids=["several rows", "one row"])
def test_activations_that_overflow_are_an_error(tmp_path: Path, prompt: list[int]) -> None:
    files = write_checkpoint(tmp_path, replace(SHAPE, dtype="F32"))
    tensors = {name: tensor * 1e37 for name, tensor in random_tensors(SHAPE, 1).items()}
    write_weights(tmp_path, tensors, "F32")
    with pytest.raises(BuildError, match="activations left the range"):
        generate(open_reference_engine(files), greedy_request("r", prompt))


@pytest.mark.parametrize("name", known_answers.KNOWN_DIGESTS)
def test_an_operation_with_a_wrong_bit_is_named_before_the_first_token(
    files: dict[str, Path], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    right = known_answers._OPERATIONS[name]

    def wrong() -> list[NDArray[np.float64]]:
        arrays = [array.copy() for array in right()]
        arrays[-1].flat[-1] = np.nextafter(arrays[-1].flat[-1], np.inf)
        return arrays

    monkeypatch.setitem(known_answers._OPERATIONS, name, wrong)
    sink = RecordingSink()
    with pytest.raises(BuildError, match=f"self-test: {name}"):
        generate(open_reference_engine(files), greedy_request("r", PROMPT), sink=sink)
    assert sink.steps == []


def test_a_wrong_matrix_product_is_named(
    files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = ExactWeights._products

    def wrong(self: ExactWeights, stacked: NDArray[np.float64]) -> NDArray[np.float64]:
        products = right(self, stacked)
        products[0, 0] += self.values[0, 0] * 2.0**-20
        return products

    monkeypatch.setattr(ExactWeights, "_products", wrong)
    with pytest.raises(BuildError, match="matrix product"):
        generate(open_reference_engine(files), greedy_request("r", PROMPT))


def test_a_wrong_product_of_one_row_is_named(
    files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = PairProduct.multiply

    def wrong(self: PairProduct) -> None:
        right(self)
        _, first_result, _ = self._blocks[0]
        first_result[0] += 2.0**-20

    monkeypatch.setattr(PairProduct, "multiply", wrong)
    with pytest.raises(BuildError, match="matrix product"):
        generate(open_reference_engine(files), greedy_request("r", PROMPT))


def test_every_operation_has_a_known_answer() -> None:
    assert set(known_answers.KNOWN_DIGESTS) == set(known_answers._OPERATIONS)
    known_answers.check_operations()


def test_a_second_generation_repeats_the_first(files: dict[str, Path]) -> None:
    engine: ReferenceEngine = open_reference_engine(files)
    first = generate(engine, greedy_request("r", PROMPT))
    assert generate(engine, greedy_request("r", PROMPT)) == first
