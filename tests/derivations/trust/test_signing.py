"""Signing what a store built: what is signed, what is not, and who vouches for it afterwards."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import built_store
from dis_derivations.graph.derivation import Derivation, OutputReference
from dis_derivations.graph.keys import build_key
from dis_derivations.trust import statement
from dis_derivations.trust.agreement import exit_code
from dis_derivations.trust.claim import Claim
from dis_derivations.trust.policy import TrustPolicy
from dis_derivations.trust.provenance import PREDICATE_TYPE, subject_of
from dis_derivations.trust.signed_document import SignedDocument
from dis_derivations.trust.signing import Build, all_builds, claim_of, payloads_of, sign_builds
from dis_derivations.trust.voices import Audience, challenge
from dis_derivations.trust.vouching import vouch
from dis_store import Input, Realisation, Store
from dis_store.digest import Digest, Sha256
from signers import NOW, signed, signer, trusted

REQUESTS = Derivation("toy-requests", "requests", 1, {}, {"text": "a"}, "any", ("out",), ("out",))
RUN = Derivation(
    "toy-run", "generation", 3, {"requests": OutputReference(REQUESTS.digest, "out")},
    {"seed": 1}, "cuda", ("results", "log"), ("results",),
)  # fmt: skip
FILES = Derivation("weights", "files", 1, {}, {"files": []}, "any", ("out",), ("out",))
GRAPH = {each.digest: each for each in (FILES, REQUESTS, RUN)}


def object_of(store: Store, text: str) -> Digest:
    with store.new_tree() as tree:
        tree.write_bytes("value", text.encode())
        if text.startswith("log"):
            tree.write_bytes("builder.json", b'{"dis":"0.9.7"}')
        return tree.register()


def record_of(
    derivation: Derivation,
    outputs: dict[str, Digest],
    inputs: dict[str, Input],
    facts: dict[str, str],
) -> Realisation:
    key = build_key(derivation, {name: each.object for name, each in inputs.items()}, facts)
    return Realisation(
        key, derivation.builder, outputs, derivation.compared, inputs, derivation.digest,
        {"class": derivation.platform, "facts": facts}, "built",
        "2026-11-29T12:00:00+00:00", "2026-11-29T12:00:01+00:00", "a host", "somebody",
    )  # fmt: skip


def fill(store: Store, results: str = "results", gpu: str = "H200") -> Digest:
    """Build the toy graph in a store; return the key of the run."""
    for derivation in GRAPH.values():
        store.add_derivation(derivation.encode())
    requests = record_of(REQUESTS, {"out": object_of(store, "tokens")}, {}, {})
    store.add_realisation(requests)
    source = Input(requests.outputs["out"], requests.key)
    outputs = {"results": object_of(store, results), "log": object_of(store, f"log of {gpu}")}
    run = record_of(RUN, outputs, {"requests": source}, {"accelerator": gpu})
    return store.add_realisation(run).key


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store") as opened:
        yield opened


def builds_of(store: Store, key: Digest) -> list[Build]:
    return all_builds(store, str(store.realisations(key)[0].outputs["results"]))


def test_all_that_was_built_is_signed_claim_and_provenance_both(store: Store) -> None:
    key = fill(store)
    builds = builds_of(store, key)
    documents = sign_builds(store, builds, signer("alice"))
    assert [build.name for build in builds] == ["toy-run", "toy-requests"]
    assert len(documents) == 4
    assert set(store.signatures(key).values()) == set(documents[:2])
    for build in builds:
        claim = Claim.decode(payloads_of(store, build)[0])
        assert claim.key == build.record.key
        for name, output in claim.outputs.items():
            data = store.tree(build.record.outputs[name]).encode()
            assert (output.object, output.sha256) == (Digest.of(data), Sha256.of(data))


def test_signing_again_changes_nothing(store: Store) -> None:
    builds = builds_of(store, fill(store))
    first = sign_builds(store, builds, signer("alice"))
    assert sign_builds(store, builds, signer("alice")) == first
    assert len(store.signatures(builds[0].record.key)) == 2


def test_what_is_left_of_a_key_without_the_platform_is_the_same_on_every_platform(
    store: Store, tmp_path: Path
) -> None:
    one = claim_of(store, builds_of(store, fill(store))[0])
    with Store.open(tmp_path / "other") as other:
        two = claim_of(other, builds_of(other, fill(other, gpu="A100"))[0])
    assert one.key != two.key
    assert one.platform_free_key == two.platform_free_key is not None


def test_a_key_that_the_derivation_does_not_give_has_nothing_left(store: Store) -> None:
    build = builds_of(store, fill(store))[0]
    platform = {"class": "cuda", "facts": {"accelerator": "another"}}
    other = replace(build, record=replace(build.record, platform=platform))
    assert claim_of(store, other).platform_free_key is None
    assert claim_of(store, replace(build, derivation=None)).platform_free_key is None


def test_provenance_says_what_was_built_from_what_by_what(store: Store) -> None:
    build = builds_of(store, fill(store))[0]
    stated = statement.decode(payloads_of(store, build)[1], name="it")
    assert stated.predicate_type == PREDICATE_TYPE
    definition, details = stated.predicate["buildDefinition"], stated.predicate["runDetails"]
    assert definition["externalParameters"]["args"] == {"seed": 1}
    assert definition["internalParameters"]["platform"]["facts"] == {"accelerator": "H200"}
    (source,) = definition["resolvedDependencies"]
    assert source["name"] == "requests"
    assert source["digest"]["blake3"] == str(build.record.inputs["requests"].object)
    assert details["builder"]["version"] == {"builder": "3", "dis": "0.9.7"}
    assert details["metadata"]["invocationId"] == build.record.build
    assert subject_of(stated) == (RUN.digest, build.record.key)
    unknown = statement.decode(payloads_of(store, builds_of(store, fill(store))[1])[1], name="it")
    assert unknown.predicate["runDetails"]["builder"]["version"] == {"builder": "1"}
    said = payloads_of(store, build)[1].decode()
    assert "a host" not in said
    assert "somebody" not in said
    assert str(store.path) not in said


def test_what_came_from_elsewhere_is_not_signed(store: Store) -> None:
    key = fill(store)
    record = store.realisations(key)[0]
    with Store.open(store.path.parent / "other") as other:
        fill(other)
        for each in (record, *store.realisations(record.inputs["requests"].key or key)):
            for name, digest in each.outputs.items():
                assert other.is_valid(digest), name
        foreign = replace(record, origin="substituted", key=Digest.of(b"x"), build="", sequence=0)
        added = other.add_realisation(foreign)
        found = next(
            each
            for each in all_builds(other, str(added.outputs["log"]))
            if each.record.key == added.key
        )
        assert found.obstacle == "not built here"
        assert sign_builds(other, [found], signer("alice")) == []
        assert other.signatures(added.key) == {}


def test_a_fixed_output_needs_no_signature(store: Store) -> None:
    store.add_derivation(FILES.encode())
    digest = object_of(store, "weights")
    store.add_realisation(record_of(FILES, {"out": digest}, {}, {}))
    (build,) = all_builds(store, str(digest))
    assert build.obstacle == "fixed output"
    assert sign_builds(store, [build], signer("alice")) == []
    (found,) = vouch(store, [build], TrustPolicy(), (), NOW)
    assert found.good
    assert found.decision is None


def test_a_build_whose_derivation_is_gone_is_signed_all_the_same(store: Store) -> None:
    found = built_store.build(store)
    builds = all_builds(store, "mine")
    assert sign_builds(store, builds, signer("alice"))
    assert builds[0].name == builds[0].record.builder
    assert found.result in builds[0].record.outputs.values()


# -- who vouches -----------------------------------------------------------------------------------


def test_builds_are_vouched_for_once_a_trusted_key_signed_them(store: Store) -> None:
    builds = builds_of(store, fill(store))
    keys = (trusted("alice"),)
    assert not any(each.good for each in vouch(store, builds, TrustPolicy(), keys, NOW))
    sign_builds(store, builds, signer("alice"))
    assert all(each.good for each in vouch(store, builds, TrustPolicy(), keys, NOW))
    two = TrustPolicy(threshold=2)
    assert not any(each.good for each in vouch(store, builds, two, keys, NOW))


def test_a_signature_over_another_result_that_lies_in_the_store_vouches_for_nothing(
    store: Store,
) -> None:
    build = builds_of(store, fill(store))[0]
    claim = claim_of(store, build)
    other = replace(claim, outputs={**claim.outputs, "results": claim.outputs["log"]})
    store.add_signature(build.record.key, signed("alice", other))
    (found,) = vouch(store, [build], TrustPolicy(), (trusted("alice"),), NOW)
    assert not found.good


# -- challenges ------------------------------------------------------------------------------------


def audience(*names: str, own: str | None = None, everybody: bool = False) -> Audience:
    keys = [trusted(name) for name in names]
    mine = frozenset({signer(own).public.fingerprint} if own else ())
    return Audience(keys, [trusted("carol")], mine, TrustPolicy(), NOW, everybody)


def documents_of(
    tmp_path: Path, who: str, results: str = "results", gpu: str = "H200"
) -> list[bytes]:
    with Store.open(tmp_path / f"store of {who} {results} {gpu}") as other:
        return sign_builds(other, builds_of(other, fill(other, results, gpu)), signer(who))


def verdicts(store: Store, documents: list[bytes], whose: Audience) -> dict[str, str]:
    found = challenge(store, GRAPH, documents, whose)
    return {each.builder: each.verdict for each in found.comparisons}


def test_builders_that_got_the_same_agree(store: Store, tmp_path: Path) -> None:
    fill(store)
    documents = documents_of(tmp_path, "bob")
    assert verdicts(store, documents, audience("bob")) == {
        "toy-requests": "agree",
        "toy-run": "agree",
    }


def test_builders_that_got_something_else_disagree(store: Store, tmp_path: Path) -> None:
    fill(store)
    found = challenge(store, GRAPH, documents_of(tmp_path, "bob", "others"), audience("bob"))
    assert [each.verdict for each in found.comparisons] == ["agree", "disagree"]
    assert exit_code(found.comparisons) == 1


def test_builders_are_compared_across_platforms(store: Store, tmp_path: Path) -> None:
    fill(store)
    documents = documents_of(tmp_path, "bob", "others", gpu="A100")
    found = challenge(store, GRAPH, documents, audience("bob"))
    assert found.comparisons[1].verdict == "disagree"
    assert found.comparisons[1].across_platforms_only


def test_nothing_needs_to_be_built_here(store: Store, tmp_path: Path) -> None:
    documents = documents_of(tmp_path, "alice") + documents_of(tmp_path, "bob", gpu="A100")
    assert verdicts(store, documents, audience("alice", "bob")) == {
        "toy-requests": "agree",
        "toy-run": "agree",
    }


def test_an_empty_store_and_no_documents_know_nothing(store: Store) -> None:
    assert verdicts(store, [], audience()) == {"toy-requests": "unknown", "toy-run": "unknown"}


def test_one_builder_with_a_key_is_not_two(store: Store) -> None:
    builds = builds_of(store, fill(store))
    sign_builds(store, builds, signer("alice"))
    whose = audience("alice", own="alice")
    assert verdicts(store, [], whose) == {"toy-requests": "unknown", "toy-run": "unknown"}


def test_a_known_key_is_counted_only_when_everybody_is(store: Store, tmp_path: Path) -> None:
    fill(store)
    documents = documents_of(tmp_path, "carol")
    assert set(verdicts(store, documents, audience()).values()) == {"unknown"}
    assert set(verdicts(store, documents, audience(everybody=True)).values()) == {"agree"}


def test_documents_that_are_not_heard_are_counted_with_the_reason(
    store: Store, tmp_path: Path
) -> None:
    fill(store)
    documents = [
        b"rubbish",
        *documents_of(tmp_path, "bob"),
        documents_of(tmp_path, "alice")[0][:-3],
    ]
    found = challenge(store, GRAPH, documents, audience("alice"))
    assert sum(found.unheard.values()) == 6
    assert any("neither trusted nor here" in reason for reason in found.unheard)


def test_a_stranger_cannot_tie_a_key_to_a_derivation(store: Store, tmp_path: Path) -> None:
    claims = documents_of(tmp_path, "alice")[0::2]
    provenance = documents_of(tmp_path, "carol")[1::2]
    found = challenge(store, GRAPH, [*claims, *provenance], audience("alice"))
    assert {each.verdict for each in found.comparisons} == {"unknown"}
    assert not any(each.voices for each in found.comparisons)


def test_a_document_is_read_back_by_whoever_gets_it(store: Store) -> None:
    (document, *_) = sign_builds(store, builds_of(store, fill(store)), signer("alice"))
    assert SignedDocument.decode(document).is_signed_by(signer("alice").public)
