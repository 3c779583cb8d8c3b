"""Unpacking wheels into one tree: each file held against RECORD, nothing of them run, bounded in every way."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dis_derivations.environments.document import (
    DOCUMENT,
    SITE_PACKAGES,
    EnvironmentDocument,
    EnvironmentPackage,
)
from dis_derivations.environments.path_files import read_path_files
from dis_derivations.environments.record import (
    RECORD,
    RecordedFile,
    encode_record,
)
from dis_derivations.environments.wheel_contents import (
    MOST_RATIO,
    Wheel,
    check_growth,
    describe,
    read_record,
    refused,
    verified_pieces,
)
from dis_derivations.environments.wheel_layout import WheelLayout, lay_out
from dis_derivations.sources.wheel_archive import WheelArchive
from dis_store import canonical_json
from dis_store.digest import Sha256
from dis_store.errors import InvalidInputError

if TYPE_CHECKING:
    from dis_store import TreeWriter

_UNHASHED = (RECORD, "RECORD.jws", "RECORD.p7s")


@dataclass(frozen=True)
class _Owned:
    """A file of the environment: the wheel that brought it first, and what it is."""

    wheel: str
    size: int
    sha256: Sha256
    executable: bool


@dataclass
class WheelUnpacker:
    """Brings wheels into one tree, one after the other.

    Attributes:
        tree: Where they go.
        on_bytes: Told of each piece; may raise to stop.
    """

    tree: "TreeWriter"
    on_bytes: Callable[[int], None]
    _owners: dict[str, _Owned] = field(default_factory=dict)
    _path_files: dict[str, bytes] = field(default_factory=dict)
    _packages: list[EnvironmentPackage] = field(default_factory=list)

    def add(self, wheel: Wheel) -> None:
        """Unpack one wheel.

        Raises:
            InvalidInputError: It is damaged or hostile, a file of it is not as RECORD says, or it and another wheel
                bring one path with different content.
        """
        with WheelArchive(wheel.path, name=wheel.name, most_ratio=MOST_RATIO) as archive:
            try:
                layout = lay_out(wheel.name, archive.names)
                record = read_record(archive, layout)
                package = describe(wheel, archive, layout)
            except ValueError as error:
                raise refused(wheel.name, str(error)) from error
            check_growth(wheel, archive)
            unhashed = {f"{layout.info}/{name}" for name in _UNHASHED}
            written: dict[str, tuple[int, Sha256]] = {}
            for member in archive.names:
                if member in unhashed:
                    continue
                place = layout.places.get(member)
                owned = self._bring(wheel, archive, record.get(member), member, place)
                if place is not None and owned is not None:
                    written[_beside_record(place)] = owned.size, owned.sha256
        self._write_record(wheel, layout, written)
        self._packages.append(package)

    def finish(self, python: str) -> EnvironmentDocument:
        """Write `environment.json` and return it.

        Args:
            python: The version of Python that is wanted.
        """
        below = f"{SITE_PACKAGES}/"
        directories = {
            "/".join(parts[:depth])
            for path in self._owners
            if path.startswith(below)
            for parts in [path.removeprefix(below).split("/")]
            for depth in range(1, len(parts))
        }
        lines = read_path_files(self._path_files, directories.__contains__)
        document = EnvironmentDocument(
            python=python,
            packages=tuple(sorted(self._packages, key=lambda each: each.name)),
            import_paths=lines.import_paths,
            ignored=lines.ignored,
        )
        self.tree.write_bytes(DOCUMENT, canonical_json.encode(document.to_json()))
        return document

    def _bring(
        self,
        wheel: Wheel,
        archive: WheelArchive,
        recorded: RecordedFile | None,
        member: str,
        place: str | None,
    ) -> _Owned | None:
        """Verify a file, and write it where it has a place and is not there yet; return what is there then."""
        if recorded is None:
            raise refused(wheel.name, f"{member} in it is not listed in RECORD")
        if place is None:
            for _ in verified_pieces(wheel, archive, recorded):
                self.on_bytes(0)
            return None
        other = self._owners.get(place)
        if other is not None:
            return self._same(wheel, archive, recorded, place, other)
        executable = archive.is_executable(member)
        keep = place.startswith(f"{SITE_PACKAGES}/") and place.endswith(".pth")
        head: list[bytes] = []
        try:
            with self.tree.create(place, executable=executable) as file:
                for piece in verified_pieces(wheel, archive, recorded):
                    self.on_bytes(len(piece))
                    file.write(piece)
                    if keep and place.count("/") == 1:
                        head.append(piece)
        except InvalidInputError as error:
            if error.what.startswith("the path"):
                raise refused(wheel.name, f"{member} in it: {error.cause}") from error
            raise
        if head:
            self._path_files[place.removeprefix(f"{SITE_PACKAGES}/")] = b"".join(head)
        owned = _Owned(wheel.name, file.written.size, file.written.sha256, executable)
        self._owners[place] = owned
        return owned

    def _same(
        self,
        wheel: Wheel,
        archive: WheelArchive,
        recorded: RecordedFile,
        place: str,
        other: _Owned,
    ) -> _Owned:
        """Accept a second wheel with the very same file, and no other one."""
        hasher = hashlib.sha256()
        for piece in verified_pieces(wheel, archive, recorded):
            self.on_bytes(len(piece))
            hasher.update(piece)
        if Sha256(f"sha256:{hasher.hexdigest()}") == other.sha256:
            return other
        path = place.removeprefix(f"{SITE_PACKAGES}/")
        namespace = (
            "; they share a package that has an __init__.py of its own in each, and one of them would be lost"
            if path.endswith("/__init__.py")
            else ""
        )
        raise InvalidInputError(
            f"two wheels of the environment have a different {path}",
            cause=f"{other.wheel} and {wheel.name} both bring it{namespace}",
            hint="leave one of them out: software_stack.python.exclude (docs/guides/environments.md)",
        )

    def _write_record(
        self, wheel: Wheel, layout: WheelLayout, written: dict[str, tuple[int, Sha256]]
    ) -> None:
        name = f"{layout.info}/{RECORD}"
        place = f"{SITE_PACKAGES}/{name}"
        data = encode_record(written, [name])
        try:
            self.tree.write_bytes(place, data)
        except InvalidInputError as error:
            raise refused(wheel.name, f"{name}: {error.cause}") from error
        self._owners[place] = _Owned(wheel.name, len(data), Sha256.of(data), executable=False)


def _beside_record(place: str) -> str:
    """Return a path of the object as RECORD has it, relative to `site-packages`."""
    below = f"{SITE_PACKAGES}/"
    return place.removeprefix(below) if place.startswith(below) else f"../{place}"
