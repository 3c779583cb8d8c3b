"""What several builders say: agreement, disagreement, and not knowing."""

from hypothesis import given
from hypothesis import strategies as st

from dis_derivations.trust.agreement import Comparison, Voice, compare, exit_code, to_json
from dis_derivations.trust.claim import Claim
from dis_store.digest import Digest
from signers import claim_of, signer

H200 = {"accelerator": "H200"}
A100 = {"accelerator": "A100"}


def voice(name: str, claim: Claim, *, trusted: bool = True) -> Voice:
    return Voice(signer(name).public.fingerprint, name, trusted, claim)


def one(*voices: Voice) -> Comparison:
    (found,) = compare(voices)
    return found


def test_two_builders_with_one_answer_agree() -> None:
    found = one(voice("alice", claim_of()), voice("bob", claim_of(log="another log")))
    assert found.verdict == "agree"
    assert exit_code([found]) == 0
    assert not found.differing


def test_two_answers_disagree_and_say_in_what() -> None:
    found = one(voice("alice", claim_of()), voice("bob", claim_of(results="others")))
    assert found.verdict == "disagree"
    assert found.differing == ("results",)
    assert not found.across_platforms_only
    assert exit_code([found]) == 1
    assert len(found.answers) == 2


def test_one_builder_alone_is_not_known_to_be_right() -> None:
    found = one(voice("alice", claim_of()))
    assert found.verdict == "unknown"
    assert exit_code([found]) == 5


def test_one_builder_who_signed_twice_is_one_builder() -> None:
    assert (
        one(voice("alice", claim_of()), voice("alice", claim_of(log="again"))).verdict == "unknown"
    )


def test_one_builder_who_says_two_things_disagrees_with_itself() -> None:
    found = one(voice("alice", claim_of()), voice("alice", claim_of(results="others")))
    assert found.verdict == "disagree"


def test_builders_on_other_platforms_are_compared_by_what_is_left_of_the_key() -> None:
    found = one(voice("alice", claim_of(platform=H200)), voice("bob", claim_of(platform=A100)))
    assert found.verdict == "agree"


def test_a_difference_between_platforms_alone_is_called_one() -> None:
    found = one(
        voice("alice", claim_of(platform=H200)),
        voice("bob", claim_of(platform=H200)),
        voice("carol", claim_of(results="others", platform=A100)),
    )
    assert found.verdict == "disagree"
    assert found.across_platforms_only
    assert [len(voices) for _, voices in found.answers] == [2, 1]


def test_whoever_is_not_trusted_is_shown_and_not_counted() -> None:
    stranger = voice("bob", claim_of(results="others"), trusted=False)
    found = one(voice("alice", claim_of()), stranger)
    assert found.verdict == "unknown"
    assert stranger in found.voices
    agreeing = voice("bob", claim_of(), trusted=False)
    assert one(voice("alice", claim_of()), agreeing).verdict == "unknown"


def test_a_derivation_that_nobody_speaks_of_is_unknown() -> None:
    subject = Digest.of(b"generation")
    nobody = Digest.of(b"nobody")
    voices = [voice("alice", claim_of()), voice("bob", claim_of())]
    found = compare(voices, wanted=[(nobody, "requests"), (subject, "generation")])
    assert [each.verdict for each in found] == ["unknown", "agree"]
    assert exit_code(found) == 5


def test_nothing_at_all_is_unknown() -> None:
    assert compare([]) == ()
    assert exit_code([]) == 5


def test_a_disagreement_counts_more_than_not_knowing() -> None:
    known = one(voice("alice", claim_of()), voice("bob", claim_of(results="others")))
    assert exit_code([one(voice("alice", claim_of())), known]) == 1


@given(
    said=st.lists(
        st.tuples(st.sampled_from(["alice", "bob", "carol"]), st.sampled_from(["a", "b"])),
        max_size=6,
    )
)
def test_the_verdict_is_that_of_the_set_of_what_is_said(said: list[tuple[str, str]]) -> None:
    found = compare([voice(name, claim_of(results=answer)) for name, answer in said])
    answers = {answer for _, answer in said}
    builders = {name for name, _ in said}
    expected = {0: None, 1: "agree" if len(builders) > 1 else "unknown"}.get(
        len(answers), "disagree"
    )
    assert (found[0].verdict if found else None) == expected
    assert compare([voice(n, claim_of(results=a)) for n, a in reversed(said)]) == found


def test_the_document_says_who_and_on_which_platform() -> None:
    document = to_json(one(voice("alice", claim_of(platform=H200)), voice("bob", claim_of())))
    builders = document["answers"][0]["builders"]
    assert {each["name"] for each in builders} == {"alice", "bob"}
    assert {"class": "cuda", "facts": H200} in [each["platform"] for each in builders]
