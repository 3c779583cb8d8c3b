"""Whether a machine is one that a manifest's hardware constraints allow."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}


def unmet_constraints(facts: Mapping[str, Any], constraints: Mapping[str, Any]) -> list[str]:
    """Return one sentence for each constraint that the facts do not meet; none where all are met.

    Args:
        facts: Those of the platform. What they do not tell has not been met.
        constraints: `hardware.constraints` of the manifest; an absent value or an empty list constrains nothing.
    """
    wanted = {name: value for name, value in constraints.items() if value}
    return [
        f"{name}: {sentence}"
        for name in sorted(wanted)
        for sentence in _CHECKS.get(name, _unknown)(facts, wanted[name])
    ]


def _unknown(_facts: Mapping[str, Any], _wanted: Any) -> Iterator[str]:
    yield "not compared with the facts of this platform"


def _architecture(facts: Mapping[str, Any], wanted: str) -> Iterator[str]:
    found = str(facts.get("cpu", {}).get("architecture", "unknown"))
    if found != _ARCHITECTURES.get(wanted.lower(), wanted.lower()):
        yield f"the CPU is {found}, and must be {wanted}"


def _vendor(facts: Mapping[str, Any], wanted: str) -> Iterator[str]:
    accelerators = _accelerators(facts)
    if not accelerators:
        yield f"the run used the CPU, and must use accelerators of {wanted}"
    for vendor in sorted({each["vendor"] for each in accelerators} - {wanted.lower()}):
        yield f"an accelerator is of {vendor}, and must be of {wanted}"


def _lowest(facts: Mapping[str, Any], wanted: str) -> Iterator[str]:
    yield from _capability(facts, wanted, lowest=True)


def _highest(facts: Mapping[str, Any], wanted: str) -> Iterator[str]:
    yield from _capability(facts, wanted, lowest=False)


def _capability(facts: Mapping[str, Any], wanted: str, *, lowest: bool) -> Iterator[str]:
    accelerators = _accelerators(facts)
    if not accelerators:
        yield "the run used the CPU, which has no compute capability"
    for found in sorted({each["compute_capability"] for each in accelerators}):
        if _version(found) < _version(wanted) if lowest else _version(found) > _version(wanted):
            bound = "least" if lowest else "most"
            yield f"the compute capability is {found}, and must be at {bound} {wanted}"


def _models(facts: Mapping[str, Any], wanted: Sequence[str]) -> Iterator[str]:
    accelerators = _accelerators(facts)
    if not accelerators:
        yield f"the run used the CPU, and must use {' or '.join(wanted)}"
    for model in sorted({each["model"] for each in accelerators}):
        if not any(_is_of(model, name) for name in wanted):
            yield f"an accelerator is {model}, and must be {' or '.join(wanted)}"


def _is_of(model: str, name: str) -> bool:
    """Whether a model's full name holds the words of a shorter one, so that `A10` is no `A100`."""
    full, short = _words(model), _words(name)
    places = range(len(full) - len(short) + 1)
    return any(full[place : place + len(short)] == short for place in places)


def _words(name: str) -> list[str]:
    return name.lower().replace("-", " ").split()


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdecimal())


def _accelerators(facts: Mapping[str, Any]) -> Sequence[Mapping[str, str]]:
    found = facts.get("accelerators")
    return found if isinstance(found, list) else []


_CHECKS = {
    "accelerator_vendor": _vendor,
    "allowed_gpu_models": _models,
    "cpu_arch": _architecture,
    "gpu_arch_max_cc": _highest,
    "gpu_arch_min_cc": _lowest,
}
