"""What pip's report of an installation says: the wheels that it chose, and what each asks for."""

import os
import re
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dis_derivations.environments.wheel_names import normalised, parse_wheel_name
from dis_store.digest import Sha256
from dis_store.errors import BuildError

_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")
_ENCODED = re.compile(r"%([0-7][0-9A-Fa-f])")


@dataclass(frozen=True)
class ResolvedWheel:
    """A wheel that the resolver chose.

    Attributes:
        name: Of its package, normalised.
        version: As its file name says.
        file: Its file name.
        sha256: What the index publishes of it; None where it publishes nothing.
        origin: Its address without user, query and fragment; empty for a file of this machine.
        requires: Its requirements as its metadata have them.
        url: Its address with its query, which may hold a token, so it is never shown or written down.
    """

    name: str
    version: str
    file: str
    sha256: Sha256 | None
    origin: str
    requires: tuple[str, ...]
    url: str = field(default="", repr=False)

    @property
    def is_local(self) -> bool:
        """Whether it is a file of this machine."""
        return self.url.startswith("file:")

    @property
    def path(self) -> Path:
        """Where it is, if it is a file of this machine."""
        written = os.fsencode(re.split("[?#]", self.url, maxsplit=1)[0])
        name = written.removeprefix(b"file:").removeprefix(b"//").removeprefix(b"localhost")
        return Path(os.fsdecode(_ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), name)))


def parse_report(report: Mapping[str, Any]) -> dict[str, ResolvedWheel]:
    """Return the wheels of a report by the normalised names of their packages.

    The form is that of `pip install --report`, version 1 (https://pip.pypa.io/en/stable/reference/installation-report/).

    Raises:
        BuildError: It is of another form, or something was chosen that is no wheel.
    """
    try:
        found = [_wheel(item) for item in _installs(report)]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BuildError(
            "pip's report of a resolution cannot be read",
            cause=f"it has no {error}" if isinstance(error, KeyError) else str(error),
            hint="update pip: python -m pip install --upgrade pip",
        ) from error
    return {wheel.name: wheel for wheel in found}


def _installs(report: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if report["version"] != "1":
        raise ValueError(f"it is of version {report['version']!r}")
    return list(report["install"])


def _wheel(item: Mapping[str, Any]) -> ResolvedWheel:
    download, metadata = item["download_info"], item["metadata"]
    origin = _origin(str(download["url"]))
    # Only ASCII is encoded in the name of a wheel, as the `+` of a local version.
    file = _ENCODED.sub(lambda found: chr(int(found[1], 16)), origin.rpartition("/")[2])
    named = parse_wheel_name(file)
    if normalised(metadata["name"]) != named.package:
        raise ValueError(f"{file} calls itself {metadata['name']!r:.100}")
    published = download.get("archive_info", {}).get("hashes", {}).get("sha256")
    return ResolvedWheel(
        name=named.package,
        version=named.version,
        file=file,
        sha256=None if published is None else Sha256(f"sha256:{published}"),
        origin="" if origin.startswith("file:") else origin,
        requires=tuple(map(str, metadata.get("requires_dist", ()))),
        url=str(download["url"]),
    )


def _origin(url: str) -> str:
    """Return an address without user, query and fragment."""
    bare = re.split(r"[?#]", url, maxsplit=1)[0]
    scheme, _, rest = bare.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def needed_wheels(
    wheels: Mapping[str, ResolvedWheel],
    wanted: Iterable[str],
    exclude: Collection[str],
    markers: Mapping[str, str],
) -> list[ResolvedWheel]:
    """Return the wheels that the wanted packages need when some are left out, sorted by name.

    What only a package needs that is left out is left out with it.

    Args:
        wheels: What was resolved, by name.
        wanted: Names of the packages that were asked for.
        exclude: Names of those that are left out.
        markers: What environment markers are evaluated with: those of the interpreter that is to run them.

    Raises:
        BuildError: A package that is needed was not resolved.
    """
    from packaging.requirements import InvalidRequirement, Requirement

    reached: set[tuple[str, str]] = set()
    waiting = deque((name, "", "the manifest") for name in wanted)
    while waiting:
        name, extra, asker = waiting.popleft()
        if name in exclude or (name, extra) in reached:
            continue
        if name not in wheels:
            raise BuildError(
                f"pip resolved no {name}, which {asker} needs", hint="update pip, and lock again"
            )
        reached.add((name, extra))
        for text in wheels[name].requires:
            try:
                asked = Requirement(text)
            except InvalidRequirement as error:
                raise BuildError(
                    f"{wheels[name].file} has a requirement that cannot be read", cause=str(error)
                ) from error
            if asked.marker is None or asked.marker.evaluate({**markers, "extra": extra}):
                below = normalised(asked.name)
                waiting.extend((below, each, name) for each in ("", *sorted(asked.extras)))
    return [wheels[name] for name in sorted({name for name, _ in reached})]
