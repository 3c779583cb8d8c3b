"""Which tensors differ between two sets of weights, told by their digests alone."""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from dis_derivations.comparison.causes.json_changes import ABSENT, Change
from dis_derivations.comparison.weights.weight_set import Identity, Placed, Weights

Arrangement = Literal["shards", "file names", "headers"]
_NAMED = 3
_LITTLE_PERCENT = 0.1

Pair = tuple[Placed, Placed]


@dataclass(frozen=True)
class WeightChanges:
    """What is not the same. Tensors that only lie elsewhere are the same.

    Attributes:
        compared: How many tensors there are on either side; one that both have counts once.
        changed: Tensors of one name and other bytes, shape or type, A's and B's.
        renamed: Tensors of the same bytes, shape and type under other names.
        added: Tensors that only B has.
        removed: Tensors that only A has.
        share: The part of all bytes of both sides that is in changed, added and removed tensors; 0 to 1.
        arrangement: How the same weights are laid out differently: tensors in other files, files of other names, or
            other headers (metadata, order, padding). Empty where the weights differ.
    """

    compared: int
    changed: tuple[Pair, ...]
    renamed: tuple[Pair, ...]
    added: tuple[Placed, ...]
    removed: tuple[Placed, ...]
    share: float
    arrangement: tuple[Arrangement, ...]

    @property
    def same(self) -> bool:
        """Whether both sides have the same tensors under the same names."""
        return self.differing == 0

    @property
    def differing(self) -> int:
        """How many tensors are not the same."""
        return sum(map(len, (self.changed, self.renamed, self.added, self.removed)))

    @property
    def names(self) -> list[str]:
        """The names of the tensors that are not the same: those with other bytes first."""
        pairs = (*self.changed, *self.renamed)
        return [each.name for each in (*(a for a, _ in pairs), *self.removed, *self.added)]

    @property
    def statement(self) -> str:
        """All of it in a sentence."""
        if self.same:
            return ", ".join(["same weights", *(f"other {way}" for way in self.arrangement)])
        named = ", ".join(self.names[:_NAMED]) + (", …" if self.differing > _NAMED else "")
        return (
            f"the weights differ in {self.differing} of {self.compared} tensors"
            f" ({percent(self.share)} of bytes): {named}"
        )

    def to_changes(self) -> tuple[Change, ...]:
        """Return the tensors that are not the same, by name, as lists of causes have them."""
        found = [
            Change("tensor", a.name, form_text(a), _changed_text(a, b)) for a, b in self.changed
        ]
        found += [Change("tensor", each.name, ABSENT, form_text(each)) for each in self.added]
        found += [Change("tensor", each.name, form_text(each), ABSENT) for each in self.removed]
        found += [Change("tensor name", a.name, a.name, b.name) for a, b in self.renamed]
        return tuple(sorted(found, key=lambda change: change.name))


def weight_changes(a: Weights, b: Weights) -> WeightChanges:
    """Compare two sets of weights; no tensor is read."""
    common = {each.identity for each in a.tensors} & {each.identity for each in b.tensors}
    left, right = _distinct(a.tensors, common), _distinct(b.tensors, common)
    changed, removed, added = _matched(left, right, lambda each: each.name)
    renamed, removed, added = _matched(removed, added, lambda each: each.identity[1:])
    differing = [*(side for pair in changed for side in pair), *removed, *added]
    total = sum(each.tensor.length for each in (*_distinct(a.tensors), *_distinct(b.tensors)))
    return WeightChanges(
        compared=len(common) + len(changed) + len(renamed) + len(removed) + len(added),
        changed=changed,
        renamed=renamed,
        added=added,
        removed=removed,
        share=sum(each.tensor.length for each in differing) / max(total, 1),
        arrangement=() if left or right else tuple(_arrangement(a, b)),
    )


def percent(share: float) -> str:
    """Return a share as a percentage; what is not nothing is never said to be 0, nor less than all to be 100."""
    value = 100 * share
    if 0 < value < _LITTLE_PERCENT:
        return f"less than {_LITTLE_PERCENT} %"
    if 100 - _LITTLE_PERCENT < value < 100:  # noqa: PLR2004 - per cent
        return f"more than {100 - _LITTLE_PERCENT} %"
    return f"{value:.1f} %"


def form_text(placed: Placed) -> str:
    """Return a tensor's type and shape as text."""
    dtype, shape = placed.form
    return f"{dtype} {list(shape)}"


def _changed_text(a: Placed, b: Placed) -> str:
    return f"{form_text(b)}, other values" if a.form == b.form else form_text(b)


def _distinct(tensors: Iterable[Placed], but: Iterable[Identity] = ()) -> list[Placed]:
    """Return each tensor once, however many files hold it."""
    seen = set(but)
    found: list[Placed] = []
    for each in tensors:
        if each.identity not in seen:
            seen.add(each.identity)
            found.append(each)
    return found


def _matched(
    left: Sequence[Placed], right: Sequence[Placed], key: Callable[[Placed], object]
) -> tuple[tuple[Pair, ...], tuple[Placed, ...], tuple[Placed, ...]]:
    """Pair tensors of equal keys, those in files of one name first; return the pairs and what is left on each side."""
    pairs: list[Pair] = []
    by_place: Callable[[Placed], object] = lambda each: (key(each), each.path)  # noqa: E731 - as short as `key` itself
    for keyed in (by_place, key):
        waiting: dict[object, deque[Placed]] = defaultdict(deque)
        for each in right:
            waiting[keyed(each)].append(each)
        alone: list[Placed] = []
        for each in left:
            others = waiting[keyed(each)]
            if others:
                pairs.append((each, others.popleft()))
            else:
                alone.append(each)
        left, right = alone, [each for others in waiting.values() for each in others]
    rest = sorted(right, key=lambda each: each.order)
    return tuple(sorted(pairs, key=lambda pair: pair[0].order)), tuple(left), tuple(rest)


def _arrangement(a: Weights, b: Weights) -> Iterator[Arrangement]:
    """Tell how the same weights are laid out differently."""
    if _groups(a) != _groups(b):
        yield "shards"
        return
    if Counter(a.files.values()) != Counter(b.files.values()):
        yield "headers"
    if a.files.keys() != b.files.keys():
        yield "file names"


def _groups(weights: Weights) -> Counter[frozenset[Identity]]:
    """Return which tensors lie together."""
    groups: dict[str, set[Identity]] = defaultdict(set)
    for each in weights.tensors:
        groups[each.path].add(each.identity)
    return Counter(map(frozenset, groups.values()))
