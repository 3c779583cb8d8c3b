"""The kinds of errors with their codes, explained by the docstrings of their classes."""

import re
from dataclasses import dataclass
from importlib import import_module

from dis_store.errors import DisError

# Where classes of errors are; a test holds that there is no other.
MODULES = (
    "dis_store.errors",
    "dis_derivations.artifacts.regular_file",
    "dis_derivations.artifacts.shard_index",
    "dis_derivations.artifacts.weights_check",
    "dis_derivations.confinement.errors",
    "dis_derivations.lock.refusals",
    "dis_derivations.manifest.faults",
    "dis_derivations.registry.errors",
    "dis_derivations.registry.reference",
    "dis_derivations.runs.output_file",
    "dis_derivations.sources.hub_client",
    "dis_derivations.tokenization.template_errors",
    "dis_derivations.transport.address",
    "dis_derivations.transport.errors",
    "dis_derivations.trust.errors",
    "dis_command.errors",
)
_CODE = re.compile(r"E\d{4}")
_SECTIONS = re.compile(r"\n\n(?:Args|Attributes|Raises):\n")


@dataclass(frozen=True)
class ErrorKind:
    """A kind of error: `meaning` is one sentence, `advice` what else there is to say, perhaps nothing."""

    code: str
    exit_code: int
    meaning: str
    advice: str

    @classmethod
    def of(cls, error: type[DisError]) -> "ErrorKind":
        """Return what the class of an error says of itself."""
        from inspect import cleandoc

        text = _SECTIONS.split(cleandoc(error.__doc__ or ""))[0]
        meaning, _, advice = text.partition("\n\n")
        return cls(error.code, error.exit_code, _one_line(meaning), _one_line(advice))


def error_kinds() -> list[ErrorKind]:
    """Return all kinds, by code."""
    for module in MODULES:
        import_module(module)
    return sorted(map(ErrorKind.of, error_classes()), key=lambda kind: kind.code)


def error_classes(above: type[DisError] = DisError) -> list[type[DisError]]:
    """Return the classes that are loaded, but the root, of which nothing is raised."""
    return [each for below in above.__subclasses__() for each in (below, *error_classes(below))]


def is_code(word: str) -> bool:
    """Tell whether a word has the form of a code."""
    return _CODE.fullmatch(word) is not None


def _one_line(text: str) -> str:
    return " ".join(text.split())
