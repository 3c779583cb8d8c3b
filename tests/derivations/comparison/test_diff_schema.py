"""What `dis diff --json` prints follows its published schema, whatever is compared."""

import json

import numpy as np
import pytest

from bundles import Answer, Diff, Run, Tensor
from dis_derivations.comparison.diff_schema import diff_schema
from json_schema import faults

ROWS = np.arange(12.0).reshape(3, 4)
BASE = Run(
    answers=(Answer("first", (3, 2, 1), text="a b c"), Answer("second", (8, 9))),
    logits={"00000.decode": Tensor(ROWS)},
    activations={"00000.layer": Tensor(ROWS)},
    trace=[{"step": 0, "requests": [{"id": "first", "tokens": 3}]}],
)
OTHERS = {
    "the same": BASE,
    "tokens": BASE.having(answers=(Answer("first", (3, 0, 1), text="a x"), Answer("third", (8,)))),
    "logits": BASE.having(logits={"00000.decode": Tensor(ROWS + 1)}),
    "nan": BASE.having(logits={"00000.decode": Tensor(np.full((3, 4), np.nan), "F64")}),
    "huge": BASE.having(logits={"00000.decode": Tensor(ROWS * -1e37)}),
    "shape": BASE.having(activations={"00000.layer": Tensor(ROWS[:2])}),
    "trace": BASE.having(trace=[{"step": 1}]),
    "uncaptured": BASE.having(logits=None, activations=None, trace=None),
    "weights": BASE.with_input("weights", "other").having(sources={"model.weight": {"commit": "c"}}),
    "engine": BASE.having(engine={"engine": "reference", "numerics": 2, "settings": {"x": 1}}),
    "platform": BASE.having(platform_class="cpu", facts={"isa": "avx2"}),
    "manifest": BASE.with_manifest(
        metadata={"name": "x"}, x_note=1, outputs=[1], vllm={"engine_args": {"dtype": "float16"}}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_a_report_follows_the_schema(diff: Diff, name: str) -> None:
    for one, two in ((BASE, OTHERS[name]), (OTHERS[name], BASE)):
        document = json.loads(json.dumps(diff(one, two).to_json(), allow_nan=False))
        assert faults(document, diff_schema()) == []


def test_the_schema_knows_every_member(diff: Diff) -> None:
    document = diff(BASE, OTHERS["tokens"]).to_json()
    assert set(document) == set(diff_schema()["properties"])

    spoilt = {**document, "same": "yes", "more": 1}
    del spoilt["notes"]
    assert faults(spoilt, diff_schema()) == [
        "$: has no notes",
        "$.same: 'yes' is no boolean",
        "$: has the unknown member more",
    ]
