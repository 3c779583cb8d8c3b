"""Whether several builders got the same: claims about the same builds, compared without any of their bytes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from dis_derivations.trust.claim import Claim
from dis_store import canonical_json
from dis_store.digest import Digest, Sha256

Verdict = Literal["agree", "disagree", "unknown"]
AGREE, DISAGREE, UNKNOWN = 0, 1, 5
_EXIT_CODES: Mapping[Verdict, int] = {"agree": AGREE, "disagree": DISAGREE, "unknown": UNKNOWN}


@dataclass(frozen=True)
class Voice:
    """A claim, and who made it.

    Attributes:
        signer: The fingerprint of a key that made the signature; for what this store built and nobody signed, None.
        name: What the settings or the ring call the signer; empty if they do not know it.
        trusted: Whether the policy believes it. Others are shown and not counted: anybody can make many keys.
        claim: What it says.
    """

    signer: Sha256 | None
    name: str
    trusted: bool
    claim: Claim

    @property
    def who(self) -> str:
        """The signer as people see it."""
        if self.signer is None:
            return self.name or "this store"
        return self.name or f"{self.signer[:23]}…"


@dataclass(frozen=True)
class Comparison:
    """What the builders of one derivation say.

    Attributes:
        subject: The key without platform facts, where the claims have it; else the key.
        builder: The kind of build.
        voices: All claims, grouped by what they say; in each group by signer.
        verdict: Of what trusted builders say. `agree`: two or more of them, and one answer. `disagree`: two answers or
            more. `unknown`: fewer than two builders.
        across_platforms_only: Whether builders with the same platform facts agree, and only others part: then the
            platform may be the reason.
        differing: The compared outputs that are not the same.
    """

    subject: Digest
    builder: str
    voices: tuple[Voice, ...]
    verdict: Verdict
    across_platforms_only: bool = False
    differing: tuple[str, ...] = ()

    @property
    def answers(self) -> list[tuple[Mapping[str, Digest], tuple[Voice, ...]]]:
        """The different results, each with those who got it; the one with most builders first."""
        groups: dict[bytes, list[Voice]] = {}
        for voice in self.voices:
            groups.setdefault(_result(voice.claim), []).append(voice)
        ordered = sorted(groups.items(), key=lambda item: (-len(_builders(item[1])), item[0]))
        return [(voices[0].claim.result, tuple(voices)) for _, voices in ordered]


def compare(
    voices: Iterable[Voice], *, wanted: Iterable[tuple[Digest, str]] = ()
) -> tuple[Comparison, ...]:
    """Compare claims derivation by derivation. Pure.

    Args:
        voices: The claims; twice the same counts once. Only those whose signatures were verified belong here.
        wanted: Subjects, with their builders, that are to be told of even if nobody speaks of them, in this order;
            with none, all that somebody speaks of.
    """
    groups: dict[Digest, dict[tuple[Sha256 | None, bytes], Voice]] = {}
    for voice in voices:
        claim = voice.claim
        subject = claim.platform_free_key or claim.key
        said = (voice.signer, _result(claim) + canonical_json.encode(dict(claim.platform)))
        groups.setdefault(subject, {}).setdefault(said, voice)
    named = dict(wanted) or {
        subject: next(iter(found.values())).claim.builder for subject, found in groups.items()
    }
    return tuple(
        _compared(subject, builder, tuple(groups.get(subject, {}).values()))
        for subject, builder in named.items()
    )


def _compared(subject: Digest, builder: str, voices: tuple[Voice, ...]) -> Comparison:
    ordered = tuple(
        sorted(voices, key=lambda each: (_result(each.claim), each.name, each.signer or ""))
    )
    counted = tuple(voice for voice in ordered if voice.trusted)
    results = {_result(voice.claim) for voice in counted}
    if len(results) > 1:
        return Comparison(
            subject, builder, ordered, "disagree", _platforms_part(counted), _differing(counted)
        )
    verdict: Verdict = "agree" if len(_builders(counted)) > 1 else "unknown"
    return Comparison(subject, builder, ordered, verdict)


def _platforms_part(voices: tuple[Voice, ...]) -> bool:
    """Tell whether each platform has one answer only."""
    by_platform: dict[bytes, set[bytes]] = {}
    for voice in voices:
        platform = canonical_json.encode(dict(voice.claim.platform))
        by_platform.setdefault(platform, set()).add(_result(voice.claim))
    return all(len(answers) == 1 for answers in by_platform.values())


def _differing(voices: tuple[Voice, ...]) -> tuple[str, ...]:
    names = sorted({name for voice in voices for name in voice.claim.compared})
    found = {name: {voice.claim.result.get(name) for voice in voices} for name in names}
    return tuple(name for name in names if len(found[name]) > 1)


def _builders(voices: Iterable[Voice]) -> set[Sha256 | None]:
    return {voice.signer for voice in voices}


def _result(claim: Claim) -> bytes:
    return canonical_json.encode(dict(claim.result))


def exit_code(comparisons: Iterable[Comparison]) -> int:
    """Return 1 if anybody disagrees, else 5 if anything is unknown or there is nothing, else 0."""
    verdicts = {each.verdict for each in comparisons}
    if "disagree" in verdicts:
        return DISAGREE
    return _EXIT_CODES["unknown"] if "unknown" in verdicts or not verdicts else AGREE


def to_json(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison as a JSON document."""
    return {
        "subject": str(comparison.subject),
        "builder": comparison.builder,
        "verdict": comparison.verdict,
        "across_platforms_only": comparison.across_platforms_only,
        "differing": list(comparison.differing),
        "answers": [
            {
                "outputs": {name: str(digest) for name, digest in result.items()},
                "builders": [
                    {
                        "signer": None if voice.signer is None else str(voice.signer),
                        "name": voice.name,
                        "trusted": voice.trusted,
                        "key": str(voice.claim.key),
                        "platform": dict(voice.claim.platform),
                    }
                    for voice in voices
                ],
            }
            for result, voices in comparison.answers
        ],
    }
