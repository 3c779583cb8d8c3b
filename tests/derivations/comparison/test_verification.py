from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bundles import Answer, Run, Tensor, Verify
from dis_derivations.comparison.rules import Rule
from dis_derivations.comparison.verification import verify_bundles
from dis_store.errors import InvalidInputError

LOGITS = {"00000.decode": Tensor(np.arange(12.0).reshape(3, 4))}
OTHER_TOKENS = (Answer("first", (5, 6, 0)), Answer("second", (8, 9)))
CUDA = Run(platform_class="cuda", facts={"gpu": "H100"})


def nudged(steps: int) -> dict[str, Tensor]:
    values = np.arange(12.0).reshape(3, 4).astype(np.float32)
    values[0, 3] = (values[0, 3:4].view(np.uint32) + steps).view(np.float32)[0]
    return {"00000.decode": Tensor(values)}


def comparing(run: Run, **rules: dict[str, Any]) -> Run:
    exact = {
        name: {"rule": "exact"} for name in ("tokens", "logits", "activations", "engine_trace")
    }
    return run.with_manifest(determinism={"strict_hardware": False, "compare": {**exact, **rules}})


def test_the_same_run_twice_is_conformant(verify: Verify) -> None:
    report = verify(Run(logits=LOGITS), Run(logits=LOGITS))

    assert report.grade == "conformant"
    assert report.conformant
    assert report.outputs_identical
    assert all(report.environment.values())


def test_other_tokens_are_a_mismatch(verify: Verify) -> None:
    report = verify(Run(), Run(answers=OTHER_TOKENS))

    tokens = report.to_json()["comparisons"]["tokens"]
    assert report.grade == "mismatch_outputs"
    assert not report.outputs_identical
    assert tokens["exact_match"] is False
    assert tokens["mismatched_sequences"] == 1
    assert tokens["first_divergence"] == {
        "request_id": "first",
        "token_step": 2,
        "field": "output_token_ids",
        "token_a": 7,
        "token_b": 0,
    }
    assert tokens["counts"] == {
        "sequences_a": 2,
        "sequences_b": 2,
        "compared": 2,
        "tokens_a": 5,
        "tokens_b": 5,
    }


def test_a_missing_sequence_is_a_mismatch(verify: Verify) -> None:
    report = verify(Run(), Run(answers=Run().answers[:1]))

    assert report.grade == "mismatch_outputs"
    assert report.to_json()["comparisons"]["tokens"]["missing_in_b"] == ["second"]


@pytest.mark.parametrize("part", ["weights", "requests", "closure"])
def test_other_inputs_are_other_software_whatever_the_outputs(verify: Verify, part: str) -> None:
    report = verify(Run(), Run().with_input(part, "other"))

    assert report.grade == "non_conformant_software"
    assert report.outputs_identical
    assert len(report.to_json()["causes"]) == 1


def test_other_engine_settings_are_other_software(verify: Verify) -> None:
    other = Run(engine={"engine": "reference", "numerics": 1, "settings": {"max_model_len": 8}})

    report = verify(Run(), other)

    assert report.grade == "non_conformant_software"
    assert report.environment["engine_settings_match"] is False


def test_other_batching_is_other_software_where_it_counts(verify: Verify) -> None:
    vllm = Run(engine={"engine": "vllm", "numerics": 1, "settings": {}})
    batched = {"batching": {"max_num_seqs": 8}}

    assert verify(vllm, vllm.with_manifest(inference=batched)).grade == "non_conformant_software"
    assert verify(Run(), Run().with_manifest(inference=batched)).grade == "conformant"


def test_runs_without_a_closure_are_not_taken_for_the_same_software(
    verify: Verify, tmp_path: Path
) -> None:
    import json

    a, b = Run().write(tmp_path / "a"), Run().write(tmp_path / "b")
    for name in ("a", "b"):
        path = tmp_path / name / "bundle.json"
        document = json.loads(path.read_text())
        del document["inputs"]["closure"]
        path.write_text(json.dumps(document))

    assert verify_bundles(a, b).grade == "non_conformant_software"


def test_a_description_alone_changes_no_grade(verify: Verify) -> None:
    report = verify(
        Run(), Run().with_manifest(metadata={"name": "example", "description": "other"})
    )

    assert report.grade == "conformant"
    assert report.environment["manifest_id_match"] is False


def test_two_different_gpus_are_a_matter_of_hardware_whatever_the_outputs(verify: Verify) -> None:
    other = Run(platform_class="cuda", facts={"gpu": "A100"})

    same, different = verify(CUDA, other), verify(CUDA, other.having(answers=OTHER_TOKENS))

    assert same.grade == different.grade == "non_conformant_hardware"
    assert same.outputs_identical
    assert not different.outputs_identical
    assert [cause.kind for cause in same.upstream.causes] == ["platform"]


@pytest.mark.parametrize("side", ["a", "b"])
def test_a_machine_that_breaks_its_constraints_is_a_matter_of_hardware(
    verify: Verify, side: str
) -> None:
    bad = CUDA.having(conformant=False, reasons=("the GPU is too old",))

    report = verify(*((bad, CUDA) if side == "a" else (CUDA, bad)))

    assert report.grade == "non_conformant_hardware"
    assert report.to_json()["hardware"][side] == {
        "conformant": False,
        "reasons": ["the GPU is too old"],
    }


def test_hardware_comes_before_software_and_software_before_outputs(verify: Verify) -> None:
    other = CUDA.having(answers=OTHER_TOKENS).with_input("weights", "other")

    assert verify(CUDA, other).grade == "non_conformant_software"
    assert verify(CUDA, other.having(facts={"gpu": "A100"})).grade == "non_conformant_hardware"


def test_constraints_do_not_apply_where_no_machine_can_change_a_bit(verify: Verify) -> None:
    report = verify(Run(conformant=False), Run())

    assert report.grade == "conformant"
    assert report.to_json()["hardware"]["constraints_apply"] is False
    assert any(note.startswith("platform any") for note in report.notes)


def test_another_class_of_platform_is_a_matter_of_hardware(verify: Verify) -> None:
    assert verify(Run(), CUDA).grade == "non_conformant_hardware"


@pytest.mark.parametrize(("steps", "grade"), [(2, "conformant"), (3, "mismatch_outputs")])
def test_logits_may_differ_by_the_steps_that_the_rule_admits(
    verify: Verify, steps: int, grade: str
) -> None:
    rule = {"rule": "ulp", "ulp": 2}

    report = verify(
        comparing(Run(logits=LOGITS), logits=rule),
        comparing(Run(logits=nudged(steps)), logits=rule),
    )

    assert report.grade == grade
    assert not report.outputs_identical


@pytest.mark.parametrize(("atol", "grade"), [(0.01, "conformant"), (0.0, "mismatch_outputs")])
def test_logits_may_differ_by_the_amount_that_the_rule_admits(
    verify: Verify, atol: float, grade: str
) -> None:
    rule = {"rule": "absrel", "atol": atol, "rtol": 0.0}

    report = verify(
        comparing(Run(logits=LOGITS), logits=rule), comparing(Run(logits=nudged(9)), logits=rule)
    )

    assert report.grade == grade
    outside = report.to_json()["comparisons"]["logits"]["elements_outside_rules"]
    assert outside == (0 if grade == "conformant" else 1)


def test_one_bit_is_a_mismatch_by_the_rule_exact(verify: Verify) -> None:
    assert verify(Run(logits=LOGITS), Run(logits=nudged(1))).grade == "mismatch_outputs"


@pytest.mark.parametrize(("steps", "grade"), [(0, "conformant"), (1, "mismatch_outputs")])
def test_the_rule_hash_compares_and_reports_hashes(verify: Verify, steps: int, grade: str) -> None:
    rules = {"logits": {"rule": "hash"}, "tokens": {"rule": "hash"}}

    report = verify(
        comparing(Run(logits=LOGITS), **rules), comparing(Run(logits=nudged(steps)), **rules)
    )

    found = report.to_json()["comparisons"]
    assert report.grade == grade
    assert (found["logits"]["hash_a"] == found["logits"]["hash_b"]) == (steps == 0)
    assert found["tokens"]["hash_a"] == found["tokens"]["hash_b"]


def test_the_rule_hash_fails_where_only_the_order_of_requests_differs(verify: Verify) -> None:
    run = comparing(Run(), tokens={"rule": "hash"})

    report = verify(run, run.having(answers=run.answers[::-1]))

    assert report.grade == "mismatch_outputs"
    assert report.to_json()["comparisons"]["tokens"]["reason"] == "the hashes differ"


def test_no_tolerance_excuses_rows_without_a_counterpart(verify: Verify) -> None:
    rule = {"rule": "absrel", "atol": 1e30}
    shorter = {"00000.decode": Tensor(np.arange(8.0).reshape(2, 4))}

    report = verify(
        comparing(Run(logits=LOGITS), logits=rule), comparing(Run(logits=shorter), logits=rule)
    )

    assert report.grade == "mismatch_outputs"
    assert "not comparable" in report.to_json()["comparisons"]["logits"]["reason"]


def test_tokens_are_never_compared_as_numbers(verify: Verify) -> None:
    rule = {"rule": "absrel", "atol": 100.0}

    report = verify(
        comparing(Run(), tokens=rule), comparing(Run(answers=OTHER_TOKENS), tokens=rule)
    )

    assert report.grade == "mismatch_outputs"
    assert "tokens are not numbers; they are compared exactly" in report.notes


def test_different_rules_must_both_be_passed(verify: Verify) -> None:
    loose, tight = ({"rule": "ulp", "ulp": steps} for steps in (10, 1))
    a, b = (
        comparing(Run(logits=LOGITS), logits=loose),
        comparing(Run(logits=nudged(5)), logits=tight),
    )

    report = verify(a, b)

    assert report.grade == verify(b, a).grade == "mismatch_outputs"
    assert report.environment["compare_rules_match"] is False
    assert any("both must pass: ulp 10 and ulp 1" in note for note in report.notes)


def test_rules_given_by_the_caller_replace_the_manifests(tmp_path: Path) -> None:
    a, b = Run(logits=LOGITS).write(tmp_path / "a"), Run(logits=nudged(1)).write(tmp_path / "b")

    assert verify_bundles(a, b, rules={"logits": Rule("ulp", ulp=1)}).grade == "conformant"
    assert verify_bundles(a, b).grade == "mismatch_outputs"


def test_a_rule_that_dis_does_not_know_is_refused(verify: Verify) -> None:
    with pytest.raises(InvalidInputError):
        verify(comparing(Run(), logits={"rule": "close"}), Run())


@pytest.mark.parametrize("swap", [False, True])
def test_logits_that_one_run_lacks_are_a_mismatch(verify: Verify, swap: bool) -> None:
    runs = (Run(logits=LOGITS), Run())

    report = verify(*(runs[::-1] if swap else runs))

    logits = report.to_json()["comparisons"]["logits"]
    assert report.grade == "mismatch_outputs"
    assert (logits["outcome"], logits["reason"]) == (
        "failed",
        f"not captured in {'A' if swap else 'B'}",
    )


def test_logits_that_a_manifest_asks_for_and_no_run_has_are_a_mismatch(verify: Verify) -> None:
    asking = Run().with_manifest(capture={"tokens": True, "logits": {"enabled": True}})

    report = verify(asking, Run())

    assert report.grade == "mismatch_outputs"
    assert report.outputs_identical
    assert (
        "every captured bit is the same; what failed was asked for and is missing" in report.notes
    )


def test_what_nobody_asked_for_is_not_compared_and_never_passed(verify: Verify) -> None:
    found = verify(Run(), Run()).to_json()["comparisons"]

    assert {name: each["outcome"] for name, each in found.items()} == {
        "tokens": "passed",
        "logits": "not compared",
        "activations": "not compared",
        "engine_trace": "not compared",
    }


def test_other_engine_traces_are_a_mismatch(verify: Verify) -> None:
    report = verify(Run(trace=[{"step": 0}]), Run(trace=[{"step": 1}]))

    assert report.grade == "mismatch_outputs"
    assert report.to_json()["comparisons"]["engine_trace"]["first_difference"]["step"] == 0


def test_a_mock_run_is_never_evidence(verify: Verify) -> None:
    mock = Run(engine={"engine": "mock", "numerics": 1, "settings": {}})

    report = verify(mock, mock)

    assert report.outputs_identical
    assert report.grade == "non_conformant_software"
    assert report.notes[0].startswith("MOCK ENGINE")


def test_a_server_that_is_not_what_was_wanted_is_named_and_never_conformant(
    verify: Verify,
) -> None:
    environment = {"kind": "server", "departures": ["vllm.engine_args.dtype: it has 'bfloat16'"]}
    asked = Run(engine={"engine": "openai_compatible", "numerics": 1, "environment": environment})

    report = verify(asked, asked)

    assert report.outputs_identical
    assert report.grade == "non_conformant_software"
    assert "A: vllm.engine_args.dtype: it has 'bfloat16'" in report.notes


def test_a_run_of_an_experiment_says_so_and_is_never_conformant(verify: Verify) -> None:
    made = {"kind": "warm prefix cache", "cached_tokens": 256}
    warm = Run(engine={"engine": "vllm", "numerics": 2, "settings": {}, "experiment": made})

    report = verify(warm, warm)

    assert report.outputs_identical
    assert report.grade == "non_conformant_software"
    assert any(
        note.startswith("A: EXPERIMENT OF A PROBE, no run of its manifest: warm prefix cache, 256")
        for note in report.notes
    )


def test_a_tolerance_in_one_manifest_does_not_weaken_exactness_in_the_other(verify: Verify) -> None:
    loose, strict = (
        comparing(Run(logits=LOGITS), logits={"rule": "ulp", "ulp": 9}),
        Run(logits=nudged(1)),
    )

    assert verify(loose, strict).grade == verify(strict, loose).grade == "mismatch_outputs"
