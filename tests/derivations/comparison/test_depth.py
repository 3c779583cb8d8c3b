"""Tensors are listed in the order in which a model computes them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bundles import Answer, Diff, Run, Tensor
from dis_derivations.comparison.render_text import render_text
from dis_derivations.comparison.tensors.depth import depth

IN_ORDER = [
    "prefill.model.embed_tokens",
    "prefill.model.layers.0.input_layernorm",
    "prefill.model.layers.0.self_attn.q_proj",
    "prefill.model.layers.0.self_attn.k_proj",
    "prefill.model.layers.0.self_attn.v_proj",
    "prefill.model.layers.0.self_attn.o_proj",
    "prefill.model.layers.0.self_attn",
    "prefill.model.layers.0.post_attention_layernorm",
    "prefill.model.layers.0.mlp.gate_proj",
    "prefill.model.layers.0.mlp.up_proj",
    "prefill.model.layers.0.mlp.down_proj",
    "prefill.model.layers.0.mlp",
    "prefill.model.layers.0",
    "prefill.layer.002",
    "prefill.layer.10",
    "prefill.model.norm",
    "prefill.lm_head",
    "decode.layer.000",
    "decode.layer.1",
]


@given(st.permutations(IN_ORDER))
def test_names_sort_as_a_decoder_computes(shuffled: list[str]) -> None:
    assert sorted(shuffled, key=depth) == IN_ORDER


def test_other_families_name_the_same_places() -> None:
    names = [
        "transformer.wte",
        "transformer.h.2.attn",
        "transformer.h.2.mlp",
        "transformer.h.10.ln_1",
    ]
    assert sorted(set(names), key=depth) == names
    last = ["h.11", "transformer.ln_f", "logits"]
    assert sorted(set(last), key=depth) == last


@given(st.lists(st.integers(0, 500), min_size=1))
def test_layers_sort_by_their_numbers(numbers: list[int]) -> None:
    assert sorted((f"layer.{number}" for number in numbers), key=depth) == [
        f"layer.{number}" for number in sorted(numbers)
    ]


@given(st.lists(st.text(max_size=30)))
def test_any_name_has_a_place(names: list[str]) -> None:
    sorted(names, key=depth)


def _run(values: dict[str, list[list[float]]]) -> Run:
    return Run(
        answers=(Answer("only", (5, 6, 7)),),
        activations={f"00000.{name}": Tensor(rows) for name, rows in values.items()},
    )


def test_a_report_lists_layers_by_depth_and_prompts_first(diff: Diff) -> None:
    parts = ["decode.layer.2", "prefill.layer.10", "prefill.layer.2", "prefill.layer.embed_tokens"]
    zeros = {part: np.zeros((3, 2)).tolist() for part in parts}
    ones = {part: np.ones((3, 2)).tolist() for part in parts}

    report = diff(_run(zeros), _run(ones))

    listed = [each["tensor"] for each in report.to_json()["activations"]["different"]]
    assert listed == [
        "prefill.layer.embed_tokens", "prefill.layer.2", "prefill.layer.10", "decode.layer.2",
    ]  # fmt: skip
    text = render_text(report)
    assert text.index("prefill.layer.2") < text.index("prefill.layer.10")


def test_what_parts_first_is_at_the_first_position_and_there_the_lowest_layer(diff: Diff) -> None:
    zeros = np.zeros((3, 2)).tolist()
    base = {f"prefill.layer.{layer}": zeros for layer in (2, 9, 10)}
    late, early = np.zeros((3, 2)), np.zeros((3, 2))
    late[2, 0], early[1, 1] = 1.0, 1.0
    other = {
        "prefill.layer.2": late.tolist(),
        "prefill.layer.10": early.tolist(),
        "prefill.layer.9": early.tolist(),
    }

    report = diff(_run(base), _run(other))

    first = report.to_json()["activations"]["first_difference"]
    assert (first["tensor"], first["element"]["index"]) == ("prefill.layer.9", [1, 1])
    assert any("only prefill.layer.9, row 1" in note for note in report.notes)
