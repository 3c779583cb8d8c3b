import json
from typing import Any

import numpy as np
import pytest

from bundles import Answer, Diff, FolderStore, Run, Tensor, safetensors
from dis_derivations.comparison.causes.json_changes import json_changes, shortened
from dis_derivations.comparison.causes.manifest_changes import CAUSE_KINDS, kind_of
from dis_derivations.comparison.causes.upstream import Cause
from dis_derivations.comparison.report import DiffReport
from dis_store import IntegrityError


def kinds(report: DiffReport) -> list[str]:
    return [cause.kind for cause in report.causes]


def only(causes: tuple[Cause, ...]) -> Cause:
    (cause,) = causes
    return cause


def changes(cause: Cause) -> list[dict[str, Any]]:
    return [change.to_json() for change in cause.changes]


def encoded(value: object) -> bytes:
    return json.dumps(value).encode()


def test_causes_come_in_the_order_in_which_they_are_likely(diff: Diff) -> None:
    other = (
        Run(
            engine={"engine": "vllm", "numerics": 2, "settings": {}},
            platform_class="cuda",
            facts={"gpu": "H200"},
            trace=[{"step": 0}],
            inputs={
                name: f"other {name}"
                for name in ("weights", "config", "tokenizer", "chat_template", "requests")
            },
        )
        .with_manifest(
            inference={"batching": {"max_num_seqs": 8}}, software_stack={"python": "3.12"}
        )
        .with_input("closure", "other closure")
    )

    found = kinds(diff(Run(), other))

    assert found == [kind for kind in CAUSE_KINDS if kind != "closure"]


def test_changed_weights_name_their_files_from_the_lock(diff: Diff) -> None:
    other = Run(artifacts=(("model.weight", "model.safetensors", "other"),)).with_input(
        "weights", "other"
    )

    cause = only(diff(Run(), other).causes)

    assert cause.kind == "weights"
    assert [(each["where"], each["name"]) for each in changes(cause)] == [
        ("file", "model.safetensors")
    ]


def test_changed_weights_name_their_tensors_from_the_store(diff: Diff, store: FolderStore) -> None:
    same, old, new = (Tensor(np.full((2, 2), value)) for value in (0.0, 1.0, 2.0))
    store.add(
        "weights",
        {
            "one.safetensors": safetensors({"a": old, "b": same}),
            "two.safetensors": safetensors({"moved": same}),
        },
    )
    store.add(
        "other",
        {
            "one.safetensors": safetensors({"a": new, "b": same, "c": Tensor([1.0])}),
            "three.safetensors": safetensors({"moved": same}),
        },
    )

    cause = only(diff(Run(), Run().with_input("weights", "other")).causes)

    assert changes(cause) == [
        {"where": "tensor", "name": "a", "old": "F32 [2, 2]", "new": "F32 [2, 2], other values"},
        {"where": "tensor", "name": "c", "new": "F32 [1]"},
    ]


def test_the_statement_says_how_much_of_the_weights_differs(diff: Diff, store: FolderStore) -> None:
    tensors = {f"layer.{number}": Tensor(np.full(99, number)) for number in range(20)}
    store.add("weights", {"model.safetensors": safetensors(tensors)})
    tensors["layer.7"] = Tensor(np.full(99, -1.0))
    store.add("other", {"model.safetensors": safetensors(tensors)})

    cause = only(diff(Run(), Run().with_input("weights", "other")).causes)

    assert cause.statement == "the weights differ in 1 of 20 tensors (5.0 % of bytes): layer.7"


def test_the_same_weights_in_other_files_are_no_cause(diff: Diff, store: FolderStore) -> None:
    one, two = Tensor(np.full(3, 1.0)), Tensor(np.full(3, 2.0))
    store.add("weights", {"model.safetensors": safetensors({"a": one, "b": two})})
    shards = {"1.safetensors": safetensors({"b": two}), "2.safetensors": safetensors({"a": one})}
    store.add("other", shards)
    for label in ("closure", "closure of other"):
        store.add(label, {"closure.json": encoded({"engine": {}})})

    run = Run(artifacts=(("model.weight", "1.safetensors", "other"),))
    report = diff(Run(), run.with_input("weights", "other"))

    assert report.causes == ()
    cause = report.upstream.provenance[0]
    assert (cause.kind, cause.statement) == ("weights", "same weights, other shards")
    assert [each["name"] for each in changes(cause)] == ["1.safetensors", "model.safetensors"]


def test_closures_that_nobody_can_look_into_stay_a_cause(diff: Diff, store: FolderStore) -> None:
    one = Tensor(np.full(3, 1.0))
    store.add("weights", {"model.safetensors": safetensors({"a": one})})
    store.add("other", {"weights.safetensors": safetensors({"a": one})})

    report = diff(Run(), Run().with_input("weights", "other"))

    assert kinds(report) == ["closure"]


def test_tensors_under_other_names_are_said_to_be_renamed(diff: Diff, store: FolderStore) -> None:
    one = Tensor(np.full(3, 1.0))
    store.add("weights", {"model.safetensors": safetensors({"old": one})})
    store.add("other", {"model.safetensors": safetensors({"new": one})})

    cause = only(diff(Run(), Run().with_input("weights", "other")).causes)

    assert changes(cause) == [{"where": "tensor name", "name": "old", "old": "old", "new": "new"}]


@pytest.mark.parametrize(
    "requests",
    [b"5", b'{"requests":5}', b'{"requests":[5]}', b'{"requests":[{"id":1,"prompt_token_ids":7}]}'],
)
def test_requests_that_say_anything_do_not_keep_runs_from_being_compared(
    diff: Diff, store: FolderStore, requests: bytes
) -> None:
    for label in ("requests", "other"):
        store.add(label, {"requests.json": requests})
    report = diff(Run(), Run().with_input("requests", "other"))
    assert kinds(report) == ["requests"]


def test_damaged_weights_do_not_keep_runs_from_being_compared(
    diff: Diff, store: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(*_: object) -> None:
        raise IntegrityError("damaged")

    store.add("weights", {"model.safetensors": b""})
    store.add("other", {"model.safetensors": b""})
    monkeypatch.setattr(FolderStore, "tensors", damaged)

    cause = only(diff(Run(), Run().with_input("weights", "other")).causes)

    assert (cause.statement, [each["where"] for each in changes(cause)]) == (
        "the weights differ",
        ["object"],
    )


def test_weights_that_are_no_safetensors_are_named_by_object(
    diff: Diff, store: FolderStore
) -> None:
    store.add("weights", {"model.safetensors": b"not one"})
    store.add("other", {"model.safetensors": b"nor this"})

    cause = only(diff(Run(), Run().with_input("weights", "other")).causes)

    assert [each["where"] for each in changes(cause)] == ["object"]


def test_a_changed_configuration_names_its_fields(diff: Diff, store: FolderStore) -> None:
    store.add(
        "config", {"config.json": encoded({"rope_theta": 10000.0, "layers": 2}), "same.json": b"{}"}
    )
    store.add(
        "other", {"config.json": encoded({"rope_theta": 500000.0, "layers": 2}), "same.json": b"{}"}
    )

    cause = only(diff(Run(), Run().with_input("config", "other")).causes)

    assert cause.kind == "config"
    assert changes(cause) == [
        {"where": "config.json", "name": "/rope_theta", "old": 10000.0, "new": 500000.0}
    ]


def test_a_configuration_that_is_not_strict_json_is_named_by_object(
    diff: Diff, store: FolderStore
) -> None:
    store.add("config", {"config.json": b"{}"})
    store.add("other", {"config.json": b'{"limit": 1000000000000000019884624838656}'})

    cause = only(diff(Run(), Run().with_input("config", "other")).causes)

    assert [each["where"] for each in changes(cause)] == ["object"]


def requests(**fields: Any) -> bytes:
    sampling = {"temperature": 0.0, "top_p": 1.0}
    plain = {"id": "first", "prompt_token_ids": [1, 2, 3], "prompt": "a", "sampling": sampling}
    return encoded({"format": 1, "requests": [{**plain, **fields}]})


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {"sampling": {"temperature": 1.0, "top_p": 1.0}},
            {"name": "/first/sampling/temperature", "old": 0.0, "new": 1.0},
        ),
        (
            {"prompt_token_ids": [1, 2, 4]},
            {"name": "/first/prompt_token_ids/2", "old": 3, "new": 4},
        ),
        ({"prompt_token_ids": [1, 2]}, {"name": "/first/prompt_token_ids/2", "old": 3}),
        ({"prompt": "b"}, {"name": "/first/prompt", "old": "a", "new": "b"}),
        ({"stop": {"token_ids": [7]}}, {"name": "/first/stop/token_ids", "new": [7]}),
    ],
)
def test_changed_requests_name_request_and_field(
    diff: Diff, store: FolderStore, fields: dict[str, Any], expected: dict[str, Any]
) -> None:
    store.add("requests", {"requests.json": requests()})
    store.add("other", {"requests.json": requests(**fields)})

    cause = only(diff(Run(), Run().with_input("requests", "other")).causes)

    assert cause.kind == "requests"
    assert changes(cause) == [{"where": "requests", **expected}]


def test_without_the_objects_changed_prompts_come_from_the_bundles(diff: Diff) -> None:
    answers = (Answer("first", (5, 6, 7), prompt=(1, 9, 3)), Answer("third", (8, 9)))

    cause = only(diff(Run(), Run(answers=answers).with_input("requests", "other")).causes)

    assert changes(cause) == [
        {"where": "requests", "name": "/first/prompt_token_ids/1", "old": 2, "new": 9},
        {"where": "requests", "name": "second", "old": "there"},
        {"where": "requests", "name": "third", "new": "there"},
    ]


def test_another_order_of_requests_is_a_change_of_them(diff: Diff) -> None:
    run = Run()

    cause = only(
        diff(run, run.having(answers=run.answers[::-1]).with_input("requests", "other")).causes
    )

    assert changes(cause) == [
        {
            "where": "requests",
            "name": "order",
            "old": ["first", "second"],
            "new": ["second", "first"],
        }
    ]


def test_engine_settings_are_taken_from_what_the_engine_reported(diff: Diff) -> None:
    other = Run(engine={"engine": "reference", "numerics": 2, "settings": {"max_model_len": 8}})

    cause = only(diff(Run(), other).causes)

    assert cause.kind == "engine"
    assert [each["name"] for each in changes(cause)] == ["/numerics", "/settings/max_model_len"]


def test_a_declared_setting_that_reached_nothing_is_no_cause(diff: Diff) -> None:
    report = diff(Run(), Run().with_manifest(vllm={"engine_args": {"dtype": "float16"}}))

    assert report.causes == ()
    assert [each.kind for each in report.upstream.provenance] == ["without_effect"]


def test_batching_is_no_cause_for_the_reference_engine(diff: Diff) -> None:
    report = diff(Run(), Run().with_manifest(inference={"batching": {"max_num_seqs": 8}}))

    assert report.causes == ()


@pytest.mark.parametrize("engine", ["vllm", "something new"])
def test_batching_is_a_cause_for_engines_that_do_not_rule_it_out(diff: Diff, engine: str) -> None:
    run = Run(engine={"engine": engine, "numerics": 1, "settings": {}})

    report = diff(run, run.with_manifest(inference={"batching": {"max_num_seqs": 8}}))

    assert kinds(report) == ["batching"]


def test_batching_is_a_cause_where_the_trace_is_captured(diff: Diff) -> None:
    run = Run(trace=[{"step": 0}])

    assert kinds(diff(run, run.with_manifest(inference={"batching": {"max_num_seqs": 8}}))) == [
        "batching"
    ]


def test_the_software_stack_is_compared_in_the_closures(diff: Diff, store: FolderStore) -> None:
    engine = {"name": "vllm"}
    store.add(
        "closure",
        {"closure.json": encoded({"engine": engine, "software_stack": {"torch": "2.10"}})},
    )
    store.add(
        "other", {"closure.json": encoded({"engine": engine, "software_stack": {"torch": "2.11"}})}
    )

    cause = only(diff(Run(), Run().with_input("closure", "other")).causes)

    assert cause.kind == "software"
    assert changes(cause) == [
        {"where": "closure.json", "name": "/software_stack/torch", "old": "2.10", "new": "2.11"}
    ]


def test_closures_that_differ_for_no_visible_reason_are_a_cause(diff: Diff) -> None:
    assert kinds(diff(Run(), Run().with_input("closure", "other"))) == ["closure"]


def test_platform_facts_are_compared_one_by_one(diff: Diff) -> None:
    left = Run(platform_class="cuda", facts={"gpu": "A100", "driver": "570"})
    right = Run(platform_class="cuda", facts={"gpu": "H100", "driver": "570"})

    cause = only(diff(left, right).causes)

    assert cause.kind == "platform"
    assert changes(cause) == [
        {"where": "platform", "name": "/facts/gpu", "old": "A100", "new": "H100"}
    ]


def test_same_results_from_different_inputs_are_called_that(diff: Diff) -> None:
    report = diff(Run(), Run().with_input("weights", "other").with_input("tokenizer", "another"))

    assert report.same
    assert report.notes == ("same results although something upstream differs: weights, tokenizer",)


def test_a_lock_that_came_from_elsewhere_is_provenance(diff: Diff) -> None:
    report = diff(Run(), Run(sources={"model": {"commit": "abc"}}))

    assert report.causes == ()
    assert changes(only(report.upstream.provenance)) == [
        {"where": "lock", "name": "/sources/model/commit", "new": "abc"}
    ]


def test_every_manifest_change_is_reported_with_its_kind(diff: Diff) -> None:
    report = diff(
        Run(),
        Run().with_manifest(
            metadata={"name": "example", "description": "x"},
            vllm={"engine_args": {"dtype": "float16"}},
        ),
    )

    assert report.to_json()["manifest_changes"] == [
        {
            "where": "manifest",
            "name": "/metadata/description",
            "old": "an example",
            "new": "x",
            "kind": "description",
        },
        {
            "where": "manifest",
            "name": "/vllm/engine_args/dtype",
            "old": "float32",
            "new": "float16",
            "kind": "engine",
        },
    ]


@pytest.mark.parametrize(
    ("pointer", "kind"),
    [
        ("/metadata/name", "description"),
        ("/model/weights/files/0/digest", "weights"),
        ("/model/weights/source/revision", "source"),
        ("/model/weights/source/remote_code_digest", "weights"),
        ("/inference/requests/0/sampling/seed", "requests"),
        ("/inference/batching/max_num_seqs", "batching"),
        ("/inference/dataset/source/repo", "source"),
        ("/determinism/compare/logits/rule", "rules"),
        ("/hardware/constraints/cpu_arch", "policy"),
        ("/runtime/env/PYTHONHASHSEED", "software"),
        ("/runtime/env/x_lower", "software"),
        ("/runtime/execution/backend", "engine"),
        ("/runtime/execution/timeout_seconds", "policy"),
        ("/inference/requests/0/x_arrival_ms", "extension"),
        ("/something/new", "engine"),
    ],
)
def test_each_field_has_a_kind(pointer: str, kind: str) -> None:
    assert kind_of(pointer) == kind


def test_lists_of_plain_values_change_as_a_whole() -> None:
    (change,) = json_changes("x", {"ids": [1, 2]}, {"ids": [1, 3]})

    assert change.to_json() == {"where": "x", "name": "/ids", "old": [1, 2], "new": [1, 3]}


def test_lists_of_objects_change_item_by_item() -> None:
    found = json_changes("x", [{"a": 1}], [{"a": 2}, {"a": 3}])

    assert [change.name for change in found] == ["/0/a", "/1/a"]


def test_true_is_not_one() -> None:
    assert len(json_changes("x", [[1], {"a": 1}], [[True], {"a": True}])) == 2


def test_long_values_are_shortened() -> None:
    assert shortened("x" * 1000).endswith("… (1000 characters)")
    assert shortened({"ids": list(range(100))})["ids"][-1] == "… (100 items)"


def test_a_declaration_stands_with_the_cause_that_it_led_to_and_nowhere_else(diff: Diff) -> None:
    files = {"weights": {"files": [{"path": "model.safetensors", "digest": "sha256:1"}]}}

    report = diff(Run(), Run().with_manifest(model=files).with_input("weights", "other"))

    cause = only(report.causes)
    assert [(each["where"], each["name"]) for each in changes(cause)] == [
        ("object", "weights"),
        ("manifest", "/model/weights/files/0/digest"),
        ("manifest", "/model/weights/files/0/path"),
    ]
    assert report.upstream.provenance == ()
