"""Matching the sequences of two runs by request, token by token."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from dis_derivations.runs.bundle_documents import TokenSequence


class Answered(Protocol):
    """What has answered requests; a bundle has."""

    @property
    def sequences(self) -> Sequence[TokenSequence]:
        """What became of each request, in order."""
        ...

    @property
    def by_id(self) -> Mapping[str, TokenSequence]:
        """The same by the ids of the requests."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class SequencePair:
    """The sequences of one request in both runs.

    Attributes:
        prompt_common: How many prompt tokens agree before the first that does not.
        output_common: How many output tokens agree before the first that does not.
    """

    a: TokenSequence
    b: TokenSequence
    prompt_common: int
    output_common: int

    @classmethod
    def of(cls, a: TokenSequence, b: TokenSequence) -> "SequencePair":
        """Compare two sequences of the same request."""
        return cls(
            a=a,
            b=b,
            prompt_common=common_prefix(a.prompt_token_ids, b.prompt_token_ids),
            output_common=common_prefix(a.output_token_ids, b.output_token_ids),
        )

    @property
    def same_prompt(self) -> bool:
        """Whether both runs were given the same token ids."""
        return self.a.prompt_token_ids == self.b.prompt_token_ids

    @property
    def same_output(self) -> bool:
        """Whether both runs chose the same tokens."""
        return self.a.output_token_ids == self.b.output_token_ids

    @property
    def token_a(self) -> int | None:
        """A's token where the two part; None where A has ended."""
        return _at(self.a.output_token_ids, self.output_common)

    @property
    def token_b(self) -> int | None:
        """B's token where the two part; None where B has ended."""
        return _at(self.b.output_token_ids, self.output_common)


@dataclass(frozen=True, eq=False, repr=False)
class Alignment:
    """All sequences of two runs.

    Attributes:
        pairs: The requests that both runs have, in the order of A.
        only_a: Ids of requests that only A has, in its order.
        only_b: Ids of requests that only B has, in its order.
        same_order: Whether the requests that both runs have are in the same order.
    """

    pairs: tuple[SequencePair, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    same_order: bool

    @property
    def parted(self) -> tuple[SequencePair, ...]:
        """The pairs whose outputs differ, in the order of A."""
        return tuple(pair for pair in self.pairs if not pair.same_output)

    @property
    def first(self) -> SequencePair | None:
        """The pair whose outputs part at the earliest position, the first of these in the order of A."""
        return min(self.parted, key=lambda pair: pair.output_common, default=None)

    def described(self, most: int) -> tuple[SequencePair, ...]:
        """Return the first pairs that part, in the order of A; of more than `most`, the earliest is the last one."""
        parted, first = self.parted, self.first
        shown = parted[:most]
        return shown if first is None or first in shown else (*shown[:-1], first)

    @property
    def same_tokens(self) -> bool:
        """Whether both runs answered the same requests with the same tokens."""
        return not (self.parted or self.only_a or self.only_b)


def align(a: Answered, b: Answered) -> Alignment:
    """Match the sequences of two runs by the ids of their requests."""
    return Alignment(
        pairs=tuple(
            SequencePair.of(sequence, b.by_id[sequence.id])
            for sequence in a.sequences
            if sequence.id in b.by_id
        ),
        only_a=tuple(sequence.id for sequence in a.sequences if sequence.id not in b.by_id),
        only_b=tuple(sequence.id for sequence in b.sequences if sequence.id not in a.by_id),
        same_order=[sequence.id for sequence in a.sequences if sequence.id in b.by_id]
        == [sequence.id for sequence in b.sequences if sequence.id in a.by_id],
    )


def common_prefix(left: Sequence[object], right: Sequence[object]) -> int:
    """Return how many items agree before the first that does not."""
    shorter = min(len(left), len(right))
    if left[:shorter] == right[:shorter]:
        return shorter
    return next(index for index in range(shorter) if left[index] != right[index])


def _at(tokens: Sequence[int], position: int) -> int | None:
    return tokens[position] if position < len(tokens) else None
