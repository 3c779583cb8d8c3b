"""The kernel's count of packets that had no way out of a network namespace, where the packets cannot be seen."""

import os
from dataclasses import dataclass, field

from dis_derivations.confinement.attempt import Attempt

FILES = ("/proc/self/net/snmp", "/proc/self/net/snmp6")
KIND = "the kernel's counters, which tell of no destinations"
_LONGEST = 1 << 16
_COUNTED = ("OutNoRoutes", "Ip6OutNoRoutes")


def open_counters() -> list[int]:
    """Return descriptors of this namespace's counters, which any process can read that has them."""
    return [os.open(file, os.O_RDONLY) for file in FILES if os.path.exists(file)]  # noqa: PTH110


@dataclass
class Counters:
    """The attempts of one namespace, as a number that grows.

    Attributes:
        descriptors: Of the counters.
    """

    descriptors: list[int]
    _before: int = field(default=0)

    kind = KIND

    def __post_init__(self) -> None:
        self._before = self._count()

    def take(self) -> list[Attempt]:
        """Return one attempt if there were any since the last call."""
        before, self._before = self._before, self._count()
        tried = self._before - before
        return [Attempt("an address that is not told", None, f"{tried} packets")] if tried else []

    def descriptor(self) -> int | None:
        """Return None: nothing tells of a change."""
        return None

    def close(self) -> None:
        """Let go of the namespace."""
        for descriptor in self.descriptors:
            os.close(descriptor)

    def _count(self) -> int:
        return sum(
            packets_without_way(os.pread(each, _LONGEST, 0).decode("utf-8"))
            for each in self.descriptors
        )


def packets_without_way(text: str) -> int:
    """Return the packets without a way in one file of counters, of either form that there is."""
    lines = [line.split() for line in text.splitlines()]
    total = sum(int(line[1]) for line in lines if len(line) == 2 and line[0] in _COUNTED)  # noqa: PLR2004
    for names, values in zip(lines[::2], lines[1::2], strict=False):
        if names and names[0] == "Ip:" and _COUNTED[0] in names:
            total += int(values[names.index(_COUNTED[0])])
    return total
