"""Side-by-side measurements: contenders take turns, so that a busy machine disturbs all of them alike."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field


def nothing() -> None:
    """Prepare nothing."""


@dataclass(frozen=True)
class Contender:
    """One way to do the work.

    Attributes:
        name: What the table calls it.
        run: Does the work once; only this is measured.
        prepare: Called before each run, not measured.
        tells: Whether `run` measures itself, and returns seconds: for what is a part of a program only.
    """

    name: str
    run: Callable[[], object]
    prepare: Callable[[], object] = nothing
    tells: bool = False


@dataclass(frozen=True)
class Target:
    """What a comparison asks for: `name` takes at most `factor` times what `peer` takes."""

    name: str
    peer: str
    factor: float


@dataclass(frozen=True)
class Comparison:
    """Contenders that do the same work, and what is asked of them.

    Attributes:
        title: The work.
        contenders: In the order in which they take turns.
        targets: What is asked for.
        rounds: How often each runs.
        units: How many pieces of work one run of a contender does, where they differ.
        remark: What else was seen, asked for after the last round.
    """

    title: str
    contenders: Sequence[Contender]
    targets: Sequence[Target]
    rounds: int = 5
    units: Mapping[str, int] = field(default_factory=dict)
    remark: Callable[[], str] = str


@dataclass(frozen=True)
class Timing:
    """The seconds of one contender's runs, for one unit of work."""

    name: str
    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle one."""
        return statistics.median(self.seconds)

    @property
    def best(self) -> float:
        """The shortest: what the work costs where nobody disturbs it."""
        return min(self.seconds)


@dataclass(frozen=True)
class Outcome:
    """What a comparison measured."""

    comparison: Comparison
    timings: Mapping[str, Timing]

    def factor(self, target: Target) -> float:
        """Return how many times the peer's time a contender took: the median over rounds, each compared with itself."""
        own, peer = self.timings[target.name].seconds, self.timings[target.peer].seconds
        return statistics.median(one / other for one, other in zip(own, peer, strict=True))

    def met(self, target: Target) -> bool:
        """Tell whether a target is met."""
        return self.factor(target) <= target.factor


def measure(comparison: Comparison, *, say: Callable[[str], None]) -> Outcome:
    """Run all contenders of a comparison in turns."""
    seconds: dict[str, list[float]] = {each.name: [] for each in comparison.contenders}
    for number in range(comparison.rounds):
        for contender in comparison.contenders:
            contender.prepare()
            taken = _seconds(contender) / comparison.units.get(contender.name, 1)
            seconds[contender.name].append(taken)
            say(f"{comparison.title}, round {number + 1}: {contender.name} {taken:.6g} s")
    return Outcome(comparison, {name: Timing(name, tuple(all_)) for name, all_ in seconds.items()})


def _seconds(contender: Contender) -> float:
    start = time.perf_counter()
    result = contender.run()
    elapsed = time.perf_counter() - start
    return float(str(result)) if contender.tells else elapsed
