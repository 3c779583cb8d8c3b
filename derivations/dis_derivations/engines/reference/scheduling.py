"""Which positions each step computes: a function of the requests and the batching alone.

The worker of the mock engine runs where dis is not installed, and this file is laid beside it: until something is
refused it imports nothing but the standard library.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dis_derivations.engines.protocol import Batching, Request


@dataclass
class Running:
    """A sequence that is being made.

    Attributes:
        index: The request's number.
        slot: Where its keys and values are kept.
        tokens: The prompt's tokens, then those chosen so far.
        computed: How many of them have their keys and values in the cache.
    """

    index: int
    request: "Request"
    slot: int
    tokens: list[int] = field(default_factory=list)
    computed: int = 0

    @property
    def prompt_length(self) -> int:
        """Return the number of prompt tokens."""
        return len(self.request.prompt_token_ids)

    @property
    def output(self) -> list[int]:
        """Return the tokens chosen so far."""
        return self.tokens[self.prompt_length :]

    @property
    def output_length(self) -> int:
        """Return how many tokens were chosen so far."""
        return len(self.tokens) - self.prompt_length


@dataclass(frozen=True)
class Part:
    """Consecutive positions of one sequence within a step."""

    running: Running
    start: int
    count: int

    @property
    def end(self) -> int:
        """Return one past the last position."""
        return self.start + self.count

    @property
    def token_ids(self) -> tuple[int, ...]:
        """Return the tokens at the positions."""
        return tuple(self.running.tokens[self.start : self.end])


class Schedule:
    """Sequences running side by side, in the order of the requests.

    Those running are served first, oldest first, each with as many of its missing positions as the
    step's bound leaves; then waiting requests are admitted while there is a slot.
    """

    def __init__(self, requests: "Sequence[Request]", batching: "Batching") -> None:
        """Take the requests.

        Raises:
            InvalidInputError: The batching admits nothing.
        """
        for name in ("max_num_seqs", "max_num_batched_tokens"):
            value = getattr(batching, name)
            if value is not None and value < 1:
                from dis_store.errors import InvalidInputError

                raise InvalidInputError(f"{name} must be at least 1, and is {value}")
        self.slots = min(batching.max_num_seqs, len(requests))
        self._bound = batching.max_num_batched_tokens
        self._waiting = deque(enumerate(requests))
        self._running: list[Running] = []
        self._free = list(range(self.slots))

    @property
    def unfinished(self) -> bool:
        """Return whether a request is waiting or running."""
        return bool(self._waiting or self._running)

    def next_step(self) -> list[Part]:
        """Return what to compute next; never empty while unfinished."""
        parts: list[Part] = []
        left = self._bound
        for running in self._running:
            left = _take(parts, running, left)
        while self._waiting and self._free and left != 0:
            index, request = self._waiting.popleft()
            slot = min(self._free)
            self._free.remove(slot)
            running = Running(index, request, slot, list(request.prompt_token_ids))
            self._running.append(running)
            left = _take(parts, running, left)
        return parts

    def finish(self, running: Running) -> None:
        """Give a sequence's slot back."""
        self._running.remove(running)
        self._free.append(running.slot)


def _take(parts: list[Part], running: Running, left: "int | None") -> "int | None":
    """Add what of a sequence fits in `left` positions; return what is left then."""
    missing = len(running.tokens) - running.computed
    count = missing if left is None else min(missing, left)
    if count:
        parts.append(Part(running, running.computed, count))
    return None if left is None else left - count


def pieces(parts: Sequence[Part], most: int) -> list[list[Part]]:
    """Cut a step into pieces of at most `most` positions, in order."""
    result: list[list[Part]] = []
    room = 0
    for part in parts:
        start = part.start
        while start < part.end:
            if room == 0:
                result.append([])
                room = most
            count = min(room, part.end - start)
            result[-1].append(Part(part.running, start, count))
            start += count
            room -= count
    return result
