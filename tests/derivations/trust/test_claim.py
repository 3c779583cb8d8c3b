"""Claims: one encoding each, read strictly."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dis_derivations.trust import statement
from dis_derivations.trust.claim import PREDICATE_TYPE, Claim, ClaimedOutput
from dis_store import canonical_json
from dis_store.digest import Digest, Sha256
from dis_store.errors import InvalidInputError
from signers import claim_of

DIGESTS = st.binary(max_size=4).map(Digest.of)
NAMES = st.text(alphabet="abcdefgh", min_size=1, max_size=6)
FACTS = st.dictionaries(
    st.text(max_size=8), st.none() | st.booleans() | st.text() | st.integers(0, 9)
)


@st.composite
def claims(draw: st.DrawFn) -> Claim:
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    outputs = {
        name: ClaimedOutput(draw(DIGESTS), Sha256.of(draw(st.binary(max_size=4)))) for name in names
    }
    return Claim(
        draw(DIGESTS),
        draw(st.none() | DIGESTS),
        draw(NAMES),
        {"class": "any", "facts": draw(FACTS)},
        outputs,
        tuple(draw(st.lists(st.sampled_from(names), min_size=1, unique=True))),
    )


@given(claim=claims())
def test_a_claim_is_read_back_as_it_was(claim: Claim) -> None:
    try:
        payload = claim.encode()
    except InvalidInputError:  # a lone surrogate has no canonical form
        return
    assert Claim.decode(payload) == claim
    assert canonical_json.encode(json.loads(payload)) == payload


def test_the_same_claim_is_the_same_bytes_in_whatever_order_it_was_made() -> None:
    claim = claim_of()
    turned = Claim(**{**vars(claim), "outputs": dict(reversed(list(claim.outputs.items())))})
    assert turned.encode() == claim.encode()


def changed(**changes: Any) -> bytes:
    document = json.loads(claim_of().encode())
    for path, value in changes.items():
        owner = (
            document["predicate"] if path in document["predicate"] or path == "extra" else document
        )
        if value is None and path != "platformFreeKey":
            owner.pop(path)
        else:
            owner[path] = value
    return canonical_json.encode(document)


SUBJECT = {"name": "a", "digest": {"blake3": "0" * 64, "sha256": "0" * 64}}


@pytest.mark.parametrize(
    "payload",
    [
        changed(key="abc"),
        changed(key=1),
        changed(key=None),
        changed(extra=1),
        changed(compared=[]),
        changed(compared=["nothing"]),
        changed(compared="results"),
        changed(compared=[1]),
        changed(platform=[]),
        changed(builder=1),
        changed(platformFreeKey="x"),
        changed(subject=[]),
        changed(subject=[SUBJECT, SUBJECT]),
        changed(subject=[{"name": "results", "digest": {"blake3": "0" * 64}}]),
        changed(subject=[{"name": "results", "digest": {"blake3": "A" * 64, "sha256": "0" * 64}}]),
        changed(subject=[{"name": "results", "digest": {"sha256": "0" * 64, "blake3": "0" * 63}}]),
        changed(subject=[{"digest": {}}]),
        changed(subject="results"),
        changed(predicateType="https://slsa.dev/provenance/v1"),
        changed(_type=statement.OLD_TYPE),
        changed(predicate=None),
        changed(predicate=[]),
        b" " + claim_of().encode(),
        claim_of().encode() + b"\n",
        claim_of().encode().replace(b'"key":', b'"key":"x","key":'),
        b"{}",
        b"",
    ],
)
def test_what_is_not_exactly_a_claim_is_refused(payload: bytes) -> None:
    with pytest.raises(InvalidInputError):
        Claim.decode(payload)


def test_a_statement_of_another_kind_says_which() -> None:
    payload = statement.encode(
        [statement.Subject("x", {"sha256": "0" * 64})], "https://example.com/x", {}
    )
    with pytest.raises(InvalidInputError, match=r"example\.com"):
        Claim.decode(payload)
    assert PREDICATE_TYPE.endswith("/v1")


def test_a_huge_payload_is_refused_unread() -> None:
    with pytest.raises(InvalidInputError, match="more than"):
        statement.decode(b"[" * (statement.MAX_PAYLOAD_BYTES + 1), name="it")
