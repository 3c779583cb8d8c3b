"""What is done for a check: the same run with one thing changed, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from dis_derivations.engines.vllm.prefix_cache import WARM_CACHE

CheckName = Literal[
    "same-process",
    "new-process",
    "alone",
    "batch-size",
    "order",
    "prefix-cache",
    "threads",
    "instruction-set",
    "reference",
]


@dataclass(frozen=True)
class Variation:
    """The manifest with other values of some fields; an ordinary run.

    Attributes:
        fields: Their new values, by JSON Pointer.
        reordered: Whether the requests are asked in another order.
    """

    fields: Mapping[str, Any]
    reordered: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return what is changed."""
        return {"kind": "manifest", "fields": dict(self.fields), "reordered": self.reordered}

    def describe(self) -> str:
        """Return what is changed, in a line."""
        said = _settings(self.fields)
        return ", ".join([*said, *(["the requests in another order"] if self.reordered else [])])


@dataclass(frozen=True)
class Repetition:
    """The same requests once more, in a way that no manifest can say.

    Attributes:
        kind: `same process`: the second time in an engine that has answered them; `new process`: in a process that is
            started for it.
        variables: What the environment of a new process has beside dis's own.
    """

    kind: Literal["same process", "new process"]
    variables: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return what is done."""
        return {"kind": self.kind, "variables": dict(self.variables)}

    def describe(self) -> str:
        """Return what is done, in a line."""
        said = [f"{name}={value}" for name, value in sorted(self.variables.items())]
        again = "asked twice in one process" if self.kind == "same process" else "a new process"
        return ", ".join([again, *said])


@dataclass(frozen=True)
class WarmCache:
    """The same requests twice in an engine that remembers how prompts begin, which no manifest may ask for.

    Attributes:
        fields: What else is changed, by JSON Pointer: smaller blocks, that prompts fill one; captures that positions
            which are not computed cannot have.
    """

    fields: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return what is done."""
        return {"kind": WARM_CACHE, "fields": dict(self.fields)}

    def describe(self) -> str:
        """Return what is done, in a line."""
        return ", ".join(["asked twice with a prefix cache", *_settings(self.fields)])


def _settings(fields: Mapping[str, Any]) -> list[str]:
    return [
        f"{pointer.removeprefix('/').replace('/', '.')}={value}"
        for pointer, value in sorted(fields.items())
    ]


Experiment = Variation | Repetition | WarmCache


def described(document: Mapping[str, Any]) -> str:
    """Return what an experiment does, in a line, from its JSON object."""
    if document["kind"] == "manifest":
        return Variation(document["fields"], document["reordered"]).describe()
    if document["kind"] == WARM_CACHE:
        return WarmCache(document["fields"]).describe()
    return Repetition(document["kind"], document["variables"]).describe()


@dataclass(frozen=True)
class Check:
    """One question, and how it is answered here.

    Attributes:
        name: What it is called.
        experiments: What answers it; the first that this machine can do is done. None of them where there is no way.
        reason: Why there is no way; empty where there is one.
        tokens_only: Whether equal tokens are enough: another engine has other logits, and that is no fault.
    """

    name: CheckName
    experiments: tuple[Experiment, ...]
    reason: str = ""
    tokens_only: bool = False
