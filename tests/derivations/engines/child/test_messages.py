"""Messages of a worker: each has exactly its fields, of the right kinds."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dis_derivations.engines.child.frames import PROTOCOL, FrameError
from dis_derivations.engines.child.messages import Generated, Hello, Step, Tensor, parse

INTERPRETER = {"python": "cpython 3.11.7", "libc": "glibc 2.36", "machine": "x86_64"}
GOOD: dict[str, dict[str, Any]] = {
    "hello": {"protocol": PROTOCOL, "program": "vllm", "interpreter": INTERPRETER, "boot": "b"},
    "opened": {"identity": {}, "environment": {}},
    "tensor": {
        "kind": "logits",
        "request": 0,
        "phase": "decode",
        "layer": None,
        "dtype": "bfloat16",
        "shape": [1, 2],
    },
    "step": {"computed": [[0, 3]], "tokens": [[0, [5]]], "finished": [[0, "stop"]]},
    "generated": {"preemptions": 0, "cached_tokens": 0},
    "progress": {"text": "loading"},
    "failed": {"refused": False, "error": "no", "traceback": ""},
}
PAYLOADS = {"tensor": b"\0" * 4}


def message(kind: str, /, **changes: Any) -> tuple[dict[str, Any], bytes]:
    return {"type": kind, **GOOD[kind], **changes}, PAYLOADS.get(kind, b"")


def test_messages_become_typed_values() -> None:
    assert parse(*message("hello")) == Hello("vllm", INTERPRETER, "b")
    assert parse(*message("step")) == Step(((0, 3),), ((0, (5,)),), ((0, "stop"),))
    assert parse(*message("generated", preemptions=2)) == Generated(2, 0)
    states = parse(*message("tensor", kind="activations", layer=3))
    assert isinstance(states, Tensor)
    assert states.layer == 3


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("hello", {"protocol": PROTOCOL + 1}),
        ("hello", {"protocol": str(PROTOCOL)}),
        ("hello", {"program": 1}),
        ("hello", {"boot": None}),
        ("hello", {"interpreter": "cpython 3.11.7"}),
        ("hello", {"interpreter": {"python": "cpython 3.11.7"}}),
        ("hello", {"interpreter": {**INTERPRETER, "libc": 2}}),
        ("hello", {"interpreter": {**INTERPRETER, "more": ""}}),
        ("opened", {"identity": []}),
        ("tensor", {"kind": "weights"}),
        ("tensor", {"phase": "training"}),
        ("tensor", {"layer": 1}),
        ("tensor", {"kind": "activations"}),
        ("tensor", {"dtype": "int8"}),
        ("tensor", {"shape": [2, 2]}),
        ("tensor", {"shape": [1, 2, 1]}),
        ("tensor", {"shape": [-1, -2]}),
        ("tensor", {"request": True}),
        ("step", {"computed": [[0]]}),
        ("step", {"tokens": [[0, [-1]]]}),
        ("step", {"tokens": [[0, 5]]}),
        ("step", {"finished": [[0, "abort"]]}),
        ("generated", {"preemptions": 1.0}),
        ("progress", {"text": "x" * (2 << 20)}),
        ("failed", {"refused": "no"}),
    ],
)
def test_a_value_of_another_kind_is_refused(kind: str, changes: dict[str, Any]) -> None:
    with pytest.raises(FrameError):
        parse(*message(kind, **changes))


@pytest.mark.parametrize("kind", GOOD)
def test_every_field_must_be_there_and_no_other(kind: str) -> None:
    header, payload = message(kind)
    parse(header, payload)
    for name in GOOD[kind]:
        with pytest.raises(FrameError, match="with the fields"):
            parse({key: value for key, value in header.items() if key != name}, payload)
    with pytest.raises(FrameError, match="with the fields"):
        parse({**header, "more": 1}, payload)


@pytest.mark.parametrize("kind", [kind for kind in GOOD if kind != "tensor"])
def test_only_tensors_have_a_payload(kind: str) -> None:
    with pytest.raises(FrameError, match="payload"):
        parse(message(kind)[0], b"x")


@given(
    st.dictionaries(
        st.sampled_from(["type", "text", "shape", "tokens"]), st.none() | st.integers() | st.text()
    )
)
def test_anything_else_is_refused_as_no_message(header: dict[str, Any]) -> None:
    if (
        header.get("type") == "progress"
        and isinstance(header.get("text"), str)
        and len(header) == 2
    ):
        return
    with pytest.raises(FrameError):
        parse(header, b"")
