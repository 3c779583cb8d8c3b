"""Derivations and keys: what has a name, what changes it, and what does not."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dis_derivations.graph.derivation import Derivation, OutputReference
from dis_derivations.graph.graph import graph_of
from dis_derivations.graph.keys import build_key, fixed_output_key
from dis_store import canonical_json, strict_json
from dis_store.digest import Digest
from dis_store.errors import InvalidInputError

NAMES = st.from_regex(r"[a-z][a-z0-9_-]{0,10}", fullmatch=True)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
DIGESTS = st.binary(min_size=1, max_size=4).map(Digest.of)
REFERENCES = st.builds(OutputReference, DIGESTS, NAMES)
SHA256 = "sha256:" + "ab" * 32


@st.composite
def derivations(draw: st.DrawFn) -> Derivation:
    outputs = tuple(draw(st.lists(NAMES, min_size=1, max_size=3, unique=True)))
    return Derivation(
        name=draw(st.text(st.characters(exclude_categories=["Cs"]), max_size=8)),
        builder=draw(NAMES.filter(lambda name: name != "files")),
        builder_version=draw(st.integers(0, 9)),
        inputs=draw(st.dictionaries(NAMES, REFERENCES, max_size=3)),
        args=draw(st.dictionaries(NAMES, JSON, max_size=3)),
        platform=draw(st.sampled_from(["any", "cpu", "cuda", "server"])),
        outputs=outputs,
        compared=outputs[:1],
    )


def minimal(**changes: Any) -> Derivation:
    base = Derivation("x", "builder", 1, {}, {}, "any", ("out",), ("out",))
    return replace(base, **changes)


@given(derivations())
def test_every_derivation_round_trips(derivation: Derivation) -> None:
    assert Derivation.decode(derivation.encode()) == derivation
    assert derivation.digest == Digest.of(derivation.encode())


@given(derivations(), derivations())
def test_two_derivations_share_a_digest_only_when_they_are_equal(
    one: Derivation, other: Derivation
) -> None:
    assert (one.digest == other.digest) == (one == other)


@pytest.mark.parametrize(
    "mutate",
    [
        lambda text: text.replace(b'"type":"derivation"', b'"type":"tree"'),
        lambda text: text.replace(b'"format":1', b'"format":2'),
        lambda text: text.replace(b'"platform":"any"', b'"platform":"tpu"'),
        lambda text: text.replace(b":1,", b": 1,"),
        lambda text: text.replace(b'{"args"', b'{"extra":1,"args"'),
        lambda text: text[:-1],
        lambda text: b"[]",
    ],
)
def test_a_record_that_is_not_canonical_is_refused(mutate: Any) -> None:
    with pytest.raises(InvalidInputError):
        Derivation.decode(mutate(minimal().encode()))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("inputs", []),
        ("inputs", {"in": {}}),
        ("inputs", {"in": "out"}),
        ("args", 3),
        ("outputs", None),
        ("compared", 3),
        ("builder", None),
    ],
)
def test_a_record_whose_members_have_wrong_types_is_refused(field: str, value: Any) -> None:
    document = strict_json.decode(minimal().encode(), name="a derivation")
    with pytest.raises(InvalidInputError):
        Derivation.decode(canonical_json.encode({**document, field: value}))


@given(derivations(), st.dictionaries(NAMES, DIGESTS, max_size=2))
def test_a_key_ignores_the_name_outputs_and_derivations_of_inputs(
    derivation: Derivation, inputs: dict[str, Digest]
) -> None:
    renamed = replace(derivation, name="other", inputs={}, outputs=("else",), compared=())
    assert build_key(derivation, inputs, {}) == build_key(renamed, inputs, {})


@pytest.mark.parametrize(
    "changes",
    [{"builder": "other"}, {"builder_version": 2}, {"args": {"a": 1}}, {"platform": "cpu"}],
)
def test_a_key_changes_with_whatever_can_change_a_result(changes: dict[str, Any]) -> None:
    zero, one = Digest("0" * 64), Digest("1" * 64)
    key = build_key(minimal(), {"in": zero}, {})
    assert build_key(minimal(**changes), {"in": zero}, {}) != key
    assert build_key(minimal(), {"in": one}, {}) != key
    assert build_key(minimal(), {"else": zero}, {}) != key
    assert build_key(minimal(), {"in": zero}, {"isa": "avx2"}) != key


@given(st.permutations(["a", "b/c", "b", "é"]))
def test_a_fixed_output_key_does_not_depend_on_the_order_of_files(paths: list[str]) -> None:
    files = [{"path": path, "size": len(path), "sha256": SHA256} for path in paths]
    assert fixed_output_key(files) == fixed_output_key(
        sorted(files, key=lambda file: str(file["path"]))
    )


def test_a_fixed_output_key_is_that_of_its_files_whatever_the_kind() -> None:
    files = [{"path": "a", "size": 1, "sha256": SHA256, "executable": False}]
    weights = minimal(builder="files", args={"kind": "weights", "files": files})
    dataset = minimal(builder="files", args={"kind": "dataset", "files": files})
    assert build_key(weights, {}, {}) == build_key(dataset, {}, {}) == canonical_json.digest(files)


@pytest.mark.parametrize("name", ["", "Upper", "1st", "a/b", "a b", "é", "x" * 64])
def test_names_that_could_be_mistaken_for_something_else_are_refused(name: str) -> None:
    with pytest.raises(InvalidInputError, match="cannot name"):
        minimal(outputs=(name,), compared=())


def test_an_output_that_is_compared_must_be_made() -> None:
    with pytest.raises(InvalidInputError, match="does not make"):
        minimal(compared=("other",))


def test_a_graph_refuses_an_input_that_nobody_compares() -> None:
    producer = minimal(outputs=("out", "log"), compared=("out",))
    good = minimal(name="good", inputs={"in": OutputReference(producer.digest, "out")})
    bad = minimal(name="bad", inputs={"in": OutputReference(producer.digest, "log")})
    assert list(graph_of([producer, good], {}).derivations) == [producer.digest, good.digest]
    with pytest.raises(InvalidInputError, match="not a compared output"):
        graph_of([producer, bad], {})
    with pytest.raises(InvalidInputError, match="not a compared output"):
        graph_of([good, producer], {})


def test_the_closure_of_a_target_has_inputs_first_and_nothing_else() -> None:
    first = minimal(name="first")
    second = minimal(
        name="second", inputs={"in": OutputReference(first.digest, "out")}, args={"n": 2}
    )
    unrelated = minimal(name="unrelated", args={"n": 3})
    graph = graph_of([first, unrelated, second], {"second": second.digest})
    assert graph.closure_of(graph.target("second")) == [first.digest, second.digest]
    with pytest.raises(InvalidInputError, match="no target 'third'"):
        graph.target("third")
