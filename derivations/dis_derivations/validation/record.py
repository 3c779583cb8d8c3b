"""The validation record of a run, as values; `to_json` is the document of `dis report --json`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dis_derivations.validation.signatures import Signature
from dis_store.digest import Digest

RECORD_KIND = "vllm.deterministic_run_record"
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Part:
    """An object that the run was made of.

    Attributes:
        name: `weights`, `requests`, `closure` …
        size: In bytes, with all that it refers to; None where the store does not have it.
    """

    name: str
    object: Digest
    size: int | None

    def to_json(self) -> dict[str, Any]:
        """Return the part as a JSON object."""
        return {"name": self.name, "object": str(self.object), "size": self.size}


@dataclass(frozen=True)
class Evidence:
    """A file of the bundle.

    Attributes:
        blake3: The digest of its content.
        left_out: Whether it is not there: then size and digest are what the archive or directory says of it.
    """

    path: str
    size: int
    blake3: Digest
    left_out: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the file as a JSON object."""
        return {
            "path": self.path,
            "size": self.size,
            "blake3": str(self.blake3),
            "left_out": self.left_out,
        }


@dataclass(frozen=True)
class Build:
    """One build of the run's generation.

    Attributes:
        identical: Whether it made the results of this run, bit for bit.
        origin: `built`, or `substituted`, which is no reproduction.
    """

    host: str
    user: str
    finished_at: str
    origin: str
    identical: bool

    def to_json(self) -> dict[str, Any]:
        """Return the build as a JSON object."""
        return {
            "host": self.host,
            "user": self.user,
            "finished_at": self.finished_at,
            "origin": self.origin,
            "identical": self.identical,
        }


@dataclass(frozen=True)
class Command:
    """A command line, and what it shows."""

    line: str
    shows: str

    def to_json(self) -> dict[str, Any]:
        """Return the command as a JSON object."""
        return {"command": self.line, "shows": self.shows}


@dataclass(frozen=True)
class ValidationRecord:
    """Everything that is known about one run.

    Attributes:
        name: The manifest's.
        description: The manifest's own words; empty where it has none.
        facts: What identifies the run, by name.
        engine: What the engine reported of itself.
        platform: Class and measured facts.
        hardware: Why the machine did not meet the manifest's constraints, or what there is to say of them.
        capture: By observable, whether it was captured.
        parts: What the run was made of.
        evidence: The files of the bundle.
        key: What builds of its results are remembered by; None where the store does not remember one.
        builds: Those builds, oldest first.
        signatures: The signed documents about its results, each with what it is worth.
        commands: How to check it, and to build it again.
    """

    name: str
    description: str
    facts: Mapping[str, Any]
    engine: Mapping[str, Any]
    platform: Mapping[str, Any]
    hardware: tuple[str, ...]
    capture: Mapping[str, str]
    parts: tuple[Part, ...]
    evidence: tuple[Evidence, ...]
    key: Digest | None
    builds: tuple[Build, ...]
    signatures: tuple[Signature, ...]
    commands: tuple[Command, ...]

    @property
    def reproductions(self) -> tuple[int, int]:
        """How many builds made these results, of how many that were made; what was substituted is neither."""
        built = [build for build in self.builds if build.origin != "substituted"]
        return sum(build.identical for build in built), len(built)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The machines on which these results were made."""
        made = (
            each.host for each in self.builds if each.identical and each.origin != "substituted"
        )
        return tuple(dict.fromkeys(made))

    def to_json(self) -> dict[str, Any]:
        """Return the whole record."""
        identical, built = self.reproductions
        return {
            "schema_version": SCHEMA_VERSION,
            "kind": RECORD_KIND,
            "name": self.name,
            "description": self.description,
            **self.facts,
            "engine": dict(self.engine),
            "platform": dict(self.platform),
            "hardware": list(self.hardware),
            "capture": dict(self.capture),
            "parts": [part.to_json() for part in self.parts],
            "evidence": [file.to_json() for file in self.evidence],
            "reproductions": {
                "key": None if self.key is None else str(self.key),
                "identical": identical,
                "builds": built,
                "hosts": list(self.hosts),
                "records": [build.to_json() for build in self.builds],
            },
            "signatures": [signature.to_json() for signature in self.signatures],
            "commands": [command.to_json() for command in self.commands],
        }
