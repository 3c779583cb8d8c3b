"""What a wheel says of itself, and its files held against that."""

from collections.abc import Iterator
from dataclasses import dataclass
from email.parser import BytesHeaderParser
from typing import TYPE_CHECKING

from dis_derivations.environments.document import EnvironmentPackage
from dis_derivations.environments.record import RECORD, RecordedFile, parse_record
from dis_derivations.environments.wheel_layout import WheelLayout
from dis_derivations.environments.wheel_names import normalised, parse_wheel_name
from dis_derivations.sources.wheel_archive import WheelArchive
from dis_store.digest import Sha256
from dis_store.errors import InvalidInputError

if TYPE_CHECKING:
    from pathlib import Path

# Compilers' objects have pages of zeros, which Deflate packs a thousandfold at most; a whole wheel is never like that.
MOST_RATIO = 1100
_MOST_RATIO_OF_WHEEL = 100
_FREE_BYTES = 64 << 20
_MOST_METADATA_BYTES = 16 << 20


@dataclass(frozen=True)
class Wheel:
    """A wheel that is to be unpacked.

    Attributes:
        path: Where its bytes are.
        name: Its file name.
        sha256: Of its bytes, which were verified.
    """

    path: "Path"
    name: str
    sha256: Sha256


def refused(wheel: str, cause: str) -> InvalidInputError:
    """Return the error that says why a wheel is not taken."""
    return InvalidInputError(f"the wheel {wheel} is refused", cause=cause)


def read_record(archive: WheelArchive, layout: WheelLayout) -> dict[str, RecordedFile]:
    """Return what RECORD says, when every file that it lists is there.

    Raises:
        ValueError: It is missing or malformed, or lists what is not there.
    """
    record = parse_record(_read(archive, f"{layout.info}/{RECORD}"))
    for path in record:
        if path not in archive and not path.endswith("/"):
            raise ValueError(f"RECORD lists {path}, which is not in it")
    return record


def describe(wheel: Wheel, archive: WheelArchive, layout: WheelLayout) -> EnvironmentPackage:
    """Return what the metadata say of a wheel.

    Raises:
        ValueError: They are not those of its name, or of a wheel of another format.
    """
    named = parse_wheel_name(wheel.name)
    parser = BytesHeaderParser()
    about = parser.parsebytes(_read(archive, f"{layout.info}/WHEEL"))
    major = str(about.get("Wheel-Version", "")).split(".")[0]
    if major != "1":
        raise ValueError(f"its Wheel-Version is {str(about.get('Wheel-Version'))!r:.40}, not 1.x")
    metadata = parser.parsebytes(_read(archive, f"{layout.info}/METADATA"))
    if normalised(str(metadata.get("Name", ""))) != named.package:
        raise ValueError(f"its metadata are of {str(metadata.get('Name'))!r:.100}")
    return EnvironmentPackage(
        name=named.package,
        version=named.version,
        wheel=wheel.name,
        sha256=wheel.sha256,
        tags=named.tags,
        requires_python=str(metadata.get("Requires-Python", "")).strip(),
    )


def _read(archive: WheelArchive, path: str) -> bytes:
    if path not in archive:
        raise ValueError(f"it has no {path}")
    if archive.size(path) > _MOST_METADATA_BYTES:
        raise ValueError(f"its {path} has {archive.size(path)} bytes")
    return b"".join(archive.pieces(path))


def check_growth(wheel: Wheel, archive: WheelArchive) -> None:
    """Refuse a wheel that would fill the disk.

    Raises:
        InvalidInputError: It would grow beyond measure.
    """
    packed, grown = wheel.path.stat().st_size, sum(map(archive.size, archive.names))
    if grown > _FREE_BYTES + _MOST_RATIO_OF_WHEEL * packed:
        raise refused(wheel.name, f"it would grow from {packed} to {grown} bytes")


def verified_pieces(wheel: Wheel, archive: WheelArchive, recorded: RecordedFile) -> Iterator[bytes]:
    """Yield a file in pieces; after the last one it is held against RECORD.

    Raises:
        InvalidInputError: It is not as recorded, or the wheel is damaged.
    """
    try:
        hasher = recorded.hasher()
    except ValueError as error:
        raise refused(wheel.name, str(error)) from error
    size = 0
    for piece in archive.pieces(recorded.path):
        size += len(piece)
        hasher.update(piece)
        yield piece
    difference = recorded.difference(size, hasher.digest())
    if difference is not None:
        raise refused(wheel.name, f"{recorded.path} in it is not as recorded: {difference}")
