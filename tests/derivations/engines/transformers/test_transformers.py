"""The real transformers, on small random checkpoints, against the reference engine."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from checkpoints import CheckpointShape, write_checkpoint
from dis_derivations.engines.child.launching import Surroundings
from dis_derivations.engines.protocol import Batching, Engine, GeneratedSequence, Request
from dis_derivations.engines.reference.engine import open_reference_engine
from dis_derivations.engines.reference.sampling import choose_token
from dis_derivations.engines.transformers.opening import NUMERICS_VERSION, open_transformers
from dis_derivations.engines.transformers.settings import process_variables
from dis_derivations.realisation.platform_facts import measure
from dis_store.errors import InvalidInputError, UnfitEnvironmentError
from engine_runs import RecordingSink, digest_by_request, greedy_request, sampled_request

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(600)]

ORACLE = Path(__file__).parents[4] / ".venv-oracle"
DECLARED = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "2", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
SHAPE = CheckpointShape(layers=3)
REQUESTS = [greedy_request(f"r{n}", [97 + n, *range(1, 4 + 6 * n)], max_tokens=8) for n in range(4)]


def python() -> Path:
    if not (ORACLE / "ready").exists():
        if os.environ.get("CI"):
            pytest.fail("the oracle's environment is missing: run `make oracle`")
        pytest.skip("run `make oracle`")
    return ORACLE / "bin/python"


class Rig:
    """Opens transformers on one checkpoint."""

    def __init__(self, directory: Path) -> None:
        self.files = write_checkpoint(directory, SHAPE)
        self.output = b""

    @contextmanager
    def opened(
        self, files: Mapping[str, Path] | None = None, **settings: object
    ) -> Iterator[Engine]:
        spec = {
            "name": "transformers",
            "numerics": NUMERICS_VERSION,
            "settings": settings,
            "variables": process_variables(DECLARED),
        }
        surroundings = Surroundings(
            interpreter=python(),
            environment=None,
            platform={"class": "cpu", "facts": measure("cpu", DECLARED)},
            patience=300,
            check=lambda: None,
            note=lambda _: None,
            keep_output=self._keep,
        )
        with open_transformers(
            spec, self.files if files is None else files, surroundings
        ) as engine:
            yield engine

    def _keep(self, output: bytes) -> None:
        self.output = output


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Rig:
    return Rig(tmp_path_factory.mktemp("transformers") / "model")


@pytest.fixture(scope="module")
def engine(rig: Rig) -> Iterator[Engine]:
    with rig.opened(dtype="float64", max_model_len=128) as opened:
        yield opened


def generate(
    engine: Any, requests: Sequence[Request] = REQUESTS, layers: Sequence[int] = ()
) -> tuple[list[GeneratedSequence], RecordingSink]:
    sink = RecordingSink(layers=layers)
    return engine.generate(requests, Batching(4), sink, lambda _: None), sink


def test_tokens_and_logits_are_those_of_the_reference_engine(engine: Engine, rig: Rig) -> None:
    found, sink = generate(engine)
    expected, reference = generate(open_reference_engine(rig.files, max_model_len=128))
    assert [each.output_token_ids for each in found] == [each.output_token_ids for each in expected]
    for index in range(len(REQUESTS)):
        for phase in ("prefill", "decode"):
            mine, theirs = sink.rows(index, phase), reference.rows(index, phase)
            assert mine.shape == theirs.shape
            assert np.abs(mine - theirs).max() < 1e-5


def test_the_last_row_of_a_prompt_is_the_one_that_the_first_token_is_chosen_from(
    engine: Engine,
) -> None:
    _, sink = generate(engine)
    for index in range(len(REQUESTS)):
        assert np.array_equal(sink.rows(index, "prefill")[-1], sink.rows(index, "decode")[0])


def test_requests_are_computed_alone_and_have_the_same_bits_again(
    engine: Engine,
) -> None:
    together = generate(engine)
    assert digest_by_request(*generate(engine)) == digest_by_request(*together)
    [alone] = generate(engine, REQUESTS[2:3])[0]
    assert alone == together[0][2]
    assert all(len(step) == 1 for step in together[1].steps)


def test_capturing_changes_no_token(engine: Engine) -> None:
    sink = RecordingSink(())
    found = engine.generate(REQUESTS, Batching(1), sink, lambda _: None)
    assert found == generate(engine, layers=[0, 2])[0]


def test_layers_are_captured_for_every_position(engine: Engine) -> None:
    found, sink = generate(engine, layers=[1])
    for index, sequence in enumerate(found):
        prompt = np.concatenate(sink.states[index, "prefill", 1])
        answer = np.concatenate(sink.states[index, "decode", 1])
        assert prompt.shape == (len(sequence.prompt_token_ids), SHAPE.hidden)
        assert answer.shape == (len(sequence.output_token_ids) - 1, SHAPE.hidden)


def test_a_layer_that_the_model_lacks_is_refused(rig: Rig) -> None:
    with rig.opened() as opened, pytest.raises(UnfitEnvironmentError) as caught:
        generate(opened, layers=[7])
    assert "no layer 7" in (caught.value.cause or "")


def test_a_text_and_a_token_end_a_sequence(engine: Engine) -> None:
    [whole], _ = generate(engine, REQUESTS[:1])
    third = whole.output_token_ids[2]
    prompt = REQUESTS[0].prompt_token_ids
    by_token = greedy_request("r0", prompt, token_ids=[third])
    by_text = greedy_request("r0", prompt, strings=[whole.text[:2]])
    [stopped, cut], _ = generate(engine, [by_token, by_text])
    assert stopped.output_token_ids == whole.output_token_ids[:3]
    assert stopped.finish_reason == cut.finish_reason == "stop"
    assert len(cut.output_token_ids) < len(whole.output_token_ids)


def test_chance_is_the_seed_alone(engine: Engine) -> None:
    def drawn(**settings: Any) -> list[tuple[int, ...]]:
        requests = [sampled_request(f"s{n}", [97, n], max_tokens=6, **settings) for n in range(8)]
        return [each.output_token_ids for each in generate(engine, requests)[0]]

    first = drawn(temperature=1.0, seed=5)
    assert drawn(temperature=1.0, seed=5) == first
    assert drawn(temperature=1.0, seed=6) != first
    greedy = [
        each.output_token_ids
        for each in generate(
            engine, [greedy_request(f"s{n}", [97, n], max_tokens=6) for n in range(8)]
        )[0]
    ]
    assert drawn(temperature=1.0, seed=5, top_k=1) == greedy
    assert drawn(temperature=1.0, seed=5, top_p=1e-9) == greedy


LIMITS: list[dict[str, Any]] = [{}, {"top_k": 5}, {"top_p": 0.8}, {"top_k": 40, "top_p": 0.9}]
SAMPLED = [
    sampled_request(
        f"s{n}", [97 + n, 3, n], temperature=0.5 + n / 4, seed=n, max_tokens=8, **limits
    )
    for n, limits in enumerate(LIMITS)
]


def test_equal_logits_give_the_tokens_of_the_reference_engine(rig: Rig) -> None:
    with rig.opened(max_model_len=128) as opened:  # in bfloat16, so that many logits are equal
        found, sink = generate(opened, [*SAMPLED, REQUESTS[0]])
    for index, (request, sequence) in enumerate(zip(SAMPLED, found, strict=False)):
        rows = sink.rows(index, "decode")
        chosen = [
            choose_token(row, request.sampling, request.id, number)
            for number, row in enumerate(rows)
        ]
        assert chosen == list(sequence.output_token_ids)


def test_a_seed_gives_the_tokens_that_it_gives_the_reference_engine(
    engine: Engine, rig: Rig
) -> None:
    mixed = [SAMPLED[0], REQUESTS[1], *SAMPLED[1:]]
    found, _ = generate(engine, mixed)
    expected, _ = generate(open_reference_engine(rig.files, max_model_len=128), mixed)
    assert [each.output_token_ids for each in found] == [each.output_token_ids for each in expected]


def test_it_says_what_it_used(engine: Engine) -> None:
    identity = engine.identity()
    assert (identity["engine"], identity["numerics"]) == ("transformers", NUMERICS_VERSION)
    assert identity["settings"]["attention"] == "eager"
    assert identity["settings"]["dtype"] == "float64"
    assert identity["settings"]["deterministic_algorithms"] is True
    assert identity["device"]["threads"] == 2
    assert identity["weights"]["tensors"] > 0
    assert str(ORACLE) not in str(identity)


def test_the_format_is_the_one_of_the_manifest_or_the_checkpoint(rig: Rig) -> None:
    with rig.opened() as opened:
        _, sink = generate(opened, REQUESTS[:1])
        assert opened.identity()["settings"]["dtype"] == "bfloat16"
        rows = sink.rows(0, "decode").astype(np.float32)
        assert not (rows.view(np.uint32) & 0xFFFF).any()


def test_a_prompt_that_does_not_fit_is_refused(engine: Engine) -> None:
    with pytest.raises(InvalidInputError, match="is too long"):
        generate(engine, [greedy_request("r", [1] * 128)])


def test_a_model_that_it_does_not_know_is_refused(rig: Rig, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    text = rig.files["config.json"].read_text("utf-8")
    config.write_text(text.replace('"llama"', '"no_such_model"'), "utf-8")
    with (
        pytest.raises(UnfitEnvironmentError) as caught,
        rig.opened({**rig.files, "config.json": config}),
    ):
        pass
    assert "no_such_model" in (caught.value.cause or "")
