"""The real vLLM, on the CPU, with a small random model: what is captured is what it computed."""

import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from checkpoints import END_OF_TEXT, write_checkpoint
from dis_derivations.engines.child.launching import Surroundings
from dis_derivations.engines.model_files import model_ends, read_config
from dis_derivations.engines.protocol import (
    Batching,
    Engine,
    GeneratedSequence,
    Progress,
    Request,
)
from dis_derivations.engines.vllm.opening import NUMERICS_VERSION, open_vllm
from dis_derivations.engines.vllm.settings import engine_arguments, process_variables
from dis_derivations.realisation.platform_facts import measure
from dis_store.errors import BuildError, InvalidInputError, UnfitEnvironmentError
from engine_runs import RecordingSink, digest_by_request, greedy_request, sampled_request
from vllm_environment import SMALL, vllm_python

SCRIPT = Path(__file__).with_name("logits_script.py")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

DECLARED = {
    "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "2", "LC_ALL": "C.UTF-8", "TZ": "UTC",
    # vLLM sets it otherwise.
    "VLLM_WORKER_MULTIPROC_METHOD": "fork",
}  # fmt: skip
SETTINGS = {"dtype": "bfloat16", "max_model_len": 256}
BATCHING = Batching(8, 1024)
PROMPTS = [[97 + number, *range(1, 4 + 5 * number)] for number in range(8)]
REQUESTS = [greedy_request(f"r{number}", prompt) for number, prompt in enumerate(PROMPTS)]


class Rig:
    """An engine that is loaded once for this module."""

    def __init__(self, directory: Path) -> None:
        self.files = write_checkpoint(directory, SMALL)
        self.output = b""
        self.notes: list[str] = []

    def surroundings(self, **changes: str) -> Surroundings:
        platform = {"class": "cpu", "facts": measure("cpu", {**DECLARED, **changes})}
        return Surroundings(
            interpreter=vllm_python(),
            environment=None,
            platform=platform,
            patience=900,
            check=lambda: None,
            note=self.notes.append,
            keep_output=self._keep,
        )

    def spec(self, **settings: object) -> dict[str, object]:
        variables = process_variables({"vllm": {}}, DECLARED)
        return {
            "name": "vllm",
            "numerics": NUMERICS_VERSION,
            "settings": {**SETTINGS, **settings},
            "variables": variables,
        }

    def _keep(self, output: bytes) -> None:
        self.output = output


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Rig:
    return Rig(tmp_path_factory.mktemp("vllm") / "model")


@pytest.fixture(scope="module")
def engine(rig: Rig) -> Iterator[Engine]:
    with open_vllm(rig.spec(), rig.files, BATCHING, rig.surroundings()) as opened:
        yield opened


def ignore(progress: Progress) -> None:
    del progress


def generate(
    engine: Engine,
    requests: Sequence[Request] = REQUESTS,
    batching: Batching = BATCHING,
    layers: Sequence[int] = (),
) -> tuple[list[GeneratedSequence], RecordingSink]:
    sink = RecordingSink(layers=layers)
    return engine.generate(requests, batching, sink, ignore), sink


def test_the_same_batch_has_the_same_bits_again(engine: Engine) -> None:
    first, second = (generate(engine) for _ in range(2))
    assert digest_by_request(*first) == digest_by_request(*second)
    assert first[1].steps == second[1].steps


def test_a_token_is_chosen_from_the_largest_of_the_logits_that_are_captured(
    engine: Engine,
) -> None:
    sequences, sink = generate(engine)
    for index, sequence in enumerate(sequences):
        rows = sink.rows(index, "decode")
        assert rows.shape == (len(sequence.output_token_ids), SMALL.vocabulary)
        assert tuple(rows.argmax(axis=1)) == sequence.output_token_ids
        assert sink.rows(index, "prefill").shape == (len(PROMPTS[index]), SMALL.vocabulary)


def test_the_trace_says_who_was_in_each_step(engine: Engine) -> None:
    sequences, sink = generate(engine, batching=Batching(4, 1024))
    position = 0
    for group in (range(4), range(4, 8)):
        length = max(len(sequences[index].output_token_ids) for index in group)
        steps = sink.steps[position : position + length]
        position += length
        assert sorted(steps[0]) == sorted((f"r{index}", len(PROMPTS[index])) for index in group)
        for number, step in enumerate(steps[1:], 2):
            running = [each for each in group if len(sequences[each].output_token_ids) >= number]
            assert sorted(step) == sorted((f"r{index}", 1) for index in running)
    assert position == len(sink.steps)


def test_a_request_alone_is_near_what_it_is_in_a_batch(engine: Engine) -> None:
    """Whether the bits are the same depends on the machine: what is known is that the trace tells them apart."""
    together, alone = (generate(engine, batching=Batching(size, 1024)) for size in (8, 1))
    assert together[1].steps != alone[1].steps
    assert all(len(step) == 1 for step in alone[1].steps)
    for index in range(len(REQUESTS)):
        first, second = (sink.rows(index, "decode")[0] for _, sink in (together, alone))
        assert np.abs(first - second).max() < 0.05 * np.abs(first).max()


def test_logits_of_the_last_prompt_position_are_those_of_the_first_token(
    engine: Engine,
) -> None:
    """They are computed apart, so nearly."""
    _, sink = generate(engine)
    for index in range(len(REQUESTS)):
        prompt, first = sink.rows(index, "prefill")[-1], sink.rows(index, "decode")[0]
        assert np.abs(prompt - first).max() < 0.05 * np.abs(first).max()


def test_states_of_layers_have_a_row_for_every_position(engine: Engine) -> None:
    sequences, plain = generate(engine)
    again, sink = generate(engine, layers=(0, 1))
    for index, sequence in enumerate(sequences):
        for layer in (0, 1):
            prompt = np.concatenate(sink.states[index, "prefill", layer])
            answer = np.concatenate(sink.states[index, "decode", layer])
            assert prompt.shape == (len(PROMPTS[index]), SMALL.hidden)
            # The last token is chosen and not computed with.
            assert answer.shape == (len(sequence.output_token_ids) - 1, SMALL.hidden)
            assert np.isfinite(prompt).all()
        last = sink.states[index, "prefill", 1][0]
        assert not np.array_equal(last, sink.states[index, "prefill", 0][0])
    # To look on changes no bit.
    assert digest_by_request(sequences, plain) == digest_by_request(again, sink)


def test_a_layer_that_the_model_lacks_is_told(rig: Rig) -> None:
    """In an engine of its own, which ends with the refusal."""
    with (
        pytest.raises(UnfitEnvironmentError, match="2 layers, and no layer 7"),
        open_vllm(rig.spec(), rig.files, BATCHING, rig.surroundings()) as opened,
    ):
        generate(opened, layers=(7,))
    assert rig.output


def test_stop_texts_and_stop_tokens_end_sequences(engine: Engine) -> None:
    (plain,), _ = generate(engine, [greedy_request("plain", PROMPTS[3], max_tokens=8)])
    third = plain.output_token_ids[2]
    (stopped,), _ = generate(engine, [greedy_request("token", PROMPTS[3], token_ids=[third])])
    at = plain.output_token_ids.index(third)
    assert stopped.output_token_ids == plain.output_token_ids[: at + 1]
    assert (stopped.finish_reason, stopped.stop_reason) == ("stop", third)
    text = plain.text[1:3]
    (cut,), _ = generate(engine, [greedy_request("text", PROMPTS[3], strings=[text])])
    assert cut.stop_reason == text
    assert cut.text == plain.text[: plain.text.index(text)]
    assert cut.output_token_ids == plain.output_token_ids[: len(cut.output_token_ids)]


def test_chance_follows_from_the_seed(engine: Engine) -> None:
    def tokens(seed: int) -> tuple[int, ...]:
        request = sampled_request("s", PROMPTS[2], seed=seed, max_tokens=12)
        return generate(engine, [request])[0][0].output_token_ids

    assert tokens(1) == tokens(1)
    assert len({tokens(seed) for seed in range(1, 6)}) > 1


def test_a_request_that_does_not_fit_is_refused_before_vllm_sees_it(engine: Engine) -> None:
    with pytest.raises(InvalidInputError, match="too long"):
        generate(engine, [greedy_request("long", [1] * 256)])
    with pytest.raises(InvalidInputError, match="the token 512"):
        generate(engine, [greedy_request("unknown", [512])])


def test_the_engine_says_what_it_really_uses(engine: Engine) -> None:
    found = engine.identity()
    assert found["settings"]["dtype"] == "bfloat16"
    assert found["settings"]["end_token_ids"] == [END_OF_TEXT]
    assert found["settings"]["generation_config"] == "vllm"
    assert found["batching"] == {
        "enable_chunked_prefill": False,
        "max_num_batched_tokens": 1024,
        "max_num_seqs": 8,
    }
    assert found["overridden"] == {
        "VLLM_WORKER_MULTIPROC_METHOD": {"asked": "fork", "used": "spawn"}
    }
    assert found["settings"]["cascade_attention"] is False
    # One of arithmetic that nobody asked for; not one that holds a path or a random word.
    assert found["added_variables"]["TORCHINDUCTOR_CPP_DYNAMIC_THREADS"] == "1"
    assert found["variables"]["VLLM_ENABLE_V1_MULTIPROCESSING"] == "0"
    assert found["device"]["type"] == "cpu"
    assert found["device"]["threads"] == 2
    assert found["weights"]["tensors"] > 0
    assert "torch" in found["versions"]
    # What can be compared says nothing of where it ran.
    assert "/" not in json.dumps(
        [found["settings"], found["device"], found["versions"], found["added_variables"]]
    )
    assert engine.environment()["variables_set_by_the_engine"]


def test_what_is_captured_is_what_vllm_gives_by_its_own_way(rig: Rig, engine: Engine) -> None:
    requests = REQUESTS[:4]
    sequences, sink = generate(engine, requests, Batching(2, 1024))
    config = read_config(rig.files)
    ends = model_ends(rig.files, config, 256)
    arguments = engine_arguments(SETTINGS, Batching(2, 1024), config, ends.context)
    asked = [
        {
            "prompt": list(each.prompt_token_ids),
            "max_tokens": each.sampling.max_tokens,
            "stop": sorted(ends.end_token_ids),
        }
        for each in requests
    ]
    command = [vllm_python(), SCRIPT, rig.files["config.json"].parent]
    process = subprocess.run(
        [*command, json.dumps(arguments), json.dumps(asked)],
        env={**process_variables({"vllm": {}}, DECLARED), "PATH": "/usr/bin:/bin", "HOME": "/tmp"},  # noqa: S108
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr[-2000:]
    for index, found in enumerate(json.loads(process.stdout.splitlines()[-1])):
        assert tuple(found["tokens"]) == sequences[index].output_token_ids
        assert np.array_equal(np.array(found["rows"]), sink.rows(index, "decode"))


def test_a_platform_that_is_not_the_one_of_the_key_is_an_error(rig: Rig) -> None:
    claimed = rig.surroundings(OMP_NUM_THREADS="1")
    with (
        pytest.raises(BuildError, match="another number of threads"),
        open_vllm(rig.spec(), rig.files, BATCHING, claimed),
    ):
        pass
