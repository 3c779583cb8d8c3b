"""A derivation: one build, described completely before anything is fetched.

The canonical JSON of a derivation is its record in the store, and the BLAKE3 digest of those bytes
is its name (docs/internals/formats/derivation.md).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from dis_store import canonical_json, strict_json
from dis_store.digest import Digest
from dis_store.errors import InvalidInputError

FORMAT = 1
PlatformClass = Literal["any", "cpu", "cuda", "server"]
_PLATFORMS = ("any", "cpu", "cuda", "server")
_FIELDS = {
    "type", "format", "name", "builder", "builder_version", "inputs", "args", "platform", "outputs", "compared",
}  # fmt: skip
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")


@dataclass(frozen=True)
class OutputReference:
    """An input: one output of another derivation."""

    derivation: Digest
    output: str


@dataclass(frozen=True)
class Derivation:
    """One build.

    Attributes:
        name: A label for people; never part of a key.
        builder: Which builder makes the outputs, with `builder_version` as the version of its
            behaviour.
        inputs: Outputs of other derivations, by the name under which the builder knows them. Only
            compared outputs may be named, so that what nobody compares can change nobody's result.
        args: Everything else that can change a byte of a compared output. Plain JSON.
        platform: The class of machine facts that enter the key; `any` means none do.
        outputs: The names of the trees that the build makes.
        compared: Those outputs that must be equal when the same build is made again.
    """

    name: str
    builder: str
    builder_version: int
    inputs: Mapping[str, OutputReference]
    args: Mapping[str, Any]
    platform: PlatformClass
    outputs: tuple[str, ...]
    compared: tuple[str, ...]

    def __post_init__(self) -> None:
        for word in (self.builder, *self.inputs, *self.outputs):
            if not _NAME.fullmatch(word):
                raise InvalidInputError(
                    f"{word!r} cannot name a builder, an input or an output of a derivation",
                    cause="such a name is a lowercase letter and up to 62 of a-z, 0-9, '-' and '_'",
                )
        if not set(self.compared) <= set(self.outputs):
            raise InvalidInputError(
                f"derivation {self.name!r} compares outputs that it does not make",
                cause=f"compared: {', '.join(self.compared)}; outputs: {', '.join(self.outputs)}",
            )

    @property
    def fixed_files(self) -> list[Mapping[str, Any]] | None:
        """The files of a fixed output, whose digests are known before it is built; None for any other build."""
        files: list[Mapping[str, Any]] | None = (
            self.args.get("files") if self.builder == "files" else None
        )
        return files

    def encode(self) -> bytes:
        """Return the canonical record."""
        return canonical_json.encode(
            {
                "type": "derivation",
                "format": FORMAT,
                "name": self.name,
                "builder": self.builder,
                "builder_version": self.builder_version,
                "inputs": {
                    name: {"derivation": str(source.derivation), "output": source.output}
                    for name, source in self.inputs.items()
                },
                "args": dict(self.args),
                "platform": self.platform,
                "outputs": list(self.outputs),
                "compared": list(self.compared),
            }
        )

    @cached_property
    def digest(self) -> Digest:
        """The derivation's name: the BLAKE3 digest of its record."""
        return Digest.of(self.encode())

    @classmethod
    def decode(cls, data: bytes) -> "Derivation":
        """Parse a record; `Derivation.decode(d.encode()) == d`.

        Raises:
            InvalidInputError: `data` is no derivation of this format, or not in canonical form.
        """
        document = strict_json.decode(data, name="the derivation")
        if (
            not isinstance(document, dict)
            or set(document) != _FIELDS
            or document["type"] != "derivation"
        ):
            raise InvalidInputError(
                "the document is not a derivation", cause=f"its fields must be {sorted(_FIELDS)}"
            )
        if document["format"] != FORMAT or document["platform"] not in _PLATFORMS:
            raise InvalidInputError(
                f"derivation {document['name']!r} is of a format or platform that this version does not know",
                hint="update dis",
            )
        try:
            derivation = cls._from_json(document)
            exact = derivation.encode() == data
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InvalidInputError(
                f"derivation {document['name']!r} is malformed",
                cause=f"{type(error).__name__}: {error}",
            ) from error
        if not exact:
            raise InvalidInputError(f"derivation {derivation.name!r} is not in canonical form")
        return derivation

    @classmethod
    def _from_json(cls, document: Mapping[str, Any]) -> "Derivation":
        return cls(
            name=document["name"],
            builder=document["builder"],
            builder_version=document["builder_version"],
            inputs={
                name: OutputReference(Digest(source["derivation"]), source["output"])
                for name, source in document["inputs"].items()
            },
            args=document["args"],
            platform=document["platform"],
            outputs=tuple(document["outputs"]),
            compared=tuple(document["compared"]),
        )
